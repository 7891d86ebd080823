"""Blocks for Matrix: the content of an `m.room.message` event, `body` plain and `formatted_body` HTML.

The body is that content as JSON, with the same bytes at every repeat. It mentions nobody: `m.mentions` is empty, and a zero-width space stands
behind the at sign of `@room`. The limit counts `formatted_body`.
"""

import re
from collections.abc import Sequence
from typing import cast

import msgspec
from markdown_it.token import Token

from pipeline.output import Block
from pipeline.project import markup, tables
from pipeline.project.dialect import ZERO_WIDTH, Dialect, Marks
from pipeline.project.messages import messages
from pipeline.project.parts import Channel, Part, Profile
from pipeline.project.pieces import Break, Close, Gap, Mark, Op, Open, Span, Text
from pipeline.project.walking import Walker

CONTENT_TYPE = "application/json"
FORMAT = "org.matrix.custom.html"
_ENCODER = msgspec.json.Encoder(order="sorted")
_TAGS = {"strong": "strong", "em": "em", "strike": "del"}
_EVERYONE = re.compile("@(?=room|everyone|here|channel)")


class Matrix(Dialect):
    """The HTML that clients are asked to show."""

    quote = ("<blockquote>", "</blockquote>")
    newline = "<br>"

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
        """A block of code."""
        language = f' class="language-{markup.attribute(info)}"' if info else ""
        return f"<pre><code{language}>", "</code></pre>"

    def link(self, href: str) -> Marks | None:
        """An element with the address; only for schemes that clients follow."""
        if not href.startswith(("http://", "https://", "mailto:", "ftp://", "magnet:")):
            return None
        return f'<a href="{markup.attribute(href)}">', "</a>"

    def marks(self, kind: str, *, touched: bool) -> Marks | None:  # noqa: ARG002 - elements stand anywhere
        """The element of its kind."""
        return f"<{_TAGS[kind]}>", f"</{_TAGS[kind]}>"


class _Elements(Walker):
    """Blocks are elements here, with nothing between them."""

    def __init__(self, dialect: Dialect, lines: Sequence[str], *, longest: int, italic: bool = False) -> None:
        super().__init__(dialect, lines, longest=longest, italic=italic)
        self._numbers: list[tuple[Span, int] | None] = []

    def _gap(self) -> None:
        gap = Gap.WEAK if self._weak else Gap.LINE if self._lists or self._quotes else Gap.BLOCK
        self._weak = False
        self.ops.append(Break("", gap))

    def _before(self, token: Token) -> None:  # noqa: ARG002 - the same for all
        self._gap()

    def _element(self, tag: str) -> None:
        self.ops.append(Open(Span(f"<{tag}>", f"</{tag}>")))

    def _paragraph(self, token: Token) -> None:
        if token.hidden:
            if not self._fresh:
                self._line()
            self._fresh = False
        else:
            self._gap()
            self._element("p")

    def _paragraph_end(self, token: Token) -> None:
        if not token.hidden:
            self.ops.append(Close())

    def _heading(self, token: Token) -> None:
        self._gap()
        self._element(token.tag)

    def _heading_end(self, token: Token) -> None:  # noqa: ARG002 - a handler
        self.ops.append(Close())
        self._weak = True

    def _rule(self, token: Token) -> None:  # noqa: ARG002 - a handler
        self._gap()
        self.ops.append(Text("<hr>"))

    def _list(self, token: Token, number: int | None) -> None:  # noqa: ARG002 - a handler
        self._gap()
        self._lists.append(number)
        if number is None:
            self._element("ul")
            self._numbers.append(None)
            return
        span = Span("<ol>" if number == 1 else f'<ol start="{number}">', "</ol>")
        self.ops.append(Open(span))
        self._numbers.append((span, number))

    def _list_end(self, token: Token) -> None:
        super()._list_end(token)
        self._numbers.pop()
        self.ops.append(Close())

    def _item(self, token: Token) -> None:  # noqa: ARG002 - a handler
        self.ops.append(Break("", Gap.LINE))
        numbered = self._numbers[-1]
        if numbered is not None:
            span, number = numbered
            self.ops.append(Mark(span, f'<ol start="{number}">'))
            self._numbers[-1] = span, number + 1
        self._element("li")
        self._fresh = True

    def _item_end(self, token: Token) -> None:  # noqa: ARG002 - a handler
        if isinstance(self.ops[-1], Open) and self._numbers[-1] is not None:
            self._blank_item()
        self.ops.append(Close())
        self._fresh = False

    def _at_margin(self, token: Token) -> None:
        self._before(token)

    def _rows(self, table: tables.Table, token: Token) -> None:  # noqa: ARG002 - no source line is needed
        self._gap()
        span = Span("<table>", "</table>")
        self.ops.append(Open(span))
        begins = len(self.ops)
        self._group("thead", "th", [table.head])
        head = _written(self.ops[begins:])
        if len(head) <= self._longest // 2:
            self.ops.append(Mark(span, span.open + head))  # a message that goes on with the rows begins with the head
        self._group("tbody", "td", table.rows)
        self.ops.append(Close())

    def _group(self, element: str, tag: str, rows: Sequence[Sequence[tables.Cell]]) -> None:
        self._element(element)
        for row in rows:
            self.ops.append(Break("", Gap.LINE))
            self._element("tr")
            for cell in row:
                self._cell(tag, cell)
            self.ops.append(Close())
        self.ops.append(Close())

    def _cell(self, tag: str, cell: tables.Cell) -> None:
        """A cell is there even when nothing is in it, so that the next ones keep their columns."""
        self._element(tag)
        self.inline(cell)
        if not tables.plain(cell):
            self.ops.append(Text("&nbsp;"))
        self.ops.append(Close())

    def note(self, text: str) -> None:
        """Add a line of our own in a paragraph of its own."""
        self._element("p")
        ops: list[Op] = self.ops
        self.ops = []
        super().note(text)
        self.ops = [*ops[:-1], Break("", Gap.BLOCK), ops[-1], *self.ops, Close()]


def _written(ops: Sequence[Op]) -> str:
    """What operations come to where nothing is cut."""
    pieces: list[str] = []
    opened: list[Span] = []
    for op in ops:
        if isinstance(op, Open):
            opened.append(op.span)
            pieces.append(op.span.open)
        elif isinstance(op, Close):
            pieces.append(opened.pop().close)
        else:  # a table's head is of nothing else
            pieces.append(cast("Text | Break", op).text)
    return "".join(pieces)


_DIALECT = Matrix()


def project(block: Block, profile: Profile) -> list[Part]:
    """Make the messages of a block."""
    bodies = messages(block, profile, _DIALECT, walker=_Elements, atom=markup.ATOM, whole=markup.whole)
    return [Part(ordinal, _content(body), CONTENT_TYPE) for ordinal, body in enumerate(bodies)]


def _content(body: str) -> str:
    content = {
        "msgtype": "m.text",
        "body": markup.plain(body),
        "format": FORMAT,
        "formatted_body": body,
        "m.mentions": {},
    }
    return _ENCODER.encode(content).decode()


def shown(body: str) -> str:
    """What a client without HTML shows."""
    return str(msgspec.json.decode(body)["body"])


CHANNEL = Channel(
    project=project,
    content_type=CONTENT_TYPE,
    limit=4_000,
    unit="utf16",
    note="`formatted_body`: 4,000 characters, far below an event's 65,536 bytes",
    shown=shown,
)
