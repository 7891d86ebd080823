"""What `scripts.bench.core` measures on: the recorded streams of each wire, and turns of many deltas made up for it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from scripts.responses_stream import FunctionCall, Item, Text, compose, sse

if TYPE_CHECKING:
    from scripts.bench.readers import Reader

READ_BYTES = 64 * 1024


@dataclass(frozen=True)
class Input:
    """One stream, how many events it has, and as much of it as the SDK reads."""

    body: bytes
    events: int
    sdk_body: bytes = b""
    sdk_events: int = 0


def pieces_of(body: bytes, size: int = READ_BYTES) -> list[bytes]:
    """Cut a body as a socket gives it."""
    return [body[start : start + size] for start in range(0, len(body), size)]


def events_in(body: bytes) -> list[bytes]:
    """The data of a body's events, or its lines where it is no stream of events: the least that any reader does, without reading it."""
    return [line for line in body.split(b"\n") if line.startswith((b"data:", b"{")) and b"[DONE]" not in line[:14]]


def floor(body: bytes) -> int:
    """Split on LF and decode every data line to a dict: the least that any reader does."""
    read = msgspec.json.Decoder().decode
    count = 0
    for line in events_in(body):
        with suppress(msgspec.DecodeError):
            read(line[5:] if line.startswith(b"data:") else line)
            count += 1
    return count


def until(body: bytes, events: int) -> bytes:
    """As much of a body as holds so many events."""
    kept = []
    for line in body.split(b"\n"):
        if line.startswith(b"data:"):
            events -= 1
        if events < 0:
            break
        kept.append(line)
    return b"\n".join(kept) + b"\n"


def recorded(folder: Path, reader: "Reader | None") -> list[Input]:
    """Read the recorded streams of a folder. Where the SDK raises, it is given what comes before."""
    inputs = []
    paths = [*folder.glob("*.sse"), *(path for path in folder.glob("*.jsonl") if path.stem.count(".") == 0)]
    for path in sorted(paths):
        body = path.read_bytes()
        sdk_body = b""
        if reader is not None:
            read, whole = reader.reach(body)
            sdk_body = body if whole else until(body, read) if read else b""
        inputs.append(Input(body, floor(body), sdk_body, floor(sdk_body)))
    return inputs


def synthetic(wire: str, deltas: int, item: str = "text") -> bytes:
    """Compose one turn of so many deltas."""
    if item == "text":
        texts = ["word " if number % 12 else "line.\n\n" for number in range(deltas)]
    else:
        texts = ['{"a":"', *("word " for _ in range(deltas - 2)), '"}']
    return _COMPOSERS[wire](texts, item == "text")


def _responses(texts: list[str], is_text: bool) -> bytes:
    made: Item = Text(pieces=texts) if is_text else FunctionCall(name="f", pieces=texts)
    return b"".join(sse(event) for event in compose({"model": "bench"}, [made]))


def _chat(texts: list[str], is_text: bool) -> bytes:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
        return _data({**common, "choices": [choice]})

    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
    start = {"role": "assistant", "content": ""} if is_text else {"role": "assistant", "tool_calls": [first]}
    deltas = [
        chunk({"content": text} if is_text else {"tool_calls": [{"index": 0, "function": {"arguments": text}}]})
        for text in texts
    ]
    return b"".join([chunk(start), *deltas, chunk({}, "stop" if is_text else "tool_calls"), b"data: [DONE]\n\n"])


def _messages(texts: list[str], is_text: bool) -> bytes:
    def event(kind: str, **members: Any) -> bytes:
        return f"event: {kind}\n".encode() + _data({"type": kind, **members})

    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {"stop_reason": None, "stop_sequence": None}
    message |= {"id": "msg_1", "type": "message", "role": "assistant", "model": "bench", "content": [], "usage": usage}
    block = {"type": "text", "text": ""} if is_text else {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    kind, member = ("text_delta", "text") if is_text else ("input_json_delta", "partial_json")
    stop = {"stop_reason": "end_turn" if is_text else "tool_use", "stop_sequence": None}
    return b"".join(
        [
            event("message_start", message=message),
            event("content_block_start", index=0, content_block=block),
            *(event("content_block_delta", index=0, delta={"type": kind, member: text}) for text in texts),
            event("content_block_stop", index=0),
            event("message_delta", delta=stop, usage={"output_tokens": 2}),
            event("message_stop"),
        ]
    )


def _gemini(texts: list[str], is_text: bool) -> bytes:  # noqa: ARG001  its calls come whole
    def chunk(text: str, **members: Any) -> bytes:
        candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0, **members}
        usage = {"promptTokenCount": 1, "totalTokenCount": 1}
        return _data({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "bench", "responseId": "r"})

    return b"".join([*(chunk(text) for text in texts), chunk("", finishReason="STOP")])


def _acp(texts: list[str], is_text: bool) -> bytes:  # noqa: ARG001  its tools are told of whole
    def line(**members: Any) -> bytes:
        return msgspec.json.encode({"jsonrpc": "2.0", **members}) + b"\n"

    def update(text: str) -> bytes:
        told = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        return line(method="session/update", params={"sessionId": "s", "update": told})

    return b"".join([*(update(text) for text in texts), line(id=1, result={"stopReason": "end_turn"})])


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


_COMPOSERS: dict[str, Callable[[list[str], bool], bytes]] = {
    "responses": _responses,
    "chat": _chat,
    "messages": _messages,
    "gemini": _gemini,
    "acp": _acp,
}
STREAMED_CALLS = ("responses", "chat", "messages")
"""The wires on which a call's arguments come in deltas."""
