"""What the Responses stream is made of, as tables: event types, the tracks of text, the kinds of calls, required members.

From OpenAI's reference of streaming events and from what recorded servers send beside it.
"""

from typing import Final, NamedTuple

from pipeline.events import Track


class Text(NamedTuple):
    """An event about streamed text: its track, the member with its index, the member with its text."""

    track: Track
    position: str
    text: str
    kind: str


class Call(NamedTuple):
    """A kind of item that calls something: its name in events, the members with its input and its output."""

    kind: str
    input: str | None = None
    output: tuple[str, ...] = ()


MESSAGE: Final = "message"
REASONING: Final = "reasoning"

CALLS: Final[dict[str, Call]] = {
    "function_call": Call("function", "arguments"),
    "custom_tool_call": Call("custom", "input"),
    "mcp_call": Call("mcp", "arguments", ("error", "output")),
    "mcp_tool_call": Call("mcp", "arguments", ("error", "output")),  # the older name of mcp_call
    "web_search_call": Call("web_search", "action"),
    "file_search_call": Call("file_search", "queries", ("results",)),
    "code_interpreter_call": Call("code_interpreter", "code", ("outputs",)),
    "image_generation_call": Call("image_generation", None, ("result",)),
    "computer_call": Call("computer", "action"),
    "local_shell_call": Call("local_shell", "action"),
    "shell_call": Call("shell", "action"),
    "apply_patch_call": Call("apply_patch", "operation"),
    "tool_search_call": Call("tool_search", "arguments"),
}

DELTAS: Final[dict[str, Text]] = {
    "response.output_text.delta": Text("text", "content_index", "delta", MESSAGE),
    "response.refusal.delta": Text("refusal", "content_index", "delta", MESSAGE),
    "response.reasoning_text.delta": Text("reasoning", "content_index", "delta", REASONING),
    "response.reasoning_summary_text.delta": Text("summary", "summary_index", "delta", REASONING),
}
DONES: Final[dict[str, Text]] = {
    "response.output_text.done": Text("text", "content_index", "text", MESSAGE),
    "response.refusal.done": Text("refusal", "content_index", "refusal", MESSAGE),
    "response.reasoning_text.done": Text("reasoning", "content_index", "text", REASONING),
    "response.reasoning_summary_text.done": Text("summary", "summary_index", "text", REASONING),
}
INPUT_DELTAS: Final[dict[str, str]] = {
    "response.function_call_arguments.delta": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
    "response.mcp_call_arguments.delta": "mcp_call",
    "response.code_interpreter_call_code.delta": "code_interpreter_call",
}
INPUT_DONES: Final[dict[str, tuple[str, str]]] = {
    "response.function_call_arguments.done": ("function_call", "arguments"),
    "response.custom_tool_call_input.done": ("custom_tool_call", "input"),
    "response.mcp_call_arguments.done": ("mcp_call", "arguments"),
    "response.code_interpreter_call_code.done": ("code_interpreter_call", "code"),
}
PARTS_ADDED: Final[dict[str, str]] = {
    "response.content_part.added": "content_index",
    "response.reasoning_part.added": "content_index",
    "response.reasoning_summary_part.added": "summary_index",
}
PARTS_DONE: Final[dict[str, str]] = {
    "response.content_part.done": "content_index",
    "response.reasoning_part.done": "content_index",
    "response.reasoning_summary_part.done": "summary_index",
}
PART_TRACKS: Final[dict[str, tuple[Track, str]]] = {
    "output_text": ("text", "text"),
    "text": ("text", "text"),
    "refusal": ("refusal", "refusal"),
    "reasoning_text": ("reasoning", "text"),
    "summary_text": ("summary", "text"),
}
KIND_TRACKS: Final[dict[str, frozenset[str]]] = {  # any other kind is opaque and may stream what it likes
    MESSAGE: frozenset({"text", "refusal"}),
    REASONING: frozenset({"reasoning", "summary"}),
    **{name: frozenset({"tool_input"}) for name in CALLS},
}

TERMINALS: Final[dict[str, str]] = {
    "response.completed": "response.completed",
    "response.done": "response.completed",  # old vLLM
    "response.incomplete": "response.incomplete",
    "response.failed": "response.failed",
    "response.cancelled": "response.cancelled",
}
KEEPALIVES: Final = frozenset({"keepalive", "response.keep_alive", "response.keepalive", "ping"})

_PROGRESS: Final[dict[str, tuple[str, ...]]] = {
    "web_search_call": ("in_progress", "searching", "completed"),
    "file_search_call": ("in_progress", "searching", "completed"),
    "code_interpreter_call": ("in_progress", "interpreting", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
    "mcp_call": ("in_progress", "completed", "failed"),
    "mcp_tool_call": ("in_progress", "completed", "failed"),
    "mcp_list_tools": ("in_progress", "completed", "failed"),
}
PROGRESS: Final[dict[str, str]] = {
    f"response.{kind}.{word}": word for kind, words in _PROGRESS.items() for word in words
}

_CREATED = (("response", "object"), ("response.id", "id"), ("response.status", "=in_progress"))
_ITEM = (("output_index", "index"), ("item", "object"), ("item.type", "id"), ("item.id", "item_id"))
_SLOT = (("output_index", "index"), ("item_id", "id"))

# What each event must have. `index` is an unsigned 32-bit integer, `id` a non-empty string, `=x|y` one of the words.
REQUIRED: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "response.created": _CREATED,
    "response.in_progress": _CREATED,
    **{
        f"response.{word}": (("response", "object"), ("response.id", "id"), ("response.status", f"={status}"))
        for word, status in {
            "completed": "completed|incomplete",  # which is then read as incomplete
            "done": "completed|incomplete",
            "incomplete": "incomplete",
            "failed": "failed",
        }.items()
    },
    "response.output_item.added": _ITEM,
    "response.output_item.done": _ITEM,
    **{name: (*_SLOT, (text.position, "index"), (text.text, "string")) for name, text in (DELTAS | DONES).items()},
    **dict.fromkeys(INPUT_DELTAS, (*_SLOT, ("delta", "string"))),
    **{name: (*_SLOT, (member, "string")) for name, (_, member) in INPUT_DONES.items()},
    **{name: (*_SLOT, (index, "index"), ("part", "object")) for name, index in (PARTS_ADDED | PARTS_DONE).items()},
    **dict.fromkeys(PROGRESS, _SLOT),
}
