"""How a turn ends: one terminal, whatever the upstream said, after everything that was open."""

from typing import Any

import pytest

from pipeline.errors import MisuseError
from pipeline.events import ErrorInfo, TurnCancelled, TurnCompleted, TurnFailed
from pipeline.limits import Limits
from pipeline.normalize.responses import ResponsesAdapter
from pipeline.normalize.stamp import Stamp
from tests.pipeline.normalize.streams import (
    CREATED,
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
    up,
)

TEXT = [added(message()), delta("Hi")]
SEEN = ["s item_started", "d 0.0 text 'Hi'", "f 0.0 text 'Hi'"]


def failed(**error: Any) -> Frame:
    return {"type": "response.failed", "response": {"id": "r1", "status": "failed", "error": error or None}}


def last(*frames: Frame | str) -> Any:
    return run(body(*frames))[-1]


def test_the_terminal_carries_usage_details_and_the_upstreams_response() -> None:
    frame = completed(usage={"total_tokens": 3}, model="m")
    told = last(*TEXT, frame | {"sequence_number": 9})
    assert isinstance(told, TurnCompleted)
    assert told.usage == {"total_tokens": 3}
    assert told.wire == frame


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        (completed(), "done completed"),
        (completed() | {"type": "response.done"}, "done completed"),
        (completed(status=None), "done completed"),
        ({"type": "response.completed"}, "done completed"),
        ({"type": "response.completed", "response": 5}, "done completed"),
        (completed(status="incomplete", incomplete_details={"reason": "x"}), "done incomplete x"),
        (completed(incomplete_details=[]) | {"type": "response.incomplete"}, "done incomplete"),
        (completed(status="cancelled"), "cancelled"),
        ({"type": "response.cancelled", "response": {"status": "cancelled"}}, "cancelled"),
        (completed(status="failed"), "fail upstream_error"),
        (failed(), "fail upstream_error"),
        (failed(code="server_error", message="m"), "fail server_error"),
        (completed(usage=[1]), "done completed"),
    ],
)
def test_every_terminal_ends_the_turn_after_what_was_open(frame: Frame, line: str) -> None:
    assert read(*TEXT, frame) == [*SEEN, line]


def test_the_type_of_a_terminal_follows_its_status() -> None:
    assert last(completed(status="incomplete")).wire["type"] == "response.incomplete"
    assert last(completed() | {"type": "response.done"}).wire["type"] == "response.completed"
    assert isinstance(last(completed(status="cancelled")), TurnCancelled)


ERROR = {"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "slow", "param": "p"}}


@pytest.mark.parametrize(
    "end", [[], ["[DONE]"], [completed()], [failed(code="rate_limit_exceeded", message="slow")], [failed()], [ERROR]]
)
def test_an_error_event_waits_and_gives_one_terminal(end: list[Any]) -> None:
    told = last(*TEXT, ERROR | {"sequence_number": 3}, *end)
    assert isinstance(told, TurnFailed)
    assert told.error == ErrorInfo(code="rate_limit_exceeded", message="slow", type="tokens", param="p")
    assert told.wire is not None
    assert told.wire["error_event"] == ERROR
    assert read(*TEXT, ERROR, delta("!"), *end)[2] == "d 0.0 text '!'"


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        ({"type": "error", "code": "c", "message": "m", "param": None}, ErrorInfo(code="c", message="m")),
        ({"type": "error", "message": "m"}, ErrorInfo(code="upstream_error", message="m")),
        ({"type": "error"}, ErrorInfo(code="upstream_error")),
        ({"type": "error", "error": "overloaded"}, ErrorInfo(code="upstream_error", message="overloaded")),
        ({"error": {"message": "m", "code": 429}}, ErrorInfo(code="429", message="m")),
        ({"type": "error", "error": {"type": "t"}}, ErrorInfo(code="t", type="t")),
    ],
)
def test_an_error_is_read_in_any_form(frame: Frame, error: ErrorInfo) -> None:
    assert last(frame).error == error


def test_the_responses_error_is_completed_by_the_event() -> None:
    told = last(ERROR, failed(code="other", message=""))
    assert told.error == ErrorInfo(code="other", message="slow", type="tokens", param="p")


@pytest.mark.parametrize("end", [[], ["[DONE]"]])
def test_a_stream_without_a_terminal_is_cut_short(end: list[Any]) -> None:
    assert read(*TEXT, *end) == [*SEEN, "fail upstream_truncated"]
    assert ("terminal_missing", "$") in defects(run(body(*TEXT, *end)))


def test_nothing_at_all_is_cut_short_too() -> None:
    assert read() == ["fail upstream_truncated"]
    assert [event.error.code for event in run(b": ping\n\n") if isinstance(event, TurnFailed)] == ["upstream_truncated"]


@pytest.mark.parametrize(
    ("tail", "code", "message"),
    [
        (b'error: {"code": 500, "message": "boom"}\n', "500", "boom"),
        (b'{\n  "error": {\n    "code": 503,\n    "message": "overloaded"\n  }\n}\n', "503", "overloaded"),
        (b'{"error": {"status": "UNAVAILABLE", "message": "later"}}', "UNAVAILABLE", "later"),
        (b"garbage\n", "upstream_truncated", "the upstream's stream ended without a terminal event"),
    ],
)
def test_lines_that_are_no_events_tell_why_a_stream_was_cut(tail: bytes, code: str, message: str) -> None:
    told = run(body(*TEXT) + tail)[-1]
    assert isinstance(told, TurnFailed)
    assert (told.error.code, told.error.message) == (code, message)


def test_after_the_terminal_nothing_is_told_and_what_came_is_counted() -> None:
    adapter = ResponsesAdapter(stamp=Stamp())
    events = adapter.feed(body(*TEXT, completed()))
    assert adapter.ended
    assert isinstance(events[-1], TurnCompleted)
    assert adapter.feed(body(delta("late"), completed()) + b": comment\n\ndata:\n\n") == []
    assert adapter.late == 2
    assert adapter.feed(body("[DONE]", delta("later"))) == []
    assert adapter.close() == []
    assert adapter.late == 2


def test_after_done_nothing_is_read() -> None:
    assert read(*TEXT, "[DONE]", completed()) == [*SEEN, "fail upstream_truncated"]
    assert read(*TEXT, " [DONE]", "", "  ", completed()) == [*SEEN, "done completed"]


def test_an_adapter_is_closed_once() -> None:
    adapter = ResponsesAdapter(stamp=Stamp())
    adapter.close()
    with pytest.raises(MisuseError):
        adapter.close()
    with pytest.raises(MisuseError):
        adapter.feed(b"x")


def test_items_that_stand_in_the_terminal_alone_are_told_first() -> None:
    events = run(body(CREATED, completed(message("m1", "Hi"), call("f1", "c1", "{}"))))
    assert [type(event).__name__ for event in events] == [
        "Status",
        "Status",
        "TextDelta",
        "BlockFinal",
        "Status",
        "ToolStarted",
        "ToolFinished",
        "TurnCompleted",
    ]
    finished: Any = events[6]
    assert finished.wire == {"item": call("f1", "c1", "{}")}


def test_the_terminals_items_are_matched_by_id_call_id_place_or_kind() -> None:
    assert read(added(message("a")), delta("A"), added(message("b"), 1), delta("B", 1), completed(message("b", "B"), message("a", "A"))) == [
        "s item_started",
        "d 0.0 text 'A'",
        "s item_started",
        "d 1.0 text 'B'",
        "f 1.0 text 'B'",
        "f 0.0 text 'A'",
        "done completed",
    ]  # fmt: skip
    assert read(*TEXT, completed({"type": "reasoning", "id": "new"}, message("new2", "Hi"))) == [
        "s item_started",
        "d 0.0 text 'Hi'",
        "s item_started",
        "f 0.0 text 'Hi'",
        "done completed",
    ]
    assert read(added(call("f1", "c1")), added(call("f2", "c2"), 1), completed(call("", "c2", "[2]"), call("", "c1", "[1]"))) == [
        "t+ 0 c1 f function",
        "t+ 1 c2 f function",
        "t- 1 c2 completed '[2]'",
        "t- 0 c1 completed '[1]'",
        "done completed",
    ]  # fmt: skip
    assert read(*TEXT, done(message("m1", "Hi")), completed("text", None, message("x", "Hi")))[-1] == "done completed"  # type: ignore[arg-type]  # none is meant


def test_an_item_of_the_terminal_takes_its_place_where_that_is_free() -> None:
    assert read(added(message("a"), 1), delta("A", 1, "a"), completed(message("z", "Z"), message("a", "A")))[2:] == [
        "s item_started",
        "d 0.0 text 'Z'",
        "f 0.0 text 'Z'",
        "f 1.0 text 'A'",
        "done completed",
    ]


@pytest.mark.parametrize(
    ("limits", "frames"),
    [
        ({"sse_line_bytes": 300}, [*TEXT, delta("x" * 400)]),
        ({"sse_event_bytes": 300}, [*TEXT, delta("x" * 400)]),
        ({"item_text_chars": 5}, [*TEXT, delta("Hi"), delta("Hi")]),
        ({"turn_text_chars": 5}, [*TEXT, delta("Hi", content=1), delta("Hi", content=2)]),
        ({"turn_items": 1}, [*TEXT, added(message("b"), 1)]),
        ({"item_contents": 2}, [*TEXT, delta("a", content=1), delta("b", content=2)]),
        ({"held_input_chars": 3}, [*TEXT, arguments("[1]", 1), arguments("[2]", 1)]),
    ],
)
def test_an_exceeded_bound_fails_the_turn_by_its_name_and_keeps_what_was_there(
    limits: dict[str, int], frames: list[Any]
) -> None:
    data = body(*frames, completed())
    for cuts in ((), range(len(data))):
        events = run(data, Limits(**limits), cuts)
        told = events[-1]
        assert isinstance(told, TurnFailed)
        assert [told.error.code] == list(limits)
        assert any(getattr(event, "text", "") == "Hi" for event in events)


def test_a_part_counter_is_bounded() -> None:
    parts = [up("content_part.added", item_id="m1", content_index=n, part={"type": "output_text"}) for n in range(4)]
    assert read(added(message()), *parts, completed(), limits=Limits(item_contents=3))[-1] == "fail item_contents"
