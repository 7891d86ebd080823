"""The public stream of a parent with children: the official SDK reads it, and our own strict decoder takes it."""

import pytest

from pipeline.events import FOLD_VERSION, Event, TextDelta, TurnStarted
from pipeline.normalize.registry import WIRES
from pipeline.normalize.stamp import Stamp
from pipeline.output import Block, Frame
from pipeline.turn import Turn, Validation, decode
from scripts.sdk import public
from tests.contract.speakers import SPEAKERS, Say
from workers.fold.children import Child

PARENT, CHILD = f"0-{1:024x}", f"0-{2:024x}"
PIECES = ("Hello, ", "wor", "ld.")


def told(places: tuple[int, int, int]) -> list[Frame]:
    """A parent's frames; the child begins, makes a block and ends behind so many of the parent's events."""
    child = Child(CHILD, PARENT, "call_7")
    child.at = 5
    notes = [child.started(), child.progressed([Block(ordinal=0, text="A block.")]), child.ended("completed", None)]
    adapter = WIRES["responses"](stamp=Stamp(at=1))
    upstream: list[Event] = [
        event for frame in SPEAKERS["responses"]([Say(PIECES)], "completed") for event in adapter.feed(frame)
    ]
    turn = Turn(PARENT)
    started = TurnStarted(seq=0, at=1, fold=FOLD_VERSION, runtime="main", wire="responses", turn=PARENT, session="s")
    frames = turn.push(started).frames
    for number, event in enumerate(upstream):
        for place, note in zip(places, notes, strict=True):
            if place == number:
                frames += [frame for one in note for frame in turn.push(one, f"child:{CHILD}").frames]
        frames += turn.push(event).frames
    assert [frame.number for frame in frames] == list(range(len(frames)))
    return frames


@pytest.mark.parametrize("places", [(1, 2, 3), (3, 5, 6), (4, 4, 4), (5, 6, 9)])
def test_a_parents_stream_is_read_by_the_sdk_and_taken_by_our_strict_decoder(places: tuple[int, int, int]) -> None:
    frames = told(places)
    kinds = [frame.event for frame in frames if frame.event.startswith("foldline.")]
    assert kinds == ["foldline.child.started", "foldline.child.progress", "foldline.child.ended"]
    assert public(frames).output_text == "".join(PIECES)
    again = decode([frame.sse.encode() for frame in frames], "responses", Validation.STRICT)
    assert "".join(event.text for event in again.events if isinstance(event, TextDelta)) == "".join(PIECES)
    assert again.payload.status == "completed"


def test_a_child_that_speaks_before_the_parents_upstream_costs_nothing() -> None:
    frames = told((0, 0, 0))
    assert frames[0].event == "response.created"
    assert public(frames).output_text == "".join(PIECES)
    decode([frame.sse.encode() for frame in frames], "responses", Validation.STRICT)
