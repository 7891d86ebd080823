"""Hold foldline against a corpus of recorded and minimal streams: `python -m scripts.conformance CORPUS_DIR`.

For a minimal stream the adapter's events must be exactly those listed for it in `deviations.jsonl`, whole and byte by byte;
for a recorded one the output of the payload must be the terminal's: text, arguments up to JSON white space, order. For
files that `EXPECT.tsv` lists, strict decoding must accept or refuse as it says. Exit 1 on any difference.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pipeline.errors import WireError
from pipeline.events import (
    BlockFinal,
    Event,
    Status,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from pipeline.normalize.registry import WIRES
from pipeline.normalize.stamp import Stamp
from pipeline.turn import decode
from pipeline.validate import Validation

WIRE = "responses"
UNLISTED = {"upstream_started", "part_started", "part_finished", "item_finished", "input_finished", "in_progress"}
TEXT_PARTS = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text", "summary_text": "text"}

# Streams whose terminal does not say what was streamed; the payload holds what was.
OUTPUT_LEFT_OUT = {
    "responses/agenticapi-text-only-vllm-gemma4-t1.sse",
    "responses/agenticapi-vllm-gemma-text.sse",
    "responses/agenticapi-vllm-gemma-fncall.sse",
}


@dataclass(frozen=True)
class Row:
    """One file of the corpus and what became of it."""

    file: str
    check: str
    difference: str = ""


def notation(events: Iterable[Event]) -> list[str]:
    """Write events as the corpus's lists do."""
    return [line for event in events for line in _line(event)]


def _line(event: Event) -> Iterator[str]:
    match event:
        case TextDelta(item=item, content=content, track=track, text=text):
            yield f"d {item}.{content} {track} {text!r}"
        case BlockFinal(item=item, content=content, track=track, text=text):
            yield f"f {item}.{content} {track} {text!r}"
        case ToolStarted(item=item, call_id=call_id, name=name, kind=kind):
            yield f"t+ {item} {call_id} {name} {kind}"
        case ToolFinished(item=item, call_id=call_id, status=status, input=text):
            yield f"t- {item} {call_id} {status} {text!r}"
        case Status(name=name):
            if name not in UNLISTED:
                yield f"s {name}"
        case TurnCompleted(outcome=outcome, usage=usage, incomplete_details=details):
            reason = f" {details['reason']}" if details and details.get("reason") else ""
            yield f"done {outcome}{reason}{' +usage' if usage else ''}"
        case TurnFailed(error=error):
            yield f"fail {error.code}"
        case TurnCancelled():
            yield "cancelled"
        case _:
            yield "start"


def adapt(data: bytes, step: int) -> list[Event]:
    """Run the adapter alone, `step` bytes at a time."""
    adapter = WIRES[WIRE](stamp=Stamp())
    events = [event for at in range(0, len(data), step) for event in adapter.feed(data[at : at + step])]
    return events + adapter.close()


def check_minimal(file: str, data: bytes, expected: list[str]) -> Row:
    """Compare a minimal stream's events with the listed ones."""
    for step in (len(data) or 1, 7, 1):
        found = ["start", *notation(adapt(data, step))]
        if found != expected:
            return Row(file, "events", f"{found} instead of {expected}")
    return Row(file, "events")


def check_recorded(file: str, data: bytes) -> Row:
    """Decode a recording leniently and compare its payload with its terminal."""
    decoded = decode([data], WIRE, Validation.LENIENT)
    terminal = terminal_of(decoded.events)
    if decode([data[at : at + 7] for at in range(0, len(data), 7)], WIRE, Validation.LENIENT).frames != decoded.frames:
        return Row(file, "frames", "other frames at other cuts")
    if terminal is None or file in OUTPUT_LEFT_OUT:
        return Row(file, "decodes")
    payload = decoded.payload.response
    found, expected = [list(map(said, one.get("output") or [])) for one in (payload, terminal)]
    return Row(file, "output", "" if found == expected else f"{found} instead of {expected}")


def check_strict(file: str, data: bytes, verdict: str, rule: str) -> Row:
    """Compare strict decoding's verdict with the listed one."""
    try:
        decode([data], WIRE, Validation.STRICT)
    except WireError as refused:
        code = refused.diagnostic.code
        return Row(
            file, "strict", "" if (verdict, rule) == ("refuse", code) else f"{refused} instead of {verdict} {rule}"
        )
    accepted = verdict == "accept" or rule == "kind_unsupported"
    return Row(file, "strict", "" if accepted else f"accepted instead of {verdict} {rule}")


def terminal_of(events: Iterable[Event]) -> dict[str, Any] | None:
    """The response object of the upstream's terminal, where it has an output."""
    for event in events:
        if isinstance(event, TurnCompleted | TurnFailed | TurnCancelled) and event.wire is not None:
            response = event.wire.get("response")
            return response if isinstance(response, dict) and response.get("output") else None
    return None


def said(item: dict[str, Any]) -> tuple[Any, ...]:
    """What an item says: its kind, its texts, its input and output; ids and status do not count."""
    parts = [*(item.get("content") or []), *(item.get("summary") or [])]
    texts = [part.get(TEXT_PARTS.get(part.get("type", ""), "text")) for part in parts if isinstance(part, dict)]
    members = ("name", "arguments", "input", "code", "action", "queries", "output", "outputs", "results")
    return (item.get("type"), texts, [_plain(item.get(member)) for member in members])


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def rows_of(path: Path) -> list[dict[str, str]]:
    """Read a table with a header line."""
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    names = header.split("\t")
    return [dict(zip(names, line.split("\t"), strict=False)) for line in lines]


def run(corpus: Path) -> tuple[list[Row], int]:
    """Check every file of the wire; give what was found and how many files the index has."""
    index = [row["file"] for row in rows_of(corpus / "INDEX.tsv") if row["wire"] == WIRE]
    lines = (corpus / "deviations.jsonl").read_text(encoding="utf-8").splitlines()
    listed = {row["file"]: row["expected"] for row in map(json.loads, lines)}
    verdicts = {row["file"]: (row["strict"], row.get("rule", "")) for row in rows_of(corpus / "EXPECT.tsv")}
    rows = []
    for file in index:
        data = (corpus / file).read_bytes()
        rows.append(check_minimal(file, data, listed[file]) if file in listed else check_recorded(file, data))
        if file in verdicts:
            rows.append(check_strict(file, data, *verdicts[file]))
    return rows, len(index)


def main() -> int:
    """Print a row for each difference and a count of all."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m scripts.conformance CORPUS_DIR\n")
        return 2
    rows, indexed = run(Path(sys.argv[1]))
    table = Table("file", "check", "difference", box=None)
    for row in rows:
        table.add_row(row.file, row.check, row.difference or "-")
    Console(width=200, soft_wrap=True).print(table)
    checked = len({row.file for row in rows})
    differences = sum(bool(row.difference) for row in rows)
    sys.stdout.write(f"files checked {checked} of {indexed} in the index, differences {differences}\n")
    return 0 if differences == 0 and checked == indexed else 1


if __name__ == "__main__":
    sys.exit(main())
