"""What is told of an upstream that breaks its protocol: each defect once, with where and why; never an exception."""

from typing import Any

import pytest

from pipeline.events import TextDelta
from pipeline.limits import Limits
from tests.pipeline.normalize.streams import (
    CREATED,
    Frame,
    added,
    body,
    call,
    completed,
    defects,
    delta,
    done,
    message,
    run,
    statuses,
    text_done,
    up,
)


def without(frame: Frame, *names: str) -> Frame:
    return {name: value for name, value in frame.items() if name not in names}


LIFECYCLE = [
    (without(CREATED, "response"), ("member_missing", "$.response")),
    (CREATED | {"response": []}, ("member_invalid", "$.response")),
    (CREATED | {"response": {"status": "in_progress"}}, ("member_missing", "$.response.id")),
    (CREATED | {"response": {"id": "", "status": "in_progress"}}, ("member_invalid", "$.response.id")),
    (CREATED | {"response": {"id": "r"}}, ("member_missing", "$.response.status")),
    (CREATED | {"response": {"id": "r", "status": "done"}}, ("status_mismatch", "$.response.status")),
    (CREATED | {"sequence_number": "1"}, ("sequence_invalid", "$.sequence_number")),
    (added(message(), None), ("member_missing", "$.output_index")),
    (added(message()) | {"output_index": None}, ("index_invalid", "$.output_index")),
    (added(message()) | {"output_index": 1.5}, ("index_invalid", "$.output_index")),
    (added(message("")), ("member_invalid", "$.item.id")),
    (added(without(message(), "id")), ("member_missing", "$.item.id")),
    (added(without(message(), "type")), ("member_missing", "$.item.type")),
    (up("output_item.added"), ("member_missing", "$.item")),
    (up("output_item.done", item=5), ("member_invalid", "$.item")),
]
IN_ITEM = [
    (delta("x", None), ("member_missing", "$.output_index")),
    (delta("x", item_id=None), ("member_missing", "$.item_id")),
    (delta("x", content=None), ("member_missing", "$.content_index")),
    (delta("x") | {"content_index": -1}, ("index_invalid", "$.content_index")),
    (without(delta("x"), "delta"), ("member_missing", "$.delta")),
    (delta("x") | {"delta": 5}, ("member_invalid", "$.delta")),
    (delta("x") | {"sequence_number": 1.5}, ("sequence_invalid", "$.sequence_number")),
    (text_done("x") | {"text": None}, ("member_invalid", "$.text")),
    (up("content_part.added", item_id="m1", content_index=0), ("member_missing", "$.part")),
    (up("reasoning_summary_text.delta", item_id="m1", delta="x"), ("member_missing", "$.summary_index")),
    (up("function_call_arguments.done", item_id="m1"), ("member_missing", "$.arguments")),
    (up("custom_tool_call_input.done", item_id="m1", input=1), ("member_invalid", "$.input")),
    (up("web_search_call.searching"), ("member_missing", "$.item_id")),
    (done(message() | {"content": "x"}), ("item_invalid", "$.item.content")),
    (done(message() | {"content": [{"text": "x"}]}), ("item_invalid", "$.item.content[0]")),
    (done({"type": "reasoning", "id": "r", "summary": 5}), ("item_invalid", "$.item.summary")),
    (done({"type": "reasoning", "id": "r", "content": [5]}), ("item_invalid", "$.item.content[0]")),
    (done(call() | {"arguments": {}}), ("item_invalid", "$.item.arguments")),
    (done({"type": "custom_tool_call", "id": "f"}), ("item_invalid", "$.item.input")),
    (completed(status="failed"), ("status_mismatch", "$.response.status")),
    ({"type": "response.completed", "response": {"status": "completed"}}, ("member_missing", "$.response.id")),
]


@pytest.mark.parametrize(("frame", "expected"), LIFECYCLE)
def test_a_lifecycle_events_defects_are_told(frame: Frame, expected: tuple[str, str]) -> None:
    assert expected in defects(run(body(frame, completed())))


@pytest.mark.parametrize(("frame", "expected"), IN_ITEM)
def test_an_item_events_defects_are_told(frame: Frame, expected: tuple[str, str]) -> None:
    events = run(body(CREATED, added(message()), delta("Hi"), frame, completed()))
    assert expected in defects(events)


def test_a_terminal_that_says_completed_of_an_incomplete_response_is_read_as_incomplete() -> None:
    assert ("status_mismatch", "$.response.status") not in defects(run(body(completed(status="incomplete"))))


def test_a_defect_is_told_once_for_a_type_of_event() -> None:
    events = run(body(added(message()), *[delta("x", None) for _ in range(5)], completed()))
    assert [bool(e.wire and "defects" in e.wire) for e in events if isinstance(e, TextDelta)] == [True, *[False] * 4]


def test_a_defect_says_what_was_expected_and_found() -> None:
    events = run(body(added(message()) | {"output_index": "0"}, completed()))
    assert (statuses(events, "item_started")[0].wire or {})["defects"] == [
        {
            "code": "index_invalid",
            "path": "$.output_index",
            "expected": "an unsigned 32-bit integer",
            "found": '"0"',
        }
    ]


def test_an_upstreams_own_member_of_that_name_is_no_defect() -> None:
    (told,) = statuses(run(body(CREATED | {"defects": ["x"]}, completed())), "upstream_started")
    assert told.wire == CREATED | {"upstream_defects": ["x"]}
    frames = [added(message()), delta("a"), delta("b") | {"defects": ["x"]}, completed()]
    assert [e.wire for e in run(body(*frames)) if isinstance(e, TextDelta)][1] == {
        "type": "response.output_text.delta",
        "item_id": "m1",
        "upstream_defects": ["x"],
    }


@pytest.mark.parametrize("frame", ["{", "[]", "null", "5", '"text"', "{'a': 1}", "data: {}", "[" * 3000])
def test_a_malformed_frame_is_told_and_passed_over(frame: str) -> None:
    events = run(body(added(message()), delta("a"), frame, delta("b"), completed()))
    (told,) = statuses(events, "malformed")
    assert told.detail["code"] == "frame_malformed"
    assert told.wire == {"defects": [told.detail]}
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["a", "b"]


def test_nesting_past_the_bound_is_malformed() -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    events = run(body(up("brand_new", None, deep=deep), completed()), Limits(json_depth=128))
    assert len(statuses(events, "malformed")) == 1
    wide = up("brand_new", None, wide=[[n] for n in range(500)])
    assert len(statuses(run(body(wide, completed())), "unknown")) == 1


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'"delta":"a\xffb"', "a\ufffdb"),
        (b'"delta":"a\\ud83d"', "a\ufffd"),
        (b'"delta":"\\ud83db\\ude00\\ud83d\\ud83d\\ude00"', "\ufffdb\ufffd\ufffd\U0001f600"),
        (b'"delta":"a","logprobs":[-Infinity,NaN]', "a"),
    ],
)
def test_json_with_a_habit_is_read_and_told(line: bytes, text: str) -> None:
    frame = (
        b'data: {"type":"response.output_text.delta","output_index":0,"item_id":"m1","content_index":0,'
        + line
        + b"}\n\n"
    )
    events = run(body(added(message())) + frame + body(completed()))
    (told,) = [event for event in events if isinstance(event, TextDelta)]
    assert told.text == text
    assert ("frame_malformed", "$") in defects(events)


def test_the_events_name_stands_in_for_a_missing_type() -> None:
    nameless = b'event: response.output_item.added\ndata: {"output_index":0,"item":{"type":"message","id":"m1"}}\n\n'
    events = run(nameless + body(delta("Hi"), completed()))
    (told,) = statuses(events, "item_started")
    assert told.wire is not None
    assert told.wire["type"] == "response.output_item.added"
    assert ("type_missing", "$.type") in defects(events)


@pytest.mark.parametrize("frame", [{"what": 1}, {"type": 5}, {"type": ""}, {"type": None}])
def test_a_frame_without_any_type_is_unknown(frame: Frame) -> None:
    events = run(b"data: " + body(frame).split(b"data: ", 1)[1])
    assert len(statuses(events, "unknown")) == 1
    assert ("type_missing", "$.type") in defects(events)


def test_depth_is_bounded_in_a_frame_with_a_habit_too() -> None:
    nested = "[" * 200 + "]" * 200
    for habit in ('"\\ud83d"', "NaN"):
        events = run(body(f'{{"type": "response.brand_new", "a": {habit}, "b": {nested}}}', completed()))
        assert defects(events)[0] == ("frame_malformed", "$")
        assert not any("b" in (getattr(event, "wire", None) or {}) for event in events)
