"""A custom tool's call, which the model made as the call of a function: free text in a JSON string, read while it streams.

The text is the member `input` of the arguments. `Reader` takes the arguments piece by piece and gives of that text what is
certain: half an escape, or half a surrogate pair, waits for its rest. Each character is looked at once. An empty object
before the real one (vLLM sends it) is passed over. Arguments of another form are free text by themselves, known at their end.
"""

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import ClassVar

import msgspec

from pipeline.kinds.slot import Json, Slot

MEMBER = "input"
_PLAIN = re.compile(r'[^"\\]+')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LOST = "\N{REPLACEMENT CHARACTER}"
_HEX = frozenset("0123456789abcdefABCDEF")


class _At(Enum):
    START = auto()
    """Before the object, or before its first member."""
    MEMBER = auto()
    """Where a member's name, or the object's end, is wanted."""
    COLON = auto()
    VALUE = auto()
    TEXT = auto()
    """Within the text that is wanted."""
    OTHER = auto()
    """Within a value that is not."""
    END = auto()
    """Behind the text, or where no text is to be had."""


class Reader:
    """Reads the text out of arguments that come in pieces."""

    def __init__(self) -> None:
        self.found = False
        self._at = _At.START
        self._rest = ""
        self._opened = False
        self._name: list[str] | None = None
        self._depth = 0
        self._quoted = False
        self._wanted = False

    def feed(self, piece: str) -> str:
        """Take more of the arguments; give more of the text."""
        if self._ended:
            return ""
        data, self._rest = self._rest + piece, ""
        out: list[str] = []
        at = 0
        while at < len(data) and not self._ended:
            stopped = self._text(data, at, out) if self._at is _At.TEXT else self._structure(data, at)
            if stopped < 0:  # an escape that is not whole
                self._rest = data[-stopped - 1 :]
                break
            at = stopped
        return "".join(out)

    @property
    def _ended(self) -> bool:
        return self._at is _At.END

    def _text(self, data: str, at: int, out: list[str]) -> int:
        """Read text from here; return where it stopped, or minus that place less one where more is needed."""
        while at < len(data):
            plain = _PLAIN.match(data, at)
            if plain is not None:
                out.append(plain.group())
                at = plain.end()
            elif data[at] == '"':
                self._at = _At.END
                return at + 1
            else:
                length, character = _escape(data, at)
                if length == 0:
                    return -at - 1
                out.append(character)
                at += length
        return at

    def _structure(self, data: str, at: int) -> int:
        """Read one character of the JSON around the text; return the place behind it."""
        character = data[at]
        if self._at is _At.OTHER:
            return self._other(data, at)
        if self._name is not None:
            return self._member_name(data, at)
        if character.isspace():
            return at + 1
        step = self._STEPS.get((self._at, character))
        if step is None:
            if self._at is _At.VALUE:
                self._at, self._depth, self._quoted = _At.OTHER, 0, False
                return at
            self._at = _At.END
            return at + 1
        step(self)
        return at + 1

    def _open(self) -> None:
        self._at, self._opened = _At.MEMBER, True

    def _close(self) -> None:
        """The object's end without the text: an empty one may stand before the real one."""
        self._at = _At.START if self._opened else _At.END

    def _begin_name(self) -> None:
        self._name, self._opened = [], False

    def _value(self) -> None:
        self._at = _At.VALUE

    def _begin_value(self) -> None:
        if self._wanted:
            self._at, self.found = _At.TEXT, True
        else:
            self._at, self._depth, self._quoted = _At.OTHER, 0, True

    _STEPS: ClassVar[dict[tuple[_At, str], Callable[["Reader"], None]]] = {
        (_At.START, "{"): _open,
        (_At.MEMBER, "}"): _close,
        (_At.MEMBER, '"'): _begin_name,
        (_At.COLON, ":"): _value,
        (_At.VALUE, '"'): _begin_value,
    }

    def _member_name(self, data: str, at: int) -> int:
        """Read on in a member's name. One with an escape in it is not the one that is wanted."""
        name = self._name if self._name is not None else []
        character = data[at]
        if character == "\\":
            name.append("\\")
            if at + 1 == len(data):
                return -at - 1
            return at + 2
        if character == '"':
            self._wanted = "".join(name) == MEMBER
            self._name = None
            self._at = _At.COLON
            return at + 1
        plain = _PLAIN.match(data, at)
        end = plain.end() if plain is not None else at + 1
        if len(name) <= len(MEMBER):
            name.append(data[at:end])
        return end

    def _other(self, data: str, at: int) -> int:
        """Pass over a value that nobody asked for."""
        character = data[at]
        if self._quoted:
            if character == "\\":
                return at + 2 if at + 1 < len(data) else -at - 1
            self._quoted = character != '"'
            plain = _PLAIN.match(data, at)
            return plain.end() if plain is not None else at + 1
        if character in "[{":
            self._depth += 1
        elif character in "]}" and self._depth:
            self._depth -= 1
        elif character == '"':
            self._quoted = True
        elif not self._depth and character in ",}":
            self._at = _At.MEMBER if character == "," else _At.END
        return at + 1


def _escape(data: str, at: int) -> tuple[int, str]:
    """The escape that begins here: its length and its character; length 0 where it is not whole yet."""
    if at + 1 >= len(data):
        return 0, ""
    letter = data[at + 1]
    if letter != "u":
        return 2, _ESCAPES.get(letter, letter)
    digits = data[at + 2 : at + 6]
    if not _HEX.issuperset(digits):
        return 2, _LOST
    if len(digits) < 4:
        return 0, ""
    code = int(digits, 16)
    if not 0xD800 <= code < 0xE000:
        return 6, chr(code)
    second = data[at + 6 : at + 12]
    if code >= 0xDC00 or not "\\u".startswith(second[:2]) or not _HEX.issuperset(second[2:]):
        return 6, _LOST
    if len(second) < 6:
        return 0, ""
    low = int(f"0x{second[2:]}", 0)
    if not 0xDC00 <= low < 0xE000:
        return 6, _LOST
    return 12, chr(0x10000 + ((code - 0xD800) << 10) + low - 0xDC00)


def whole_input(arguments: str) -> str:
    """The free text in whole arguments: their member `input`; else the string that they are; else all of them."""
    reader = Reader()
    text = reader.feed(arguments)
    if reader.found:
        return text
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
    return value if isinstance(value, str) else arguments


class CustomCall:
    """The call of a custom tool, from that of the function which stands for it."""

    def __init__(self) -> None:
        self._reader = Reader()

    def begin(self, slot: Slot) -> Json:
        """The item as its start shows it."""
        item = {name: value for name, value in slot.public.items() if name != "arguments"}
        return {**item, "type": slot.face, "input": ""}

    def delta(self, text: str) -> str:
        """What a delta of the arguments adds to the free text."""
        return self._reader.feed(text)

    def finish(self, arguments: str, streamed: str) -> tuple[str | None, str]:
        """By the authoritative arguments: the free text that was not told yet, None where they contradict what was; and all of it."""
        whole, told = whole_input(arguments), Reader().feed(streamed)
        return (whole[len(told) :] if whole.startswith(told) else None), whole

    def end(self, slot: Slot, item: Json) -> Json:
        """The finished item."""
        arguments = item.get("arguments")
        kept = {name: value for name, value in item.items() if name != "arguments"}
        return {**kept, "type": slot.face, "input": whole_input(arguments if isinstance(arguments, str) else "")}
