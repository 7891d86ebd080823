"""One dialect for clients: whatever the wire, the same thing said comes out as the same events of a Responses stream.

The expected events are written once, for all wires; what a wire cannot say is missing from its streams and is listed.
"""

import json
from typing import Any

import pytest

from pipeline.turn import Decoded, Validation, decode
from scripts.sdk import public
from tests.pipeline.normalize import acp_lines as acp
from tests.pipeline.normalize import chat_streams as chat
from tests.pipeline.normalize import gemini_streams as gemini
from tests.pipeline.normalize import messages_streams as messages
from tests.pipeline.normalize import streams as responses

Json = dict[str, Any]
TOKENS = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
COUNTED = {"promptTokenCount": 3, "candidatesTokenCount": 5, "totalTokenCount": 8}
REFUSAL = {"type": "refusal", "refusal": "No."}
THINKING = (
    messages.block(0, "thinking", thinking=""),
    messages.delta(0, "thinking_delta", thinking="Hm"),
    messages.delta(0, "signature_delta", signature="sig"),
    messages.stop(0),
)


def of_responses(*items: Json, end: str = "completed", **members: Any) -> bytes:
    """A stream that says its items by their ends alone; the relay makes the rest."""
    frames = []
    for index, item in enumerate(items):
        empty = {name: type(value)() for name, value in item.items() if name in {"content", "arguments"}}
        said = responses.arguments(item["arguments"], index, item["id"]) if "arguments" in item else None
        frames += [responses.added({**item, **empty}, index), *([said] if said else []), responses.done(item, index)]
    told = {"id": "r1", "status": end, "output": list(items), **members}
    return responses.body(responses.CREATED, *frames, {"type": f"response.{end}", "response": told})


def tool_use(index: int, call_id: str, name: str, written: str) -> list[Json]:
    block = messages.block(index, "tool_use", id=call_id, name=name, input={})
    return [block, messages.delta(index, "input_json_delta", partial_json=written), messages.stop(index)]


def agent_tool(call_id: str, name: str, given: Json) -> list[Json]:
    begun = acp.tool(call_id, title=name, rawInput=given, status="in_progress")
    return [begun, acp.tool(call_id, "tool_call_update", status="completed")]


def body_of_messages(*frames: Json, stop: str = "end_turn") -> bytes:
    return messages.body(messages.start(), *frames, messages.end(stop), messages.STOP)


def function(call_id: str, name: str, written: str) -> Json:
    return responses.call(f"f{call_id}", call_id, written) | {"name": name, "status": "completed"}


HI = responses.message("m1", "Hi you.")
CALLS = [("c1", "f", {"a": 1}), ("c2", "g", {})]
STREAMS: dict[str, dict[str, bytes]] = {
    "text": {
        "responses": of_responses(HI),
        "chat": chat.body(chat.text("Hi "), chat.text("you."), chat.STOP, chat.DONE),
        "messages": body_of_messages(
            messages.block(0, "text", text=""),
            *(messages.delta(0, "text_delta", text=text) for text in ("Hi ", "you.")),
            messages.stop(0),
        ),
        "gemini": gemini.body(gemini.chunk({"text": "Hi "}), gemini.chunk({"text": "you."}), gemini.STOP),
        "acp": acp.lines(acp.said("Hi "), acp.said("you."), acp.END),
    },
    "reasoning": {
        "responses": of_responses(
            {"type": "reasoning", "id": "s1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]}, HI
        ),
        "chat": chat.body(chat.chunk({"reasoning_content": "Hm"}), chat.text("Hi you."), chat.STOP, chat.DONE),
        "messages": body_of_messages(*THINKING, *messages.text(1, "Hi you.")),
        "gemini": gemini.body(
            gemini.chunk({"text": "Hm", "thought": True}), gemini.chunk({"text": "Hi you."}), gemini.STOP
        ),
        "acp": acp.lines(acp.thought("Hm"), acp.said("Hi you."), acp.END),
    },
    "refusal": {  # elsewhere a refusal is a reason to stop
        "responses": of_responses(responses.message("m1") | {"content": [REFUSAL]}),
        "chat": chat.body(chat.chunk({"refusal": "No."}), chat.STOP, chat.DONE),
    },
    "calls": {
        "responses": of_responses(*(function(call_id, name, json.dumps(given)) for call_id, name, given in CALLS)),
        "chat": chat.body(
            chat.tool(0, "c1", "f", '{"a":'),
            chat.tool(1, "c2", "g", "{}"),
            chat.tool(0, arguments=" 1}"),
            chat.chunk(finish="tool_calls"),
            chat.DONE,
        ),
        "messages": body_of_messages(
            *(
                frame
                for index, (call_id, name, given) in enumerate(CALLS)
                for frame in tool_use(index, call_id, name, json.dumps(given))
            ),
            stop="tool_use",
        ),
        "gemini": gemini.body(
            gemini.chunk(*(gemini.call(name, args=given, id=call_id) for call_id, name, given in CALLS)), gemini.STOP
        ),
        "acp": acp.lines(*(frame for call in CALLS for frame in agent_tool(*call)), acp.END),
    },
    "usage": {  # an agent tells of none
        "responses": of_responses(HI, usage={"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}),
        "chat": chat.body(chat.text("Hi you."), chat.STOP, {"id": "c", "choices": [], "usage": TOKENS}, chat.DONE),
        "messages": body_of_messages(*messages.text(0, "Hi you.")),
        "gemini": gemini.body(gemini.chunk({"text": "Hi you."}, finish="STOP", usageMetadata=COUNTED)),
    },
    "incomplete": {
        "responses": of_responses(HI, end="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        "chat": chat.body(chat.text("Hi you."), chat.chunk(finish="length"), chat.DONE),
        "messages": body_of_messages(*messages.text(0, "Hi you."), stop="max_tokens"),
        "gemini": gemini.body(gemini.chunk({"text": "Hi you."}, finish="MAX_TOKENS")),
        "acp": acp.lines(acp.said("Hi you."), acp.stop("max_tokens")),
    },
    "failure": {
        "responses": of_responses(HI, end="failed", error={"code": "gone", "message": "Sorry."}),
        "chat": chat.body(chat.text("Hi you."), {"error": {"code": "gone", "message": "Sorry."}}),
        "messages": messages.body(
            messages.start(),
            *messages.text(0, "Hi you."),
            {"type": "error", "error": {"type": "gone", "message": "Sorry."}},
        ),
        "gemini": gemini.body(
            gemini.chunk({"text": "Hi you."}), {"error": {"code": "gone", "message": "Sorry.", "status": "GONE"}}
        ),
        "acp": acp.lines(
            acp.said("Hi you."), {"jsonrpc": "2.0", "id": 3, "error": {"code": "gone", "message": "Sorry."}}
        ),
    },
}
MESSAGE = [
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
]
REASONING = ["output_item.added", "reasoning_text.delta", "reasoning_text.done", "output_item.done"]
REFUSED = [name.replace("output_text", "refusal") for name in MESSAGE]
CALL = ["output_item.added", "CALL_arguments.delta", "CALL_arguments.done", "output_item.done"]
ITEMS = {
    "text": [MESSAGE],
    "reasoning": [REASONING, MESSAGE],
    "refusal": [REFUSED],
    "calls": [CALL, CALL],
    "usage": [MESSAGE],
    "incomplete": [MESSAGE],
    "failure": [MESSAGE],
}
ENDS = {"incomplete": "incomplete", "failure": "failed"}
EACH = [(feature, wire) for feature, wires in STREAMS.items() for wire in wires]
UNSAID = {("refusal", "messages"), ("refusal", "gemini"), ("refusal", "acp"), ("usage", "acp")}


def lifecycle(frames: list[Json], index: int) -> list[str]:
    """The events of one item; deltas that follow each other are one, and a call's kind is any."""
    names: list[str] = []
    for frame in frames:
        if frame.get("output_index") != index:
            continue
        name = str(frame["type"]).removeprefix("response.").replace("function_call", "CALL").replace("mcp_call", "CALL")
        if not (names and names[-1] == name and name.endswith(".delta")):
            names.append(name)
    return names


def told(feature: str, wire: str) -> tuple[Decoded, list[Json]]:
    decoded = decode([STREAMS[feature][wire]], wire)
    return decoded, [json.loads(frame.data) for frame in decoded.frames]


def test_what_no_stream_says_is_listed() -> None:
    assert {(feature, wire) for feature in STREAMS for wire in STREAMS["text"]} - set(EACH) == UNSAID


@pytest.mark.parametrize(("feature", "wire"), EACH)
def test_the_same_thing_said_is_the_same_events(feature: str, wire: str) -> None:
    decoded, frames = told(feature, wire)
    assert [frame["type"] for frame in frames[:2]] == ["response.created", "response.in_progress"]
    assert frames[-1]["type"] == f"response.{ENDS.get(feature, 'completed')}"
    indexes = sorted({frame["output_index"] for frame in frames if "output_index" in frame})
    assert [lifecycle(frames, index) for index in indexes] == ITEMS[feature]
    again = decode([frame.sse.encode() for frame in decoded.frames], "responses", Validation.STRICT)
    assert [json.loads(frame.data) for frame in again.frames] == frames
    made = public(decoded.frames)
    assert (made is None) == (feature in ENDS)
    output = frames[-1]["response"]["output"]
    said = {item["type"]: item for item in output}
    if feature == "refusal":
        assert output[0]["content"] == [REFUSAL]
    elif feature == "calls":
        calls = [(item["name"], json.loads(item["arguments"]), item["status"]) for item in output]
        assert calls == [(name, given, "completed") for _, name, given in CALLS]
        assert [item.get("call_id") for item in output] == ([None, None] if wire == "acp" else ["c1", "c2"])
    else:
        assert [part["text"] for part in said["message"]["content"]] == ["Hi you."]
    if feature == "reasoning":
        assert [part["text"] for part in said["reasoning"]["content"]] == ["Hm"]


@pytest.mark.parametrize("wire", STREAMS["usage"])
def test_usage_is_told_in_one_form(wire: str) -> None:
    _, frames = told("usage", wire)
    usage = frames[-1]["response"]["usage"]
    assert {name: usage[name] for name in ("input_tokens", "output_tokens", "total_tokens")} == {
        "input_tokens": 3,
        "output_tokens": 5,
        "total_tokens": 8,
    }


@pytest.mark.parametrize("wire", STREAMS["failure"])
def test_a_failure_and_a_limit_are_told_in_one_form(wire: str) -> None:
    _, frames = told("failure", wire)
    error = frames[-1]["response"]["error"]
    assert (error["code"], error["message"]) == ("gone", "Sorry.")
    _, frames = told("incomplete", wire)
    assert frames[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
