"""The slot map of a turn: which output item is where, what it is called in public, and the text that it holds.

A slot's life is `pending → active → done`. Pending: something told of the item before the item itself came. Done: nothing
changes it any more, and a repeated done lands there without effect. One item comes of one slot, whatever was sent twice.

Identity is the event's item number, never an id: upstreams rotate, repeat and leave out their ids. In public an item has
the upstream's id where that is usable, else one made of the turn and the item, and a dense index in order of appearance.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any

from pipeline.errors import LimitExceeded
from pipeline.limits import Limits

Json = dict[str, Any]
SUMMARY = "summary"
OTHER_PART = "part:"  # the track of a message's part that holds no text we know


class Phase(Enum):
    """Where a slot is in its life."""

    PENDING = "pending"
    ACTIVE = "active"
    DONE = "done"


class Part:
    """One text of an item: `(track, content)` in the events, `index` in public.

    `opened`, `told` and `closed` are the relay's marks: its start, its final text and its end were sent.
    """

    __slots__ = (
        "annotations",
        "closed",
        "content",
        "family",
        "final",
        "index",
        "opened",
        "pieces",
        "raw",
        "slot",
        "told",
        "track",
    )

    def __init__(self, slot: "Slot", track: str, content: int, index: int) -> None:
        self.slot = slot
        self.track = track
        self.content = content
        self.index = index
        self.pieces: list[str] = []
        self.final: str | None = None
        self.raw: Json | None = None
        self.annotations: list[Any] = []
        self.family: str | None = None
        self.opened = False
        self.told = False
        self.closed = False

    @property
    def text(self) -> str:
        """The final word, unless it is an empty one that would erase what was streamed."""
        return self.final or "".join(self.pieces)


class Slot:
    """One output item. `announced` is the relay's mark: its start was sent."""

    __slots__ = (
        "added",
        "announced",
        "call_id",
        "chars",
        "id",
        "index",
        "input_told",
        "item",
        "kind",
        "name",
        "parts",
        "phase",
        "public",
        "result",
    )

    def __init__(self, item: int, kind: str) -> None:
        self.item = item
        self.kind = kind
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
        self.input_told = False

    def texts(self, *tracks: str) -> list[Part]:
        """The parts of these tracks in public order."""
        return sorted((part for part in self.parts.values() if part.track in tracks), key=lambda part: part.index)

    @property
    def input(self) -> str:
        """What was streamed of a call's input."""
        return "".join(part.text for part in self.texts("tool_input"))


class SlotMap:
    """All slots of a turn, and the names that are taken."""

    def __init__(self, turn: str, limits: Limits) -> None:
        self._turn = turn
        self._limits = limits
        self._chars = 0
        self._slots: dict[int, Slot] = {}
        self._placed: list[Slot] = []
        self._ids: set[str] = set()
        self._calls: set[tuple[str, str]] = set()

    def find(self, item: int) -> Slot | None:
        """The slot of an item, if anything told of it."""
        return self._slots.get(item)

    def open(self, item: int, kind: str) -> Slot:
        """Make the slot of an item."""
        if len(self._slots) >= self._limits.turn_items:
            raise LimitExceeded("turn_items", self._limits.turn_items)
        slot = self._slots[item] = Slot(item, kind)
        return slot

    def part(self, slot: Slot, track: str, content: int) -> Part:
        """Find or make a text of a slot; contents and summaries are counted apart, each from 0."""
        part = slot.parts.get((track, content))
        if part is None:
            if len(slot.parts) >= self._limits.item_contents:
                raise LimitExceeded("item_contents", self._limits.item_contents)
            index = sum((other.track == SUMMARY) == (track == SUMMARY) for other in slot.parts.values())
            part = slot.parts[track, content] = Part(slot, track, content, index)
        return part

    def keep(self, part: Part, text: str) -> None:
        """Add one delta to a text."""
        part.pieces.append(text)
        slot = part.slot
        slot.chars += len(text)
        self._chars += len(text)
        if slot.chars > self._limits.item_text_chars:
            raise LimitExceeded("item_text_chars", self._limits.item_text_chars)
        if self._chars > self._limits.turn_text_chars:
            raise LimitExceeded("turn_text_chars", self._limits.turn_text_chars)

    def place(self, slot: Slot, prefix: str, wanted: object) -> None:
        """Give a slot its public index and id, once: the upstream's id where it is usable and not yet taken."""
        slot.index = len(self._placed)
        self._placed.append(slot)
        name = wanted if isinstance(wanted, str) and wanted else ""
        if not name or name in self._ids:
            name = f"{prefix}_{self._turn}_{slot.item}"
        while name in self._ids:  # an upstream that uses our own form of ids
            name += "_"
        self._ids.add(name)
        slot.id = name

    def bind_call(self, slot: Slot, wanted: object) -> str:
        """Give a call its public call id, once: the upstream's, unless another call of its kind has that already."""
        name = wanted if isinstance(wanted, str) and wanted else ""
        if not name or (slot.kind, name) in self._calls:
            name = f"call_{self._turn}_{slot.item}"
        self._calls.add((slot.kind, name))
        slot.call_id = name
        return name

    def in_order(self) -> Iterable[Slot]:
        """The slots that have a public place, by public index."""
        return self._placed
