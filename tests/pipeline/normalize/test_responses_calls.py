"""Calls: when they start, whose word on their input counts, and how they end."""

from typing import Any

import pytest

from pipeline.events import ToolFinished, ToolStarted
from tests.pipeline.normalize.streams import (
    CREATED,
    added,
    arguments,
    body,
    call,
    completed,
    defects,
    done,
    read,
    run,
    statuses,
    up,
)

STARTED = "t+ 0 c1 f function"


def input_done(text: str, **members: Any) -> dict[str, Any]:
    return up("function_call_arguments.done", item_id="f1", arguments=text, **members)


def test_a_call_is_finished_at_its_items_done_and_not_before() -> None:
    assert read(added(call()), arguments('{"a":'), arguments("1}"), input_done('{"a":1}'), completed(call())) == [
        STARTED,
        "d 0.0 tool_input '{\"a\":'",
        "d 0.0 tool_input '1}'",
        "t- 0 c1 completed '{\"a\":1}'",
        "done completed",
    ]
    events = run(body(added(call()), arguments("{}"), input_done("{}"), done(call("f1", "c1", "{}")), completed()))
    (status,) = statuses(events, "input_finished")
    assert status.wire == {"type": "response.function_call_arguments.done", "item_id": "f1", "arguments": "{}"}


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([added(call()), arguments("[1]"), input_done("[2]"), done(call("f1", "c1", "[3]"))], "[3]"),
        ([added(call()), arguments("[1]"), input_done("[2]"), done(call("f1", "c1", ""))], "[2]"),
        ([added(call()), arguments("[1]"), input_done(""), done(call("f1", "c1", ""))], "[1]"),
        ([added(call("f1", "c1", "[0]")), done(call("f1", "c1", ""))], "[0]"),
        ([added(call()), arguments("[1]"), input_done("[2]")], "[2]"),
        ([added(call()), arguments("[1]")], "[1]"),
        ([added(call())], ""),
    ],
)
def test_the_input_is_the_items_else_its_dones_else_the_deltas(frames: list[Any], expected: str) -> None:
    events = run(body(*frames, completed()))
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert (finished.input, finished.status) == (expected, "completed")


def test_input_that_does_not_parse_is_incomplete() -> None:
    assert read(added(call()), arguments('{"a'), done(call("f1", "c1", "")), completed())[2:] == [
        "t- 0 c1 incomplete '{\"a'",
        "done completed",
    ]


def test_input_that_differs_but_for_white_space_is_the_same() -> None:
    assert "s mismatch" not in read(
        added(call()), arguments('{ "a":1 }'), done(call("f1", "c1", '{"a": 1}')), completed()
    )
    assert "s mismatch" in read(added(call()), arguments('{"a":2}'), done(call("f1", "c1", '{"a":1}')), completed())
    assert "s mismatch" in read(added(call()), arguments('{"a'), done(call("f1", "c1", '{"a":1}')), completed())


def test_a_custom_tools_input_is_text() -> None:
    item = {"type": "custom_tool_call", "id": "f1", "call_id": "c1", "name": "patch", "input": ""}
    assert read(
        added(item),
        up("custom_tool_call_input.delta", item_id="f1", delta="*** Begin"),
        up("custom_tool_call_input.done", item_id="f1", input="*** Begin"),
        done(item | {"input": "*** Begin"}),
        completed(),
    ) == [
        "t+ 0 c1 patch custom",
        "d 0.0 tool_input '*** Begin'",
        "t- 0 c1 completed '*** Begin'",
        "done completed",
    ]


def test_code_is_the_interpreters_input_and_its_outputs_are_the_output() -> None:
    item = {"type": "code_interpreter_call", "id": "f1", "code": "", "outputs": None}
    events = run(
        body(
            added(item),
            up("code_interpreter_call_code.delta", item_id="f1", delta="1+1"),
            up("code_interpreter_call_code.done", item_id="f1", code="1+1"),
            done(item | {"code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]}),
            completed(),
        )
    )
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert (finished.input, finished.output) == ("1+1", [{"type": "logs", "logs": "2"}])


def test_input_waits_for_the_calls_name() -> None:
    events = run(body(CREATED, arguments('{"a":'), arguments("1}"), added(call()), arguments(" "), completed()))
    assert [event.wire for event in statuses(events, "held")] == [
        {
            "defects": [
                {"code": "item_unknown", "path": "$.item_id", "expected": "an item that was added", "found": '"f1"'}
            ]
        }
    ]
    assert read(arguments('{"a":'), arguments("1}"), added(call()), completed()) == [
        "s held",
        STARTED,
        "d 0.0 tool_input '{\"a\":1}'",
        "t- 0 c1 completed '{\"a\":1}'",
        "done completed",
    ]


def test_the_name_may_come_with_the_inputs_done_or_with_the_items() -> None:
    assert read(arguments("{}"), input_done("{}", name="f", call_id="c1"), added(call()), completed())[1:3] == [
        STARTED,
        "d 0.0 tool_input '{}'",
    ]
    assert read(arguments("{}"), input_done("{}"), done(call("f1", "c1", "{}")), completed())[2:] == [
        STARTED,
        "d 0.0 tool_input '{}'",
        "t- 0 c1 completed '{}'",
        "done completed",
    ]


def test_a_call_that_nobody_named_still_ends() -> None:
    assert read(arguments("{}", item_id=""), completed())[1:] == [
        "t+ 0 call_0  function",
        "d 0.0 tool_input '{}'",
        "t- 0 call_0 completed '{}'",
        "done completed",
    ]


def test_a_call_keeps_the_call_id_it_started_with() -> None:
    events = run(body(added(call()), done(call("f1", "other", "{}")), completed()))
    (started,) = [event for event in events if isinstance(event, ToolStarted)]
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert started.call_id == finished.call_id == "c1"
    assert ("call_id_changed", "$.item.call_id") in defects(events)


def test_objects_are_inputs_too() -> None:
    item = {"type": "tool_search_call", "id": "s1", "call_id": None, "arguments": {"q": "é"}}
    assert read(added(item | {"arguments": {}}), done(item), completed())[1] == 't- 0 s1 completed \'{"q": "é"}\''


def test_input_that_is_no_text_passes_as_unknown() -> None:
    assert read(added(call()), up("function_call_arguments.delta", item_id="f1", delta={"a": 1}), completed()) == [
        STARTED,
        "s unknown",
        "t- 0 c1 completed ''",
        "done completed",
    ]


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ([completed()], "completed"),
        ([completed(status="incomplete")], "incomplete"),
        ([completed(status="cancelled")], "incomplete"),
        ([completed(status="failed")], "incomplete"),
        ([], "incomplete"),
    ],
)
def test_a_call_without_its_done_ends_as_the_turn_does(end: list[Any], status: str) -> None:
    assert f"t- 0 c1 {status} '{{}}'" in read(added(call()), arguments("{}"), *end)


def test_input_behind_its_final_word_is_ignored_and_told_of() -> None:
    events = run(body(added(call()), arguments("{}"), input_done("{}"), arguments("}"), done(call("f1", "c1", "{}"))))
    (ignored,) = statuses(events, "ignored")
    assert ignored.detail == {
        "event": "response.function_call_arguments.delta", "code": "delta_after_final", "text": "}"
    }  # fmt: skip
    assert [event.input for event in events if isinstance(event, ToolFinished)] == ["{}"]


def test_the_first_final_word_on_an_input_stays() -> None:
    again = [input_done(text) for text in ("[1]", "[1]", "", "[2]")]
    events = run(body(added(call()), arguments("[1]"), *again, completed()))
    assert len(statuses(events, "input_finished")) == 1
    (told,) = statuses(events, "mismatch")
    assert told.detail == {"event": "response.function_call_arguments.done", "track": "tool_input", "chars": 3}
    assert sorted(code for code, _ in defects(events)) == ["input_mismatch", "repeated", "repeated"]
    assert [event.input for event in events if isinstance(event, ToolFinished)] == ["[1]"]


def test_a_name_that_comes_with_a_repeated_final_word_is_taken() -> None:
    events = run(body(added(call(name="")), input_done("{}"), input_done("{}", name="g"), completed()))
    assert [event.name for event in events if isinstance(event, ToolStarted)] == ["g"]
    assert [event.input for event in events if isinstance(event, ToolFinished)] == ["{}"]


def test_an_item_that_contradicts_the_final_word_on_its_input_is_told_of() -> None:
    events = run(body(added(call()), arguments("[1]"), input_done("[2]"), done(call("f1", "c1", "[1]")), completed()))
    assert len(statuses(events, "mismatch")) == 1
    alike = run(body(added(call()), arguments("[1]"), input_done("[1]"), done(call("f1", "c1", "[ 1 ]")), completed()))
    assert statuses(alike, "mismatch") == []
