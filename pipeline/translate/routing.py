"""Which calls are shown as what: the model calls a function, the client is shown the tool that it stands for.

A turn's `tools` say so by the function's name, frozen at submit:

- `function`: the call is the client's own and passes as it is, like every call that no route names.
- `custom`: the client declared a tool with free text as its input; the model was given a function in its place.
- `mcp web_search web_fetch file_search code_interpreter`: the gateway answers it. What the model said of the call is hidden; the
  client is shown what the producer `tools` tells of it. `mcp:<label>` names the server. `gateway` is shown like `mcp`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from pipeline.events import ToolStarted

FUNCTION: Final = "function"
CUSTOM: Final = "custom"
_FACES: Final[dict[str, str]] = {
    "custom": "custom_tool_call",
    "gateway": "mcp_call",
    "mcp": "mcp_call",
    "web_search": "web_search_call",
    "web_fetch": "web_search_call",
    "file_search": "file_search_call",
    "code_interpreter": "code_interpreter_call",
}
Routes = Mapping[str, str]


def face_of(routes: Routes, event: ToolStarted) -> str:
    """The kind of item that the client is shown for a call; empty where it is the call itself."""
    if event.kind != FUNCTION or not routes:
        return ""
    shape, _, _ = routes.get(event.name, FUNCTION).partition(":")
    return _FACES.get(shape, "")


def label_of(routes: Routes, name: str) -> str:
    """The server that a call of an `mcp` tool goes to, as the client knows it."""
    _, _, label = routes.get(name, "").partition(":")
    return label or "gateway"


def parse_routes(entries: Iterable[str]) -> dict[str, str]:
    """Read configured routes, each `name` or `name=shape`; a bare name that is a shape's own has that shape.

    Raises ValueError for an entry that is none.
    """
    routes: dict[str, str] = {}
    for entry in entries:
        name, equals, shape = (piece.strip() for piece in entry.partition("="))
        if not equals:
            shape = name if name in _FACES else "gateway"
        word, colon, label = shape.partition(":")
        if not name or word not in {*_FACES, FUNCTION} or (colon and (word != "mcp" or not label)):
            shapes = " ".join((*_FACES, FUNCTION))
            raise ValueError(f"{entry!r} is no route: NAME or NAME=SHAPE, a shape being one of {shapes}, or mcp:LABEL")
        routes[name] = shape
    return routes
