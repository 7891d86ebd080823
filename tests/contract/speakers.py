"""One conversation, spoken on every wire: what each of them sends for the same texts, tools and ends.

A conversation is a list of steps; a speaker turns it into the frames of its wire, one for each piece of text, in any partition. A wire of
the registry without a speaker fails the contract suite, so that no runtime can be added beside it.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.codec import encode
from pipeline.events import (
    BlockFinal,
    ErrorInfo,
    Event,
    Status,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
)
from tests.pipeline.normalize import acp_lines, chat_streams, gemini_streams, messages_streams, streams

End = Literal["completed", "failed", "cut"]
"""By itself, in an error of the upstream's, or in the middle: then nothing more comes."""
ERROR = "server_error"


@dataclass(frozen=True)
class Say:
    """Text, in the pieces in which it arrives. `is_open`: its upstream never says that it is whole."""

    pieces: tuple[str, ...]
    is_open: bool = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Use:
    """A call of a tool, from its start to its end. `is_open`: its end never comes, where a wire has a word for it."""

    name: str
    arguments: dict[str, Any]
    is_open: bool = False

    @property
    def written(self) -> str:
        return json.dumps(self.arguments)


Step = Say | Use
Frames = list[bytes]
Speaker = Callable[[Sequence[Step], End], Frames]


def responses(steps: Sequence[Step], end: End) -> Frames:
    frames = [streams.CREATED, streams.IN_PROGRESS]
    output = []
    for index, step in enumerate(steps):
        if isinstance(step, Say):
            item = streams.message(f"m{index}")
            frames.append(streams.added(item, index))
            place = {"item_id": f"m{index}", "content_index": 0, "part": {"type": "output_text", "text": ""}}
            frames.append(streams.up("content_part.added", index, **place))
            frames += [streams.delta(piece, index, f"m{index}") for piece in step.pieces]
            if step.is_open:
                continue
            frames.append(streams.text_done(step.text, index, f"m{index}"))
            item = streams.message(f"m{index}", step.text)
        else:
            item = {**streams.call(f"f{index}", f"c{index}"), "name": step.name}
            frames += [streams.added(item, index), streams.arguments(step.written, index, f"f{index}")]
            item = {**item, "arguments": step.written}
        frames.append(streams.done(item, index))
        output.append({**item, "status": "completed"})
    failed = {"id": "r1", "status": "failed", "error": {"code": ERROR, "message": "no"}}
    if end == "completed":
        frames.append(streams.completed(*output))
    elif end == "failed":
        frames.append({"type": "response.failed", "response": failed})
    return [streams.body(frame) for frame in frames]


def chat(steps: Sequence[Step], end: End) -> Frames:
    frames: list[Any] = []
    for index, step in enumerate(steps):
        if isinstance(step, Say):
            frames += [chat_streams.text(piece) for piece in step.pieces]
        else:
            frames.append(chat_streams.tool(index, f"c{index}", step.name, step.written))
    if end == "completed":
        frames += [chat_streams.STOP, chat_streams.DONE]
    elif end == "failed":
        frames.append({"error": {"code": ERROR, "message": "no"}})
    return [chat_streams.body(frame) for frame in frames]


def messages(steps: Sequence[Step], end: End) -> Frames:
    frames = [messages_streams.start()]
    for index, step in enumerate(steps):
        if isinstance(step, Say):
            frames.append(messages_streams.block(index, "text", text=""))
            frames += [messages_streams.delta(index, "text_delta", text=piece) for piece in step.pieces]
        else:
            frames.append(messages_streams.block(index, "tool_use", id=f"c{index}", name=step.name, input={}))
            frames.append(messages_streams.delta(index, "input_json_delta", partial_json=step.written))
        if not (isinstance(step, Say) and step.is_open):
            frames.append(messages_streams.stop(index))
    if end == "completed":
        frames += [messages_streams.end(), messages_streams.STOP]
    elif end == "failed":
        frames.append({"type": "error", "error": {"type": ERROR, "message": "no"}})
    return [messages_streams.body(frame) for frame in frames]


def gemini(steps: Sequence[Step], end: End) -> Frames:
    frames: list[Any] = []
    for step in steps:
        if isinstance(step, Say):
            frames += [gemini_streams.chunk({"text": piece}) for piece in step.pieces]
        else:
            frames.append(gemini_streams.chunk(gemini_streams.call(step.name, args=step.arguments)))
    if end == "completed":
        frames.append(gemini_streams.STOP)
    elif end == "failed":
        frames.append({"error": {"code": 500, "status": ERROR, "message": "no"}})
    return [gemini_streams.body(frame) for frame in frames]


def acp(steps: Sequence[Step], end: End) -> Frames:
    frames: list[Any] = []
    for index, step in enumerate(steps):
        if isinstance(step, Say):
            frames += [acp_lines.said(piece) for piece in step.pieces]
        else:
            begun: dict[str, Any] = {
                "title": step.name,
                "kind": "other",
                "status": "in_progress",
                "rawInput": step.arguments,
            }
            frames.append(acp_lines.tool(f"c{index}", **begun))
            if not step.is_open:
                frames.append(acp_lines.tool(f"c{index}", "tool_call_update", status="completed"))
    if end == "completed":
        frames.append(acp_lines.END)
    elif end == "failed":
        frames.append({"jsonrpc": "2.0", "id": 3, "error": {"code": ERROR, "message": "no"}})
    return [acp_lines.lines(frame) for frame in frames]


def canonical(steps: Sequence[Step], end: End) -> Frames:
    events: list[Event] = []

    def put(make: Callable[..., Event], **members: Any) -> None:
        events.append(make(seq=len(events) + 1, at=1, **members))

    for index, step in enumerate(steps):
        if isinstance(step, Say):
            put(Status, name="item_started", item=index)
            for piece in step.pieces:
                put(TextDelta, item=index, content=0, track="text", text=piece)
            if step.is_open:
                continue
            put(BlockFinal, item=index, content=0, track="text", text=step.text)
            put(Status, name="item_finished", item=index)
        else:
            put(ToolStarted, item=index, call_id=f"c{index}", name=step.name, kind="function")
            put(ToolFinished, item=index, call_id=f"c{index}", status="completed", input=step.written)
    if end == "completed":
        put(TurnCompleted, outcome="completed")
    elif end == "failed":
        put(TurnFailed, error=ErrorInfo(code=ERROR, message="no"))
    return [encode(event) + b"\n" for event in events]


SPEAKERS: dict[str, Speaker] = {
    "acp": acp,
    "canonical": canonical,
    "chat": chat,
    "gemini": gemini,
    "messages": messages,
    "responses": responses,
}
