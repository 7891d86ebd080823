"""Kinds of output items, one table: what each is in public from its start to its end.

`from_added` makes the item as its start shows it, `apply_done` mends the upstream's finished item, and `finalize` makes an
item of what was streamed when no finished one ever came. Which texts a kind may stream is in `tracks`. A kind that the table
does not name is opaque: it passes whole. Adding a kind touches this file alone.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from pipeline.fold.slots import OTHER_PART, Json, Part, Slot


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of item behaves; `input` is the member that holds a call's streamed input."""

    name: str
    prefix: str
    tracks: frozenset[str]
    from_added: Callable[[Slot, Json], Json]
    apply_done: Callable[[Slot, Json], Json]
    finalize: Callable[[Slot, str], Json]
    input: str | None = None
    call: bool = False  # whether a call id belongs to its identity
    deltas: str | None = None  # the stem of its input's events
    blank: Callable[[Slot], Json] = lambda slot: {"name": slot.name} if slot.name else {}  # where it has no item yet
    asked: Callable[[Json, str], Json] = lambda item, _input: (
        item
    )  # what its input asks for, where no member holds that
    result: Callable[[Json, Any, bool], Json] = lambda item, _output, _failed: (
        item
    )  # what came of it, where no item tells


_TEXT_MEMBERS = {
    "output_text": "text",
    "text": "text",
    "refusal": "refusal",
    "summary_text": "text",
    "reasoning_text": "text",
}


def content_of(part: Part) -> Json:
    """A message's or reasoning's part as an item lists it, made of what was streamed."""
    text = part.text
    if part.track == "refusal":
        made: Json = {"type": "refusal", "refusal": text}
    elif part.track == "summary":
        made = {"type": "summary_text", "text": text}
    elif part.track == "reasoning":
        made = {"type": "reasoning_text", "text": text}
    else:
        made = {"type": "output_text", "text": text, "annotations": list(part.annotations), "logprobs": []}
    if part.raw is None or part.track.startswith(OTHER_PART):
        return part.raw or made
    member = "refusal" if part.track == "refusal" else "text"
    given = part.raw.get(member)
    if given and not text:  # nothing of it was ever streamed
        return made
    return part.raw if given or not text else {**part.raw, member: text}


def _word(value: object) -> str:
    """A string as it is; anything else is the empty one."""
    return value if isinstance(value, str) else ""


def _message_added(_slot: Slot, item: Json) -> Json:
    """A message begins empty: what its start already holds is streamed like the rest."""
    return {**(item or {"type": "message", "status": "in_progress", "role": "assistant"}), "content": []}


def _message_done(slot: Slot, item: Json) -> Json:
    """The finished message, with streamed text put back where it is empty, missing or unreadable."""
    return {**item, "content": _mended(item.get("content"), slot.texts("text", "refusal"))}


def _mended(given: object, parts: list[Part]) -> list[Json]:
    """The parts that a finished item lists, with what was streamed in place of those that say nothing."""
    streamed = deque(parts)
    listed: list[Json] = []
    for shown in given if isinstance(given, list) else []:
        if not isinstance(shown, dict) or not (kind := _word(shown.get("type"))):
            if streamed:
                listed.append(content_of(streamed.popleft()))
            continue
        member = _TEXT_MEMBERS.get(kind)
        part = streamed.popleft() if member is not None and streamed else None
        if member is not None and not _word(shown.get(member)):
            shown = {**shown, member: part.text if part is not None else ""}  # noqa: PLW2901
        listed.append(shown)
    missing = len(parts) - len(listed)
    return listed + [content_of(part) for part in list(streamed)[-missing:] if missing > 0 and part.text]


def _message_end(slot: Slot, status: str) -> Json:
    """A message of its texts, empty ones left out."""
    content = [content_of(part) for part in slot.texts("text", "refusal") if part.text]
    return {**slot.public, "status": status, "content": content}


def _reasoning_added(_slot: Slot, item: Json) -> Json:
    """Reasoning begins as it came; a summary is always there."""
    return {"type": "reasoning", "summary": [], **item}


def _reasoning_done(slot: Slot, item: Json) -> Json:
    """The finished reasoning, with what was streamed where it has nothing."""
    merged = {"summary": [], **item}
    for member, track in (("summary", "summary"), ("content", "reasoning")):
        listed = _mended(merged.get(member), slot.texts(track))
        if listed or member in merged:
            merged[member] = listed if isinstance(merged.get(member), list) or listed else merged[member]
    return merged


def _reasoning_end(slot: Slot, status: str) -> Json:
    """Reasoning of its texts."""
    item = _reasoning_done(slot, slot.public)
    return {**item, "status": status} if "status" in item else item


def _function_added(slot: Slot, item: Json) -> Json:
    """A call begins with what is known of it."""
    return {
        **(item if "type" in item else {"type": slot.kind, "status": "in_progress", **item}),
        "name": _word(item.get("name")) or slot.name or "",
        "arguments": _word(item.get("arguments")),
    }


def _function_done(slot: Slot, item: Json) -> Json:
    """The finished call; what it lacks is filled from what was told before."""
    merged = dict(item)
    for member in ("name", "namespace"):
        known = slot.public.get(member)
        if known and not _word(merged.get(member)):
            merged[member] = known
    if not _word(merged.get("arguments")):
        merged["arguments"] = slot.input or slot.public.get("arguments") or ""
    return merged


def _function_end(slot: Slot, status: str) -> Json:
    """A call of its streamed arguments."""
    return {**slot.public, "status": status, "arguments": slot.input or slot.public.get("arguments") or ""}


def _opaque_added(slot: Slot, item: Json) -> Json:
    """Whole, as it came."""
    if "type" in item:
        return item
    return {"type": slot.kind, "status": "in_progress", **kind_of(slot.kind).blank(slot), **item}


def _opaque_done(slot: Slot, item: Json) -> Json:
    """Whole, as it came; only streamed input is put back."""
    member = kind_of(slot.kind).input
    if member and not item.get(member) and slot.input:
        return {**item, member: slot.input}
    return item


def _opaque_end(slot: Slot, status: str) -> Json:
    """As it was opened, with the input that was streamed."""
    item = _opaque_done(slot, slot.public)
    return {**item, "status": status} if "status" in item else item


def _mcp_blank(slot: Slot) -> Json:
    """A tool of an upstream that does not speak of items: somebody else runs it, under the name that was told."""
    return {"name": slot.name or "", "server_label": "upstream", "arguments": ""}


def _mcp_result(item: Json, output: Any, failed: bool) -> Json:
    text = _words(output)
    return {**item, "output": None if failed else text, "error": (text or "failed") if failed else None}


def _code_blank(_slot: Slot) -> Json:
    return {"code": "", "container_id": "", "outputs": []}


def _code_result(item: Json, output: Any, failed: bool) -> Json:  # noqa: ARG001  a column of the table
    text = _words(output)
    return {**item, "outputs": [{"type": "logs", "logs": text}] if text else []}


def _search_asked(item: Json, asked: str) -> Json:
    """A search tells what it looked for, as far as its input says so."""
    try:
        query = msgspec.json.decode(asked).get("query")
    except (msgspec.DecodeError, RecursionError, AttributeError):
        query = None
    return {**item, "action": {"type": "search", "query": query if isinstance(query, str) else ""}}


def _search_result(item: Json, output: Any, failed: bool) -> Json:  # noqa: ARG001  a column of the table
    found = output if isinstance(output, list) else []
    links = [one["url"] for one in found if isinstance(one, dict) and isinstance(one.get("url"), str)]
    action = item.get("action")
    if not links or not isinstance(action, dict):
        return item
    return {**item, "action": {**action, "sources": [{"type": "url", "url": link} for link in links]}}


def _words(output: Any) -> str:
    """A tool's output as text: text as it came, blocks of text joined, anything else as JSON."""
    if isinstance(output, str):
        return output
    blocks = output if isinstance(output, list) else [output]
    texts = []
    for block in blocks:
        inner = block.get("content") if isinstance(block, dict) and block.get("type") == "content" else block
        text = inner.get("text") if isinstance(inner, dict) and inner.get("type") == "text" else None
        if not isinstance(text, str):
            return "" if output is None else msgspec.json.encode(output).decode()
        texts.append(text)
    return "\n".join(texts)


def _opaque(
    name: str, prefix: str, *, stem: str | None = None, member: str | None = None, call: bool = False, **columns: Any
) -> Kind:
    return Kind(
        name,
        prefix,
        frozenset({"reasoning", "summary", "tool_input"}) if stem is None else _INPUT,
        _opaque_added,
        _opaque_done,
        _opaque_end,
        input=member,
        call=call,
        deltas=stem,
        **columns,
    )


_INPUT = frozenset({"tool_input"})

KINDS: dict[str, Kind] = {
    "message": Kind("message", "msg", frozenset({"text", "refusal"}), _message_added, _message_done, _message_end),
    "reasoning": Kind(
        "reasoning", "rs", frozenset({"reasoning", "summary"}), _reasoning_added, _reasoning_done, _reasoning_end
    ),
    "function_call": Kind(
        "function_call",
        "fc",
        _INPUT,
        _function_added,
        _function_done,
        _function_end,
        input="arguments",
        call=True,
        deltas="function_call_arguments",
    ),
    "custom_tool_call": _opaque("custom_tool_call", "ctc", stem="custom_tool_call_input", member="input", call=True),
    "mcp_call": _opaque(
        "mcp_call", "mcp", stem="mcp_call_arguments", member="arguments", blank=_mcp_blank, result=_mcp_result
    ),
    "code_interpreter_call": _opaque(
        "code_interpreter_call",
        "ci",
        stem="code_interpreter_call_code",
        member="code",
        blank=_code_blank,
        result=_code_result,
    ),
    "web_search_call": _opaque(
        "web_search_call", "ws", blank=lambda _slot: {}, asked=_search_asked, result=_search_result
    ),
    "shell_call": _opaque("shell_call", "sh", call=True),
}
_OTHER = _opaque("other", "item")

_TRACK_KINDS = {"text": "message", "refusal": "message", "reasoning": "reasoning", "summary": "reasoning"}


def kind_of(name: str) -> Kind:
    """The table's row of a kind; any other kind is opaque."""
    return KINDS.get(name, _OTHER)


def takes(name: str, track: str) -> bool:
    """Whether an item of this kind has such a text or part."""
    return track in kind_of(name).tracks or (name == "message" and track.startswith(OTHER_PART))


def kind_of_track(track: str) -> str:
    """The kind of an item of which only text was seen; a call has none until it is named."""
    return _TRACK_KINDS.get(track, "")


_NAMED = frozenset({"file_search", "image_generation", "computer", "local_shell", "apply_patch", "tool_search"})


def kind_of_tool(kind: str) -> str:
    """The item kind of a tool that was told of without its item. One that the public stream has no kind for is shown as an
    MCP call: the kind for whatever somebody else runs, with a name, an input and an output. A function call it is not,
    since clients answer those.
    """
    name = "custom_tool_call" if kind == "custom" else f"{kind}_call"
    return name if name in KINDS or kind in _NAMED else "mcp_call"
