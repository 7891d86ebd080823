"""Blocks for Telegram: the HTML subset of the Bot API, in messages of 4,096 UTF-16 units with the markup counted.

The body is the message's `text` for `parse_mode` HTML; `plain_of(body)` is the same without markup, for a server that refuses it. Mentions of
everyone, here, channel and all are neutral by a zero-width space behind the at sign.
"""

import re
from typing import ClassVar

from pipeline.output import Block
from pipeline.project import markup
from pipeline.project.dialect import ZERO_WIDTH, Dialect, Marks
from pipeline.project.messages import messages
from pipeline.project.parts import Channel, Part, Profile

CONTENT_TYPE = "text/html; charset=utf-8"
_TAGS = {"strong": "b", "em": "i", "strike": "s"}
_EVERYONE = re.compile("@(?=everyone|here|channel|all)")


class Telegram(Dialect):
    """What the Bot API reads: a few elements, and line feeds as they are."""

    quote = ("<blockquote>", "</blockquote>")
    bullets: ClassVar[tuple[str, ...]] = ("• ", "◦ ", "▪ ")
    table_width = 44

    def text(self, text: str, *, first: bool) -> str:  # noqa: ARG002 - the same everywhere
        """Escape for HTML."""
        text = markup.escaped(text)
        return _EVERYONE.sub("@" + ZERO_WIDTH, text) if "@" in text else text

    def code_text(self, text: str) -> str:
        """Escape for HTML."""
        return markup.escaped(text)

    def code_span(self, text: str) -> tuple[str, str, str]:
        """An element of its own."""
        return "<code>", markup.escaped(text), "</code>"

    def fence(self, info: str, prefix: str) -> Marks:  # noqa: ARG002 - lines have no prefix within an element
        """A block of code; its language is an attribute of an inner element."""
        if not info:
            return "<pre>", "</pre>"
        return f'<pre><code class="language-{markup.attribute(info)}">', "</code></pre>"

    def link(self, href: str) -> Marks | None:
        """An element with the address; only for schemes that clients follow."""
        if not href.startswith(("http://", "https://", "tg://", "mailto:")):
            return None
        return f'<a href="{markup.attribute(href)}">', "</a>"

    def marks(self, kind: str, *, touched: bool) -> Marks | None:  # noqa: ARG002 - elements stand anywhere
        """The element of its kind."""
        return f"<{_TAGS[kind]}>", f"</{_TAGS[kind]}>"


_DIALECT = Telegram()


def project(block: Block, profile: Profile) -> list[Part]:
    """Make the messages of a block."""
    bodies = messages(block, profile, _DIALECT, atom=markup.ATOM, whole=markup.whole)
    return [Part(ordinal, body, CONTENT_TYPE) for ordinal, body in enumerate(bodies)]


def plain_of(body: str) -> str:
    """Return the text of a body as it is read, without its markup."""
    return markup.bare(body)


CHANNEL = Channel(
    project=project,
    content_type=CONTENT_TYPE,
    limit=4_096,
    unit="utf16",
    note="`text` of a message: 4,096 characters without markup; held here with the markup counted",
    shown=plain_of,
)
