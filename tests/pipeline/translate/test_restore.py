from typing import Any

import pytest

from pipeline.translate.restore import Declarations

ROUTES = {
    "patch": "custom",
    "find": "web_search",
    "a": "mcp:wiki",
    "b": "mcp:wiki",
    "open": "web_fetch",
    "own": "function",
}
DECLARED: list[Any] = [
    {"type": "custom", "name": "patch", "format": {"type": "text"}},
    {"type": "web_search_preview"},
    {"type": "mcp", "server_label": "other"},
    {"type": "mcp", "server_label": "wiki"},
    "no tool",
]


def function(name: object) -> dict[str, object]:
    return {"type": "function", "name": name}


def test_functions_become_what_they_stand_for_each_declaration_once() -> None:
    declarations = Declarations(ROUTES, {"tools": DECLARED})
    tools = [
        function("own"),
        function("patch"),
        function("a"),
        function("b"),
        function("find"),
        {"type": "x"},
        7,
        function([]),
    ]
    shown = declarations.restore({"id": "r", "tools": tools})["tools"]
    assert shown == [function("own"), DECLARED[0], DECLARED[3], DECLARED[1], {"type": "x"}, 7, function([])]


def test_a_tool_that_the_client_never_declared_is_not_shown() -> None:
    for request in (None, {}, {"tools": "none"}, {"tools": [{"type": "custom", "name": "else"}]}):
        assert Declarations(ROUTES, request).restore({"tools": [function("patch"), function("find")]})["tools"] == []


@pytest.mark.parametrize(
    ("choice", "shown"),
    [
        ("auto", "auto"),
        (function("own"), function("own")),
        (function("patch"), {"type": "custom", "name": "patch"}),
        (function("find"), {"type": "web_search_preview"}),
        (function("open"), {"type": "web_fetch"}),
        (function("a"), {"type": "mcp", "server_label": "wiki", "name": "a"}),
        (function(["odd"]), function(["odd"])),
        ({"type": "allowed_tools", "mode": "auto"}, {"type": "allowed_tools", "mode": "auto"}),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [function("patch"), function("own"), function("find")]},
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "custom", "name": "patch"}, function("own"), {"type": "web_search_preview"}],
            },
        ),
    ],
)
def test_a_choice_names_what_the_client_declared(choice: object, shown: object) -> None:
    declarations = Declarations(ROUTES, {"tools": DECLARED})
    assert declarations.restore({"tool_choice": choice})["tool_choice"] == shown


def test_without_routes_nothing_is_touched() -> None:
    given = {"tools": [function("patch")], "tool_choice": function("patch")}
    assert Declarations({"own": "function"}, {"tools": DECLARED}).restore(given) is given
