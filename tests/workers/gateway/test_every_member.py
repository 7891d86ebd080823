"""Every member of a request that the official SDK can send, to every wire: it is sent, or refused by its name, or the gateway's own.

The SDK's types say what there is: a member that a newer SDK has, and that stands in no table here, fails.
"""

import copy
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, get_args, get_type_hints

import msgspec
import openai
import pytest
from openai.types.responses import response_create_params as params
from openai.types.responses import response_input_item_param as items
from openai.types.responses.tool_param import ToolParam

from tests.workers.gateway.stage import Stage, stage
from tests.workers.test_upstream import CONVERSATION, PICTURE, TOOL, user, words
from workers.config import UpstreamConfig
from workers.gateway.submit import upstream_request
from workers.ingest.requests import RequestError, RequestUnsupportedError, build
from workers.upstream import DIALECTS, with_stand_ins

Json = dict[str, Any]
SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION: Json = {"type": "function", "name": "look", "parameters": SCHEMA, "strict": True}
FORM: Json = {"type": "json_schema", "name": "w", "schema": SCHEMA, "description": "The weather."}

SAMPLES: dict[str, list[Any]] = {
    "access_programs": [{"cyber": "standard"}],
    "background": [True],
    "background_options": [{"completion_window": "2h"}],
    "context_management": [[{"type": "compaction", "compact_threshold": 1000}]],
    "conversation": ["conv_1", {"id": "conv_1"}],
    "image": [{"anything": 1}],
    "include": [["reasoning.encrypted_content"], ["message.output_text.logprobs"], ["file_search_call.results"]],
    "input": ["Something else."],
    "instructions": ["Be brief."],
    "max_output_tokens": [77],
    "max_tool_calls": [3],
    "metadata": [{"a": "b"}],
    "model": ["another"],
    "moderation": [{"model": "omni"}],
    "parallel_tool_calls": [False],
    "previous_response_id": ["resp_1"],
    "prompt": [{"id": "pmpt_1"}],
    "prompt_cache_key": ["k"],
    "prompt_cache_options": [{"mode": "explicit"}],
    "prompt_cache_retention": ["24h"],
    "reasoning": [{"effort": "low"}, {"summary": "auto"}, {"generate_summary": "auto"}, {"effort": "none"}],
    "safety_identifier": ["somebody"],
    "service_tier": ["flex"],
    "store": [False],
    "stream": [True],
    "stream_options": [{"include_obfuscation": False}, {"other": 1}],
    "temperature": [0.25],
    "text": [{"format": FORM}, {"format": {"type": "json_object"}}, {"verbosity": "low"}, {"format": {"type": "odd"}}],
    "tool_choice": [
        "required",
        {"type": "function", "name": "look"},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "file_search"}]},
        {"type": "file_search"},
        {"type": "mcp", "server_label": "x"},
        {"type": "custom", "name": "c"},
        {"type": "apply_patch"},
    ],
    "tools": [],  # those of TOOLS
    "top_logprobs": [2],
    "top_p": [0.5],
    "truncation": ["auto"],
    "user": ["u"],
}
"""Values that ask for something which does not happen anyway."""

GATEWAYS = {"background", "metadata", "store", "stream"}
"""Members that the gateway answers by itself, whatever the wire."""
SO_ANYWAY: dict[tuple[str, str], list[Any]] = {
    ("stream_options", "chat"): [{"include_obfuscation": False}],  # a public stream of our own making has none
    ("stream_options", "messages"): [{"include_obfuscation": False}],
    ("stream_options", "gemini"): [{"include_obfuscation": False}],
    ("stream_options", "acp"): [{"include_obfuscation": False}],
    ("include", "messages"): [["reasoning.encrypted_content"]],  # signatures are always there
    ("model", "acp"): ["another"],  # it has chosen the agent, which has a model of its own
    ("tools[0].strict", "gemini"): [True],  # the wire has no other way
}
"""What a member asks for that happens on a wire whether it is asked for or not."""

MEMBERS_OF_TOOLS: Json = {
    "allowed_callers": ["direct"],
    "async": True,
    "container": {"type": "auto", "file_ids": ["f"]},
    "defer_loading": True,
    "description": "Looks.",
    "filters": {"type": "eq", "key": "a", "value": "b"},
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"},
    "name": "look",
    "output_schema": SCHEMA,
    "parameters": SCHEMA,
    "strict": True,
    "type": "function",
}
"""A value for each member of the tools that some wire beside the Responses one knows; the others' kind is refused as it is."""
TOOLS_ELSEWHERE = {"function", "custom", "web_search", "web_search_preview", "code_interpreter"}
WIRES = sorted(DIALECTS)
BASE: Json = {"model": "m", "input": "Hi"}


def known_members() -> set[str]:
    hints = [params.ResponseCreateParamsNonStreaming, params.ResponseCreateParamsStreaming]
    return {name for one in hints for name in get_type_hints(one)}


def kinds_of(union: Any) -> dict[str, set[str]]:
    """The kinds of a union of the SDK's parameters, each with its members."""
    found: dict[str, set[str]] = {}
    for one in get_args(union):
        hints = get_type_hints(one)
        literals = [hints["type"], *get_args(hints["type"])]  # an optional one is a union of its own
        for kind in {word for literal in literals for word in get_args(literal) if isinstance(word, str)}:
            found.setdefault(kind, set()).update(hints)
    return found


def tools() -> Iterator[tuple[Json, str]]:
    """Every tool of the SDK with every one of its members, and the place of what is asked for."""
    for kind, members in kinds_of(ToolParam).items():
        bare = {"type": kind, **({"name": "look"} if "name" in members else {})}
        yield bare, "tools[0].type"
        for name in sorted(members - bare.keys()) if kind in TOOLS_ELSEWHERE else ():
            yield {**bare, name: MEMBERS_OF_TOOLS.get(name, {"odd": 1})}, f"tools[0].{name}"


def sent(wire: str, request: Json) -> Json:
    """The body that an upstream of this wire is sent for a client's request."""
    upstream = UpstreamConfig(base_url="http://x", wire=wire)
    kept = msgspec.json.encode(upstream_request(request, "u", upstream, None))
    made = build(upstream, kept, {})
    body: Json = msgspec.json.decode(made.body or b"")
    return {**body, "path": made.url}


def refusal_of(wire: str, request: Json) -> str | None:
    """What an upstream of this wire cannot be sent of a request, in words that begin with its place."""
    try:
        sent(wire, request)
    except RequestUnsupportedError as refused:
        return str(refused)
    return None


def check(wire: str, request: Json, without: Json, place: str) -> None:
    """Hold a request with a member against the same one without: the member shows in the body, or is refused by its place."""
    refused = refusal_of(wire, request)
    if refused is None:
        assert sent(wire, request) != sent(wire, without), f"{place} on {wire} is dropped: {request}"
    else:
        named = refused.partition(" ")[0]  # the place itself, or what it is in
        assert named == place or place.startswith(f"{named}[") or refused.startswith(f"{place}."), (
            f"{place} on {wire}: {refused}"
        )


def test_every_member_that_the_sdk_knows_has_a_sample() -> None:
    assert set(SAMPLES) == known_members()
    unknown = {kind for kind in TOOLS_ELSEWHERE if kind not in kinds_of(ToolParam)}
    assert unknown == set()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("member", sorted(SAMPLES.keys() - GATEWAYS - {"previous_response_id"}))
def test_a_member_is_sent_or_refused_by_its_name(wire: str, member: str) -> None:
    for value in SAMPLES[member]:
        if value in SO_ANYWAY.get((member, wire), ()):
            continue
        base = {**BASE, "tools": [FUNCTION]} if member in {"tool_choice", "parallel_tool_calls"} else BASE
        if wire == "acp":
            base = BASE  # it takes no tools at all
        check(wire, {**base, member: value}, base, member)


@pytest.mark.parametrize("wire", WIRES)
def test_what_is_the_gateways_own_changes_nothing_upstream(wire: str) -> None:
    for member in GATEWAYS - ({"store", "metadata"} if wire == "responses" else set()):
        for value in SAMPLES[member]:
            assert sent(wire, {**BASE, member: value}) == sent(wire, BASE)


@pytest.mark.parametrize("wire", WIRES)
def test_a_tool_and_each_of_its_members_is_sent_or_refused_by_its_place(wire: str) -> None:
    for tool, place in tools():
        bare = {name: tool[name] for name in ("type", "name") if name in tool}
        without = {**BASE, "tools": [bare]} if tool != bare else BASE
        if refusal_of(wire, without) is not None and tool != bare:
            continue  # its kind is refused
        if (place, wire) in SO_ANYWAY:
            continue
        check(wire, {**BASE, "tools": [tool]}, without, place)


@pytest.mark.parametrize("wire", ["chat", "messages", "gemini", "acp"])
def test_an_item_of_any_kind_is_sent_or_refused_by_its_place(wire: str) -> None:
    kinds = kinds_of(items.ResponseInputItemParam)
    assert {"message", "function_call", "reasoning", "item_reference"} <= kinds.keys()
    for kind, members in kinds.items():
        if kind in {
            "message",
            "function_call",
            "function_call_output",
            "reasoning",
            "custom_tool_call",
            "custom_tool_call_output",
        }:
            continue  # told apart member by member where each wire's requests are tested
        item = {"type": kind, **({"id": "i"} if "id" in members else {})}
        with pytest.raises(RequestUnsupportedError, match=r"input\[0\]\.type"):
            sent(wire, {**BASE, "input": [item]})


PARTS = (
    words("a"),
    {"type": "input_image", "image_url": PICTURE, "detail": "auto"},
    {"type": "input_file", "file_data": PICTURE, "filename": "x"},
)
CHOICE: Json = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "weather"}]}
ASKING: Json = {
    "model": "m",
    "input": [user(*PARTS), *CONVERSATION],
    "tools": [TOOL],
    "text": {"format": FORM},
    "reasoning": {"effort": "low"},
    "stream_options": {"include_obfuscation": False},
}
CUSTOM: list[Json] = [
    {"type": "custom_tool_call", "call_id": "c9", "name": "c", "input": "x"},
    {"type": "custom_tool_call_output", "call_id": "c9", "output": [words("x")]},
]
GRAMMAR: Json = {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark", "definition": "d"}}
SERVED: list[Json] = [{"type": "web_search"}, {"type": "code_interpreter", "container": {"type": "auto"}}]
RICH: dict[str, Json] = {
    "chat": {**ASKING, "input": [*ASKING["input"], *CUSTOM], "tools": [TOOL, GRAMMAR], "tool_choice": CHOICE},
    "messages": {**ASKING, "tool_choice": {"type": "function", "name": "weather"}},
    "gemini": {**ASKING, "tools": [TOOL, *SERVED], "tool_choice": CHOICE},
    "acp": {"model": "m", "input": [user(*PARTS)]},
}
"""As much as each wire can be asked for."""
FREE = {"schema", "parameters"}
"""Where a request may say what it likes."""


def places(value: Any, at: str = "") -> Iterator[tuple[str, Json]]:
    """Every object of a request with its path, in place."""
    if isinstance(value, dict):
        yield at, value
        for name, one in value.items():
            if name not in FREE:
                yield from places(one, f"{at}.{name}".lstrip("."))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from places(one, f"{at}[{number}]")


@pytest.mark.parametrize("wire", RICH)
def test_a_member_that_nobody_knows_is_refused_by_its_place_wherever_it_is(wire: str) -> None:
    assert refusal_of(wire, RICH[wire]) is None
    count = sum(1 for _ in places(RICH[wire]))
    kept_whole = {"reasoning"} if wire == "gemini" else set()  # thoughts are not sent back there
    for number in range(count):
        request = copy.deepcopy(RICH[wire])
        place, found = list(places(request))[number]
        above = re.sub(r"(\.(content|summary)\[\d+\])$", "", place)
        if place != above and dict(places(request))[above].get("type") in kept_whole:
            continue
        found["odd"] = 1
        expected = f"{place}.odd".lstrip(".")
        assert str(refusal_of(wire, request)).startswith(f"{expected} "), expected


ODD: tuple[Any, ...] = (
    0,
    True,
    "",
    "x",
    [],
    [1],
    ["x"],
    [[]],
    {},
    {"a": 1},
    [{}],
    [None],
    [{"type": []}],
    {"type": {}},
    {"type": 7},
)


def spots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every object and list of a request, in place, with each of its members' names or numbers."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield value, key
        yield from spots(one)


@pytest.mark.parametrize("wire", RICH)
def test_a_member_of_any_form_is_sent_or_refused_and_never_a_fault(wire: str) -> None:
    routes = {"weather": "custom", "c": "custom"}
    for number in range(sum(1 for _ in spots(RICH[wire]))):
        for odd in ODD:
            request = copy.deepcopy(RICH[wire])
            holder, key = list(spots(request))[number]
            holder[key] = odd
            for asked in (request, with_stand_ins(request, routes)):
                with suppress(RequestError):
                    sent(wire, asked)


ASKED: list[tuple[str, Json]] = [
    (member, {member: value}) for member, values in SAMPLES.items() for value in values if member != "stream"
]


async def refusal(on: Stage, request: Json) -> openai.BadRequestError | None:
    async with openai.AsyncOpenAI(base_url=f"{on.url}/v1", api_key="none", max_retries=0) as client:
        try:
            await client.responses.create(**{"background": True, **request})
        except openai.BadRequestError as refused:
            return refused
    return None


@pytest.mark.parametrize("wire", ["chat"])
async def test_the_sdk_is_told_which_member_was_refused(redis_url: str, wire: str) -> None:
    async with stage(redis_url) as on:
        for member, asked in ASKED:
            if member in {"conversation", "previous_response_id", "background"}:
                continue
            request = {**BASE, "model": "talker", **({} if member == "model" else asked)}
            refused = await refusal(on, request)
            expected = refusal_of(wire, request)
            if expected is None:
                assert refused is None, member
                continue
            assert refused is not None, member
            assert refused.code == "upstream_request_unsupported"
            assert str(refused.param).startswith(member)
            assert expected in refused.message
