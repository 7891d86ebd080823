"""The wire of our own events: passed as they are, refused where they are none."""

import pytest

from pipeline.codec import encode
from pipeline.errors import EventRefused, MisuseError
from pipeline.events import Event, Status, TextDelta, TurnCancelled, TurnStarted
from pipeline.limits import Limits
from pipeline.normalize.canonical import CanonicalAdapter
from pipeline.normalize.stamp import Stamp

EVENTS: list[Event] = [
    TurnStarted(seq=0, at=1, fold=1, runtime="main", wire="canonical", turn="t", session="s"),
    TextDelta(seq=1, at=5, item=0, content=0, track="text", text="é😀\n"),
    TurnCancelled(seq=2, at=9, reason="asked"),
]
LINES = b"\n".join(map(encode, EVENTS))


@pytest.mark.parametrize("data", [LINES, LINES + b"\n", b"\n" + LINES.replace(b"\n", b"\r\n \n")])
def test_events_pass_as_they_are_at_any_cut(data: bytes) -> None:
    for step in (len(data), 7, 1):
        adapter = CanonicalAdapter(stamp=Stamp())
        events = [event for at in range(0, len(data), step) for event in adapter.feed(data[at : at + step])]
        assert events + adapter.close() == EVENTS
        assert adapter.ended
        assert adapter.late == 0


def test_what_comes_after_the_terminal_is_counted() -> None:
    adapter = CanonicalAdapter(stamp=Stamp())
    assert adapter.feed(LINES + b"\n" + encode(Status(seq=3, at=9, name="late")) + b"\n") == EVENTS
    assert adapter.late == 1


def test_a_line_that_is_no_event_is_refused() -> None:
    adapter = CanonicalAdapter(stamp=Stamp())
    with pytest.raises(EventRefused) as refused:
        adapter.feed(b'{"type":"status"}\n')
    assert refused.value.diagnostic.code == "member_missing"
    adapter = CanonicalAdapter(stamp=Stamp())
    adapter.feed(b'{"type":"sta')
    with pytest.raises(EventRefused):
        adapter.close()


def test_a_line_is_bounded() -> None:
    adapter = CanonicalAdapter(stamp=Stamp(), limits=Limits(sse_line_bytes=20))
    with pytest.raises(EventRefused, match="sse_line_bytes"):
        adapter.feed(b"x" * 21)


def test_an_adapter_is_closed_once() -> None:
    adapter = CanonicalAdapter(stamp=Stamp())
    adapter.close()
    with pytest.raises(MisuseError):
        adapter.close()
    with pytest.raises(MisuseError):
        adapter.feed(b"")
