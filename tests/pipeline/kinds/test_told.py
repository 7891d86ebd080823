"""What a tool's item holds when nobody told its item: read from its input, its output, and its failure."""

from typing import Any

import pytest

from pipeline.kinds import KINDS
from pipeline.kinds.slot import Slot
from pipeline.kinds.told import code_asked, words

BLANKS = {
    "mcp_call": {"name": "f", "server_label": "upstream", "arguments": ""},
    "code_interpreter_call": {"code": "", "container_id": "", "outputs": []},
    "web_search_call": {},
    "file_search_call": {"queries": []},
    "mcp_list_tools": {"server_label": "f", "tools": []},
    "custom_tool_call": {"name": "f"},
}


@pytest.mark.parametrize("kind", BLANKS)
def test_a_start_without_an_item_has_what_its_readers_expect(kind: str) -> None:
    slot = Slot(0, kind)
    slot.name = "f"
    assert KINDS[kind].blank(slot) == BLANKS[kind]
    slot.name = None
    assert "f" not in KINDS[kind].blank(slot).values()


@pytest.mark.parametrize(
    ("kind", "text", "members"),
    [
        ("web_search_call", '{"query": "q"}', {"action": {"type": "search", "query": "q"}}),
        ("web_search_call", '{"url": "u"}', {"action": {"type": "open_page", "url": "u"}}),
        ("web_search_call", '{"query": 7}', {"action": {"type": "search", "query": ""}}),
        ("web_search_call", "no JSON", {"action": {"type": "search", "query": ""}}),
        ("web_search_call", "[1]", {"action": {"type": "search", "query": ""}}),
        ("file_search_call", '{"query": "q"}', {"queries": ["q"]}),
        ("file_search_call", '{"queries": ["a", 7, "b"]}', {"queries": ["a", "b"]}),
        ("file_search_call", "{}", {"queries": []}),
        ("mcp_call", '{"q": 1}', {}),
    ],
)
def test_an_input_says_what_was_asked(kind: str, text: str, members: dict[str, Any]) -> None:
    assert KINDS[kind].asked({"id": "x"}, text) == {"id": "x", **members}


@pytest.mark.parametrize(("text", "code"), [('{"code": "1"}', "1"), ('{"input": "2"}', "2"), ("3", "3")])
def test_code_is_a_member_of_its_call_or_the_call_itself(text: str, code: str) -> None:
    assert code_asked({}, text) == {"code": code}


LINKS = [{"url": "https://a.example", "title": "A"}, {"url": 7}, "odd"]
SEARCH = {"action": {"type": "search", "query": "q"}}


@pytest.mark.parametrize(
    ("kind", "item", "output", "failed", "members"),
    [
        ("mcp_call", {}, "out", False, {"output": "out", "error": None}),
        ("mcp_call", {}, "why", True, {"output": None, "error": "why"}),
        ("mcp_call", {}, None, True, {"output": None, "error": "failed"}),
        ("code_interpreter_call", {}, "1\n", False, {"outputs": [{"type": "logs", "logs": "1\n"}]}),
        ("code_interpreter_call", {}, None, False, {"outputs": []}),
        ("web_search_call", SEARCH, LINKS, False, {"action": {**SEARCH["action"], "sources": [{"type": "url", "url": "https://a.example"}]}}),
        ("web_search_call", SEARCH, "text", False, SEARCH),
        ("web_search_call", {"action": {"type": "open_page"}}, LINKS, False, {"action": {"type": "open_page"}}),
        ("web_search_call", {}, LINKS, False, {}),
        ("file_search_call", {}, [{"file_id": "f"}, 7], False, {"results": [{"file_id": "f"}]}),
        ("file_search_call", {}, "none", False, {}),
        ("mcp_list_tools", {}, [{"name": "f"}], False, {"tools": [{"name": "f"}]}),
        ("mcp_list_tools", {}, "odd", False, {"tools": []}),
        ("mcp_list_tools", {}, None, True, {"error": "failed"}),
        ("custom_tool_call", {"a": 1}, "out", False, {"a": 1}),
    ],
)  # fmt: skip
def test_an_output_says_what_came_of_it(
    kind: str, item: dict[str, Any], output: Any, failed: bool, members: dict[str, Any]
) -> None:
    assert KINDS[kind].result(item, output, failed) == members


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("as it is", "as it is"),
        (None, ""),
        ({"type": "text", "text": "a"}, "a"),
        ([{"type": "text", "text": "a"}, {"type": "content", "content": {"type": "text", "text": "b"}}], "a\nb"),
        ([{"type": "image"}], '[{"type":"image"}]'),
        ({"a": 1}, '{"a":1}'),
        ([], ""),
        (7, "7"),
    ],
)
def test_an_output_as_text(output: Any, text: str) -> None:
    assert words(output) == text
