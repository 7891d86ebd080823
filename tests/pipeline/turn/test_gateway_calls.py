"""Calls that the gateway answers: hidden, shown as their tools, and what waits for them."""

import json
from typing import Any

import pytest

from pipeline.events import ErrorInfo, TurnCancelled, TurnFailed
from tests.pipeline.staged import Stage, started, told
from tests.pipeline.streams import TURN, Json, call, data_of, message
from tests.pipeline.test_turn_properties import check_public


def pushed(stage: Stage) -> Stage:
    """What a client reads must be whole, whoever told it."""
    check_public(stage.frames)
    return stage


def waits(stage: Stage) -> bool:
    return stage.turn.waits_for_tools


# -- the gateway's own


SEARCH = {"find": "web_search"}


def test_a_gateway_call_is_hidden_and_shown_as_its_tool() -> None:
    stage = Stage(SEARCH)
    stage.open()
    assert stage.upstream(*call(0, ['{"query": "weather"}'], "find")[0]) == []
    assert waits(stage)
    begun = stage.tool_started("call_0", name="find", kind="web_search")
    assert told(begun) == ["output_item.added 0", "web_search_call.in_progress 0", "web_search_call.searching 0"]
    assert begun[0]["item"] == {"type": "web_search_call", "id": "ws_0", "status": "in_progress"}
    ended = stage.tool_finished("call_0", [{"url": "https://a.example"}])
    assert told(ended) == ["web_search_call.completed 0", "output_item.done 0"]
    action = {"type": "search", "query": "weather", "sources": [{"type": "url", "url": "https://a.example"}]}
    assert ended[1]["item"] == {"type": "web_search_call", "id": "ws_0", "status": "completed", "action": action}
    assert not waits(stage)
    stage.complete()
    assert data_of(pushed(stage).frames)[-1]["response"]["output"] == [ended[1]["item"]]


LIFECYCLES = [
    (
        "mcp:docs",
        '{"q": 1}',
        [{"type": "text", "text": "found"}],
        ["added", "in_progress", "arguments.delta", "arguments.done", "completed", "done"],
        {"name": "t", "server_label": "docs", "arguments": '{"q": 1}', "output": "found", "error": None},
    ),
    (
        "web_fetch",
        '{"url": "https://a.example"}',
        "a page",
        ["added", "in_progress", "searching", "completed", "done"],
        {"action": {"type": "open_page", "url": "https://a.example"}},
    ),
    (
        "file_search",
        '{"query": "tax"}',
        [{"file_id": "f"}],
        ["added", "in_progress", "searching", "completed", "done"],
        {"queries": ["tax"], "results": [{"file_id": "f"}]},
    ),
    (
        "code_interpreter",
        '{"code": "print(1)"}',
        "1",
        ["added", "in_progress", "code.delta", "code.done", "interpreting", "completed", "done"],
        {"code": "print(1)", "outputs": [{"type": "logs", "logs": "1"}], "container_id": ""},
    ),
]


@pytest.mark.parametrize(
    ("shape", "arguments", "output", "words", "members"), LIFECYCLES, ids=lambda one: str(one)[:16]
)
@pytest.mark.parametrize("known", ["before", "after"])
def test_the_lifecycle_of_each_shape(
    shape: str, arguments: str, output: Any, words: list[str], members: Json, known: str
) -> None:
    stage = Stage({"t": shape})
    stage.open()
    events = call(0, [arguments], "t")[0]
    if known == "before":
        stage.upstream(*events)
        stage.tool_started("call_0")
    else:
        stage.upstream(events[0])
        stage.tool_started("call_0")
        stage.upstream(*events[1:])
    stage.tool_finished("call_0", output)
    frames = [frame for frame in data_of(stage.frames) if "output_index" in frame]
    assert [frame["type"].rpartition(".")[2] for frame in frames] == [word.rpartition(".")[2] for word in words]
    item = frames[-1]["item"]
    assert {name: item[name] for name in members} == members
    stage.complete()
    pushed(stage)


def test_an_answer_of_a_failed_tool_and_of_one_that_never_told_its_start() -> None:
    stage = Stage({"t": "mcp"})
    stage.open()
    stage.upstream(*call(0, ["{}"], "t")[0])
    frames = stage.tool_finished("call_0", "no such page", status="failed", text='{"a":1}')
    assert told(frames) == [
        "output_item.added 0",
        "mcp_call.in_progress 0",
        "mcp_call_arguments.delta 0",
        "mcp_call_arguments.done 0",
        "mcp_call.failed 0",
        "output_item.done 0",
    ]
    item = frames[-1]["item"]
    assert (item["status"], item["error"], item["output"], item["arguments"]) == (
        "failed",
        "no such page",
        None,
        '{"a":1}',
    )
    assert stage.tool_started("call_0") == stage.tool_finished("call_0", "again") == []
    stage.complete()
    pushed(stage)


def test_what_comes_behind_a_gateway_call_waits_for_it_and_comes_in_one_order() -> None:
    stage = Stage({"t": "mcp"})
    stage.open()
    first = message(0, ["before"])[0]
    assert len(stage.upstream(*first)) == len(first)
    stage.upstream(*call(1, ["{}"], "t")[0])
    late, text = call(3, ["{}"], "own")[0], message(2, ["behind"])[0]
    assert stage.upstream(text[0], *late[:2], {"type": "keepalive"}, *text[1:], *late[2:]) == []
    assert told(stage.tool_started("call_1")) == [
        "output_item.added 1",
        "mcp_call.in_progress 1",
        "mcp_call_arguments.delta 1",
        "mcp_call_arguments.done 1",
    ]
    assert "behind" in "".join(
        block.text for block in stage.blocks
    )  # a reader of messages need not wait for the answer
    released = stage.tool_finished("call_1", "ok")
    assert told(released) == [
        "mcp_call.completed 1",
        "output_item.done 1",
        *told([{**event, "output_index": 2} for event in text]),
        *told([{**event, "output_index": 3} for event in late]),
        "keepalive",
    ]
    assert told(stage.upstream(*message(4, ["on"])[0]))[0] == "output_item.added 4"
    stage.complete()
    pushed(stage)


def test_calls_side_by_side_start_together_and_end_in_order() -> None:
    stage = Stage({"t": "mcp", "find": "web_search"})
    stage.open()
    stage.upstream(
        *call(0, ["{}"], "t")[0], *call(1, ["{}"], "find")[0], *message(2, ["x"])[0], *call(3, ["{}"], "t")[0]
    )
    assert stage.tool_started("call_1", item=1) == []  # the one before it was not told yet
    assert told(stage.tool_started("call_0")) == [
        "output_item.added 0",
        "mcp_call.in_progress 0",
        "mcp_call_arguments.delta 0",
        "mcp_call_arguments.done 0",
        "output_item.added 1",
        "web_search_call.in_progress 1",
        "web_search_call.searching 1",
    ]
    assert stage.tool_started("call_3", item=3) == []  # a message lies between
    assert stage.tool_finished("call_1", "ok", item=1) == []
    frames = told(stage.tool_finished("call_0", "ok"))
    assert frames[:4] == [
        "mcp_call.completed 0",
        "output_item.done 0",
        "web_search_call.completed 1",
        "output_item.done 1",
    ]
    assert frames[4] == "output_item.added 2"
    assert frames[10:] == [
        "output_item.added 3",
        "mcp_call.in_progress 3",
        "mcp_call_arguments.delta 3",
        "mcp_call_arguments.done 3",
    ]
    stage.tool_finished("call_3", "ok", item=3)
    stage.complete()
    pushed(stage)


def test_calls_that_share_an_id_are_told_apart_by_their_items() -> None:
    stage = Stage({"t": "mcp"})
    stage.open()
    stage.upstream(*call(0, ["{}"], "t", "same")[0], *call(1, ["{}"], "t", "same")[0])
    stage.tool_finished("same", "second", item=1)
    stage.tool_finished("same", "first", item=7)
    stage.complete()
    output = data_of(pushed(stage).frames)[-1]["response"]["output"]
    assert [item["output"] for item in output] == ["first", "second"]


def test_progress_of_a_tool_is_told_in_its_kinds_words() -> None:
    stage = Stage(SEARCH)
    stage.open()
    stage.upstream(*call(0, ["{}"], "find")[0])
    stage.tool_status("searching", 0)
    stage.tool_started("call_0")
    assert stage.tool_status("in_progress", 0) == []  # told by its start
    aside = {"type": "foldline.note", "text": "half way"}
    assert told(stage.tool_status("note", None, wire=aside)) == ["foldline.note"]
    assert stage.tool_status("note", 0) == []
    stage.tool_finished("call_0", [])
    stage.complete()
    pushed(stage)


def test_how_a_call_ends_is_its_answers_to_say() -> None:
    stage = Stage({"t": "mcp", "i": "file_search"})
    stage.open()
    stage.upstream(*call(0, ["{}"], "t")[0])
    assert stage.tool_status("failed", 0) == []
    stage.tool_finished("call_0")
    stage.complete()
    pushed(stage)


@pytest.mark.parametrize(("begun", "status"), [(True, "incomplete"), (False, "incomplete"), (True, "failed")])
def test_a_call_that_nobody_answers_ends_with_the_turn(begun: bool, status: str) -> None:
    stage = Stage({"t": "mcp"})
    stage.open()
    stage.upstream(*call(0, ["{}"], "t")[0], *message(1, ["kept"])[0])
    if begun:
        stage.tool_started("call_0")
    if status == "failed":
        error = ErrorInfo(code="tool_missing", message="a tool of this turn never answered")
        stage.push(TurnFailed(seq=0, at=0, error=error), "fold")
    else:
        stage.complete()
    last = data_of(pushed(stage).frames)[-1]["response"]
    assert [item["status"] for item in last["output"]] == [status, "completed"]
    assert not waits(stage)
    words = told(data_of(stage.frames))
    assert ("mcp_call.failed 0" in words) == (status == "failed")
    assert "mcp_call.completed 0" not in words


def test_a_turn_cut_off_within_a_gateway_call_is_whole() -> None:
    stage = Stage({"t": "mcp"})
    stage.open()
    stage.upstream(*call(0, ['{"a": '], "t")[0][:2])
    stage.push(TurnCancelled(seq=9, at=0, reason="client"), "fold")
    assert data_of(pushed(stage).frames)[-1]["response"]["output"][0]["type"] == "mcp_call"


def test_a_child_answers_the_call_that_it_was_submitted_for() -> None:
    stage = Stage({"delegate": "mcp:team"})
    stage.open()
    stage.upstream(*call(0, ['{"task": "x"}'], "delegate")[0], *call(1, ["{}"], "own")[0])
    wire = {"type": "foldline.child.started", "child": {"turn": "c"}}
    assert told(stage.tool_status("child_started", None, wire=wire, by="child:c")) == ["foldline.child.started"]
    answer = {"turn": "c", "state": "completed", "text": "done"}
    assert stage.tool_finished("call_1", answer, by="child:d") == []  # the client's own call is the client's to answer
    frames = stage.tool_finished("call_0", answer, item=2**53 - 1, by="child:c")
    item = next(frame["item"] for frame in frames if frame["type"] == "response.output_item.done")
    assert (item["server_label"], json.loads(item["output"])) == ("team", answer)
    stage.complete()
    pushed(stage)


def test_a_tool_that_ran_without_the_model_is_shown_where_it_stands() -> None:
    stage = Stage({})
    stage.open()
    listed = stage.tool_started("list", name="docs", kind="mcp_list_tools")
    assert told(listed) == ["output_item.added 0", "mcp_list_tools.in_progress 0"]
    assert listed[0]["item"]["id"] == f"mcpl_{TURN}_tool_1"
    stage.upstream(*message(0, ["meanwhile"])[0], *call(1, ["{}"], "own")[0])
    done = stage.tool_finished("list", [{"name": "find"}])
    assert (done[-1]["item"]["tools"], done[-1]["item"]["server_label"]) == ([{"name": "find"}], "docs")
    assert stage.tool_started("list") == []
    assert stage.tool_started("call_1") == []  # a call of the client's own
    odd = stage.tool_started("odd", name="robot", kind="hologram")
    assert odd[0]["item"]["type"] == "mcp_call"
    assert stage.tool_started("shell", kind="shell")[0]["item"]["type"] == "mcp_call"
    assert not waits(stage)
    stage.tool_finished("odd", "off", status="failed")
    stage.complete()
    assert data_of(pushed(stage).frames)[-1]["response"]["output"][-1]["status"] == "incomplete"


def test_text_of_whoever_answers_calls_is_no_text_of_the_turn_and_its_end_is_an_end() -> None:
    stage = Stage({})
    stage.open()
    assert stage.push(started(), "tools") == []
    frames = stage.push(TurnFailed(seq=0, at=0, error=ErrorInfo(code="tools_down")), "tools")
    assert told(frames) == ["failed"]


@pytest.mark.parametrize(("bound", "value"), [("deferred_entries", 5), ("deferred_bytes", 900)])
@pytest.mark.parametrize("muted", [False, True])
def test_a_window_that_is_full_ends_the_turn_by_its_name_and_keeps_what_waited(
    bound: str, value: int, muted: bool
) -> None:
    stage = Stage({"t": "mcp"}, limits={bound: value}, muted=muted)
    stage.open()
    stage.upstream(*call(0, ["{}"], "t")[0], *message(1, ["a", "b", "c", "d", "e"])[0])
    assert stage.turn.error is not None
    assert (stage.turn.status, stage.turn.error["code"]) == ("failed", bound)
    assert (stage.frames == []) == muted
    if not muted:
        last = data_of(pushed(stage).frames)[-1]["response"]
        assert last["output"][1]["content"][0]["text"].startswith("a")


def test_whatever_the_upstream_says_of_a_gateway_call_is_hidden() -> None:
    stage = Stage(SEARCH)
    stage.open()
    assert stage.upstream(*call(0, ["{}"], "find")[0], {"type": "response.brand_new", "output_index": 0}) == []


def test_a_response_that_another_producer_tells_of_has_our_id() -> None:
    stage = Stage({})
    note = {"type": "foldline.note", "response": {"id": "another", "object": "response"}}
    response = stage.tool_status("note", None, wire=note)[-1]["response"]
    assert response == {"id": f"resp_{TURN}", "object": "response"}
