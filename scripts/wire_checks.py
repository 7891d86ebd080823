"""Checks of recorded streams of the wires that end without repeating their output: nothing said is lost, the order is legal,
there is one terminal, and it is the one that the corpus names.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.events import TERMINALS, BlockFinal, Event, TextDelta, ToolFinished, ToolStarted
from pipeline.normalize.acp import AcpAdapter
from pipeline.normalize.stamp import Stamp
from pipeline.turn import decode
from scripts.plain_reading import READERS, Said

BOTH = ".both.jsonl"


def differences(file: Path, wire: str, events: list[Event], terminal: str) -> Iterator[str]:
    """Everything that is wrong with the events of a recording; `terminal` is what they end with, in the corpus's words."""
    data = file.read_bytes()
    turns = list(agent_turns(file)) if wire == "acp" else [events]
    for turn in turns:
        yield from disorder(turn)
    listed = [event for turn in turns for event in turn]
    found, said = spoken(listed), READERS[wire](data)
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


def spoken(events: Iterable[Event]) -> Said:
    """The texts and tools of events."""
    said = Said()
    for event in events:
        match event:
            case TextDelta(track="text", text=text):
                said.text += text
            case TextDelta(track="reasoning", text=text):
                said.reasoning += text
            case ToolStarted(name=name):
                said.tools.append(name)
            case _:
                pass
    return said


def disorder(events: list[Event]) -> Iterator[str]:
    """Breaches of the order that all adapters keep."""
    if [isinstance(event, TERMINALS) for event in events] != [False] * (len(events) - 1) + [True]:
        yield "there is not one terminal, at the end"
    texts: dict[tuple[int, int, str], str | None] = {}
    tools: dict[int, bool] = {}
    for event in events:
        match event:
            case TextDelta():
                place = (event.item, event.content, event.track)
                before = texts.setdefault(place, "")
                if before is None or (event.track == "tool_input" and tools.get(event.item) is not False):
                    yield f"a delta after the final word, or of a tool that is not open: {event}"
                texts[place] = (before or "") + event.text
            case BlockFinal():
                place = (event.item, event.content, event.track)
                if texts.get(place) != event.text:
                    yield f"a final word that is not what was streamed: {event}"
                texts[place] = None
            case ToolStarted():
                if event.item in tools:
                    yield f"an item that is started twice: {event}"
                tools[event.item] = False
            case ToolFinished():
                if tools.get(event.item) is not False:
                    yield f"an end of what is not open: {event}"
                tools[event.item] = True
            case _:
                pass
    unfinished = [place for place, text in texts.items() if text is not None and place[2] != "tool_input"]
    if unfinished or not all(tools.values()):
        yield f"left open: {unfinished} {tools}"


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
