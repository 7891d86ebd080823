"""The items of one turn and the one rule by which an upstream's event finds its item.

Identity is the output index, since servers rotate, repeat and null their ids. An index is re-pointed when a new item is
added to one that is done or of another kind. A missing index is read from the id, else from the newest open item that can
stream such text. The number of an item is its index where that is free; numbers are never used twice in a turn.
"""

from typing import Any

from pipeline.events import Track
from pipeline.normalize.responses.tables import CALLS, KIND_TRACKS


class Slot:
    """The text of one place, until its final word; then only its fingerprint stays."""

    __slots__ = ("chars", "final", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.chars = 0
        self.final: int | None = None

    @property
    def has_text(self) -> bool:
        """Whether anything was said in it."""
        return self.chars > 0 or self.final not in {None, hash("")}


class Item:
    """One output item as far as it is known; `announced` once an event has told that it exists."""

    __slots__ = (
        "announced",
        "call_id",
        "contents",
        "done",
        "finished",
        "held",
        "id",
        "index",
        "input",
        "kind",
        "number",
        "opening",
        "slots",
        "start",
    )

    def __init__(self, number: int, index: int | None, kind: str, item_id: str) -> None:
        self.number = number
        self.index = index
        self.kind = kind
        self.id = item_id
        self.call_id = ""
        self.announced = False
        self.done = False
        self.finished: dict[str, Any] | None = None
        self.opening = ""
        self.input = ""
        self.held: list[tuple[int, str]] = []  # of a call that nobody was told of: content and text
        self.start: dict[str, Any] | None = None  # of a call that has no name yet
        self.contents: set[int] = set()
        self.slots: dict[tuple[Track, int], Slot] = {}

    @property
    def is_call(self) -> bool:
        """Whether the item calls something."""
        return self.kind in CALLS

    def accepts(self, track: str) -> bool:
        """Whether an item of this kind can stream text of that track."""
        tracks = KIND_TRACKS.get(self.kind)
        return tracks is None or track in tracks

    def indexes(self, tracks: tuple[Track, ...]) -> list[int]:
        """The indexes at which text of these tracks was seen or announced, in order."""
        seen = {content for track, content in self.slots if track in tracks}
        return sorted(seen | self.contents if "summary" not in tracks else seen)


class Items:
    """All items of a turn, by number, by the wire's index of the current round, and by id."""

    def __init__(self) -> None:
        self.by_number: dict[int, Item] = {}
        self.by_index: dict[int, Item] = {}
        self.by_id: dict[str, Item] = {}
        self.collided = False
        self._newest: dict[str, Item] = {}  # what was found by a track alone, until another item is opened
        self._base = 0
        self._next = 0

    def open(self, index: int | None, kind: str, item_id: str) -> Item:
        """Make an item at the wire's index; its number is the next free one where the index is missing or taken."""
        number = self._next if index is None else self._base + index
        if number in self.by_number:
            number = self._next
        item = Item(number, index, kind, item_id)
        self._next = max(self._next, number + 1)
        self.by_number[number] = item
        self._newest.clear()
        if index is not None:
            before = self.by_index.get(index)
            self.collided = self.collided or (before is not None and not before.done)
            self.by_index[index] = item
        if item_id:
            self.by_id[item_id] = item
        return item

    def renumber(self, item: Item, number: int) -> None:
        """Give an item that nobody was told of yet a number that is free."""
        del self.by_number[item.number]
        item.number = number
        self.by_number[number] = item
        self._newest.clear()
        self._next = max(self.by_number) + 1

    def learn_kind(self, item: Item, kind: str) -> None:
        """Say what an item is that was guessed from what came before it."""
        if item.kind != kind:
            item.kind = kind
            self._newest.clear()

    def new_round(self) -> None:
        """Forget the wire's names: a second response in the same stream counts from 0 again."""
        self._base = self._next
        self.by_index.clear()
        self.by_id.clear()
        self.collided = False

    def find(self, index: int | None, item_id: str, track: str) -> Item | None:
        """Find the item of an event; None where the event is the first that tells of it."""
        if index is not None:
            item = self.by_index.get(index)
            if self.collided and item is not None and item_id:
                named = self.by_id.get(item_id)
                if named is not None and named.index == index:
                    return named
            named = self.by_id.get(item_id) if item is None and item_id else None
            if named is not None and named.index is None and not named.done:  # told of before without its index
                named.index = index
                self.by_index[index] = item = named
            return item
        if item_id and (item := self.by_id.get(item_id)) is not None:
            return item
        return self.newest_open(track)

    def newest_open(self, track: str) -> Item | None:
        """The item added last that is not done and can stream such text."""
        item = self._newest.get(track)
        if item is None or item.done:
            item = next((one for one in reversed(self.by_number.values()) if not one.done and one.accepts(track)), None)
            if item is not None:
                self._newest[track] = item
        return item

    def in_order(self) -> list[Item]:
        """All items by number."""
        return [self.by_number[number] for number in sorted(self.by_number)]
