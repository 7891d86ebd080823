"""A Responses stream as it should be, and as servers send it: which item and slot each event finds."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.events import BlockFinal, Status, TextDelta
from tests.pipeline.normalize.streams import (
    CREATED,
    IN_PROGRESS,
    Frame,
    added,
    arguments,
    body,
    call,
    completed,
    defects,
    delta,
    done,
    message,
    read,
    run,
    statuses,
    text_done,
    up,
)


def part(kind: str, index: int = 0, content: int = 0, text: str = "") -> Frame:
    return up(
        f"content_part.{kind}", index, item_id="m1", content_index=content, part={"type": "output_text", "text": text}
    )


PLAIN = [
    CREATED,
    IN_PROGRESS,
    added(message()),
    part("added"),
    delta("H"),
    delta("i"),
    text_done("Hi"),
    part("done", text="Hi"),
    done(message("m1", "Hi")),
    completed(message("m1", "Hi"), usage={"total_tokens": 3}),
]


def test_a_faultless_stream_has_no_defects_and_one_event_for_each_of_the_upstream() -> None:
    numbered = [frame | {"sequence_number": number} for number, frame in enumerate(PLAIN)]
    events = run(body(*numbered))
    assert defects(events) == []
    assert [event.wire["type"] for event in events if not hasattr(event, "turn") and event.wire] == [
        frame["type"] for frame in PLAIN
    ]
    assert all(event.at == 7 for event in events)


def test_wire_holds_what_no_canonical_member_holds_and_nothing_else() -> None:
    frame = delta("H") | {"logprobs": [{"token": "H"}], "sequence_number": 4, "obfuscation": "xx"}
    (told,) = [event for event in run(body(added(message()), frame)) if isinstance(event, TextDelta)]
    assert (told.item, told.content, told.track, told.text) == (0, 0, "text", "H")
    assert told.wire == {
        "type": "response.output_text.delta",
        "item_id": "m1",
        "logprobs": [{"token": "H"}],
        "obfuscation": "xx",
    }
    final = next(event for event in run(body(*PLAIN)) if isinstance(event, BlockFinal))
    assert final.wire == {"type": "response.output_text.done", "item_id": "m1"}


def test_lifecycle_events_are_statuses_with_the_whole_event() -> None:
    events = run(body(*PLAIN))
    names = [event.name for event in events if isinstance(event, Status)]
    assert names == [
        "upstream_started",
        "in_progress",
        "item_started",
        "part_started",
        "part_finished",
        "item_finished",
    ]
    started = statuses(events, "upstream_started")[0]
    assert started.wire == CREATED


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: {name: value for name, value in frame.items() if name != "item_id"},
        lambda frame: {name: value for name, value in frame.items() if name not in {"output_index", "content_index"}},
        lambda frame: frame | {"item_id": f"rotated-{json.dumps(frame)[:60]}"} if "item_id" in frame else frame,
        lambda frame: frame | {"item_id": None} if "item_id" in frame else frame,
        lambda frame: frame | {"item_id": 5} if "item_id" in frame else frame,
        lambda frame: frame | {"output_index": None} if "output_index" in frame else frame,
        lambda frame: frame | {"output_index": -1} if "output_index" in frame else frame,
        lambda frame: frame | {"output_index": 2**32} if "output_index" in frame else frame,
        lambda frame: frame | {"output_index": True} if "output_index" in frame else frame,
        lambda frame: frame | {"sequence_number": -1},
        lambda frame: frame | {"item": frame["item"] | {"id": None}} if "item" in frame else frame,
        lambda frame: frame | {"item": frame["item"] | {"id": ""}} if "item" in frame else frame,
    ],
)
def test_indexes_and_ids_may_be_missing_null_rotating_or_wrong(change: Any) -> None:
    assert read(*map(change, PLAIN)) == ["s item_started", *read(*PLAIN)[1:]]


def test_ids_find_the_item_where_indexes_are_missing() -> None:
    assert read(
        added(message("a"), None),
        added(message("b"), None),
        delta("A", None, "a"),
        delta("B", None, "b"),
        delta("?", None, "unheard"),
        done(message("a", "A"), None),
        done(message("b", "B?"), None),
        completed(),
    ) == [
        "s item_started",
        "s item_started",
        "d 0.0 text 'A'",
        "d 1.0 text 'B'",
        "d 1.0 text '?'",
        "f 0.0 text 'A'",
        "f 1.0 text 'B?'",
        "done completed",
    ]


def test_text_may_come_before_its_item_and_the_item_still_is_one() -> None:
    assert read(delta("H"), added(message()), delta("i"), done(message("m1", "Hi")), completed()) == [
        "d 0.0 text 'H'",
        "s item_started",
        "d 0.0 text 'i'",
        "f 0.0 text 'Hi'",
        "done completed",
    ]


def test_an_index_that_is_added_again_after_its_done_is_a_new_item() -> None:
    events = run(
        body(
            added(message("a")),
            delta("A"),
            done(message("a", "A")),
            added(message("b")),
            delta("B", item_id="b"),
            done(message("b", "B")),
            added(message("c"), 1),
            delta("C", 1),
            completed(),
        )
    )
    assert [(event.item, event.text) for event in events if isinstance(event, BlockFinal)] == [
        (0, "A"),
        (1, "B"),
        (2, "C"),
    ]
    assert ("index_reused", "$.output_index") in defects(events)


def test_an_index_that_is_added_again_with_another_kind_is_a_new_item() -> None:
    assert read(
        added({"type": "reasoning", "id": "r"}),
        up("reasoning_text.delta", item_id="r", content_index=0, delta="T"),
        added(message()),
        delta("Hi"),
        completed(),
    ) == [
        "s item_started",
        "d 0.0 reasoning 'T'",
        "s item_started",
        "d 1.0 text 'Hi'",
        "f 0.0 reasoning 'T'",
        "f 1.0 text 'Hi'",
        "done completed",
    ]


def test_two_calls_open_at_one_index_are_told_apart_by_id() -> None:
    assert read(
        added(call("f1", "c1")),
        added(call("f2", "c2")),
        arguments("[1]", item_id="f1"),
        arguments("[2]", item_id="f2"),
        done(call("f1", "c1", "[1]")),
        done(call("f2", "c2", "[2]")),
        completed(),
    ) == [
        "t+ 0 c1 f function",
        "t+ 1 c2 f function",
        "d 0.0 tool_input '[1]'",
        "d 1.0 tool_input '[2]'",
        "t- 0 c1 completed '[1]'",
        "t- 1 c2 completed '[2]'",
        "done completed",
    ]


def test_an_item_added_twice_is_one_item() -> None:
    events = run(body(added(message()), added(message()), delta("Hi"), completed()))
    assert len(statuses(events, "item_started")) == 1
    assert ("repeated", "$.type") in defects(events)


def test_an_item_done_twice_is_told_once() -> None:
    events = run(body(added(message()), delta("Hi"), done(message("m1", "Hi")), done(message("x9", "Hi")), completed()))
    assert [type(event).__name__ for event in events] == [
        "Status",
        "TextDelta",
        "BlockFinal",
        "Status",
        "TurnCompleted",
    ]
    assert ("repeated", "$.type") in defects(events)


def test_of_two_differing_dones_the_first_stays_and_a_status_tells() -> None:
    events = run(body(added(message()), delta("Hi"), done(message("m1", "Hi")), done(message("m1", "Ho")), completed()))
    (told,) = statuses(events, "mismatch")
    assert told.detail["item"]["content"][0]["text"] == "Ho"
    assert ("done_conflicts", "$.item") in defects(events)
    assert [event.text for event in events if isinstance(event, BlockFinal)] == ["Hi"]


def test_items_that_are_done_at_one_index_without_being_added_are_several() -> None:
    assert read(done(call("f1", "c1", "[1]")), done(call("f2", "c2", "[2]")), completed()) == [
        "t+ 0 c1 f function",
        "t- 0 c1 completed '[1]'",
        "t+ 1 c2 f function",
        "t- 1 c2 completed '[2]'",
        "done completed",
    ]
    assert [line for line in read(done(message("a", "A")), done(message("b", "B")), completed()) if line[0] == "f"] == [
        "f 0.0 text 'A'",
        "f 1.0 text 'B'",
    ]


@pytest.mark.parametrize(
    ("late", "code"),
    [
        (delta("late"), "item_done"),
        (text_done("late"), "item_done"),
        (part("done", text="late"), "item_done"),
        (up("output_text.annotation.added", item_id="m1", content_index=0, annotation={}), "item_done"),
    ],
)
def test_what_comes_after_an_item_is_done_is_ignored_and_told(late: Frame, code: str) -> None:
    events = run(body(added(message()), delta("Hi"), done(message("m1", "Hi")), late, completed()))
    (told,) = statuses(events, "ignored")
    assert told.detail["code"] == code
    assert told.wire is not None
    assert "type" not in told.wire
    assert [event.text for event in events if isinstance(event, TextDelta | BlockFinal)] == ["Hi", "Hi"]


def test_a_delta_after_the_slots_final_word_is_ignored_with_its_text_in_the_log() -> None:
    events = run(body(added(message()), delta("Hi"), text_done("Hi"), delta("late"), completed()))
    (told,) = statuses(events, "ignored")
    assert told.detail == {"event": "response.output_text.delta", "code": "delta_after_final", "text": "late"}


def test_a_delta_of_another_kind_is_ignored() -> None:
    events = run(body(added(call()), delta("Hi"), arguments("{}"), completed()))
    assert [told.detail["code"] for told in statuses(events, "ignored")] == ["kind_mismatch"]
    events = run(body(added(message()), arguments("{}"), completed()))
    assert [told.detail["code"] for told in statuses(events, "ignored")] == ["kind_mismatch"]


@given(
    st.lists(
        st.sampled_from(
            [
                *PLAIN[:-1],
                added(call(), 1),
                arguments('{"a":', 1),
                arguments('{"a":', None),
                done(call("f1", "c1", "{}"), 1),
                done(message("m2", "Ho"), None),
                delta("é😀", 1),
                delta("", None, None, None),
                delta("x", 0, "other"),
                {"type": "error", "message": "m"},
                {"type": "keepalive"},
                {"what": 1},
                "[]",
                "{",
                completed(message("m9", "End")),
                completed(status="failed"),
            ]
        ),
        max_size=14,
    ),
    st.lists(st.integers(0, 3000), max_size=10),
)
def test_any_stream_at_any_cut_gives_the_same_events_and_one_terminal(
    frames: list[Frame | str], cuts: list[int]
) -> None:
    data = body(*frames)
    events = run(data)
    assert run(data, cuts=cuts) == events
    kinds = [type(event).__name__ for event in events]
    assert [kind.startswith("Turn") for kind in kinds].index(True) == len(kinds) - 1
    streamed: dict[tuple[int, int, str], str] = {}
    finals = set()
    for event in events:
        if isinstance(event, TextDelta):
            place = (event.item, event.content, event.track)
            assert place not in finals
            streamed[place] = streamed.get(place, "") + event.text
        elif isinstance(event, BlockFinal):
            finals.add((event.item, event.content, event.track))
    assert {place for place in streamed if place[2] != "tool_input"} <= finals
