"""What a dialect makes of Markdown: the operations from which messages are packed."""

from enum import IntEnum
from typing import NamedTuple


class Gap(IntEnum):
    """How good a break is as the end of a message."""

    WEAK = 0
    LINE = 1
    BLOCK = 2


class Span:
    """Something that is opened and closed: emphasis, a link, a fence, an element of HTML."""

    __slots__ = ("close", "open", "reopen")

    def __init__(self, open_: str, close: str) -> None:
        self.open = open_
        self.close = close
        self.reopen = open_


class Text(NamedTuple):
    """Text of one line, rendered; may be cut at white space, and goes on behind `resume`."""

    text: str
    resume: str = ""


class Code(NamedTuple):
    """Lines of code, rendered, with `joint` between them: a line feed and what the next line begins with."""

    text: str
    joint: str = "\n"
    resume: str = ""
    again: str = ""
    """What opens its span again once this many characters are out, in place of the span's own mark."""
    after: int = 0


class Open(NamedTuple):
    """A span begins."""

    span: Span


class Close(NamedTuple):
    """The innermost span ends."""


class Break(NamedTuple):
    """A gap between two texts: left out where a message ends; the next one begins with `resume`."""

    text: str
    gap: Gap
    resume: str = ""


class Lead(NamedTuple):
    """What stands before the next text, such as a list mark."""

    text: str


class Drop(NamedTuple):
    """The lead that still waits has lost its text."""

    text: str


class Mark(NamedTuple):
    """From here on, the span is opened again with this."""

    span: Span
    reopen: str


Op = Text | Code | Open | Close | Break | Lead | Drop | Mark
