"""Hold foldline against a corpus of recorded and minimal streams: `python -m scripts.conformance CORPUS_DIR`.

For a minimal stream the adapter's events must be exactly those listed for it in `deviations.jsonl`, whole and byte by byte;
for a recorded one the output of the payload must be the terminal's: text, arguments up to JSON white space, order. Wires
whose terminal repeats no output are held against a plain reading of the same bytes (`wire_checks`). For files that
`EXPECT.tsv` lists, strict decoding must accept or refuse as it says. Where an official SDK reads the wire itself, it must read
the same, and the public stream is held against the openai SDK (`sdk`). Exit 1 on any difference.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
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
from pipeline.turn import Turn, collect, decode
from pipeline.validate import Validation
from scripts import fidelity, sdk, wire_checks

RESPONSES = "responses"
PUBLIC = "public stream"
CHECKED = ("responses", "chat", "messages", "gemini", "acp")
UNLISTED = {"upstream_started", "part_started", "part_finished", "item_finished", "input_finished", "metadata"}
ENDING = ("status", "output", "usage", "error", "incomplete_details")
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
    wire: str = ""


def notation(events: Iterable[Event], wire: str = RESPONSES) -> list[str]:
    """Write events as the corpus's lists do."""
    unlisted = UNLISTED | {"in_progress"} if wire == RESPONSES else UNLISTED
    return [
        line for event in events if not (isinstance(event, Status) and event.name in unlisted) for line in _line(event)
    ]


def _line(event: Event) -> Iterator[str]:
    match event:
        case TextDelta(item=item, content=content, track=track, text=text):
            yield f"d {item}.{content} {track} {text!r}"
        case BlockFinal(item=item, content=content, track=track, text=text):
            yield f"f {item}.{content} {track} {text!r}"
        case ToolStarted(item=item, call_id=call_id, name=name, kind=kind):
            yield f"t+ {item} {call_id} {name} {kind}"
        case ToolFinished(item=item, call_id=call_id, status=status, input=text, output=output):
            yield f"t- {item} {call_id} {status} {text!r}{' +output' if output is not None else ''}"
        case Status(name=name):
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


def adapt(data: bytes, step: int, wire: str = RESPONSES) -> list[Event]:
    """Run the adapter alone, `step` bytes at a time."""
    adapter = WIRES[wire](stamp=Stamp())
    events = [event for at in range(0, len(data), step) for event in adapter.feed(data[at : at + step])]
    return events + adapter.close()


def check_minimal(file: str, data: bytes, expected: list[str], wire: str = RESPONSES) -> Row:
    """Compare a minimal stream's events with the listed ones. The start of the turn is not the adapter's to tell."""
    expected = [line for line in expected if line != "start"]
    for step in (len(data) or 1, 7, 1):
        found = notation(adapt(data, step, wire), wire)
        if found != expected:
            return Row(file, "events", f"{found} instead of {expected}")
    return Row(file, "events")


def check_recorded(file: str, data: bytes) -> Row:
    """Decode a recording leniently and compare its payload with its terminal."""
    decoded = decode([data], RESPONSES, Validation.LENIENT)
    terminal = terminal_of(decoded.events)
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    if decode(pieces, RESPONSES, Validation.LENIENT).frames != decoded.frames:
        return Row(file, "frames", "other frames at other cuts")
    if terminal is None or file in OUTPUT_LEFT_OUT:
        return Row(file, "decodes")
    payload = decoded.payload.response
    found, expected = [list(map(said, one.get("output") or [])) for one in (payload, terminal)]
    return Row(file, "output", "" if found == expected else f"{found} instead of {expected}")


def check_other(path: Path, file: str, wire: str, terminal: str) -> Row:
    """Compare a recording of a wire whose terminal repeats no output with a plain reading of it."""
    if file.endswith(wire_checks.BOTH):
        return Row(file, "agent's side", "; ".join(wire_checks.check_both(path)))
    data = path.read_bytes()
    events = adapt(data, len(data) or 1, wire)
    if adapt(data, 1, wire) != events:
        return Row(file, "cuts", "other events at other cuts")
    found = notation(events[-1:], wire)
    wrong = f"{found} instead of {terminal}" if terminal and found != [terminal] else ""
    return Row(file, "recording", "; ".join(wire_checks.differences(path, wire, events, wrong)))


def check_sdks(file: str, data: bytes, wire: str) -> Iterator[Row]:
    """Let the official SDKs read the upstream's stream, and ours: what they read must be what we read."""
    decoded = decode([data], wire)
    yield Row(file, PUBLIC, "; ".join(sdk.public_faults(decoded)))
    if wire in sdk.READERS:
        how, found = sdk.agreement(file, wire, data, decoded)
        yield Row(file, how, "; ".join(found))


def check_drivers(file: str, data: bytes, wire: str) -> Row:
    """Take the stream by every driver: in pieces, as events at hand, with nothing relayed; and what is relayed, strictly, once more.

    The fold worker takes the same events on a server: see `scripts.fleet_conformance`.
    """
    whole = decode([data], wire)
    pieces = decode([data[at : at + 7] for at in range(0, len(data), 7)], wire)
    collected, muted = collect(whole.events), Turn(whole.payload.response["id"].removeprefix("resp_"), relay=False)
    blocks = [block for event in whole.events for block in muted.push(event).blocks]
    found = [
        f"{name} gives something else"
        for name, made in (("a body in pieces", pieces), ("the collecting driver", collected))
        if (made.frames, made.blocks, made.payload) != (whole.frames, whole.blocks, whole.payload)
    ]
    if (blocks, muted.finish().response) != (whole.blocks, whole.payload.response):
        found.append("a turn that relays nothing gives something else")
    with suppress(WireError):  # that it is taken is what the public stream's own row tells
        again = decode([frame.sse.encode() for frame in whole.frames], RESPONSES, Validation.STRICT)
        ends = [{name: made.payload.response.get(name) for name in ENDING} for made in (whole, again)]
        if ends[0] != ends[1]:
            found.append(f"read again, its response is {ends[1]} instead of {ends[0]}")
    return Row(file, "drivers", "; ".join(found))


def check_strict(file: str, data: bytes, verdict: str, rule: str) -> Row:
    """Compare strict decoding's verdict with the listed one."""
    try:
        decode([data], RESPONSES, Validation.STRICT)
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
    """Check every file of the wires that are read; give what was found and how many files the index has of them."""
    index = [row for row in rows_of(corpus / "INDEX.tsv") if row["wire"] in CHECKED]
    lines = (corpus / "deviations.jsonl").read_text(encoding="utf-8").splitlines()
    listed = {row["file"]: row["expected"] for row in map(json.loads, lines)}
    verdicts = {row["file"]: (row["strict"], row.get("rule", "")) for row in rows_of(corpus / "EXPECT.tsv")}
    rows = []
    for entry in index:
        file, wire = entry["file"], entry["wire"]
        data = (corpus / file).read_bytes()
        if file in listed:
            rows.append(check_minimal(file, data, listed[file], wire))
        elif wire == RESPONSES:
            rows.append(check_recorded(file, data))
        else:
            rows.append(check_other(corpus / file, file, wire, entry.get("terminal", "")))
        if not file.endswith(wire_checks.BOTH):
            rows += check_sdks(file, data, wire)
            rows.append(check_drivers(file, data, wire))
        if file in verdicts:
            rows.append(check_strict(file, data, *verdicts[file]))
            if verdicts[file][0] == "accept" and not rows[-1].difference:
                rows.append(Row(file, "fidelity", "; ".join(fidelity.unlike(data, decode([data], RESPONSES)))))
    wires = {entry["file"]: entry["wire"] for entry in index}
    rows += [Row(file, "strict", "expected, and not in the index") for file in verdicts if file not in wires]
    return [replace(row, wire=wires.get(row.file, "")) for row in rows], len(index)


def by_wire(rows: list[Row]) -> Table:
    """How many files of each wire there are, and how many of them each check was made of."""
    checks = [PUBLIC, "strict", "fidelity", sdk.AGREES, sdk.NOTHING, sdk.DIFFERS]
    table = Table("wire", "files", "differences", *checks, box=None)
    for wire in CHECKED:
        of_it = [row for row in rows if row.wire == wire]
        made = Counter(row.check for row in of_it)
        files = {row.file for row in of_it}
        wrong = {row.file for row in of_it if row.difference}
        table.add_row(wire, *map(str, [len(files), len(wrong), *(made[check] for check in checks)]))
    return table


def main() -> int:
    """Print a row for each difference and a count of all."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.stderr.write("usage: python -m scripts.conformance CORPUS_DIR\n")
        return 2
    rows, indexed = run(Path(sys.argv[1]))
    table = Table("file", "check", "difference", box=None)
    for row in rows:
        table.add_row(row.file, row.check, row.difference or "-")
    screen = Console(width=200, soft_wrap=True)
    screen.print(table)
    screen.print(by_wire(rows))
    checked = len({row.file for row in rows})
    differences = sum(bool(row.difference) for row in rows)
    sys.stdout.write(f"files checked {checked} of {indexed} in the index, differences {differences}\n")
    return 0 if differences == 0 and checked == indexed else 1


if __name__ == "__main__":
    sys.exit(main())
