"""The client's own declarations in response objects: an upstream repeats the functions that it was given in their place."""

from typing import Any

from pipeline.translate.routing import CUSTOM, FUNCTION, Routes, label_of

Json = dict[str, Any]
_ALLOWED = "allowed_tools"
_PREVIEWS = {"web_search": ("web_search", "web_search_preview"), "web_fetch": ("web_fetch", "web_search")}


class Declarations:
    """What the client declared: the members `tools` and `tool_choice` of its request, as far as the turn knows them."""

    def __init__(self, routes: Routes, request: Json | None) -> None:
        tools = (request or {}).get("tools")
        self._routes = {name: shape for name, shape in routes.items() if shape != FUNCTION}
        self._tools = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []

    def restore(self, response: Json) -> Json:
        """A response object with the client's declarations in place of the functions that stood for them."""
        if not self._routes:
            return response
        tools, choice = response.get("tools"), response.get("tool_choice")
        if isinstance(tools, list):
            response = {**response, "tools": self._each(tools, self._declaration)}
        if isinstance(choice, dict):
            response = {**response, "tool_choice": self._choice(choice)}
        return response

    def _each(self, tools: list[Any], restore: Any) -> list[Any]:
        """Every tool restored; one that stands for several functions is listed once, one that nobody declared not at all."""
        listed: list[Any] = []
        for tool in tools:
            routed = isinstance(tool, dict) and self._stands_in(tool)
            restored = restore(tool["name"]) if routed else tool
            if restored is not None and not (routed and restored in listed):
                listed.append(restored)
        return listed

    def _choice(self, choice: Json) -> Json:
        if choice.get("type") == _ALLOWED and isinstance(choice.get("tools"), list):
            return {**choice, "tools": self._each(choice["tools"], self._named)}
        return self._named(choice["name"]) if self._stands_in(choice) else choice

    def _stands_in(self, tool: Json) -> bool:
        """Whether this is a function that stands for something else."""
        name = tool.get("name")
        return tool.get("type") == FUNCTION and isinstance(name, str) and name in self._routes

    def _declaration(self, name: str) -> Json | None:
        """The tool as the client declared it; None where it declared none."""
        shape = self._routes[name]
        if shape == CUSTOM:
            return next((one for one in self._tools if one.get("type") == CUSTOM and one.get("name") == name), None)
        kind, _, label = shape.partition(":")
        kinds = _PREVIEWS.get(kind, (kind,))
        for one in self._tools:
            if one.get("type") in kinds and (not label or one.get("server_label") == label):
                return one
        return None

    def _named(self, name: str) -> Json:
        """How a choice names the tool."""
        kind = self._routes[name].partition(":")[0]
        if kind == CUSTOM:
            return {"type": CUSTOM, "name": name}
        if kind in {"mcp", "gateway"}:
            return {"type": "mcp", "server_label": label_of(self._routes, name), "name": name}
        declared = self._declaration(name)
        return {"type": declared["type"] if declared is not None else kind}
