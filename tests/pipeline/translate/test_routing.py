import pytest

from pipeline.events import ToolStarted
from pipeline.translate.routing import face_of, label_of, parse_routes


def started(name: str, kind: str = "function") -> ToolStarted:
    return ToolStarted(seq=1, at=0, item=0, call_id="k", name=name, kind=kind)


def test_a_name_has_the_shape_that_is_configured() -> None:
    assert parse_routes(["look_up", "web_search", " patch = custom ", "docs=mcp:wiki", "own=function"]) == {
        "look_up": "gateway",
        "web_search": "web_search",
        "patch": "custom",
        "docs": "mcp:wiki",
        "own": "function",
    }


@pytest.mark.parametrize("entry", ["", "=custom", "a=", "a=hologram", "a=mcp:", "a=custom:x"])
def test_what_is_no_route_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="is no route"):
        parse_routes([entry])


@pytest.mark.parametrize(
    ("shape", "face"),
    [
        ("custom", "custom_tool_call"),
        ("gateway", "mcp_call"),
        ("mcp:wiki", "mcp_call"),
        ("web_search", "web_search_call"),
        ("web_fetch", "web_search_call"),
        ("file_search", "file_search_call"),
        ("code_interpreter", "code_interpreter_call"),
        ("function", ""),
        ("hologram", ""),
    ],
)
def test_each_shape_has_a_face(shape: str, face: str) -> None:
    assert face_of({"t": shape}, started("t")) == face
    assert face_of({"t": shape}, started("other")) == ""
    assert face_of({"t": shape}, started("t", "custom")) == ""  # the upstream's own kinds pass as they are
    assert face_of({}, started("t")) == ""


def test_a_server_has_the_label_that_is_configured() -> None:
    assert label_of({"t": "mcp:wiki", "u": "mcp"}, "t") == "wiki"
    assert label_of({"u": "mcp"}, "u") == label_of({}, "none") == "gateway"
