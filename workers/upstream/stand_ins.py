"""Functions in place of custom tools, for an upstream that knows functions alone: the way out of what the core shows on the way back.

Only tools that the upstream's routes call `custom` are replaced; whatever has another form than expected passes as it is, and is the
upstream's to refuse. Free text becomes the member `input` of the arguments.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

Json = dict[str, Any]
CUSTOM = "custom"
PARAMETERS: Json = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The tool's whole input, as free text."}},
    "required": ["input"],
    "additionalProperties": False,
}


def with_stand_ins(request: Json, routes: Mapping[str, str]) -> Json:
    """A request whose custom tools, as far as they are routed so, are functions: declared, chosen, and in the conversation."""
    names = {name for name, shape in routes.items() if shape == CUSTOM}
    if not names:
        return request
    changed = dict(request)
    if isinstance(tools := request.get("tools"), list):
        changed["tools"] = [_declared(tool, names) for tool in tools]
    choice = request.get("tool_choice")
    if isinstance(choice, dict):
        changed["tool_choice"] = _chosen(choice, names)
        if isinstance(allowed := choice.get("tools"), list):
            changed["tool_choice"]["tools"] = [_chosen(one, names) for one in allowed]
    if isinstance(items := request.get("input"), list):
        changed["input"] = _said(items, names)
    return changed


def _is_routed(tool: Any, names: set[str]) -> bool:
    return isinstance(tool, dict) and tool.get("type") == CUSTOM and _is_named(tool, names)


def _is_named(value: Json, names: set[str]) -> bool:
    name = value.get("name")
    return isinstance(name, str) and name in names


def _declared(tool: Any, names: set[str]) -> Any:
    if not _is_routed(tool, names):
        return tool
    told = {member: value for member, value in tool.items() if member not in {"type", "format"}}
    form = tool.get("format")
    if isinstance(form, dict) and isinstance(
        definition := form.get("definition"), str
    ):  # the only way to say a grammar
        told["description"] = (
            f"{told.get('description') or ''}\n\nThe input follows this grammar:\n{definition}".strip()
        )
    return {"type": "function", **told, "parameters": PARAMETERS, "strict": True}


def _chosen(choice: Any, names: set[str]) -> Any:
    if _is_routed(choice, names):
        return {"type": "function", "name": choice["name"]}
    return dict(choice) if isinstance(choice, dict) else choice


def _said(items: list[Any], names: set[str]) -> list[Any]:
    """The conversation; an output belongs to the call that has its id."""
    calls: set[str] = set()
    said = []
    for item in items:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "custom_tool_call" and _is_named(item, names) and isinstance(item.get("input"), str):
            calls.add(str(item.get("call_id")))
            rest = {member: value for member, value in item.items() if member not in {"input", "id"}}
            arguments = msgspec.json.encode({"input": item["input"]}).decode()
            said.append({**rest, "type": "function_call", "arguments": arguments})
        elif kind == "custom_tool_call_output" and str(item.get("call_id")) in calls:
            rest = {member: value for member, value in item.items() if member != "id"}
            said.append({**rest, "type": "function_call_output"})
        else:
            said.append(item)
    return said
