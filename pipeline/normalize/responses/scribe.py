"""Writes the events of one turn and holds what the handlers share: the items, the bounds, the error that waits for its end."""

from typing import TYPE_CHECKING, Any

from pipeline.events import BlockFinal, Event, Status, TextDelta, Track, Wire
from pipeline.limits import Limits
from pipeline.normalize.defects import Defect
from pipeline.normalize.responses.items import Item, Items, Slot
from pipeline.normalize.stamp import Stamp

if TYPE_CHECKING:
    from pipeline.normalize.responses.routes import Route


class Scribe:
    """The growing list of events, and the turn that they tell of."""

    def __init__(self, stamp: Stamp, limits: Limits) -> None:
        self.stamp = stamp
        self.limits = limits
        self.out: list[Event] = []
        self.items = Items()
        self.exceeded: str | None = None
        self.error: dict[str, Any] | None = None
        self.created = False
        self.chars = 0
        self.untold: list[Defect] = []
        self.routes: dict[str, Route] = {}  # by the id of the item; true until anything but a like delta is told
        self._told: set[tuple[str, str, str]] = set()

    def again(self, slot: Slot, like: TextDelta, text: str, wire: Wire) -> None:
        """Keep and tell of one more text where one was told before; nearly every event of a stream is made here."""
        self.keep(slot, text)
        stamp = self.stamp
        seq = stamp.seq
        stamp.seq = seq + 1
        at, item, content, track = stamp.at, like.item, like.content, like.track
        self.out.append(TextDelta(seq=seq, at=at, item=item, content=content, track=track, text=text, wire=wire))

    def delta(self, item: int, content: int, track: Track, text: str, wire: Wire = None) -> None:
        """Tell of text."""
        seq, at = self.stamp.next()
        self.out.append(TextDelta(seq=seq, at=at, item=item, content=content, track=track, text=text, wire=wire))

    def final(self, item: int, content: int, track: Track, text: str, wire: Wire = None) -> None:
        """Tell the final word on a slot."""
        seq, at = self.stamp.next()
        self.out.append(BlockFinal(seq=seq, at=at, item=item, content=content, track=track, text=text, wire=wire))

    def status(
        self,
        name: str,
        item: int | None = None,
        content: int | None = None,
        *,
        detail: object = None,
        wire: Wire = None,
    ) -> None:
        """Tell of anything else."""
        seq, at = self.stamp.next()
        self.out.append(Status(seq=seq, at=at, name=name, item=item, content=content, detail=detail, wire=wire))

    def news(self, kind: str, defects: list[Defect]) -> list[Defect]:
        """The defects to tell with the next event: each once for a type of event, or a server that leaves out a member
        of every delta would fill the log with it. First those of an event that nothing was told of.
        """
        fresh = self.untold
        self.untold = []
        for one in defects:
            key = (kind, one["code"], one["path"])
            if key not in self._told:
                self._told.add(key)
                fresh.append(one)
        return fresh

    def ignored(self, kind: str, item: Item, why: Defect, text: str | None = None) -> None:
        """Tell of an upstream event that says nothing any more; its text stays readable in the log."""
        detail = {"event": kind, "code": why["code"]} | ({"text": text} if text is not None else {})
        self.status("ignored", item.number, detail=detail, wire={"defects": [why]})

    def mismatch(self, item: int, content: int | None, detail: dict[str, Any], why: Defect | None = None) -> None:
        """Tell that two words of the upstream on the same thing differ; not every protocol forbids that."""
        wire: Wire = {"defects": [why]} if why is not None else None
        self.status("mismatch", item, content, detail=detail, wire=wire)

    def open_item(self, index: int | None, kind: str, item_id: str) -> Item:
        """Make an item; past the bound the turn will end."""
        if len(self.items.by_number) >= self.limits.turn_items:
            self.exceeded = "turn_items"
        self.routes.clear()
        return self.items.open(index, kind, item_id)

    def slot(self, item: Item, track: Track, content: int) -> Slot:
        """Find or make the slot of a text."""
        slot = item.slots.get((track, content))
        if slot is None:
            if len(item.slots) >= self.limits.item_contents:
                self.exceeded = "item_contents"
            slot = item.slots[track, content] = Slot()
            self.routes.clear()
        return slot

    def keep(self, slot: Slot, text: str) -> None:
        """Remember streamed text until its final word."""
        slot.pieces.append(text)
        chars = len(text)
        slot.chars += chars
        self.chars += chars
        if slot.chars > self.limits.item_text_chars:
            self.exceeded = "item_text_chars"
        elif self.chars > self.limits.turn_text_chars:
            self.exceeded = "turn_text_chars"
