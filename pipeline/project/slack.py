"""Blocks for Slack: mrkdwn, `& < >` escaped, in messages of 4,000 UTF-16 units.

The body is the message's `text`. Mentions are neutral: `<` is escaped, and a zero-width space stands behind the at sign of everyone, here
and channel. mrkdwn has no escape for its own marks: a backtick becomes a reversed prime, and a pair of the others that Slack would take for
emphasis two signs that look alike.
"""

import re
from typing import ClassVar

from pipeline.output import Block
from pipeline.project import markup
from pipeline.project.dialect import ZERO_WIDTH, Dialect, Marks, without_fences
from pipeline.project.messages import messages
from pipeline.project.parts import Channel, Part, Profile

CONTENT_TYPE = "text/x-slack-mrkdwn; charset=utf-8"
TICK = "\u2035"  # stands for a backtick that is none to Slack
_LIKE = {"*": "\u2217", "_": "\u02cd", "~": "\u223c"}  # what stands for a mark that is none
_SIGN = re.compile(r"[*_~]")
_MARKS: dict[str, Marks] = {"strong": ("*", "*"), "em": ("_", "_"), "strike": ("~", "~")}
_EVERYONE = re.compile("@(?=everyone|here|channel)")


class Slack(Dialect):
    """What Slack reads as mrkdwn: no headings, lists or tables of its own."""

    bullets: ClassVar[tuple[str, ...]] = ("• ", "◦ ", "▪ ")
    indent = 4
    table_width = 72
    looks_around = True

    def text(self, text: str, *, first: bool) -> str:
        """Escape what Slack reads as control sequences; an angle bracket that begins a line would begin a quote."""
        text = markup.escaped(text)
        if "@" in text:
            text = _EVERYONE.sub("@" + ZERO_WIDTH, text)
        text = text.replace("`", TICK)
        if "*" in text or "_" in text or "~" in text:
            text = _unmarked(text)
        return ZERO_WIDTH + text if first and text.startswith("&gt;") else text

    def code_text(self, text: str) -> str:
        """Escape it; a fence within code would end it."""
        return without_fences(markup.escaped(text))

    def code_span(self, text: str) -> tuple[str, str, str]:
        """Code within a line ends at its first backtick."""
        return "`", markup.escaped(text).replace("`", TICK), "`"

    def fence(self, info: str, prefix: str) -> Marks:  # noqa: ARG002 - Slack would show the language as code
        """Three backticks."""
        return f"```\n{prefix}", f"\n{prefix}```"

    def link(self, href: str) -> Marks | None:
        """`<address|label>`."""
        if not href.startswith(("http://", "https://", "mailto:")):
            return None
        return f"<{markup.escaped(href).replace('|', '%7C')}|", ">"

    def marks(self, kind: str, *, touched: bool) -> Marks | None:
        """None where a letter touches the marks: Slack would show them as they are."""
        return None if touched else _MARKS[kind]


def _unmarked(text: str) -> str:
    """Put signs that look alike in place of the pairs that Slack would take for marks of emphasis."""
    opened: dict[str, int] = {}
    pairs: list[int] = []
    for found in _SIGN.finditer(text):
        at, sign = found.start(), found[0]
        before, behind = text[at - 1 : at], text[at + 1 : at + 2]
        start = opened.get(sign, at)
        if start < at - 1 and not before.isspace() and not _is_word(behind):
            pairs += (opened.pop(sign), at)
        elif not _is_word(before) and behind and not behind.isspace() and behind not in _LIKE:
            opened.setdefault(sign, at)
    if not pairs:
        return text
    letters = list(text)
    for at in pairs:
        letters[at] = _LIKE[letters[at]]
    return "".join(letters)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_DIALECT = Slack()


def project(block: Block, profile: Profile) -> list[Part]:
    """Make the messages of a block."""
    bodies = messages(block, profile, _DIALECT, atom=markup.ATOM, whole=markup.whole)
    return [Part(ordinal, body, CONTENT_TYPE) for ordinal, body in enumerate(bodies)]


CHANNEL = Channel(
    project=project,
    content_type=CONTENT_TYPE,
    limit=4_000,
    unit="utf16",
    note="`text` of a message: 4,000 characters are advised, beyond 40,000 it is cut",
)
