"""Requests written for a Gemini upstream and as an agent's prompt; what those have no form for is refused by its path."""

from typing import Any

import pytest

from tests.workers.test_upstream import CONVERSATION, PICTURE, THOUGHT, TOOL, WEATHER, answer, call, result, user, words
from workers.upstream import UnsupportedError, translate

Json = dict[str, Any]


def gemini(**members: Any) -> Json:
    return translate("gemini", {"model": "m", "input": "Hi", **members})


def acp(**members: Any) -> Json:
    return translate("acp", {"model": "m", "input": "Hi", **members})


def test_a_conversation_alternates_and_pairs_calls_by_name() -> None:
    assert gemini(input=CONVERSATION, instructions="Be brief.") == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Wait."},
                    {"functionCall": {"name": "weather", "args": {"city": "Oslo"}, "id": "c1"}},
                    {"functionCall": {"name": "weather", "args": {"city": "Oslo"}, "id": "c2"}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "weather", "response": {"output": "sun"}, "id": "c1"}},
                    {"functionResponse": {"name": "weather", "response": {"output": "sun"}, "id": "c2"}},
                    {"text": "So?"},
                ],
            },
        ],
    }


def test_an_id_that_we_made_is_not_sent_and_a_signature_goes_back_with_its_call() -> None:
    signed = call("call_0") | {"thought_signature": "sig"}
    parts = [
        part
        for content in gemini(input=[signed, result("call_0", [words("sun")])])["contents"]
        for part in content["parts"]
    ]
    assert parts == [
        {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": "sig"},
        {"functionResponse": {"name": "weather", "response": {"output": "sun"}}},
    ]
    assert (
        "id" not in gemini(input=[call("call_3-0123456789abcdef01234567_1")])["contents"][0]["parts"][0]["functionCall"]
    )


def test_sampling_limits_and_the_form_of_the_answer() -> None:
    body = gemini(
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=100,
        stop="END",
        top_logprobs=2,
        reasoning={"effort": "low", "summary": "auto"},
        text={"format": {"type": "json_schema", "name": "w", "schema": WEATHER, "strict": True, "description": "d"}},
        safetySettings=[{"category": "C", "threshold": "T"}],
    )
    assert body["safetySettings"] == [{"category": "C", "threshold": "T"}]
    assert body["generationConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "maxOutputTokens": 100,
        "stopSequences": ["END"],
        "responseLogprobs": True,
        "logprobs": 2,
        "thinkingConfig": {"thinkingLevel": "low", "includeThoughts": True},
        "responseMimeType": "application/json",
        "responseJsonSchema": {"description": "d", **WEATHER},
    }
    assert gemini(reasoning={"effort": "none"})["generationConfig"] == {"thinkingConfig": {"thinkingBudget": 0}}


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("required", {"mode": "ANY"}),
        ("none", {"mode": "NONE"}),
        ({"type": "function", "name": "weather"}, {"mode": "ANY", "allowedFunctionNames": ["weather"]}),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "weather"}]},
            {"mode": "AUTO", "allowedFunctionNames": ["weather"]},
        ),
    ],
)
def test_tools(choice: Any, config: Json) -> None:
    body = gemini(
        tools=[TOOL, {"type": "web_search"}, {"type": "code_interpreter", "container": {}}], tool_choice=choice
    )
    function = {"name": "weather", "description": "d", "parametersJsonSchema": WEATHER}
    assert body["tools"] == [{"functionDeclarations": [function]}, {"googleSearch": {}}, {"codeExecution": {}}]
    assert body["toolConfig"] == {"functionCallingConfig": config}


def test_media() -> None:
    parts = (
        {"type": "input_image", "image_url": PICTURE, "detail": "auto"},
        {"type": "input_file", "file_url": "https://files/1"},
        {"type": "input_file", "file_data": PICTURE, "filename": "x"},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
    )
    picture = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    assert gemini(input=[user(*parts)])["contents"][0]["parts"] == [
        picture,
        {"fileData": {"fileUri": "https://files/1"}},
        picture,
        {"inlineData": {"mimeType": "audio/wav", "data": "aGk="}},
    ]


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"user": "u"}, "user"),
        ({"previous_response_id": "r"}, "previous_response_id"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"logit_bias": {}}, "logit_bias"),
        ({"reasoning": {"effort": "xhigh"}}, "reasoning.effort"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"tools": [{"type": "custom", "name": "c"}]}, "tools[0].type"),
        ({"tools": [TOOL | {"odd": 1}]}, "tools[0].odd"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "mcp"}}, "tool_choice.type"),
        (
            {"tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}}]},
            "tools[0].container.file_ids",
        ),
        ({"tools": [{"type": "code_interpreter", "container": "cntr_1"}]}, "tools[0].container"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "odd", "tools": []}}, "tool_choice.mode"),
        (
            {
                "tools": [TOOL],
                "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]},
            },
            "tool_choice.tools[0].type",
        ),
        ({"conversation": "conv_1"}, "conversation"),
        ({"text": {"format": {"type": "json_schema", "name": "w", "schema": "none"}}}, "text.format.schema"),
        ({"input": [user({"type": "input_image", "image_url": "https://x/y.png"})]}, "input[0].content[0].image_url"),
        ({"input": [result("nobody")]}, "input[0].call_id"),
        ({"input": [call("c1", "no json")]}, "input[0].arguments"),
        ({"input": [user(words("a")), {"role": "system", "content": "b"}]}, "input[1].role"),
        ({"input": [{"type": "computer_call"}]}, "input[0].type"),
    ],
)
def test_what_gemini_has_no_form_for_is_refused_by_its_path(members: Json, param: str) -> None:
    with pytest.raises(UnsupportedError) as refused:
        gemini(**members)
    assert refused.value.param == param


def test_thoughts_are_not_sent_back() -> None:
    assert gemini(input=[THOUGHT, answer("x")])["contents"] == [{"role": "model", "parts": [{"text": "x"}]}]


def test_a_prompt_of_an_agent() -> None:
    assert acp() == {"prompt": [{"type": "text", "text": "Hi"}]}
    parts = (
        words("look"),
        {"type": "input_image", "image_url": PICTURE},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        {"type": "input_file", "file_url": "https://files/report.pdf"},
        {"type": "input_file", "file_data": PICTURE, "filename": "x.png"},
    )
    assert acp(input=[user(*parts)], previous_response_id="s1", tools=[], tool_choice="auto") == {
        "session": "s1",
        "prompt": [
            {"type": "text", "text": "look"},
            {"type": "image", "mimeType": "image/png", "data": "aGk="},
            {"type": "audio", "mimeType": "audio/wav", "data": "aGk="},
            {"type": "resource_link", "uri": "https://files/report.pdf", "name": "report.pdf"},
            {"type": "resource", "resource": {"uri": "attachment:x.png", "mimeType": "image/png", "blob": "aGk="}},
        ],
    }


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"instructions": "Be brief."}, "instructions"),
        ({"temperature": 1}, "temperature"),
        ({"tools": [TOOL]}, "tools"),
        ({"max_output_tokens": 5}, "max_output_tokens"),
        ({"input": [user(words("a")), answer("b")]}, "input[1].role"),
        ({"input": [call("c1")]}, "input[0].type"),
        ({"input": []}, "input"),
        ({"input": [user({"type": "input_file", "file_id": "f"})]}, "input[0].content[0].type"),
    ],
)
def test_what_an_agent_keeps_to_itself_is_refused_by_its_path(members: Json, param: str) -> None:
    with pytest.raises(UnsupportedError) as refused:
        acp(**members)
    assert refused.value.param == param
