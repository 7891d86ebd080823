"""Blocks for Discord: its own dialect of Markdown, in messages of 2,000 UTF-16 units and 17 lines.

The body is the message's `content`. Mentions are neutral: a zero-width space stands behind the at sign of everyone and here, and before
the sign of a mention by id. Blank space at a cut stays at the head of the next message, where the client drops it.
"""

import re

import regex

from pipeline.output import Block
from pipeline.project.dialect import ZERO_WIDTH, Dialect, Marks, without_fences
from pipeline.project.messages import messages
from pipeline.project.parts import Channel, Part, Profile

CONTENT_TYPE = "text/markdown; variant=discord; charset=utf-8"

_SPECIAL = re.compile(r"[\\*_~`|<@\[]")
_SIGN = re.compile(
    r"(?P<url>https?://[^\s<>`]+)"
    r"|(?P<everyone>@)(?=everyone|here|channel)"
    r"|(?P<mention><)(?=[@#]|id:)"
    r"|(?P<pair>~~|\|\||\]\()"
    r"|(?P<slash>\\)(?=[!-/:-@\[-`{-~])"
    r"|(?P<star>\*)|(?P<under>_)|(?P<tick>`)"
)
_CALL_IN_URL = re.compile("@(?=everyone|here)")
_FIRST = re.compile(r"(#{1,3}|-#|>{1,3}|[-*+]|\d{1,9}[.)])(?=\s|$)")
_ATOM = regex.compile(r"\\[!-/:-@\[-`{-~]")


class Discord(Dialect):
    """What Discord reads: CommonMark without tables and images, three levels of headings, one level of quotes."""

    bullets = ("- ",)
    headings = 3
    table_width = 56
    looks_around = True

    def text(self, text: str, *, first: bool) -> str:
        """Escape what Discord would read as marks and CommonMark did not."""
        if _SPECIAL.search(text) is not None:
            text = _SIGN.sub(_escaped, text)
        if first and (mark := _FIRST.match(text)) is not None:
            return f"{mark[1][:-1]}\\{mark[1][-1]}{text[mark.end() :]}" if mark[1][0].isdigit() else "\\" + text
        return text

    def code_text(self, text: str) -> str:
        """A fence within code would end it."""
        return without_fences(text)

    def code_span(self, text: str) -> tuple[str, str, str]:
        """Two backticks around code that holds one; a space keeps an outer one apart."""
        if "`" not in text:
            return "`", text, "`"
        return "`` ", text.replace("``", f"`{ZERO_WIDTH}`"), " ``"

    def link(self, href: str) -> Marks | None:
        """A masked link; only web addresses may be masked."""
        if not href.startswith(("http://", "https://")):
            return None
        return "[", f"]({_uncalling(href).replace('(', '%28').replace(')', '%29').replace(' ', '%20')})"

    def marks(self, kind: str, *, touched: bool) -> Marks | None:
        """Underscores for emphasis, which stars would make unclear beside the strong's; stars within a word."""
        if kind == "em":
            return ("*", "*") if touched else ("_", "_")
        mark = {"strong": "**", "strike": "~~"}[kind]
        return mark, mark


_DIALECT = Discord()


def project(block: Block, profile: Profile) -> list[Part]:
    """Make the messages of a block."""
    bodies = messages(block, profile, _DIALECT, atom=_ATOM, whole=_whole, keeps_blank=True)
    return [Part(ordinal, body, CONTENT_TYPE) for ordinal, body in enumerate(bodies)]


def _escaped(match: re.Match[str]) -> str:
    text, at, sign = match.string, match.start(), match[0]
    kind = match.lastgroup
    if kind == "url":
        return _uncalling(sign)
    if kind in {"everyone", "mention"}:
        return sign + ZERO_WIDTH
    if kind == "pair":
        return f"\\{sign[0]}\\{sign[1]}"
    before, behind = text[at - 1 : at], text[at + 1 : at + 2]
    if kind == "under" and before.isalnum() and behind.isalnum():
        return sign
    if kind == "star" and at and before.isspace() and (not behind or behind.isspace()):
        return sign
    return "\\" + sign


def _uncalling(url: str) -> str:
    """An address that calls everyone says the same with its at sign escaped, also when it is cut."""
    return _CALL_IN_URL.sub("%40", url) if "@" in url else url


def _whole(text: str, cut: int) -> int:
    """Not between a backslash and what it escapes."""
    slashes = cut - len(text[:cut].rstrip("\\"))
    return cut - slashes % 2


CHANNEL = Channel(
    project=project,
    content_type=CONTENT_TYPE,
    limit=2_000,
    unit="utf16",
    max_lines=17,
    note="`content` of a message: 2,000 characters; a client folds what is much longer than 17 lines",
)
