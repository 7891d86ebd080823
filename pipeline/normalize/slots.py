"""Writes the events of wires whose output is several texts and calls at once, each slot with its own final word.

What an upstream's frame holds beside its text waits in `rest` for the first event that the frame makes; where it makes
none, a status `metadata` carries it.
"""

from typing import Any

import msgspec

from pipeline.events import BlockFinal, TextDelta, Track, Wire
from pipeline.limits import Limits
from pipeline.normalize.narrator import Narrator
from pipeline.normalize.stamp import Stamp

Json = dict[str, Any]


class Slot:
    """One text that streams: its place, and what came of it."""

    __slots__ = ("chars", "content", "item", "pieces", "track")

    def __init__(self, item: int, content: int, track: Track) -> None:
        self.item = item
        self.content = content
        self.track = track
        self.pieces: list[str] = []
        self.chars = 0

    @property
    def text(self) -> str:
        """All that was streamed."""
        return "".join(self.pieces)


class SlotNarrator(Narrator):
    """A narrator that is told where each text belongs."""

    def __init__(self, stamp: Stamp, limits: Limits) -> None:
        super().__init__(stamp, limits)
        self.rest: Json = {}
        self.last: Slot | None = None
        """The slot of the last delta."""

    @property
    def untold(self) -> bool:
        """Whether anything waits for an event that can carry it."""
        return bool(self.rest or self._untold)

    def keep_in(self, slot: Slot, text: str) -> None:
        """Remember streamed text until its final word."""
        slot.pieces.append(text)
        chars = len(text)
        slot.chars += chars
        self.keep(chars, slot.chars)

    def delta(self, slot: Slot, text: str, wire: Wire = None) -> None:
        """Tell of text that was kept, with the rest of its frame."""
        self.last = slot
        seq, at = self._stamp.next()
        wire = self._wire({**self.take_rest(), **(wire or {})})
        self.out.append(
            TextDelta(seq=seq, at=at, item=slot.item, content=slot.content, track=slot.track, text=text, wire=wire)
        )

    def again(self, event: TextDelta, slot: Slot, text: str) -> None:
        """Tell of one more text where this one was."""
        self.keep_in(slot, text)
        seq, at = self._stamp.next()
        item, content, track, wire = event.item, event.content, event.track, event.wire
        self.out.append(TextDelta(seq=seq, at=at, item=item, content=content, track=track, text=text, wire=wire))

    def final(self, slot: Slot, wire: Wire = None) -> None:
        """Tell the final word on a slot: what was streamed."""
        seq, at = self._stamp.next()
        self.out.append(
            BlockFinal(
                seq=seq,
                at=at,
                item=slot.item,
                content=slot.content,
                track=slot.track,
                text=slot.text,
                wire=self._wire(wire),
            )
        )

    def take_rest(self) -> Json:
        """The rest of the frame, for the event that carries it."""
        rest, self.rest = self.rest, {}
        return rest

    def tell_rest(self) -> None:
        """Carry the rest of a frame that made no event."""
        if self.rest:
            self.status("metadata", wire=self.take_rest())


def is_json(text: str) -> bool:
    """Whether a text is one whole JSON value."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


def call_status(text: str, *, whole: bool) -> str:
    """The status of a call by its input; an empty one is whole only if the turn is."""
    return "completed" if (whole if not text else is_json(text)) else "incomplete"
