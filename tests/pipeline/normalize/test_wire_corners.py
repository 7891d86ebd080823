"""Corners of the wires that no recorded server has shown: members of another form, and what rides beside."""

from typing import Any

import pytest

from pipeline.events import Status, TextDelta, ToolFinished, ToolStarted
from pipeline.limits import Limits
from pipeline.normalize.chat import ChatAdapter
from pipeline.normalize.intake import Form, Intake
from pipeline.normalize.jsonarray import ObjectSplitter
from pipeline.normalize.leniency import read_object
from pipeline.normalize.stamp import Stamp
from tests.pipeline.normalize import acp_lines as acp
from tests.pipeline.normalize import chat_streams as chat
from tests.pipeline.normalize import gemini_streams as gemini
from tests.pipeline.normalize import messages_streams as messages

Json = dict[str, Any]


def texts(events: list[Any]) -> list[tuple[str, str]]:
    return [(event.track, event.text) for event in events if isinstance(event, TextDelta)]


def rode_beside(events: list[Any]) -> str:
    """Everything that the events hold beside their own members."""
    return repr([getattr(event, "wire", None) for event in events])


# -- chat


@pytest.mark.parametrize(
    ("delta", "told", "beside"),
    [
        ({"content": 7}, [], "'content': 7"),
        ({"content": ["plain", {"type": "text", "text": "!"}]}, [("text", "plain"), ("text", "!")], ""),
        ({"content": [{"type": "refusal", "refusal": "No"}]}, [("refusal", "No")], ""),
        ({"content": [{"type": "text", "text": {"odd": 1}}]}, [], "'odd': 1"),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "T"}, {"type": "x"}]}]}, [("reasoning", "T")], "'type': 'x'"),
        ({"content": [{"type": "thinking", "thinking": "T"}], "reasoning_content": "U"}, [("reasoning", "T")], "'reasoning': 'U'"),
        ({"refusal": 7}, [], "'refusal': 7"),
        ({"tool_calls": "odd"}, [], "'tool_calls': 'odd'"),
        ({"content": "Hi", "annotations": ["odd"]}, [("text", "Hi")], "'annotations': ['odd']"),
    ],
)  # fmt: skip
def test_chat_members_of_another_form_ride_beside(delta: Json, told: list[tuple[str, str]], beside: str) -> None:
    events = chat.run(chat.body(chat.chunk(delta), chat.STOP, chat.DONE))
    assert "".join(text for _, text in texts(events)) == "".join(text for _, text in told)
    assert {track for track, _ in texts(events)} == {track for track, _ in told}
    assert beside in rode_beside(events)


def test_chat_text_that_is_open_beside_later_calls_is_finished_in_its_place() -> None:
    told = chat.read(
        chat.text("A"),
        chat.tool(0, "k1", "f", "{}"),
        chat.text("B"),
        chat.tool(0, None, None, " "),
        chat.STOP,
        chat.DONE,
    )
    assert [line for line in told if line.startswith(("t-", "f "))] == [
        "f 0.0 text 'A'",
        "t- 1 k1 completed '{} '",
        "f 2.0 text 'B'",
    ]


def test_chat_a_copied_message_rides_with_the_end() -> None:
    copy = {"role": "assistant", "content": "Hi", "citations": ["u"]}
    events = chat.run(chat.body(chat.chunk({"content": "Hi"}, choice={"message": copy}), chat.STOP, chat.DONE))
    assert "'citations': ['u']" in rode_beside(events[-1:])


def test_chat_an_escape_that_a_piece_ends_in_goes_on_in_the_next() -> None:
    pieces = ['{"a":"x\\', '"', 'y"', "}"]
    frames = [chat.tool(0, "k1", "f", pieces[0]), *(chat.tool(0, None, None, piece) for piece in pieces[1:])]
    told = chat.read(*frames, chat.STOP, chat.DONE)
    assert 't- 0 k1 completed \'{"a":"x\\\\"y"}\'' in told


# -- messages


def test_messages_what_stands_beside_a_known_member_is_kept() -> None:
    stream = [
        {**messages.start(), "trace": "s"},
        {**messages.block(0, "text", text=""), "trace": "b"},
        {**messages.delta(0, "text_delta", text="Hi", more="d"), "trace": "t"},
        {**messages.stop(0), "trace": "e"},
        messages.end(),
        messages.STOP,
    ]
    events = messages.run(messages.body(*stream))
    beside = rode_beside(events)
    assert all(f"'trace': '{word}'" in beside for word in "sbte")
    assert "'more': 'd'" in beside
    assert texts(events) == [("text", "Hi")]


def test_messages_a_sentinel_of_another_wire_and_an_end_without_a_reason() -> None:
    events = messages.run(messages.body(messages.start(), *messages.text(0, "Hi"), "[DONE]"))
    assert [event.name for event in events if isinstance(event, Status)].count("unknown") == 1
    told = messages.read(messages.start(), "event: error: not of this wire\ndata: {}")
    assert told[-1].startswith("fail")


def test_messages_marks_that_are_no_signature_are_told_as_they_are() -> None:
    stream = [messages.start(), messages.block(0, "thinking", thinking=""), messages.delta(0, "signature_delta", signature="s"), messages.stop(0), messages.end(), messages.STOP]  # fmt: skip
    assert "'signature': 's'" in rode_beside(messages.run(messages.body(*stream)))
    compacted = [messages.start(), messages.block(0, "compaction"), messages.delta(0, "compaction_delta", content=None), messages.stop(0), messages.end(), messages.STOP]  # fmt: skip
    assert messages.read(*compacted)[-1].startswith("done completed")


# -- gemini


def test_gemini_two_calls_of_one_id_and_arguments_of_another_form() -> None:
    twice = {"id": "same", "language": "PYTHON", "code": "1"}
    events = gemini.run(gemini.body(gemini.chunk({"executableCode": twice}, {"executableCode": twice}), gemini.STOP))
    ids = [event.call_id for event in events if isinstance(event, ToolStarted)]
    assert ids[0] == "same"
    assert len(set(ids)) == 2
    odd = gemini.run(gemini.body(gemini.chunk(gemini.call("f", args=7)), gemini.STOP))
    assert "$.functionCall.args" in rode_beside(odd)


def test_gemini_text_that_was_going_on_at_the_end_and_has_no_place() -> None:
    pieces = [{"jsonPath": "$.a", "numberValue": 1}, {"jsonPath": "$.a.b", "stringValue": "x", "willContinue": True}]
    events = gemini.run(gemini.body(gemini.chunk(gemini.call("f", partialArgs=pieces, willContinue=True)), gemini.STOP))
    assert "$.partialArgs.jsonPath" in rode_beside(events)


@pytest.mark.parametrize("path", ["$.a[0].b", "$.a.b", "$.a[1]"])
def test_gemini_a_path_through_what_is_no_container_is_left_out(path: str) -> None:
    pieces = [{"jsonPath": "$.a", "numberValue": 1}, {"jsonPath": path, "numberValue": 2}]
    events = gemini.run(gemini.body(gemini.chunk(gemini.call("f", partialArgs=pieces)), gemini.STOP))
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert finished.input == '{"a":1}'


def test_gemini_an_empty_text_with_nothing_beside_it_says_nothing() -> None:
    assert gemini.read(gemini.chunk({"text": ""}), gemini.chunk({"text": "Hi"}), gemini.STOP) == gemini.read(
        gemini.chunk({"text": "Hi"}), gemini.STOP
    )


# -- acp


def test_acp_a_question_without_a_call_and_blocks_with_more_than_text() -> None:
    asks = {"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": {}}
    noted = acp.update("agent_message_chunk", content={"type": "text", "text": "Hi", "annotations": {"a": 1}})
    mark = acp.update("agent_message_chunk", content={"type": "text", "text": "", "annotations": {"b": 2}})
    nothing = acp.update("agent_message_chunk", content={"type": "text", "text": ""})
    events = acp.run(acp.lines(asks, noted, mark, nothing, acp.END))
    names = [event.name for event in events if isinstance(event, Status)]
    assert names.count("requires_action") == 1
    assert names.count("item") == 1
    assert "'annotations': {'a': 1}" in rode_beside(events)


def test_acp_a_replaced_message_that_contradicts_is_told_and_the_bounds_of_memory_hold() -> None:
    def whole(text: str, name: str) -> Json:
        return acp.update("agent_message", messageId=name, content=[{"type": "text", "text": text}])

    contradicted = acp.run(acp.lines(whole("One", "a"), acp.said("x", messageId="b"), whole("Two", "a"), acp.END))
    assert "mismatch" in [event.name for event in contradicted if isinstance(event, Status)]
    few = Limits(turn_items=2)
    stream = [whole("A", "a"), whole("B", "b"), whole("C", "c"), acp.END]
    assert acp.run(acp.lines(*stream), few)[-1] is not None
    tools = [acp.tool(f"k{n}", status="completed") for n in range(4)]
    assert acp.run(acp.lines(*tools, acp.END), few)[-1] is not None


# -- what wires share


def test_a_body_that_is_too_long_or_too_deep_is_noise() -> None:
    small = Intake(Limits(json_body_bytes=10))
    assert small.feed(b'{"a": "long enough"') == small.feed(b"}") == []
    assert small.close() == []
    deep = Intake(Limits(json_depth=3))
    deep.feed(b"[" * 40 + b"]" * 40)
    (piece,) = deep.close()
    assert piece.form is Form.NOISE


def test_json_that_is_too_deep_or_no_object_is_not_read() -> None:
    deep = b'{"a":' + b"[" * 200 + b"]" * 200 + b"}"
    frame, why = read_object(deep + b" " * 300, 128)
    assert frame is None
    assert why is not None
    assert "deep" in why["expected"]
    assert read_object(b"[NaN]", 128)[0] is None


def test_brackets_outside_of_any_object_are_passed_over() -> None:
    assert ObjectSplitter().feed(b'[}, {"a": 1}]') == [b'{"a": 1}']


def test_chat_an_escape_within_a_piece_ends_there() -> None:
    told = chat.read(chat.tool(0, "k1", "f", '{"a":"x\\n"}'), chat.tool(0, None, "g", "{}"), chat.STOP, chat.DONE)
    assert 't- 0 k1 completed \'{"a":"x\\\\n"}\'' in told


@pytest.mark.parametrize("body", [b'{"x": 1}', b"[]", b'{"type": "error", "error": {"type": "t", "message": "m"}}'])
def test_messages_a_body_that_is_no_answer_fails(body: bytes) -> None:
    assert messages.run(body)[-1].error.code in {"upstream_truncated", "empty_stream", "t"}  # type: ignore[union-attr]  # a failure


def test_messages_an_error_beside_the_events_is_why_the_turn_failed() -> None:
    data = messages.body(messages.start()) + b'error: {"code": 500, "message": "boom"}\n\n'
    assert messages.run(data)[-1].error.message == "boom"  # type: ignore[union-attr]  # a failure


def test_gemini_what_comes_beside_a_call_that_goes_on_and_behind_the_end() -> None:
    streaming = gemini.chunk(gemini.call("f", willContinue=True))
    signed = gemini.chunk({**gemini.call(willContinue=True), "thoughtSignature": "s"})
    events = gemini.run(gemini.body(streaming, signed, gemini.STOP, {"late": 1}))
    assert "'thoughtSignature': 's'" in rode_beside(events)
    assert "'late': 1" in rode_beside(events)


def test_acp_members_beside_an_update_are_kept() -> None:
    message = acp.said("Hi")
    message["params"]["trace"] = "t"
    assert "'trace': 't'" in rode_beside(acp.run(acp.lines(message, acp.END)))


def test_acp_tools_before_an_open_text_end_before_it_and_others_behind() -> None:
    told = acp.read(acp.tool("k1"), acp.said("A"), acp.tool("k2"), acp.END)
    assert [line for line in told if line.startswith(("t-", "f "))][-1].startswith("t- 2")


def test_chat_choices_that_are_no_list_are_a_fault() -> None:
    odd = {"id": "c", "object": "chat.completion.chunk", "choices": "none"}
    assert "$.choices" in rode_beside(chat.run(chat.body(chat.text("Hi"), odd, chat.STOP, chat.DONE)))


def test_gemini_what_is_news_behind_the_end_rides_with_it_and_a_tool_may_ask_nothing() -> None:
    late = {"responseId": "r", "late": 1}
    events = gemini.run(gemini.body(gemini.chunk({"toolCall": {"toolType": "T", "id": "t"}}), gemini.STOP, late))
    assert "'late': 1" in rode_beside(events[-1:])
    assert texts(events) == []


def test_an_array_past_its_bound_gives_nothing_more() -> None:
    splitter = ObjectSplitter(Limits(json_body_bytes=8))
    assert splitter.feed(b'[{"a": 1},{"b": 1, "c": 2}') == [b'{"a": 1}']
    assert splitter.exceeded == "json_body_bytes"
    assert splitter.feed(b',{"d": 1}]') == []


def test_chat_what_comes_behind_the_reason_makes_the_end_unsure() -> None:
    for more, unsure in ((chat.text("b"), True), (chat.chunk({}, usage={"total_tokens": 1}), False)):
        adapter = ChatAdapter(stamp=Stamp())
        adapter.feed(chat.body(chat.text("a"), chat.STOP, more))
        assert adapter.unsure is unsure
