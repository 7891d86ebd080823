"""What every adapter promises, whatever its wire: the same events at any cut, a legal order, one terminal, no text lost, and a
word about everything that is malformed. An adapter is tested by being listed in the registry and by its golden streams.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.codec import decode, encode
from pipeline.errors import EventRefused, MisuseError
from pipeline.events import TERMINALS, Event, TextDelta, TurnFailed
from pipeline.limits import Limits
from pipeline.normalize.registry import WIRES
from pipeline.normalize.stamp import Stamp
from scripts.order import breaches
from scripts.plain_reading import READERS
from scripts.wire_checks import STREAMED, spoken

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
REFUSING = {"canonical"}  # spoken by programs of ours: a line that is no event is refused, not mended
UNPLAIN = {"habits", "whole-answer", "array", "error-tail"}  # what a plain reading of a recording does not know
CUTS = 120


def streams(wire: str) -> list[Path]:
    """The golden streams of a wire. Canonical ones are the events that the others become."""
    if wire == "canonical":
        return sorted(GOLDEN.glob("responses/*.events.jsonl"))
    return sorted(path for path in GOLDEN.glob(f"{wire}/*") if path.suffix != ".md" and path.stem.count(".") == 0)


ALL = [(wire, path) for wire in WIRES for path in streams(wire)]
each_stream = pytest.mark.parametrize(("wire", "path"), ALL, ids=[f"{wire}/{path.stem}" for wire, path in ALL])
each_wire = pytest.mark.parametrize("wire", [wire for wire in WIRES if wire not in REFUSING])


def run(wire: str, data: bytes, cuts: Iterable[int] = (), limits: Limits | None = None) -> list[Event]:
    adapter = WIRES[wire](stamp=Stamp(at=1), limits=limits)
    events: list[Event] = []
    at = 0
    for cut in [*cuts, len(data)]:
        events += adapter.feed(data[at:cut])
        at = cut
    events += adapter.close()
    assert adapter.ended
    return events


def check(events: list[Event]) -> None:
    """Hold events against all that must be true of them, however the stream was."""
    assert breaches(events) == []
    for event in events:
        assert decode(encode(event)) == event


def texts(events: Iterable[Event]) -> dict[str, str]:
    said: dict[str, str] = {}
    for event in events:
        if isinstance(event, TextDelta):
            said[event.track] = said.get(event.track, "") + event.text
    return said


def sampled(length: int) -> range:
    return range(0, length + 1, max(1, length // CUTS))


@cache
def bodies(wire: str) -> list[bytes]:
    return [path.read_bytes() for path in streams(wire)]


def test_every_wire_has_golden_streams_one_of_which_fails() -> None:
    for wire in WIRES:
        ends = [run(wire, body)[-1] for body in bodies(wire)]
        assert len(ends) >= 3, wire
        assert any(isinstance(end, TurnFailed) for end in ends), wire


@each_stream
def test_a_stream_gives_the_same_events_at_every_cut(wire: str, path: Path) -> None:
    data = path.read_bytes()
    whole = run(wire, data)
    check(whole)
    assert run(wire, data, range(len(data))) == whole
    for cut in sampled(len(data)):
        assert run(wire, data, [cut]) == whole


@each_stream
def test_a_stream_that_ends_anywhere_keeps_the_text_before_and_has_one_terminal(wire: str, path: Path) -> None:
    data = path.read_bytes()
    whole = texts(run(wire, data))
    for end in sampled(len(data)):
        if wire in REFUSING:
            end = data.rfind(b"\n", 0, end) + 1  # noqa: PLW2901  half a line is refused
            events = run_open(wire, data[:end])
        else:
            events = run(wire, data[:end])
            check(events)
        for track, text in texts(events).items():
            if track == "tool_input" and wire not in STREAMED:
                continue  # built of what came, where the wire has no text of it
            assert whole[track].startswith(text)


def run_open(wire: str, data: bytes) -> list[Event]:
    adapter = WIRES[wire](stamp=Stamp(at=1))
    return adapter.feed(data) + adapter.close()


def test_every_wire_has_a_plain_reading() -> None:
    """But for those whose streams say themselves what they said."""
    assert WIRES.keys() - READERS.keys() == {"canonical", "responses"}


@pytest.mark.parametrize("wire", READERS)
def test_no_text_is_lost(wire: str) -> None:
    plain = [path for path in streams(wire) if path.stem not in UNPLAIN]
    assert plain
    for path in plain:
        data = path.read_bytes()
        assert spoken(run(wire, data), inputs=wire in STREAMED) == READERS[wire](data)


@pytest.mark.parametrize("wire", WIRES)
def test_a_closed_adapter_is_closed(wire: str) -> None:
    adapter = WIRES[wire](stamp=Stamp())
    if wire in REFUSING:
        adapter.feed(bodies(wire)[0])
    adapter.close()
    with pytest.raises(MisuseError):
        adapter.feed(b"x")
    with pytest.raises(MisuseError):
        adapter.close()


@each_wire
def test_what_is_no_frame_is_told_and_costs_nothing_else(wire: str) -> None:
    for data in bodies(wire):
        if data[:1] in {b"{", b"["} and wire != "acp":
            continue  # one JSON value, where any more makes it another thing
        noise = b"gibberish\n" if wire == "acp" else b"data: {gibberish\n\n"
        whole, noisy = run(wire, data), run(wire, noise + data)
        assert texts(noisy) == texts(whole)
        wires: list[Any] = [getattr(event, "wire", None) or {} for event in noisy]
        assert any("gibberish" in defect["found"] for one in wires for defect in one.get("defects", ()))


@each_wire
@pytest.mark.parametrize("limit", ["item_text_chars", "turn_items", "sse_line_bytes"])
def test_a_bound_ends_the_turn_by_its_name(wire: str, limit: str) -> None:
    ends = set()
    for data in bodies(wire):
        events = run(wire, data, limits=Limits(**{limit: 1}))
        check(events)
        if isinstance(events[-1], TurnFailed):
            ends.add(events[-1].error.code)
    assert limit in ends


def test_a_line_that_is_no_event_is_refused_where_events_are_spoken() -> None:
    for wire in REFUSING:
        with pytest.raises(EventRefused):
            run_open(wire, b"gibberish\n")


# -- noise

WIRE_NAMES = st.sampled_from([wire for wire in WIRES if wire not in REFUSING])
SCRAPS = st.sampled_from(
    [b"\n", b"\r", b"\n\n", b"data:", b"data: {}\n\n", b"data: [DONE]\n\n", b"event: error\n", b"null", b"\xff", b"\xef\xbb\xbf",
     b'"', b"}", b"{", b"0", b"-1", b"[]", b'"index":0,', b"\\ud800", b"NaN", b"true"]
)  # fmt: skip


@st.composite
def mangled(draw: st.DrawFn, wire: str) -> bytes:
    """A golden stream with pieces cut out, doubled, moved and written over."""
    data = draw(st.sampled_from(bodies(wire)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 400)))
        scrap = draw(st.one_of(SCRAPS, st.binary(max_size=8), st.just(data[start:end] * 2)))
        data = data[:start] + scrap + data[end:]
    return data


@given(st.data())
@settings(max_examples=250)
def test_a_mangled_stream_has_a_legal_order_and_one_terminal(data: Any) -> None:
    wire = data.draw(WIRE_NAMES)
    body = data.draw(mangled(wire))
    events = run(wire, body)
    check(events)
    assert sum(isinstance(event, TERMINALS) for event in events) == 1
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=5)))
    assert run(wire, body, cuts) == events


@each_wire
@pytest.mark.parametrize("before", [b"", b"data: {}\n\n", b'error: {"message": "early"}\n'])
def test_an_error_in_words_behind_the_sentinel_says_the_same_at_every_cut(wire: str, before: bytes) -> None:
    body = before + b'data: [DONE]\n\n{"error": {"message": "late"}}\n\ndata: [DONE]\n\n'
    events = run(wire, body)
    for cut in range(len(body)):
        assert run(wire, body, [cut]) == events


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.floats(allow_nan=False), st.sampled_from(["", "x", "\u2028", "é"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["type", "text", "id"]), inner)),
    max_leaves=6,
)  # fmt: skip


def shaken(draw: st.DrawFn, value: Any, chance: int) -> Any:
    """The same JSON with some members put elsewhere: other forms where the wire has one form."""
    if draw(st.integers(0, chance)) == 0:
        return draw(VALUES)
    if isinstance(value, dict):
        return {name: shaken(draw, one, chance) for name, one in value.items()}
    return [shaken(draw, one, chance) for one in value] if isinstance(value, list) else value


@st.composite
def misshapen(draw: st.DrawFn, wire: str) -> bytes:
    """Frames of a golden stream, some with members of another form."""
    import json  # noqa: PLC0415

    data = draw(st.sampled_from(bodies(wire)))
    lines = []
    for line in data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
        head, body = (b"data: ", line[6:]) if line.startswith(b"data: ") else (b"", line)
        try:
            frame = json.loads(body)
        except ValueError:
            lines.append(line)
            continue
        lines.append(head + json.dumps(shaken(draw, frame, 25)).encode())
    return b"\n".join(lines)


@given(st.data())
@settings(max_examples=150)
def test_members_of_any_form_are_read_without_a_fault(data: Any) -> None:
    wire = data.draw(WIRE_NAMES)
    check(run(wire, data.draw(misshapen(wire))))


@given(WIRE_NAMES, st.binary(max_size=300))
@settings(max_examples=100)
def test_any_bytes_at_all(wire: str, body: bytes) -> None:
    events = run(wire, body)
    check(events)
    assert run(wire, body, range(len(body))) == events
