"""Walks the tokens of a block's Markdown and says it again in a channel's dialect, as operations to pack."""

import re
from collections.abc import Callable, Sequence

from markdown_it.token import Token

from pipeline.project import tables
from pipeline.project.dialect import ZERO_WIDTH, Dialect, Marks, shown_info
from pipeline.project.parsing import is_wide
from pipeline.project.pieces import Break, Close, Code, Drop, Gap, Lead, Op, Open, Span, Text

_LINE_BREAK = re.compile(r" *<br\s*/?> *", re.IGNORECASE)
_TASK = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
_CALLED = frozenset("@#&!:aceghir")  # what the names of everybody, and mentions by id, begin with
_MARKS = {"strong_open": "strong", "em_open": "em", "s_open": "strike"}
_CLOSERS = {"strong_close": "strong", "em_close": "em", "s_close": "strike"}


class Walker:
    """The operations of one block. The order of a list's and a quote's lines is kept by a prefix that each line begins with."""

    def __init__(self, dialect: Dialect, lines: Sequence[str], *, longest: int, italic: bool = False) -> None:
        self.ops: list[Op] = []
        self._dialect = dialect
        self._source = lines
        self._longest = longest  # of an opening mark; a longer one is not worth its room
        self._italic = italic
        self._prefix = ""
        self._quotes = 0
        self._lists: list[int | None] = []  # the next number of each open list; None: bullets
        self._leads: list[str] = []
        self._prefixes: list[str] = []
        self._fresh = True  # nothing stands on this line yet but leads
        self._weak = False  # what came before was a heading
        self._marked: dict[str, list[bool]] = {"strong": [], "em": [], "strike": []}
        self._links: list[str | None] = []  # what to write behind a link's label; None: its marks are closed
        self._handlers: dict[str, Callable[[Token], None]] = {
            "paragraph_open": self._paragraph,
            "paragraph_close": self._paragraph_end,
            "heading_open": self._heading,
            "heading_close": self._heading_end,
            "inline": lambda token: self.inline(token.children or []),
            "fence": lambda token: self._code(token, shown_info(token.info)),
            "code_block": lambda token: self._code(token, ""),
            "hr": self._rule,
            "bullet_list_open": lambda token: self._list(token, None),
            "ordered_list_open": lambda token: self._list(token, int(token.attrGet("start") or 1)),
            "bullet_list_close": self._list_end,
            "ordered_list_close": self._list_end,
            "list_item_open": self._item,
            "list_item_close": self._item_end,
            "blockquote_open": self._quote,
            "blockquote_close": self._quote_end,
        }

    def walk(self, tokens: Sequence[Token]) -> None:
        """Take the tokens of a document."""
        at, end = 0, len(tokens)
        handlers = self._handlers
        while at < end:
            token = tokens[at]
            if token.type == "table_open":
                at = self._table(tokens, at)
                continue
            handler = handlers.get(token.type)
            if handler is not None:
                handler(token)
            at += 1

    def note(self, text: str) -> None:
        """Add a line of our own behind everything else."""
        if self.ops:
            self.ops.append(Break("\n\n", Gap.BLOCK))
        self._mark("em")
        for index, line in enumerate(text.split("\n")):
            if index:
                self._line()
            if line.strip():
                self._say(self._dialect.text(line, first=True))
        self._unmark("em")

    # -- gaps

    def _before(self, token: Token) -> None:
        """What stands between this block and the one before it: as much as the author left."""
        if self._fresh:
            self._fresh = False
            return
        weak, self._weak = self._weak, False
        if self._lists:
            self._line()
            return
        start = token.map[0] if token.map else 0
        blank = start > 0 and not self._source[start - 1].strip(" \t>")
        if self._quotes:
            empty = f"\n{self._prefix}" if blank else ""
            self.ops.append(Break(f"{empty}\n{self._prefix}", Gap.LINE, self._resume()))
        elif weak:
            self.ops.append(Break("\n", Gap.WEAK))
        else:
            self.ops.append(Break("\n\n" if blank else "\n", Gap.BLOCK))

    def _line(self, gap: Gap = Gap.LINE) -> None:
        self.ops.append(Break(self._dialect.newline + self._prefix, gap, self._resume()))

    def _resume(self) -> str:
        return self._prefix.lstrip(" ") if self._quotes else ""

    # -- blocks

    def _paragraph(self, token: Token) -> None:
        self._before(token)

    def _paragraph_end(self, token: Token) -> None:
        """Nothing: what follows says what stands between."""

    def _heading(self, token: Token) -> None:
        self._before(token)
        level = int(token.tag[1:])
        if level <= self._dialect.headings:
            self.ops.append(Lead(self._dialect.heading(level)))
        else:
            self._mark("strong")

    def _heading_end(self, token: Token) -> None:
        level = int(token.tag[1:])
        if level <= self._dialect.headings:
            self.ops.append(Drop(self._dialect.heading(level)))
        else:
            self._unmark("strong")
        self._weak = True

    def _rule(self, token: Token) -> None:
        self._before(token)
        self.ops.append(Text(self._dialect.rule))

    def _code(self, token: Token, info: str) -> None:
        self._at_margin(token)
        self.code(token.content.rstrip("\n"), info)

    def _at_margin(self, token: Token) -> None:
        """Code begins at the margin, wherever its list stands: marks that are moved in are not read everywhere."""
        prefix, self._prefix = self._prefix, self._resume()
        self._before(token)
        self._prefix = prefix

    def code(self, content: str, info: str = "", *, head: int = 0) -> None:
        """Add lines of code in a block of their own; its first `head` lines are said again in each message that goes on with it."""
        if not content.strip():
            return
        dialect = self._dialect
        prefix = self._resume()
        joint = "\n" + prefix
        marks = dialect.fence(info, prefix)
        if len(marks[0]) + 6 > self._longest:
            marks = dialect.fence("", prefix)
        lines = dialect.code_text(content).split("\n")
        said = "".join(line + joint for line in lines[:head])
        again = marks[0] + said if 0 < len(said) <= self._longest // 2 else ""
        self._span(marks, Code(joint.join(lines), joint, prefix, again, len(said) - len(joint)))

    def _list(self, token: Token, number: int | None) -> None:
        self._before(token)
        self._lists.append(number)
        self._fresh = True

    def _list_end(self, token: Token) -> None:  # noqa: ARG002 - a handler
        self._lists.pop()
        self._fresh = False

    def _item(self, token: Token) -> None:  # noqa: ARG002 - a handler
        if not self._fresh:
            self._line()
        number = self._lists[-1]
        if number is None:
            bullets = self._dialect.bullets
            lead = bullets[min(len(self._lists), len(bullets)) - 1]
        else:
            lead = f"{number}. "
            self._lists[-1] = number + 1
        self.ops.append(Lead(lead))
        self._leads.append(lead)
        self._prefixes.append(self._prefix)
        indent = self._dialect.indent
        self._prefix += " " * (len(lead) if indent is None else indent)
        self._fresh = True

    def _item_end(self, token: Token) -> None:  # noqa: ARG002 - a handler
        if self._fresh and self._lists[-1] is not None:
            self._blank_item()
        self.ops.append(Drop(self._leads.pop()))
        self._prefix = self._prefixes.pop()
        self._fresh = False

    def _blank_item(self) -> None:
        """Keep the number of an item without words: "42." is one, and may be the whole answer."""
        self.ops.append(Text(ZERO_WIDTH))

    def _quote(self, token: Token) -> None:
        self._before(token)
        self._quotes += 1
        self._fresh = True
        if self._quotes > 1:
            return
        if self._dialect.quote is not None:
            self.ops.append(Open(Span(*self._dialect.quote)))
            return
        self._prefixes.append(self._prefix)
        self._prefix += self._dialect.quote_prefix
        self.ops.append(Lead(self._dialect.quote_prefix))

    def _quote_end(self, token: Token) -> None:  # noqa: ARG002 - a handler
        self._quotes -= 1
        self._fresh = False
        if self._quotes:
            return
        if self._dialect.quote is not None:
            self.ops.append(Close())
        else:
            self._prefix = self._prefixes.pop()
            self.ops.append(Drop(self._dialect.quote_prefix))

    def _table(self, tokens: Sequence[Token], at: int) -> int:
        table, end = tables.read(tokens, at)
        self._rows(table, tokens[at])
        return end

    def _rows(self, table: tables.Table, token: Token) -> None:
        drawn = tables.drawn(table, self._dialect.table_width)
        if drawn is not None:
            self._at_margin(token)
            self.code(drawn, head=2)
        else:
            self._before(token)
            self._records(table)

    def _records(self, table: tables.Table) -> None:
        """A table that is too wide to draw: a list of its rows, each cell with its column's name."""
        bullet, indent = self._dialect.bullets[0], " " * len(self._dialect.bullets[0])
        for index, row in enumerate(table.rows):
            if index:
                self._line()
            self.ops.append(Lead(bullet))
            outer, self._prefix = self._prefix, self._prefix + indent
            for column, cell in enumerate(row):
                if not cell:
                    continue
                if column:
                    self._line(Gap.WEAK)  # a row stays together where it can
                    name = tables.plain(table.head[column])
                    self._say(self._dialect.text(f"{name}: " if name else "", first=True))
                else:
                    self._mark("strong")
                self.inline(cell)
                if not column:
                    self._unmark("strong")
            self._prefix = outer
            self.ops.append(Drop(bullet))

    # -- within a line

    def inline(self, children: Sequence[Token]) -> None:
        """Take the inline tokens of a paragraph, a heading or a cell."""
        italic = self._italic and not self._marked["em"]
        if italic:
            self._mark("em")
        first = True
        ends: dict[int, int] | None = None
        for at, token in enumerate(children):
            kind = token.type
            if kind == "text":
                if token.content:
                    self._words(token.content, first=first)
                    first = False
            elif kind in {"softbreak", "hardbreak"}:
                self._line()
                first = True
            elif kind == "code_inline":
                if at and children[at - 1].type == "code_inline":
                    self.ops.append(Text(ZERO_WIDTH))  # the marks of two spans side by side would be read as one
                opener, text, closer = self._dialect.code_span(token.content)
                self._span((opener, closer), Text(text, self._resume()))
                first = False
            elif kind in _MARKS:
                if self._dialect.looks_around and ends is None:
                    ends = _ends(children)
                self._mark(_MARKS[kind], touched=ends is not None and _touched(children, at, ends[at]))
            elif kind in _CLOSERS:
                self._unmark(_CLOSERS[kind])
            elif kind == "link_open":
                self._link(str(token.attrGet("href") or ""), children, at)
            elif kind == "link_close":
                self._link_end()
            elif kind == "image":
                self._image(token)
                first = False
        if italic:
            self._unmark("em")

    def _say(self, text: str) -> None:
        if text[:1] in _CALLED and self._ends_in_sign():
            text = ZERO_WIDTH + text
        self.ops.append(Text(text, self._resume()))

    def _ends_in_sign(self) -> bool:
        """Whether what stands before, marks apart, would begin a mention: no channel may put one together from two texts."""
        for op in reversed(self.ops):
            if isinstance(op, Text):
                return op.text.endswith(("@", "<"))
            if not isinstance(op, Open | Close):
                break
        return False

    def _words(self, text: str, *, first: bool) -> None:
        if first and self._lists and text[:4] in _TASK:
            text = _TASK[text[:4]] + text[4:]
        if "<" not in text or _LINE_BREAK.search(text) is None:
            self._say(self._dialect.text(text, first=first))
            return
        for index, piece in enumerate(_LINE_BREAK.split(text)):
            if index:
                self._line()
            if piece.strip():
                self._say(self._dialect.text(piece, first=first or index > 0))

    def _span(self, marks: Marks, op: Text | Code) -> None:
        self.ops += (Open(Span(*marks)), op, Close())

    def _mark(self, kind: str, *, touched: bool = False) -> None:
        """Open emphasis, unless it is open already or has no marks here."""
        marked = self._marked[kind]
        marks = None if any(marked) else self._dialect.marks(kind, touched=touched)
        marked.append(marks is not None)
        if marks is not None:
            self.ops.append(Open(Span(*marks)))

    def _unmark(self, kind: str) -> None:
        if self._marked[kind].pop():
            self.ops.append(Close())

    def _link(self, href: str, children: Sequence[Token], at: int) -> None:
        """A link whose label is its address is the address; one without a label as well."""
        inner = children[at + 1]
        label = inner.content if inner.type == "text" and children[at + 2].type == "link_close" else ""
        if inner.type == "link_close":
            self._say(self._dialect.address(href))
        if inner.type == "link_close" or label in {href, href.removeprefix("mailto:")}:
            self._links.append("")
        else:
            self._open_link(href, label)

    def _open_link(self, href: str, label: str) -> None:
        named = label.startswith(("http://", "https://"))  # clients show no link whose label is another address
        marks = None if named else self._dialect.link(href)
        if marks is None or len(marks[0]) + len(marks[1]) > self._longest:
            self._links.append(href)
        else:
            self._links.append(None)
            self.ops.append(Open(Span(*marks)))

    def _link_end(self) -> None:
        href = self._links.pop()
        if href is None:
            self.ops.append(Close())
        elif href:
            self._say(" (")
            self._say(self._dialect.address(href))
            self._say(")")

    def _image(self, token: Token) -> None:
        label = token.content or "image"
        if self._links and self._links[-1] is None:  # no channel has a link within a link
            self._say(self._dialect.text(label, first=False))
            return
        self._open_link(str(token.attrGet("src") or ""), label)
        self._say(self._dialect.text(label, first=False))
        self._link_end()


def _ends(children: Sequence[Token]) -> dict[int, int]:
    """Where each thing that opens is closed."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for at, token in enumerate(children):
        if token.nesting > 0:
            opened.append(at)
        elif token.nesting < 0:
            ends[opened.pop()] = at
    return ends


def _touched(children: Sequence[Token], at: int, end: int) -> bool:
    """Whether a letter, a digit or a wide sign stands right before this opener or right behind its closer."""
    before = children[at - 1].content[-1:] if at and children[at - 1].type in {"text", "code_inline"} else ""
    end += 1
    behind = children[end].content[:1] if end < len(children) and children[end].type in {"text", "code_inline"} else ""
    return any(char.isalnum() or is_wide(char) for char in (before, behind))
