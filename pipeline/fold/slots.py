"""The slot map of a turn: which output item is where, and what it is called in public.

Identity is the event's item number, never an id: upstreams rotate, repeat and leave out their ids. In public an item has
the upstream's id where that is usable, else one made of the turn and the item, and a dense index in order of appearance.
"""

from collections.abc import Callable, Iterable

from pipeline.errors import LimitExceeded
from pipeline.kinds import kind_of
from pipeline.kinds.slot import SUMMARY, Part, Slot
from pipeline.limits import Limits


class SlotMap:
    """All slots of a turn, and the names that are taken."""

    def __init__(self, turn: str, limits: Limits) -> None:
        self._turn = turn
        self._limits = limits
        self._item_chars = limits.item_text_chars
        self._turn_chars = limits.turn_text_chars
        self._chars = 0
        self._slots: dict[int, Slot] = {}
        self.find: Callable[[int], Slot | None] = self._slots.get
        """The slot of an item, if anything told of it."""
        self._placed: list[Slot] = []
        self._ids: set[str] = set()
        self._calls: set[tuple[str, str]] = set()

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
            part = slot.parts[track, content] = Part(slot, track, content, index, kind_of(slot.kind).apply_delta)
        return part

    def keep(self, part: Part, text: str) -> None:
        """Add one delta to a text."""
        slot = part.slot
        part.apply(part, text)
        chars = len(text)
        slot.chars += chars
        self._chars += chars
        if slot.chars > self._item_chars:
            raise LimitExceeded("item_text_chars", self._item_chars)
        if self._chars > self._turn_chars:
            raise LimitExceeded("turn_text_chars", self._turn_chars)

    def reserve(self, slot: Slot) -> None:
        """Give a slot its public index."""
        slot.index = len(self._placed)
        self._placed.append(slot)

    def place(self, slot: Slot, prefix: str, wanted: object) -> None:
        """Give a slot its public index and id, once: the upstream's id where it is usable and not yet taken."""
        if slot.index < 0:
            self.reserve(slot)
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
        kind = slot.face or slot.kind
        if not name or (kind, name) in self._calls:
            name = f"call_{self._turn}_{slot.item}"
        self._calls.add((kind, name))
        slot.call_id = name
        return name

    def in_order(self) -> Iterable[Slot]:
        """The slots that have a public place, by public index."""
        return self._placed
