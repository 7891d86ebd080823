"""The table of kinds: each kind of output item that the official SDK knows, and one that old servers send.

A kind that it does not name is opaque: it passes whole. Adding a kind touches this file alone: the adapter of the Responses wire,
the grammar, the fold and the public stream read what they need of it here.
"""

from typing import Any, Final

from pipeline.kinds import calls, texts, told
from pipeline.kinds.needs import mended
from pipeline.kinds.row import Kind, Served
from pipeline.kinds.slot import INPUT, Json, Slot

_TYPED_INPUT: Final = frozenset({INPUT})
_MESSAGE_PARTS: Final = frozenset({"text", "refusal"})
_TRACK_KINDS: Final = {"text": "message", "refusal": "message", "reasoning": "reasoning", "summary": "reasoning"}


def _added(slot: Slot, item: Json) -> Json:
    """Whole, as it came."""
    if "type" in item:
        return item
    return {"type": slot.kind, "status": "in_progress", **kind_of(slot.kind).blank(slot), **item}


def _done(slot: Slot, item: Json) -> Json:
    """Whole, as it came; only streamed input is put back, and what its readers take for granted."""
    row = kind_of(slot.kind)
    if row.input and not item.get(row.input) and slot.input:
        item = {**item, row.input: slot.input}
    return mended(item, row)


def _end(slot: Slot, status: str) -> Json:
    """As it was opened, with the input that was streamed."""
    item = kind_of(slot.kind).apply_done(slot, slot.public)
    return {**item, "status": status} if "status" in item else item


def _shell_done(slot: Slot, item: Json) -> Json:
    return mended(calls.shell_input(slot, item), kind_of(slot.kind))


def _patch_done(slot: Slot, item: Json) -> Json:
    return mended(calls.patch_input(slot, item), kind_of(slot.kind))


def _plain(name: str, prefix: str, **columns: Any) -> Kind:
    """A kind that passes whole."""
    return Kind(
        **{"name": name, "prefix": prefix, "from_added": _added, "apply_done": _done, "finalize": _end, **columns}
    )


def _rows(*rows: Kind) -> dict[str, Kind]:
    return {row.name: row for row in rows}


_MCP: Final[dict[str, Any]] = {
    "tool": "mcp",
    "tracks": _TYPED_INPUT,
    "input": "arguments",
    "stem": "mcp_call_arguments",
    "outputs": ("error", "output"),
    "progress": ("in_progress", "completed", "failed"),
    "blank": told.mcp_blank,
    "result": told.mcp_result,
}

KINDS: Final[dict[str, Kind]] = _rows(
    Kind(
        name="message",
        prefix="msg",
        tracks=_MESSAGE_PARTS,
        from_added=texts.message_added,
        apply_done=texts.message_done,
        finalize=texts.message_end,
        needs=(("content", "parts"),),
    ),
    Kind(
        name="reasoning",
        prefix="rs",
        tracks=frozenset({"reasoning", "summary"}),
        from_added=texts.reasoning_added,
        apply_done=texts.reasoning_done,
        finalize=texts.reasoning_end,
        needs=(("summary", "parts?"), ("content", "parts?")),
    ),
    Kind(
        name="function_call",
        prefix="fc",
        tool="function",
        named=True,
        call=True,
        tracks=_TYPED_INPUT,
        input="arguments",
        stem="function_call_arguments",
        from_added=calls.function_added,
        apply_done=calls.function_done,
        finalize=calls.function_end,
        needs=(("arguments", "string"),),
    ),
    _plain(
        "custom_tool_call",
        "ctc",
        tool="custom",
        named=True,
        call=True,
        tracks=_TYPED_INPUT,
        input="input",
        stem="custom_tool_call_input",
        needs=(("input", "string"),),
    ),
    _plain(
        "web_search_call",
        "ws",
        tool="web_search",
        tracks=_TYPED_INPUT,
        asks="action",
        progress=("in_progress", "searching", "completed"),
        blank=lambda _slot: {},
        asked=told.search_asked,
        result=told.search_result,
        served=Served(after=("searching",)),
    ),
    _plain(
        "file_search_call",
        "fs",
        tool="file_search",
        tracks=_TYPED_INPUT,
        asks="queries",
        outputs=("results",),
        progress=("in_progress", "searching", "completed"),
        needs=(("queries", "list"),),
        blank=lambda _slot: {"queries": []},
        asked=told.files_asked,
        result=told.files_result,
        served=Served(after=("searching",)),
    ),
    _plain(
        "code_interpreter_call",
        "ci",
        tool="code_interpreter",
        tracks=_TYPED_INPUT,
        input="code",
        stem="code_interpreter_call_code",
        outputs=("outputs",),
        progress=("in_progress", "interpreting", "completed"),
        blank=told.code_blank,
        result=told.code_result,
        served=Served(after=("interpreting",), asked=told.code_asked),
    ),
    _plain(
        "mcp_call",
        "mcp",
        needs=(("name", "string"), ("arguments", "string"), ("server_label", "string")),
        served=Served(failed="failed"),
        **_MCP,
    ),
    _plain("mcp_tool_call", "mcp", standard=False, **_MCP),  # the older name of mcp_call
    _plain(
        "mcp_list_tools",
        "mcpl",
        progress=("in_progress", "completed", "failed"),
        needs=(("server_label", "string"), ("tools", "list")),
        blank=lambda slot: {"server_label": slot.name or "", "tools": []},
        result=told.tools_result,
        served=Served(failed="failed"),
    ),
    _plain(
        "mcp_approval_request", "mcpr", needs=(("name", "string"), ("arguments", "string"), ("server_label", "string"))
    ),
    _plain("mcp_approval_response", "mcpa", needs=(("approval_request_id", "string"),)),
    _plain(
        "image_generation_call",
        "ig",
        tool="image_generation",
        tracks=_TYPED_INPUT,
        outputs=("result",),
        progress=("in_progress", "generating", "completed"),
        needs=(("result", "string?"),),
    ),
    _plain("computer_call", "cu", tool="computer", tracks=_TYPED_INPUT, asks="action", needs=(("action", "object?"),)),
    _plain("computer_call_output", "cuo", needs=(("output", "object"),)),
    _plain(
        "local_shell_call", "lsh", tool="local_shell", tracks=_TYPED_INPUT, asks="action", needs=(("action", "object"),)
    ),
    _plain("local_shell_call_output", "lsho", needs=(("output", "string"),)),
    _plain(
        "shell_call",
        "sh",
        tool="shell",
        call=True,
        tracks=_TYPED_INPUT,
        asks="action",
        stem="shell_call_command",
        final="command",
        position="command_index",
        apply_done=_shell_done,
        needs=(("action", "object"),),
    ),
    _plain("shell_call_output", "sho", call=True, needs=(("output", "list"),)),
    _plain(
        "apply_patch_call",
        "apc",
        tool="apply_patch",
        tracks=_TYPED_INPUT,
        asks="operation",
        stem="apply_patch_call_operation_diff",
        final="diff",
        apply_done=_patch_done,
        needs=(("operation", "object"),),
    ),
    _plain("apply_patch_call_output", "apco"),
    _plain("tool_search_call", "ts", tool="tool_search", tracks=_TYPED_INPUT, asks="arguments"),
    _plain("tool_search_output", "tso", needs=(("tools", "list"),)),
    _plain("additional_tools", "at", needs=(("tools", "list"),)),
    _plain("function_call_output", "fco"),
    _plain("custom_tool_call_output", "ctco"),
    _plain("program", "prog", needs=(("code", "string"),)),
    _plain("program_output", "progo", needs=(("result", "string"),)),
    _plain("compaction", "cmp", progress=("compacting",), needs=(("encrypted_content", "string"),)),
)
_OTHER: Final = _plain("other", "item", tracks=frozenset({"reasoning", "summary", INPUT}))


def kind_of(name: str) -> Kind:
    """The table's row of a kind; any other kind is opaque."""
    return KINDS.get(name, _OTHER)


def takes(name: str, track: str) -> bool:
    """Whether an item of this kind has such a text or part."""
    return track in kind_of(name).tracks or (name == "message" and track.startswith("part:"))


def kind_of_track(track: str) -> str:
    """The kind of an item of which only text was seen; a call has none until it is named."""
    return _TRACK_KINDS.get(track, "")


def kind_of_tool(tool: str) -> str:
    """The item kind of a tool that was told of without its item. One that the public stream has no kind for is shown as an
    MCP call: the kind for whatever somebody else runs, with a name, an input and an output. A function call it is not,
    since clients answer those.
    """
    return next((row.name for row in KINDS.values() if row.tool == tool and row.standard), "mcp_call")
