"""The state of one output item: its texts, its public names, and how far its life has come.

A slot's life is `pending → active → done`. Pending: something told of the item before the item itself came. Done: nothing
changes it any more, and a repeated done lands there without effect. One item comes of one slot, whatever was sent twice.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

Json = dict[str, Any]
SUMMARY = "summary"
INPUT: Final = "tool_input"
OTHER_PART = "part:"  # the track of a message's part that holds no text we know


class Phase(Enum):
    """Where a slot is in its life."""

    PENDING = "pending"
    ACTIVE = "active"
    DONE = "done"


class Part:
    """One text of an item: `(track, content)` in the events, `index` in public.

    `apply` is how its item's kind takes a delta. `form`, `opened`, `told` and `closed` are the relay's: the frame that its deltas
    have in common; its start, its final text and its end were sent.
    """

    __slots__ = (
        "annotations",
        "apply",
        "closed",
        "content",
        "family",
        "final",
        "form",
        "index",
        "opened",
        "pieces",
        "raw",
        "slot",
        "told",
        "track",
    )

    def __init__(
        self, slot: "Slot", track: str, content: int, index: int, apply: Callable[["Part", str], None]
    ) -> None:
        self.slot = slot
        self.apply = apply
        self.track = track
        self.content = content
        self.index = index
        self.pieces: list[str] = []
        self.final: str | None = None
        self.raw: Json | None = None
        self.annotations: list[Any] = []
        self.family: str | None = None
        self.form: Any = None
        self.opened = False
        self.told = False
        self.closed = False

    @property
    def text(self) -> str:
        """The final word, unless it is an empty one that would erase what was streamed."""
        return self.final or "".join(self.pieces)


class Slot:
    """One output item, of the kind `kind` upstream and `face` in public, which differ where a call is translated.

    `announced` is the relay's mark: its start was sent. `translation` is whatever makes the one of the other.
    """

    __slots__ = (
        "added",
        "announced",
        "call_id",
        "chars",
        "face",
        "id",
        "index",
        "item",
        "kind",
        "name",
        "parts",
        "phase",
        "public",
        "result",
        "translation",
    )

    def __init__(self, item: int, kind: str) -> None:
        self.item = item
        self.kind = kind
        self.face = ""
        self.phase = Phase.PENDING
        self.index = -1
        self.id = ""
        self.call_id: str | None = None
        self.name: str | None = None
        self.added: Json | None = None
        self.public: Json = {}
        self.result: Json | None = None
        self.parts: dict[tuple[str, int], Part] = {}
        self.chars = 0
        self.announced = False
        self.translation: Any = None

    def texts(self, *tracks: str) -> list[Part]:
        """The parts of these tracks in public order."""
        return sorted((part for part in self.parts.values() if part.track in tracks), key=lambda part: part.index)

    @property
    def input(self) -> str:
        """What was streamed of a call's input."""
        return "".join(part.text for part in self.texts(INPUT))
