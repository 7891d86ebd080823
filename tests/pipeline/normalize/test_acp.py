"""The ACP wire: messages, tools, requests, ends, noise, and which response is the prompt's."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import MisuseError
from pipeline.events import Status, TextDelta, ToolFinished, TurnCancelled, TurnCompleted, TurnFailed
from pipeline.limits import Limits
from pipeline.normalize.acp import AcpAdapter
from pipeline.normalize.stamp import Stamp
from tests.pipeline.normalize.acp_lines import END, Message, asks, lines, read, run, said, stop, thought, tool, update


def test_text_runs_until_something_else_begins() -> None:
    assert read(thought("Hm"), said("a"), said("b"), tool(title="ls", status="pending"), said("c"), END) == [
        "d 0.0 reasoning 'Hm'",
        "f 0.0 reasoning 'Hm'",
        "d 1.0 text 'a'",
        "d 1.0 text 'b'",
        "f 1.0 text 'ab'",
        "t+ 2 k1 ls other",
        "d 3.0 text 'c'",
        "t- 2 k1 unknown ''",
        "f 3.0 text 'c'",
        "done completed",
    ]


def test_a_message_that_gets_its_id_late_goes_on() -> None:
    assert read(said("a"), said("b", messageId="m1"), said("c", messageId="m2"), END) == [
        "d 0.0 text 'a'",
        "d 0.0 text 'b'",
        "f 0.0 text 'ab'",
        "d 1.0 text 'c'",
        "f 1.0 text 'c'",
        "done completed",
    ]


def test_a_tools_last_words_are_its_end() -> None:
    shown = [{"type": "content", "content": {"type": "text", "text": "ok"}}]
    data = lines(
        tool(title="Run", kind="execute", status="pending", rawInput={}),
        tool(word="tool_call_update", status="in_progress", rawInput={"cmd": "ls"}, title="Run ls"),
        tool(word="tool_call_update", content=shown, rawOutput={"code": 0}),
        tool(word="tool_call_update", status="completed", locations=[{"path": "/x"}]),
        END,
    )
    end = next(event for event in run(data) if isinstance(event, ToolFinished))
    assert (end.status, end.input, end.output) == ("completed", '{"cmd":"ls"}', shown)
    rest = {"title": "Run ls", "kind": "execute", "rawOutput": {"code": 0}, "locations": [{"path": "/x"}]}
    assert end.wire == {"update": rest}


def test_an_update_without_an_id_is_told_as_unknown() -> None:
    assert read(update("tool_call", title="x"), END) == ["s unknown", "done completed"]


def test_a_finished_tool_is_told_once_and_a_new_call_under_its_id_is_another() -> None:
    finished = tool(word="tool_call_update", status="completed")
    assert read(tool(title="f"), finished, finished, tool(title="g", status="pending"), END) == [
        "t+ 0 k1 f other",
        "t- 0 k1 completed ''",
        "t+ 1 k1 g other",
        "t- 1 k1 unknown ''",
        "done completed",
    ]
    other = tool(word="tool_call_update", status="failed")
    assert read(tool(title="f"), finished, other, END)[2] == "s mismatch"


def test_a_request_for_permission_may_be_the_first_sight_of_a_tool() -> None:
    events = run(lines(asks(title="edit x", kind="edit"), END))
    status = next(event for event in events if isinstance(event, Status))
    assert (status.name, status.item) == ("requires_action", 0)
    assert (status.wire or {})["request"]["method"] == "session/request_permission"


def test_other_requests_are_told_and_left_to_the_runtime() -> None:
    reading = {"jsonrpc": "2.0", "id": 3, "method": "fs/read_text_file", "params": {"path": "/x"}}
    assert read(reading, said("a"), END)[0] == "s client_request"


def test_a_picture_is_an_item_of_its_own() -> None:
    picture = update("agent_message_chunk", content={"type": "image", "mimeType": "image/png", "data": "QUJD"})
    assert read(said("a"), picture, said("b"), END)[:4] == [
        "d 0.0 text 'a'",
        "f 0.0 text 'a'",
        "s item",
        "d 1.0 text 'b'",
    ]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (stop("end_turn"), "done completed"),
        (stop("max_tokens"), "done incomplete max_output_tokens"),
        (stop("max_turn_requests"), "done incomplete max_turn_requests"),
        (stop("refusal"), "done incomplete content_filter"),
        (stop("never_heard_of"), "done incomplete other"),
        (stop("cancelled"), "cancelled"),
        (stop("end_turn", usage={"inputTokens": 2, "outputTokens": 3}), "done completed +usage"),
        ({"id": 3, "error": {"code": -32603, "message": "Internal error"}}, "fail -32603"),
        ({"id": 3, "error": {"code": -32800, "message": "Request cancelled"}}, "cancelled"),
        ({"id": 3, "error": "odd"}, "fail upstream_error"),
    ],
)
def test_the_response_to_the_prompt_is_the_end(end: Message, expected: str) -> None:
    assert read(said("Hi"), end)[-1] == expected


def test_an_error_tells_what_its_data_says() -> None:
    error = {"code": -32603, "message": "Internal error", "data": {"message": "stream disconnected"}}
    end = run(lines({"id": 3, "error": error}))[-1]
    assert isinstance(end, TurnFailed)
    assert end.error.message == "Internal error: stream disconnected"


def test_with_the_prompts_id_no_other_response_ends_the_turn() -> None:
    failed = {"id": 4, "error": {"code": -32601, "message": "Method not found"}}
    assert read(said("a"), failed, stop("end_turn", 5), said("b"), stop("end_turn", 7), prompt=7) == [
        "d 0.0 text 'a'",
        "d 0.0 text 'b'",
        "f 0.0 text 'ab'",
        "done completed",
    ]


def test_an_agents_request_with_the_prompts_id_is_no_response() -> None:
    asking = {"jsonrpc": "2.0", "id": 7, "method": "terminal/create", "params": {}}
    assert read(asking, stop("end_turn", 7), prompt=7) == ["s client_request", "done completed"]


def test_a_response_without_a_result_ends_the_turn_it_answers() -> None:
    assert read({"id": 7, "result": None}, prompt=7) == ["fail upstream_error"]


def test_the_session_is_told_as_the_upstreams_own_id() -> None:
    events = run(lines({"id": 2, "result": {"sessionId": "s9"}}, END))
    assert isinstance(events[0], Status)
    assert (events[0].name, (events[0].wire or {})["response"]) == ("upstream_started", {"id": "s9"})


def test_after_the_end_nothing_is_told_but_counted() -> None:
    adapter = AcpAdapter(stamp=Stamp())
    events = adapter.feed(lines(END, said("late"), "noise", ""))
    assert [type(event) for event in events] == [TurnCompleted]
    assert (adapter.ended, adapter.late, adapter.close()) == (True, 2, [])


def test_an_agent_that_goes_before_it_answers_has_truncated_the_turn() -> None:
    assert read(said("Hi"), tool(title="f")) == [
        "d 0.0 text 'Hi'",
        "f 0.0 text 'Hi'",
        "t+ 1 k1 f other",
        "t- 1 k1 unknown ''",
        "fail upstream_truncated",
    ]


def test_noise_on_the_output_is_told_whole() -> None:
    events = run(lines("\x1b[2m INFO \x1b[0m grün", END))
    assert isinstance(events[0], Status)
    assert (events[0].name, (events[0].wire or {})["line"]) == ("unknown", "\x1b[2m INFO \x1b[0m grün")


class TestVersion2:
    def test_a_whole_message_may_only_extend_what_was_told(self) -> None:
        whole = update("agent_message", messageId="m1", content=[{"type": "text", "text": "Hello"}])
        idle = update("state_update", state="idle", stopReason="end_turn")
        assert read({"id": 3, "result": {}}, said("Hel", messageId="m1"), whole, idle) == [
            "d 0.0 text 'Hel'",
            "d 0.0 text 'lo'",
            "f 0.0 text 'Hello'",
            "done completed",
        ]

    def test_a_whole_message_that_says_no_more_than_was_told_adds_nothing(self) -> None:
        whole = update("agent_message", messageId="m1", content=[{"type": "text", "text": "Hello"}])
        assert read(said("Hello", messageId="m1"), whole, END) == [
            "d 0.0 text 'Hello'",
            "f 0.0 text 'Hello'",
            "done completed",
        ]

    def test_a_message_that_takes_words_back_is_a_mismatch(self) -> None:
        other = update("agent_message", messageId="m1", content=[{"type": "text", "text": "Bye"}])
        assert read(said("Hello", messageId="m1"), other, END) == [
            "d 0.0 text 'Hello'",
            "s mismatch",
            "f 0.0 text 'Hello'",
            "done completed",
        ]

    def test_a_message_told_whole_before_is_told_once(self) -> None:
        whole = update("agent_message", messageId="m1", content=[{"type": "text", "text": "Hello"}])
        assert read(whole, tool(title="f"), whole, END)[:3] == [
            "d 0.0 text 'Hello'",
            "f 0.0 text 'Hello'",
            "t+ 1 k1 f other",
        ]

    def test_an_accepted_prompt_ends_when_the_agent_is_idle(self) -> None:
        idle = update("state_update", state="idle")
        assert read(idle, {"id": 3, "result": {}}, said("a"), idle)[-1] == "done completed"


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0"},
        {"method": "session/update"},
        {"method": "session/update", "params": {"update": []}},
        {"method": "session/update", "params": {"update": {"sessionUpdate": "idle"}}},
        {"method": "session/update", "params": {"update": {"sessionUpdate": "agent_message_chunk", "content": 7}}},
        {"method": "_vendor/thing", "params": {}},
        [1],
        7,
    ],
)
def test_what_nobody_knows_is_told_whole_and_has_no_effect(message: Any) -> None:
    assert read(message, END) == ["s unknown", "done completed"]


@pytest.mark.parametrize(
    ("limits", "messages"),
    [
        (Limits(sse_line_bytes=100), [said("x" * 200)]),
        (Limits(item_text_chars=100), [said("x" * 60), said("x" * 60)]),
        (Limits(turn_text_chars=100), [said("x" * 60), thought("x" * 60)]),
        (Limits(turn_items=3), [tool(f"k{number}") for number in range(4)]),
        (Limits(item_text_chars=100), [tool(status="completed", rawInput={"a": "x" * 200})]),
    ],
)
def test_a_bound_ends_the_turn_by_its_name(limits: Limits, messages: list[Message]) -> None:
    data = lines(*messages)
    events = run(data, limits)
    assert run(data, limits, range(len(data))) == events
    end = events[-1]
    assert isinstance(end, TurnFailed)
    assert getattr(limits, end.error.code) in {100, 3}


def test_it_is_fed_and_closed_once() -> None:
    adapter = AcpAdapter(stamp=Stamp())
    adapter.close()
    with pytest.raises(MisuseError):
        adapter.feed(b"")
    with pytest.raises(MisuseError):
        adapter.close()


WHOLE = lines(
    thought("Grüße 🌍\u2028"),
    said("é" * 5),
    tool(title="ü", rawInput={"a": "🌍"}, status="in_progress"),
    asks(title="ü"),
    "nöise",
    tool(word="tool_call_update", status="completed", rawOutput="✓"),
    said("done"),
    END,
)


@settings(max_examples=80, deadline=None)
@given(st.sets(st.integers(0, len(WHOLE)), max_size=30))
def test_the_cuts_change_nothing(cuts: set[int]) -> None:
    assert run(WHOLE, cuts=cuts) == run(WHOLE)
    assert run(WHOLE.replace(b"\n", b"\r\n")) == run(WHOLE)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=8), st.integers(1, 50))
def test_noise_never_raises_and_ends_the_turn_once(edits: list[tuple[int, int]], step: int) -> None:
    data = bytearray(WHOLE)
    for place, value in edits:
        data[place] = value
    events = run(bytes(data))
    assert run(bytes(data), cuts=range(0, len(data), step)) == events
    ends = [event for event in events if isinstance(event, TurnCompleted | TurnFailed | TurnCancelled)]
    assert ends == events[-1:]


WORDS = (
    "text",
    "agent_message_chunk",
    "agent_message",
    "tool_call",
    "tool_call_update",
    "k1",
    "completed",
    "failed",
    "idle",
)
NAMES = ("sessionUpdate", "content", "type", "toolCallId", "status", "rawInput", "title", "messageId", "state", "kind")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from((*NAMES, "text", "stopReason", "code")), inner, max_size=5)
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(NAMES), JSON | st.sampled_from(WORDS), max_size=5), max_size=5), JSON)
def test_no_shape_of_json_raises(updates: list[dict[str, Any]], odd: Any) -> None:
    told = [{"method": "session/update", "params": {"update": one}} for one in updates]
    asked = [{"id": 1, "method": "session/request_permission", "params": {"toolCall": one}} for one in updates]
    odds = [{"id": odd, "result": odd}, {"id": odd, "method": odd, "params": odd}]
    for messages in ([*told, *asked, END], [*told, *odds, END], [*told, {"id": 1, "error": odd}, END]):
        events = run(lines(*messages))
        assert all("type" not in (getattr(event, "wire", None) or {}) for event in events)
        texts = [event for event in events if isinstance(event, TextDelta)]
        assert all(event.text for event in texts)
