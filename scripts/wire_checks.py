"""Checks of recorded streams of the wires that end without repeating their output: nothing said is lost, the order is legal,
there is one terminal, and it is the one that the corpus names.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.events import Event, TextDelta, ToolStarted
from pipeline.normalize.acp import AcpAdapter
from pipeline.normalize.stamp import Stamp
from pipeline.turn import decode
from scripts.order import breaches
from scripts.plain_reading import READERS, Said

BOTH = ".both.jsonl"
STREAMED = frozenset({"chat", "messages"})
"""The wires whose calls stream their inputs as text."""


def differences(file: Path, wire: str, events: list[Event], terminal: str) -> Iterator[str]:
    """Everything that is wrong with the events of a recording; `terminal` is what they end with, in the corpus's words."""
    data = file.read_bytes()
    turns = list(agent_turns(file)) if wire == "acp" else [events]
    for turn in turns:
        yield from breaches(turn)
    listed = [event for turn in turns for event in turn]
    found, said = spoken(listed, inputs=wire in STREAMED), READERS[wire](data)
    if found != said:
        yield f"{found} instead of {said}"
    if terminal:
        yield terminal
    decoded = decode([data], wire)
    if decode([data[at : at + 7] for at in range(0, len(data), 7)], wire).frames != decoded.frames:
        yield "other frames at other cuts"
    if [frame.number for frame in decoded.frames] != list(range(len(decoded.frames))):
        yield "frames are not numbered 0..N"
    text = "".join(event.text for event in decoded.events if isinstance(event, TextDelta) and event.track == "text")
    if "".join(block.text + block.separator for block in decoded.blocks) != text:
        yield "the blocks are not the text"


def spoken(events: Iterable[Event], *, inputs: bool = False) -> Said:
    """The texts and tools of events."""
    said = Said()
    for event in events:
        match event:
            case TextDelta(track="text", text=text):
                said.text += text
            case TextDelta(track="reasoning", text=text):
                said.reasoning += text
            case TextDelta(track="refusal", text=text):
                said.refusal += text
            case TextDelta(track="tool_input", text=text) if inputs:
                said.inputs += text
            case ToolStarted(name=name):
                said.tools.append(name)
            case _:
                pass
    return said


def agent_turns(file: Path) -> Iterator[list[Event]]:
    """An agent's recording as the turns that it holds: as many as the other direction has prompts."""
    rest = b"\n".join(line for line in file.read_bytes().splitlines() if line.strip())
    both = file.with_suffix("").with_suffix(BOTH)
    for _ in prompts(both) if both.exists() else [None]:
        turn, rest = _one_turn(rest, None)
        yield turn


def check_both(file: Path) -> Iterator[str]:
    """Compare the agent's side of a recording of both directions, read with the prompts' ids, with the agent's lines alone."""
    messages = [json.loads(line) for line in file.read_bytes().splitlines()]
    rest = b"\n".join(json.dumps(one["msg"]).encode() for one in messages if one["from"] == "agent")
    alone = agent_turns(file.with_suffix("").with_suffix(".jsonl"))
    for prompt, expected in zip(prompts(file), alone, strict=True):
        turn, rest = _one_turn(rest, prompt)
        if turn != expected:
            yield f"{turn} instead of {expected}"


def prompts(file: Path) -> list[int | str]:
    """The ids of the prompts that the client sent."""
    messages = [json.loads(line)["msg"] for line in file.read_bytes().splitlines()]
    return [message["id"] for message in messages if message.get("method") == "session/prompt"]


def _one_turn(data: bytes, prompt: int | str | None) -> tuple[list[Event], bytes]:
    """Read one turn; give what follows it."""
    adapter = AcpAdapter(stamp=Stamp())
    adapter.prompt_id = prompt
    events: list[Event] = []
    lines = data.split(b"\n")
    while lines and not adapter.ended:
        events += adapter.feed(lines.pop(0) + b"\n")
    return events + adapter.close(), b"\n".join(lines)
