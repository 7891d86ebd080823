"""Calls of the client's own: functions, custom ones, and those that have no name yet."""

import pytest

from pipeline.errors import WireError
from pipeline.events import TurnCancelled
from tests.pipeline.staged import Stage, told
from tests.pipeline.streams import TURN, Json, accumulate, call, data_of, message, opening, response, run
from tests.pipeline.test_turn_properties import check_public


def pushed(stage: Stage) -> Stage:
    """What a client reads must be whole, whoever told it."""
    check_public(stage.frames)
    return stage


def waits(stage: Stage) -> bool:
    return stage.turn.waits_for_tools


# -- custom


def custom(pieces: list[str], arguments: str | None = None) -> list[Json]:
    events, item = call(0, pieces, "patch")
    if arguments is not None:
        item["arguments"] = arguments
        events[-2]["arguments"] = arguments
    return events


def test_a_custom_call_streams_its_free_text() -> None:
    stage = Stage({"patch": "custom"})
    stage.open()
    frames = stage.upstream(*custom(["{}", '{"inp', 'ut": "a\\', "nb\\u00", 'e9"', "}"], '{"input": "a\\nb\\u00e9"}'))
    assert [frame["type"].removeprefix("response.") for frame in frames] == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
    ]
    added, *deltas, done, ended = frames
    assert added["item"] == {
        "type": "custom_tool_call",
        "id": "ctc_0",
        "call_id": "call_0",
        "name": "patch",
        "input": "",
        "status": "in_progress",
    }
    assert [delta["delta"] for delta in deltas] == ["a", "\nb", "é"]
    assert (done["input"], "arguments" in done, done["item_id"]) == ("a\nbé", False, "ctc_0")
    assert ended["item"] == {**added["item"], "input": "a\nbé", "status": "completed"}
    stage.complete()
    made = accumulate(pushed(stage).frames)
    assert (made.output[0].type, made.output[0].input) == ("custom_tool_call", "a\nbé")


def test_what_no_delta_told_comes_before_the_whole() -> None:
    stage = Stage({"patch": "custom"})
    stage.open()
    events = custom(['{"input": "a'], '{"input": "abc"}')
    deltas = [frame["delta"] for frame in stage.upstream(*events) if frame["type"].endswith(".delta")]
    assert deltas == ["a", "bc"]


def test_a_custom_call_that_comes_whole_is_one_delta() -> None:
    stage = Stage({"patch": "custom"})
    stage.open()
    events = custom([], '{"input": "abc"}')
    frames = stage.upstream(events[0], events[-1])
    assert told(frames) == [
        "output_item.added 0",
        "custom_tool_call_input.delta 0",
        "custom_tool_call_input.done 0",
        "output_item.done 0",
    ]


def test_a_custom_call_cut_off_keeps_what_it_had() -> None:
    stage = Stage({"patch": "custom"})
    stage.open()
    stage.upstream(*custom(['{"input": "ab'])[:2])
    stage.push(TurnCancelled(seq=9, at=0, reason="client"), "fold")
    item = data_of(pushed(stage).frames)[-1]["response"]["output"][0]
    assert (item["type"], item["input"], item["status"]) == ("custom_tool_call", "ab", "incomplete")


def test_an_input_that_contradicts_its_deltas_is_refused_in_strict_and_told_whole_in_lenient() -> None:
    events = custom(['{"input": "abc"}'], '{"input": "xyz"}')
    stage = Stage({"patch": "custom"})
    stage.open()
    frames = stage.upstream(*events)
    assert [frame.get("delta", frame.get("input")) for frame in frames[1:-1]] == ["abc", "xyz"]
    assert frames[-1]["item"]["input"] == "xyz"
    strict = Stage({"patch": "custom"}, strict=True)
    strict.open()
    with pytest.raises(WireError) as refused:
        strict.upstream(*events)
    assert refused.value.diagnostic.code == "input_mismatch"


def test_ids_that_are_no_functions_or_taken_make_ids_of_their_own() -> None:
    stage = Stage({"patch": "custom"})
    stage.open()
    events = custom(["{}"])
    for event in events:
        if "item_id" in event:
            event["item_id"] = ""
        if "item" in event:
            event["item"] = {**event["item"], "id": None}
    assert stage.upstream(*events)[0]["item"]["id"] == f"ctc_{TURN}_0"


@pytest.mark.parametrize("shape", ["function", "hologram", "custom"])
def test_a_call_of_another_name_or_without_a_shape_is_the_clients_own(shape: str) -> None:
    name = "look_up" if shape == "custom" else "patch"
    stage = Stage({"patch": shape})
    assert stage.open() + stage.upstream(*call(0, ["{}"], name)[0]) == data_of(
        run([*opening(), *call(0, ["{}"], name)[0]]).frames[:6]
    )


# -- declarations


def test_response_objects_show_what_the_client_declared() -> None:
    functions: list[Json] = [{"type": "function", "name": name, "parameters": {}} for name in ("patch", "find", "own")]
    declared = [{"type": "custom", "name": "patch"}, {"type": "web_search"}, {"type": "function", "name": "own"}]
    choice = {"type": "function", "name": "patch"}
    stage = Stage({"patch": "custom", "find": "web_search"}, response={"tools": declared, "metadata": {"a": "b"}})
    shown = {**response(), "tools": functions, "tool_choice": choice}
    frames = stage.upstream({"type": "response.created", "response": shown})
    assert frames[0]["response"]["tools"] == [declared[0], declared[1], functions[2]]
    assert frames[0]["response"]["tool_choice"] == {"type": "custom", "name": "patch"}
    end = {"type": "response.completed", "response": {**shown, "status": "completed"}}
    assert stage.upstream(end)[-1]["response"]["tools"] == [declared[0], declared[1], functions[2]]


# -- calls without a name


def unnamed(index: int, pieces: list[str], *, at: str) -> list[Json]:
    """A call whose start has no name; it comes with the event `at`."""
    events, _ = call(index, pieces, "look_up")
    for event in events:
        if "item" in event:
            event["item"] = {**event["item"], "name": "look_up" if event["type"].endswith(f"item.{at}") else None}
    if at == "arguments":
        events[-2]["name"] = "look_up"
    return events


@pytest.mark.parametrize("at", ["arguments", "done"])
def test_a_call_waits_for_its_name_and_what_is_behind_it_too(at: str) -> None:
    stage = Stage({})
    stage.open()
    events = unnamed(0, ['{"a"', ":1}"], at=at)
    behind = message(1, ["behind"])[0]
    assert stage.upstream(*events[:3], *behind) == []
    frames = stage.upstream(*events[3:])
    words = told(frames)
    assert words[: len(behind) + 1] == ["output_item.added 0", *told(behind)]
    assert words[len(behind) + 1 :] == [
        "function_call_arguments.delta 0",
        "function_call_arguments.done 0",
        "output_item.done 0",
    ]
    assert (frames[0]["item"]["name"], frames[-1]["item"]["name"]) == ("look_up", "look_up")
    stage.complete()
    pushed(stage)


def test_a_name_may_come_with_a_second_start() -> None:
    stage = Stage({})
    stage.open()
    events = unnamed(0, ["{}"], at="arguments")
    assert stage.upstream(events[0], events[0]) == []
    assert told(stage.upstream(*call(0, ["{}"])[0])) == [
        "output_item.added 0",
        "function_call_arguments.delta 0",
        "function_call_arguments.done 0",
        "output_item.done 0",
    ]


def test_a_call_may_turn_out_to_be_the_gateways() -> None:
    stage = Stage({"look_up": "mcp"})
    stage.open()
    assert stage.upstream(*unnamed(0, ["{}"], at="done"), *message(1, ["behind"])[0]) == []
    assert told(stage.tool_finished("call_0", "ok"))[-1] == "output_item.done 1"


@pytest.mark.parametrize("end", ["completed", "cancelled"])
def test_a_call_that_never_gets_a_name_is_told_without_one_at_the_end(end: str) -> None:
    stage = Stage({})
    stage.open()
    stage.upstream(*unnamed(0, ['{"a":1}'], at="")[:2], *message(1, ["behind"])[0])
    if end == "completed":
        stage.complete()
    else:
        stage.push(TurnCancelled(seq=99, at=0, reason="client"), "fold")
    output = data_of(pushed(stage).frames)[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["function_call", "message"]
    assert output[0]["name"] == ""


def test_a_turn_that_stands_still_shows_no_call_without_a_name() -> None:
    stage = Stage({})
    stage.open()
    stage.upstream(*unnamed(0, ["{}"], at="")[:1], *message(1, ["behind"])[0])
    assert [item["type"] for item in stage.turn.finish().response["output"]] == ["message"]


@pytest.mark.parametrize("routes", [{}, {"look_up": "custom"}])
def test_a_call_id_that_changes_stays_the_first_one(routes: dict[str, str]) -> None:
    """Clients answer the call under the id that they saw first."""
    events, item = call(0, ['{"input": "a"}'])
    events[-1] = {**events[-1], "item": {**item, "call_id": "second"}}
    stage = Stage(routes)
    stage.open()
    stage.upstream(*events)
    stage.complete([{**item, "call_id": "third"}])
    check_public(stage.frames)
    shown = [frame["item"]["call_id"] for frame in data_of(stage.frames) if "item" in frame]
    assert shown == ["call_0", "call_0"]
    assert stage.turn.finish().response["output"][0]["call_id"] == "call_0"
