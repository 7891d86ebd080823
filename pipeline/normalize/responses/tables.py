"""What the Responses stream is made of, as tables: event types, the tracks of text, the kinds of calls, required members.

From OpenAI's reference of streaming events and from what recorded servers send beside it.
"""

from typing import Final, NamedTuple

from pipeline.events import Track
from pipeline.kinds import KINDS, Kind


class Text(NamedTuple):
    """An event about streamed text: its track, the member with its index, the member with its text."""

    track: Track
    position: str
    text: str
    kind: str


MESSAGE: Final = "message"
REASONING: Final = "reasoning"

CALLS: Final[dict[str, Kind]] = {name: row for name, row in KINDS.items() if row.tool is not None}

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
_STREAMED: Final = [row for row in KINDS.values() if row.stem is not None and row.standard]
INPUT_DELTAS: Final[dict[str, Kind]] = {f"response.{row.stem}.delta": row for row in _STREAMED}
INPUT_DONES: Final[dict[str, tuple[Kind, str]]] = {
    f"response.{row.stem}.done": (row, row.final or row.input or "") for row in _STREAMED
}
INPUT_STARTS: Final[dict[str, Kind]] = {
    f"response.{row.stem}.added": row for row in _STREAMED if row.position is not None
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
    name: row.tracks for name, row in KINDS.items()
}

TERMINALS: Final[dict[str, str]] = {
    "response.completed": "response.completed",
    "response.done": "response.completed",  # old vLLM
    "response.incomplete": "response.incomplete",
    "response.failed": "response.failed",
    "response.cancelled": "response.cancelled",
}
KEEPALIVES: Final = frozenset({"keepalive", "response.keep_alive", "response.keepalive", "ping"})

PROGRESS: Final[dict[str, str]] = {
    f"response.{name}.{word}": word for name, row in KINDS.items() for word in row.progress
}

_CREATED = (("response", "object"), ("response.id", "id"), ("response.status", "=in_progress"))
_BACKGROUND = (("response", "object"), ("response.id", "id"), ("response.status", "=in_progress|queued"))
_ITEM = (("output_index", "index"), ("item", "object"), ("item.type", "id"), ("item.id", "item_id"))
_SLOT = (("output_index", "index"), ("item_id", "id"))


def _place(row: Kind) -> tuple[tuple[str, str], ...]:
    """How an event of a call's input says where it belongs. Where inputs are numbered, the item's id may be left out."""
    return _SLOT if row.position is None else (("output_index", "index"), ("item_id", "id?"), (row.position, "index"))


# What each event must have. `index` is an unsigned 32-bit integer, `id` a non-empty string (`?`: or none),
# `=x|y` one of the words.
REQUIRED: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "response.created": _BACKGROUND,  # a response in the background waits first
    "response.queued": _BACKGROUND,
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
    **{name: (*_place(row), ("delta", "string")) for name, row in INPUT_DELTAS.items()},
    **{name: (*_place(row), (member, "string")) for name, (row, member) in INPUT_DONES.items()},
    **{name: (*_place(row), (row.final or "", "string")) for name, row in INPUT_STARTS.items()},
    **{name: (*_SLOT, (index, "index"), ("part", "object")) for name, index in (PARTS_ADDED | PARTS_DONE).items()},
    **dict.fromkeys(PROGRESS, _SLOT),
}
