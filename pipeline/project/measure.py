"""How long a text is in a channel's unit, and how much of it fits."""

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.project.parts import Unit


@dataclass(frozen=True, slots=True)
class Measure:
    """A unit: `size(text)`, and `fit(text, room)`, the number of characters from its start that take at most `room`."""

    size: Callable[[str], int]
    fit: Callable[[str, int], int]


def _utf16(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) >> 1


def _utf16_fit(text: str, room: int) -> int:
    if text.isascii():
        return min(len(text), room)
    return len(text.encode("utf-16-le")[: room * 2].decode("utf-16-le", "ignore"))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _bytes_fit(text: str, room: int) -> int:
    return min(len(text), room) if text.isascii() else len(text.encode()[:room].decode("utf-8", "ignore"))


def _codepoints_fit(text: str, room: int) -> int:
    return min(len(text), room)


MEASURES: dict[Unit, Measure] = {
    "utf16": Measure(_utf16, _utf16_fit),
    "codepoints": Measure(len, _codepoints_fit),
    "bytes": Measure(_bytes, _bytes_fit),
}
