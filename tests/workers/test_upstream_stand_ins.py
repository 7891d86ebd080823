"""A custom tool on its way to an upstream that knows functions alone, and back again."""

import json
from typing import Any

import pytest

from pipeline.translate.custom import whole_input
from workers.config import UpstreamConfig
from workers.gateway.submit import upstream_request
from workers.upstream.stand_ins import PARAMETERS, with_stand_ins

ROUTES = {"patch": "custom", "find": "web_search"}
PATCH: dict[str, Any] = {"type": "custom", "name": "patch", "description": "Patches."}
FUNCTION = {"type": "function", "name": "patch", "description": "Patches.", "parameters": PARAMETERS, "strict": True}
OTHERS: list[Any] = [
    {"type": "custom", "name": "else"},
    {"type": "function", "name": "patch"},
    {"type": "custom", "name": []},
    7,
]


def test_a_routed_custom_tool_is_declared_as_a_function() -> None:
    assert with_stand_ins({"tools": [PATCH, *OTHERS]}, ROUTES)["tools"] == [FUNCTION, *OTHERS]


def test_what_a_tool_has_beside_goes_with_it_and_is_the_upstreams_to_refuse() -> None:
    assert with_stand_ins({"tools": [PATCH | {"defer_loading": True}]}, ROUTES)["tools"] == [
        FUNCTION | {"defer_loading": True}
    ]


def test_a_grammar_is_told_in_the_description() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: X"}
    (made,) = with_stand_ins({"tools": [{"type": "custom", "name": "patch", "format": grammar}]}, ROUTES)["tools"]
    assert made["description"] == "The input follows this grammar:\nstart: X"


@pytest.mark.parametrize(
    ("choice", "made"),
    [
        ("auto", "auto"),
        ({"type": "custom", "name": "patch"}, {"type": "function", "name": "patch"}),
        ({"type": "custom", "name": "else"}, {"type": "custom", "name": "else"}),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "patch"}, "odd"]},
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "patch"}, "odd"]},
        ),
    ],
)
def test_a_choice_names_the_function(choice: object, made: object) -> None:
    assert with_stand_ins({"tool_choice": choice}, ROUTES)["tool_choice"] == made


def test_the_conversation_holds_calls_of_the_function() -> None:
    call = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "k", "name": "patch", "input": 'a "b"\n'}
    output = {"type": "custom_tool_call_output", "id": "o", "call_id": "k", "output": "done"}
    others: list[Any] = [
        {"type": "custom_tool_call", "call_id": "x", "name": "else", "input": "a"},
        {"type": "custom_tool_call_output", "call_id": "x", "output": "b"},
        {"role": "user", "content": "Hi"},
        "odd",
    ]
    first, second, *rest = with_stand_ins({"input": [call, output, *others]}, ROUTES)["input"]
    assert (first["type"], first["call_id"], first["name"]) == ("function_call", "k", "patch")
    assert whole_input(first["arguments"]) == call["input"]  # what the core makes of it on the way back
    assert json.loads(first["arguments"]) == {"input": call["input"]}
    assert "id" not in first  # it is an id of ours
    assert second == {"type": "function_call_output", "call_id": "k", "output": "done"}
    assert rest == others


def test_nothing_is_touched_where_nothing_is_routed() -> None:
    request = {"tools": [PATCH], "input": "text", "tool_choice": {"type": "custom", "name": "patch"}}
    assert with_stand_ins(request, {"find": "web_search"}) is request
    given = {"tools": "odd", "input": "text"}
    assert with_stand_ins(given, ROUTES) == given


def test_a_submitted_request_goes_out_with_stand_ins() -> None:
    upstream = UpstreamConfig(base_url="http://127.0.0.1:9", gateway_tools=["patch=custom"])
    sent = upstream_request({"model": "m", "input": "x", "tools": [PATCH]}, "main", upstream, None)
    assert sent["tools"] == [FUNCTION]
