"""Requests of one shape, written in the form of each wire. What a wire has no form for is refused by its path."""

from typing import Any

import pytest

from workers.upstream import DIALECTS, UnsupportedError, translate

Json = dict[str, Any]
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "name": "weather", "description": "d", "parameters": WEATHER, "strict": True}
PICTURE = "data:image/png;base64,aGk="


def user(*parts: Json) -> Json:
    return {"type": "message", "role": "user", "content": list(parts)}


def words(text: str) -> Json:
    return {"type": "input_text", "text": text}


def answer(text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]}


def call(call_id: str, arguments: str = '{"city":"Oslo"}') -> Json:
    members = {"id": "fc_1", "status": "completed", "call_id": call_id, "name": "weather", "arguments": arguments}
    return {"type": "function_call", **members}


def result(call_id: str, output: Any = "sun") -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "Hm."}],
    "encrypted_content": "sig",
}
CONVERSATION = [
    user(words("Hi")),
    THOUGHT,
    answer("Wait."),
    call("c1"),
    call("c2"),
    result("c1"),
    result("c2"),
    user(words("So?")),
]


def body(wire: str, **members: Any) -> Json:
    return translate(wire, {"model": "m", "input": "Hi", **members})


def refused(wire: str, **members: Any) -> str:
    with pytest.raises(UnsupportedError) as caught:
        body(wire, **members)
    assert wire in str(caught.value) or "must be" in str(caught.value)
    return caught.value.param


def test_the_responses_wire_is_the_shape_of_requests() -> None:
    request = {"model": "m", "input": [{"type": "item_reference", "id": "x"}], "anything": 1}
    assert translate("responses", request) == request
    assert translate("gemini-of-tomorrow", request) == request


def test_a_text_is_a_message_of_the_user() -> None:
    assert body("chat", instructions="Be brief.") == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert body("messages", instructions="Be brief.") == {
        "model": "m",
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "max_tokens": 8192,
        "stream": True,
    }


def test_on_chat_an_answer_is_one_message_with_its_thoughts_and_calls() -> None:
    function = {"name": "weather", "arguments": '{"city":"Oslo"}'}
    calls = [{"id": name, "type": "function", "function": function} for name in ("c1", "c2")]
    assert body("chat", input=CONVERSATION)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Wait."}],
            "tool_calls": calls,
            "reasoning_content": "Hm.",
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sun"},
        {"role": "tool", "tool_call_id": "c2", "content": "sun"},
        {"role": "user", "content": [{"type": "text", "text": "So?"}]},
    ]


def test_on_messages_thinking_goes_back_under_its_signature() -> None:
    uses = [{"type": "tool_use", "id": name, "name": "weather", "input": {"city": "Oslo"}} for name in ("c1", "c2")]
    results = [{"type": "tool_result", "tool_use_id": name, "content": "sun"} for name in ("c1", "c2")]
    assert body("messages", input=CONVERSATION)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
                {"type": "text", "text": "Wait."},
                *uses,
            ],
        },
        {"role": "user", "content": [*results, {"type": "text", "text": "So?"}]},
    ]
    withheld = {"type": "reasoning", "summary": [], "encrypted_content": "redacted_thinking:xyz"}
    made = body("messages", input=[withheld])["messages"]
    assert made == [{"role": "assistant", "content": [{"type": "redacted_thinking", "data": "xyz"}]}]


def test_pictures_and_files() -> None:
    image = {"type": "input_image", "image_url": PICTURE, "detail": "auto"}
    file = {"type": "input_file", "file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"}
    chat = body("chat", input=[user(image, file)])["messages"][0]["content"]
    assert chat == [
        {"type": "image_url", "image_url": {"url": PICTURE, "detail": "auto"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"}},
    ]
    messages = body("messages", input=[user(image, file)])["messages"][0]["content"]
    assert messages == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
            "title": "a.pdf",
        },
    ]
    link = {"type": "input_image", "image_url": "https://x.test/a.png"}
    source = body("messages", input=[user(link)])["messages"][0]["content"][0]["source"]
    assert source == {"type": "url", "url": "https://x.test/a.png"}


def test_tools_and_their_choice() -> None:
    named = {"type": "function", "name": "weather"}
    chat = body("chat", tools=[TOOL], tool_choice=named, parallel_tool_calls=False)
    members = {name: value for name, value in TOOL.items() if name != "type"}
    assert chat["tools"] == [{"type": "function", "function": members}]
    assert chat["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert chat["parallel_tool_calls"] is False
    messages = body("messages", tools=[TOOL], tool_choice=named, parallel_tool_calls=False)
    assert messages["tools"] == [{"name": "weather", "description": "d", "input_schema": WEATHER, "strict": True}]
    assert messages["tool_choice"] == {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}
    assert body("messages", tools=[TOOL], tool_choice="required")["tool_choice"] == {"type": "any"}
    for wire in ("chat", "messages"):
        assert "tool_choice" not in body(wire, tool_choice="auto")


def test_custom_tools_on_chat() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: x"}
    made = body("chat", tools=[{"type": "custom", "name": "sh", "format": grammar}])
    nested = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: x"}}
    assert made["tools"] == [{"type": "custom", "custom": {"name": "sh", "format": nested}}]
    called = [
        {"type": "custom_tool_call", "call_id": "c", "name": "sh", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": [words("a.txt")]},
    ]
    assert body("chat", input=called)["messages"] == [
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}],
            "content": None,
        },
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "a.txt"}]},
    ]


def test_sampling_limits_and_the_form_of_the_answer() -> None:
    schema = {"type": "json_schema", "name": "n", "schema": WEATHER, "strict": True}
    members: Json = {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 7, "user": "u"}
    chat = body(
        "chat", **members, text={"format": schema, "verbosity": "low"}, reasoning={"effort": "low"}, top_logprobs=2
    )
    assert {name: chat[name] for name in ("temperature", "top_p", "max_tokens", "user")} == {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 7,
        "user": "u",
    }
    assert chat["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": WEATHER, "strict": True},
    }
    assert (chat["verbosity"], chat["reasoning_effort"], chat["logprobs"], chat["top_logprobs"]) == (
        "low",
        "low",
        True,
        2,
    )
    messages = body("messages", **members, text={"format": schema}, reasoning={"effort": "high"})
    assert messages["output_config"] == {"effort": "high", "format": {"type": "json_schema", "schema": WEATHER}}
    assert (messages["max_tokens"], messages["metadata"]) == (7, {"user_id": "u"})


def test_what_the_gateway_answers_itself_is_not_sent() -> None:
    ours = {
        "metadata": {"a": "b"},
        "background": True,
        "stream": True,
        "store": False,
        "stream_options": {"include_obfuscation": False},
        "truncation": "disabled",
        "instructions": None,
        "foldline": {"session": "s"},
    }
    for wire in ("chat", "messages"):
        assert body(wire, **ours) == body(wire)


@pytest.mark.parametrize("wire", ["chat", "messages"])
@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"previous_response_id": "resp_x"}, "previous_response_id"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{**TOOL, "defer_loading": True}]}, "tools[0].defer_loading"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [user({"type": "input_image", "file_id": "f"})]}, "input[0].content[0].type"),
        ({"input": [user({**words("x"), "secret": 1})]}, "input[0].content[0].secret"),
        ({"input": ["x"]}, "input[0]"),
        ({"input": [{"role": "critic", "content": "x"}]}, "input[0].role"),
        ({"input": 7}, "input"),
        ({"input": [{"type": "reasoning", "summary": []}]}, None),
        ({"truncation": "auto"}, "truncation"),
        ({"max_tool_calls": 3}, "max_tool_calls"),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, "reasoning.summary"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type"),
        ({"tools": [TOOL], "tool_choice": {"type": "web_search"}}, "tool_choice.type"),
        ({"n": 2}, "n"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"stream_options": {"include_usage": True}}, "stream_options.include_usage"),
        ({"include": ["reasoning.encrypted_content", "file_search_call.results"]}, "include"),
        ({"model": 3}, "model"),
    ],
)  # fmt: skip
def test_what_a_wire_has_no_form_for_is_refused_by_its_path(wire: str, members: Json, param: str | None) -> None:
    found = refused(wire, **members)
    assert param is None or found == param


def test_what_only_the_messages_wire_refuses() -> None:
    assert refused("messages", input=[user(words("x")), {"role": "system", "content": "late"}]) == "input[1].role"
    assert refused("messages", input=[call("c", "{cut")]) == "input[0].arguments"
    assert refused("messages", reasoning={"effort": "minimal"}) == "reasoning.effort"
    assert refused("messages", user="a", safety_identifier="b") == "user"
    assert refused("messages", tool_choice="required") == "tool_choice"
    assert (
        refused("messages", input=[user({"type": "input_image", "image_url": "ftp://x"})])
        == "input[0].content[0].image_url"
    )


def test_every_wire_has_a_path_and_its_own_way_to_show_a_key() -> None:
    assert DIALECTS["chat"].path == "/chat/completions"
    assert DIALECTS["messages"].path == "/messages"
    assert DIALECTS["chat"].key_headers("k") == {"Authorization": "Bearer k"}
    assert DIALECTS["messages"].key_headers("k") == {"x-api-key": "k"}
