"""Whole streams to begin with: the project's golden ones, those of a corpus where one is given, and composed ones of every kind of item.

A stream is a list of pieces, each one event as its wire carries it: its name, and its JSON (or whatever stands in place of it).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pipeline.codec import encode
from pipeline.events import ToolFinished, ToolStarted
from pipeline.kinds import KINDS, Kind
from pipeline.normalize.registry import WIRES
from pipeline.turn import decode
from scripts.responses_stream import FunctionCall, Summary, Text, compose

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
EVENTS = "events"
"""In place of a wire: canonical events of several producers, pushed into a turn one by one."""
LINED = frozenset({"acp", "canonical", EVENTS})
MOST = 40
_FORMS: dict[str, Any] = {"string": "x", "object": {"type": "x"}, "list": [], "parts": [{"type": "x", "text": "a"}]}
_TIGHT = {
    "turn_items": 2,
    "item_contents": 1,
    "item_text_chars": 9,
    "turn_text_chars": 20,
    "deferred_entries": 3,
    "deferred_bytes": 600,
}
_ROUTES = {"find": "web_search", "write": "custom", "run": "code_interpreter", "ask": "mcp:docs", "look": "file_search"}


class Piece(NamedTuple):
    """One event; where a turn has several producers, `name` is the one that tells it."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Seed:
    """One stream of a wire."""

    wire: str
    pieces: tuple[Piece, ...]


def seeds(wires: Iterable[str], corpus: Path | None = None) -> list[Seed]:
    """Every stream that there is for these wires."""
    folders = [GOLDEN] if corpus is None else [GOLDEN, corpus, corpus / "minimal"]
    return [
        Seed(wire, pieces)
        for wire in wires
        for pieces in (_streams(folders, wire) if wire != EVENTS else _told())
        if pieces
    ]


def _streams(folders: Iterable[Path], wire: str) -> Iterator[tuple[Piece, ...]]:
    if wire == "canonical":
        yield from (_lines(path.read_bytes()) for path in sorted(GOLDEN.glob("*/*.events.jsonl")))
        return
    for folder in folders:
        for path in sorted(folder.joinpath(wire).glob("*")):
            if path.suffix in {".sse", ".jsonl"} and path.stem.count(".") == 0:
                yield _lines(path.read_bytes()) if wire in LINED else _events(path.read_bytes())
    if wire == "responses":
        yield from _composed()


def _lines(data: bytes) -> tuple[Piece, ...]:
    return tuple(Piece("", line) for line in data.splitlines() if line.strip())


def _events(data: bytes) -> tuple[Piece, ...]:
    """The events of a stream; a body that is none is one piece."""
    if data.lstrip()[:1] in {b"{", b"["}:
        return (Piece("", data.replace(b"\n", b" ")),)
    pieces: list[Piece] = []
    name = ""
    for line in data.splitlines():
        if line.startswith(b"event:"):
            name = line[6:].strip().decode("utf-8", "replace")
        elif line.startswith(b"data:"):
            pieces.append(Piece(name, line[5:].strip()))
            name = ""
    return tuple(pieces)


# -- composed


def _composed() -> Iterator[tuple[Piece, ...]]:
    text = Text(pieces=["Let ", "me see.\n\n", "```py\n1\n```\n", "é\U0001f600"])
    call = FunctionCall(name="find", pieces=["{}", '{"input": "a', '\\n", ', '"q": 1}'])
    yield _pieces(compose({"model": "m"}, [Summary(pieces=["Th", "ink"]), text, call, text]))
    rows = list(KINDS.values())
    for at in range(len(rows)):
        yield _pieces(_turn_of([rows[at], rows[(at + 1) % len(rows)], rows[(at * 7 + 3) % len(rows)]]))


def _turn_of(rows: list[Kind]) -> Iterator[dict[str, Any]]:
    """A conforming turn with an item of each of these kinds."""
    response = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": response}
    yield {"type": "response.in_progress", "response": response}
    output = []
    for index, row in enumerate(rows):
        yield from (events := list(_item(index, row)))
        output.append(events[-1]["item"])
    yield {"type": "response.completed", "response": {**response, "status": "completed", "output": output}}


def _item(index: int, row: Kind) -> Iterator[dict[str, Any]]:
    item: dict[str, Any] = {"id": f"{row.prefix}_{index}", "type": row.name, "status": "in_progress"}
    item |= {member: _FORMS[form.rstrip("?")] for member, form in row.needs}
    item |= {"call_id": f"call_{index}", "name": "write"} if row.call or row.named else {}
    place = {"item_id": item["id"], "output_index": index}
    yield {"type": "response.output_item.added", "output_index": index, "item": item}
    yield from ({"type": f"response.{row.name}.{word}", **place} for word in row.progress)
    if row.stem is not None:
        place |= {row.position: 0} if row.position is not None else {}
        yield from ({"type": f"response.{row.stem}.delta", **place, "delta": text} for text in ('{"input":', '"x"}'))
        yield {"type": f"response.{row.stem}.done", **place, str(row.final or row.input): '{"input":"x"}'}
        item = {**item, row.input: '{"input":"x"}'} if row.input is not None else item
    yield {"type": "response.output_item.done", "output_index": index, "item": {**item, "status": "completed"}}


def _pieces(events: Iterable[dict[str, Any]]) -> tuple[Piece, ...]:
    return tuple(Piece(event["type"], msgspec.json.encode(event)) for event in events)


def _told() -> Iterator[tuple[Piece, ...]]:
    """Turns whose calls others answer: the events of the upstream, and those of `tools` and of a child among them."""
    for names in (("find", "write"), ("run", "ask"), ("look", "other", "find"), ("ask", "ask")):
        items = [FunctionCall(name=name, pieces=['{"query":', f'"{name}"}}']) for name in names]
        body = b"".join(
            b"data: %b\n\n" % piece.data
            for piece in _pieces(compose({"model": "m"}, [*items, Text(pieces=["So", "."])]))
        )
        start, *events = decode([body], "responses").events
        rest: list[Piece] = []
        for event in events:
            rest.append(Piece("ingest", encode(event)))
            if isinstance(event, ToolFinished):
                rest += [Piece("tools", line) for line in _answer(event)]
        for limits in ({}, *({bound: value} for bound, value in _TIGHT.items())):
            begin = msgspec.structs.replace(start, tools=_ROUTES, limits=limits)
            yield (Piece("ingest", encode(begin)), *rest)
    for path in sorted(GOLDEN.glob("*/*.events.jsonl")):
        yield tuple(Piece("ingest", piece.data) for piece in _lines(path.read_bytes()))


def _answer(event: ToolFinished) -> Iterator[bytes]:
    told: dict[str, Any] = {"seq": 0, "at": 0, "item": event.item, "call_id": event.call_id}
    yield encode(ToolStarted(**told, name="find", kind="web_search"))
    yield encode(ToolFinished(**told, status="completed", output=[{"url": "http://x"}]))


WIRE_NAMES = (*sorted(WIRES), EVENTS)
