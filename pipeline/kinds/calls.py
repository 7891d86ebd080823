"""Calls: their streamed input is put back where the finished item lacks it."""

from pipeline.kinds.slot import INPUT, Json, Slot
from pipeline.kinds.texts import word


def function_added(slot: Slot, item: Json) -> Json:
    """A call begins with what is known of it."""
    return {
        **(item if "type" in item else {"type": slot.kind, "status": "in_progress", **item}),
        "name": word(item.get("name")) or slot.name or "",
        "arguments": word(item.get("arguments")),
    }


def function_done(slot: Slot, item: Json) -> Json:
    """The finished call; what it lacks is filled from what was told before."""
    merged = dict(item)
    for member in ("name", "namespace"):
        known = slot.public.get(member)
        if known and not word(merged.get(member)):
            merged[member] = known
    if not word(merged.get("arguments")):
        merged["arguments"] = _arguments(slot)
    return merged


def function_end(slot: Slot, status: str) -> Json:
    """A call of its streamed arguments."""
    return {**slot.public, "status": status, "arguments": _arguments(slot)}


def without_quirk(arguments: str) -> str:
    """Streamed arguments without the empty object that vLLM sends before the real one."""
    text = arguments.lstrip()
    if text.startswith("{}") and (rest := text[2:].lstrip()).startswith("{"):
        return rest
    return arguments


def shell_input(slot: Slot, item: Json) -> Json:
    """A shell call with the commands that were streamed, if it lists none."""
    commands = [part.text for part in slot.texts(INPUT)]
    action = item.get("action")
    action = action if isinstance(action, dict) else {}
    return {**item, "action": {**action, "commands": commands}} if commands and not action.get("commands") else item


def patch_input(slot: Slot, item: Json) -> Json:
    """A patch with the difference that was streamed, if it holds none."""
    operation = item.get("operation")
    operation = operation if isinstance(operation, dict) else {}
    return (
        {**item, "operation": {**operation, "diff": slot.input}} if slot.input and not operation.get("diff") else item
    )


def _arguments(slot: Slot) -> str:
    return without_quirk(slot.input) or slot.public.get("arguments") or ""
