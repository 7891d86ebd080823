"""How one channel writes what Markdown says. A dialect is data and small pure functions; walking and packing are everybody's."""

import re
from abc import ABC, abstractmethod
from typing import ClassVar

Marks = tuple[str, str]
"""What opens something and what closes it."""


class Dialect(ABC):
    """Plain text with marks around it. Every method gets unescaped text and returns it as the channel reads it."""

    quote: Marks | None = None
    """An element around a quote; None: each of its lines begins with `quote_prefix`."""
    quote_prefix: str = "> "
    bullets: ClassVar[tuple[str, ...]] = ("• ", "◦ ", "▪ ")
    """By depth, the last for all deeper ones."""
    indent: int | None = None
    """Spaces by which a list's next level is moved in; None: the width of the mark above it."""
    rule: str = "──────────"
    newline: str = "\n"
    """What ends a line within a paragraph."""
    headings: int = 0
    """Levels that have a form of their own; deeper ones are strong."""
    table_width: int = 60
    """Columns of a table that is drawn in a monospaced font; a wider one becomes a list."""
    looks_around: bool = False
    """Whether the marks of emphasis depend on what touches them."""

    def text(self, text: str, *, first: bool) -> str:  # noqa: ARG002 - for channels whose marks depend on it
        """Escape text; `first`: it begins a line."""
        return text

    def code_text(self, text: str) -> str:
        """Escape lines of code."""
        return text

    def code_span(self, text: str) -> tuple[str, str, str]:
        """Return what opens code within a line, the code, and what closes it."""
        return "`", text, "`"

    def fence(self, info: str, prefix: str) -> Marks:
        """Return the marks of a code block whose lines begin with `prefix`."""
        return f"```{info}\n{prefix}", f"\n{prefix}```"

    @abstractmethod
    def link(self, href: str) -> Marks | None:
        """Return the marks of a link; None where the channel has no such link, and the address is written out."""

    def address(self, href: str) -> str:
        """Write an address so that the channel makes it a link by itself."""
        return self.text(href, first=False)

    @abstractmethod
    def marks(self, kind: str, *, touched: bool) -> Marks | None:
        """Return the marks of `strong`, `em` or `strike`; `touched`: a letter stands right before or behind. None: it has no marks."""

    def heading(self, level: int) -> str:
        """Return what a heading begins with, for the levels that have a form of their own."""
        return "#" * level + " "


ZERO_WIDTH = "\u200b"
_TICKS = re.compile("`{3,}")


def without_fences(code: str) -> str:
    """Take runs of backticks apart that would end a fence around them."""
    return _TICKS.sub(lambda run: ZERO_WIDTH.join(run[0]), code) if "```" in code else code


def shown_info(info: str) -> str:
    """Return the language of a fence, if it is one word."""
    word = info.split(maxsplit=1)[0] if info.strip() else ""
    return word if len(word) <= 40 and all(char.isalnum() or char in "+#.-_" for char in word) else ""
