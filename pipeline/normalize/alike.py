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
    between: bytes | None
    """What stands between two copies of the text, where a server writes it twice."""
    tail: bytes
    bare: bytes | None
    """The tail without its blanks, where they are no part of a string: some servers pad each frame to another length."""
    name: str
    event: TextDelta
    slot: Slot

    def text_in(self, data: bytes) -> str | None:
        """The text of a frame that is like this one; None of any other, and of one that says nothing."""
        if not data.startswith(self.head):
            return None
        if data.endswith(self.tail):
            literal = data[len(self.head) : len(data) - len(self.tail)]
        else:
            end = data.rfind(b'"') + 1
            if self.bare is None or data[end:].translate(None, b" ") != self.bare:
                return None
            literal = data[len(self.head) : end]
        if self.between is not None:
            first = literal[: (len(literal) - len(self.between)) // 2]
            if literal != first + self.between + first:
                return None
            literal = first
        try:
            return _text(literal) or None
        except (DecodeError, RecursionError):
            return None

    def confirms(self, before: "Alike") -> bool:
        """Whether two texts of such frames in a row were told with the same beside them: so will a third be."""
        one, other = before.event, self.event
        return (
            one.text != other.text
            and one.wire == other.wire
            and before.head == self.head
            and (before.bare or before.tail) == (self.bare or self.tail)
        )


def alike(
    data: bytes, name: str, event: TextDelta, slot: Slot, texts_of: Callable[[Json, TextDelta], list[object]]
) -> Alike | None:
    """What frames like this one have in common, if it is certain which of its bytes are the text: those that, changed, change it."""
    around = data.split(encode(event.text))
    copies = len(around) - 1
    if copies not in {1, 2}:
        return None
    try:
        probe = _frame(encode(_PROBE).join(around))
    except (DecodeError, RecursionError):
        return None
    if texts_of(probe, event) != [_PROBE] * copies:
        return None
    head, tail = around[0], around[-1]
    bare = None if b'"' in tail else tail.translate(None, b" ")
    return Alike(head, around[1] if copies > 1 else None, tail, bare, name, event, slot)
