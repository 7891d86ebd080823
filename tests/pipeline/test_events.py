"""The contract's types: nine, by their names, readable as JSON."""

from typing import get_args

import msgspec
import pytest

from pipeline import events
from pipeline.events import EVENT_TYPES, TERMINALS, Event, Status, TextDelta, TurnStarted


def test_there_are_nine_types_and_no_others() -> None:
    tags = [kind.__struct_config__.tag for kind in get_args(Event)]
    assert tuple(tags) == EVENT_TYPES
    assert len(tags) == 9
    assert {kind.__struct_config__.tag for kind in TERMINALS} == {"turn_completed", "turn_failed", "turn_cancelled"}


def test_an_event_is_frozen() -> None:
    event = Status(seq=1, at=2, name="queued")
    with pytest.raises(AttributeError):
        event.name = "other"  # type: ignore[misc]  # that is the test


def test_json_names_the_type_first_and_leaves_out_what_is_not_there() -> None:
    event = TextDelta(seq=1, at=2, item=0, content=0, track="text", text="hi")
    assert msgspec.json.encode(event) == (
        b'{"type":"text_delta","seq":1,"at":2,"item":0,"content":0,"track":"text","text":"hi"}'
    )


def test_the_first_event_always_writes_its_versions() -> None:
    event = TurnStarted(seq=0, at=1, fold=events.FOLD_VERSION, runtime="main", wire="responses", turn="t", session="s")
    written = msgspec.json.decode(msgspec.json.encode(event))
    assert written["contract"] == events.CONTRACT_VERSION
    assert written["fold"] == events.FOLD_VERSION


def test_two_events_share_no_default() -> None:
    one, other = (
        TurnStarted(seq=0, at=1, fold=1, runtime="main", wire="responses", turn="t", session="s") for _ in range(2)
    )
    one.settings["a"] = 1
    assert other.settings == {}
