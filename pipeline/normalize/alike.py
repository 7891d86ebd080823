"""Frames that differ from one before in nothing but their text, on wires whose frames are not numbered.

Nearly all frames of a stream are such. Of the one before it is known where in its bytes the text stands; what stands before and behind
it is then compared as bytes, and only the text is read. What was made of the one is made of all like it, until another one comes.
"""

from collections.abc import Callable
from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import Decoder, encode

from pipeline.events import TextDelta
from pipeline.normalize.slots import Slot

Json = dict[str, Any]
_text = Decoder(str).decode
_frame = Decoder().decode
_PROBE = "\0probe"


class Alike(Struct, frozen=True, gc=False):
    """The bytes around the text, the name of the event, and what was made of it."""

    head: bytes
    tail: bytes
    name: str
    event: TextDelta
    slot: Slot

    def text_in(self, data: bytes) -> str | None:
        """The text of a frame that is like this one; None of any other, and of one that says nothing."""
        if not data.startswith(self.head) or not data.endswith(self.tail):
            return None
        try:
            return _text(data[len(self.head) : len(data) - len(self.tail)]) or None
        except (DecodeError, RecursionError):
            return None


def alike(
    data: bytes, name: str, event: TextDelta, slot: Slot, text_of: Callable[[Json, TextDelta], object]
) -> Alike | None:
    """What frames like this one have in common, if it is certain which of its bytes are the text: those that, changed, change it."""
    literal = encode(event.text)
    head, found, tail = data.partition(literal)
    if not found or literal in tail:
        return None
    try:
        probe = _frame(head + encode(_PROBE) + tail)
    except (DecodeError, RecursionError):
        return None
    return Alike(head, tail, name, event, slot) if text_of(probe, event) == _PROBE else None
