"""Fills messages with rendered pieces, each within its limit.

A channel's dialect turns Markdown into a list of operations; here they are put one behind the other until a message is full. Then it ends
at the best place that it holds, what is open is closed, and the next message opens it again. Whatever opens something (a span, a list
mark, a break) waits until text follows, so no message ends with an opener and none is empty.

The best place to end, first to last: a gap between blocks past half of the limit; the end of a line past a quarter; white space, behind
a sentence if one ends in the last quarter; CJK punctuation; any gap; else a cut between two characters, which never takes a grapheme, an entity or an escape apart unless that alone is
longer than the limit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import regex

from pipeline.graphemes import boundary
from pipeline.project.cutting import SPACES, split_code, split_text
from pipeline.project.measure import Measure
from pipeline.project.pieces import Break, Close, Code, Drop, Gap, Lead, Op, Open, Span, Text

UNLIMITED = 1 << 60
_TEXTS = (Text, Code)
_NULL = Span("", "")  # stands for a span whose marks do not fit


class _Opening(NamedTuple):
    """A span that opens with the next text."""

    span: Span
    text: str


_Waiting = _Opening | Break | Lead


@dataclass(slots=True)
class _Place:
    """The state of a message before a break, to go back to."""

    op: int
    pieces: int
    active: list[tuple[Span, str]]
    waiting: list[_Waiting]
    gap: Gap
    fill: float


@dataclass(slots=True)
class _Words:
    """The last text of a message with white space in it, and the state before it."""

    op: int
    pieces: int
    base: int
    active: list[tuple[Span, str]]
    used: int
    filled: bool


class Packer:
    """Packs the operations of one block. `whole` moves a cut before the entity or escape that it would take apart."""

    def __init__(
        self,
        measure: Measure,
        limit: int | None,
        max_lines: int | None,
        *,
        atom: regex.Pattern[str] | None = None,
        whole: Callable[[str, int], int] | None = None,
        keeps_blank: bool = False,
    ) -> None:
        self._size, self._fit = measure.size, measure.fit
        self._limit = UNLIMITED if limit is None else max(1, limit)
        self._max_lines = UNLIMITED if max_lines is None else max(1, max_lines)
        self._atom, self._whole = atom, whole
        self._keeps_blank = keeps_blank
        self._parts: list[str] = []
        self._marks: dict[str, tuple[int, int]] = {}
        self._bounded = limit is not None or max_lines is not None
        self._offset = 0  # how much of the current text is in earlier messages
        self._begin([])

    def pack(self, ops: Sequence[Op]) -> list[str]:
        """Return the messages."""
        at, end = 0, len(ops)
        began = (-1, 0)
        while at < end:
            op = ops[at]
            if isinstance(op, _TEXTS):
                made = len(self._parts)
                at = self._text(ops, at, op)
                if len(self._parts) > made:
                    began = self._goes_on(began, (at, self._offset))
                continue
            if isinstance(op, Break):
                self._break(op)
            elif isinstance(op, Open):
                self._waiting.append(_Opening(op.span, op.span.open))
            elif isinstance(op, Close):
                self._close()
            elif isinstance(op, Lead):
                self._waiting.append(op)
            elif isinstance(op, Drop):
                self._drop(op)
            else:
                op.span.reopen = op.reopen
            at += 1
        if self._filled:
            self._finish()
        return self._parts

    @staticmethod
    def _goes_on(began: tuple[int, int], begins: tuple[int, int]) -> tuple[int, int]:
        """Every message begins behind the one before it: a block that would be packed for ever is refused instead."""
        if begins <= began:
            raise RuntimeError(f"packing stands still at operation {begins[0]}, character {begins[1]}")
        return begins

    # -- one message

    def _begin(self, waiting: list[_Waiting]) -> None:
        self._pieces: list[str] = []
        self._used = 0
        self._lines = 1
        self._closing = 0  # what the closers of the open spans take
        self._closing_lines = 0
        self._active: list[Span] = []
        self._waiting = waiting
        self._filled = False
        self._places: dict[Gap, _Place] = {}
        self._words: _Words | None = None

    def _finish(self) -> None:
        pieces = self._pieces
        while pieces and pieces[-1].isspace():
            pieces.pop()
        pieces += [span.close for span in reversed(self._active)]
        self._parts.append("".join(pieces))

    def _close(self) -> None:
        waiting = self._waiting
        for index in range(len(waiting) - 1, -1, -1):
            if isinstance(waiting[index], _Opening):
                del waiting[index]  # nothing came of it
                return
        span = self._active.pop()
        size, lines = self._taken(span.close)
        self._pieces.append(span.close)
        self._used += size
        self._closing -= size
        self._lines += lines
        self._closing_lines -= lines

    def _break(self, op: Break) -> None:
        """Two breaks in a row are one, the longer of them, that leads to where the later leads."""
        for index, waiting in enumerate(self._waiting):
            if isinstance(waiting, Break):
                long = waiting.text.count("\n") > op.text.count("\n")
                text = "\n" + op.text if long and op.text.count("\n") == 1 else waiting.text if long else op.text
                self._waiting[index] = Break(text, max(op.gap, waiting.gap), op.resume)
                return
        self._waiting.append(op)

    def _drop(self, op: Drop) -> None:
        for index in range(len(self._waiting) - 1, -1, -1):
            waiting = self._waiting[index]
            if isinstance(waiting, Lead) and waiting.text == op.text:
                del self._waiting[index]
                return

    # -- text

    def _text(self, ops: Sequence[Op], at: int, op: Text | Code) -> int:
        """Add a text, or what is left of it; the index of the operation to go on with."""
        text, offset = op.text, self._offset
        if len(text) - offset > self._limit:
            return self._overflow(ops, at, op)
        if offset:
            text = text[offset:]
        elif not self._filled and isinstance(op, Text):
            text = text.lstrip(SPACES)
        if not self._filled and (not text or text.isspace()):
            self._offset = 0
            return at + 1
        size = self._size(text)
        wait, lines = self._cost() if self._waiting else (0, 0)
        breaks = text.count("\n") if isinstance(op, Code) else 0
        if (
            self._used + self._closing + wait + size > self._limit
            or self._lines + self._closing_lines + lines + breaks > self._max_lines
        ):
            return self._overflow(ops, at, op)
        self._offset = 0
        if self._waiting:
            self._put_waiting(at)
        if " " in text and isinstance(op, Text):
            opens = [(span, span.reopen) for span in self._active] if self._active else []
            self._words = _Words(at, len(self._pieces), len(op.text) - len(text), opens, self._used, self._filled)
        self._pieces.append(text)
        self._used += size
        self._lines += breaks
        self._filled = self._filled or not text.isspace()
        return at + 1

    def _cost(self) -> tuple[int, int]:
        """What the things that wait will take, with their closers: units and lines."""
        units = lines = 0
        for entry in self._waiting:
            if self._filled or not isinstance(entry, Break):
                more, rows = self._taken(entry.text)
                units, lines = units + more, lines + rows
                if isinstance(entry, _Opening):
                    more, rows = self._taken(entry.span.close)
                    units, lines = units + more, lines + rows
        return units, lines

    def _taken(self, mark: str) -> tuple[int, int]:
        """What a mark takes: units and line feeds. Marks are few and come again and again."""
        taken = self._marks.get(mark)
        if taken is None:
            taken = self._marks[mark] = (self._size(mark), mark.count("\n"))
        return taken

    def _put_waiting(self, at: int) -> None:
        """Put down what waits for a text."""
        waiting, self._waiting = self._waiting, []
        for index, entry in enumerate(waiting):
            if isinstance(entry, Break):
                if not self._filled:
                    continue
                if self._bounded:
                    self._places[entry.gap] = self._place(at, entry, waiting[:index] + waiting[index + 1 :])
            elif isinstance(entry, _Opening):
                units, lines = self._taken(entry.span.close)
                self._closing += units
                self._closing_lines += lines
                self._active.append(entry.span)
            units, lines = self._taken(entry.text)
            self._pieces.append(entry.text)
            self._used += units
            self._lines += lines

    def _place(self, at: int, gap: Break, rest: list[_Waiting]) -> _Place:
        lead: list[_Waiting] = [Lead(gap.resume)] if gap.resume else []
        opens = [(span, span.reopen) for span in self._active]
        fill = max(self._used / self._limit, self._lines / self._max_lines)
        return _Place(at, len(self._pieces), opens, lead + rest, gap.gap, fill)

    # -- a full message

    def _overflow(self, ops: Sequence[Op], at: int, op: Text | Code) -> int:
        """End the message at its best place; the index of the operation to go on with."""
        now = None
        if self._filled:
            here = next((entry for entry in self._waiting if isinstance(entry, Break)), None)
            if here is not None:
                now = self._place(at, here, [entry for entry in self._waiting if entry is not here])
            for gap, least in ((Gap.BLOCK, 0.5), (Gap.LINE, 0.25)):
                for place in (now, self._places.get(Gap.BLOCK), self._places.get(Gap.LINE)):
                    if place is not None and place.gap >= gap and place.fill >= least:
                        return self._end_at(place)
        wait, lines = self._cost()
        room = self._limit - self._used - self._closing - wait
        rows = self._max_lines - self._lines - self._closing_lines - lines
        if not self._filled and (room < self._limit // 4 or room < 1 or rows < 0) and self._plainer():
            return at
        cut, rest, soft = (
            split_code(op, self._offset, self._fits(op, room), rows)
            if isinstance(op, Code)
            else (split_text(op.text, self._offset, self._fits(op, room) if rows >= 0 else 0))
        )
        if not soft:
            if self._filled and op.text.startswith(tuple(SPACES)) and self._used * 4 >= self._limit:
                return self._end_at(self._place(at, Break("", Gap.LINE, op.resume), list(self._waiting)))
            if (words := self._between_words(ops)) is not None:
                return words
            places = [place for place in (now, *self._places.values()) if place is not None]
            if places:
                return self._end_at(max(places, key=lambda place: place.fill))
            cut = rest = self._exact(op.text, cut)
        if cut > self._offset:
            return self._divide(at, op, cut, rest)
        if self._filled:
            return self._end_at(self._place(at, Break("", Gap.LINE, op.resume), list(self._waiting)))
        if self._plainer():
            return at
        cut = self._least(op.text, self._fits(op, max(room, 1)))
        return self._divide(at, op, cut, cut)

    def _plainer(self) -> bool:
        """Give up the marks that leave too little room under this limit, spans first; whether there were any."""
        waiting = self._waiting
        if any(isinstance(entry, _Opening) and entry.span is not _NULL for entry in waiting):
            self._waiting = [_Opening(_NULL, "") if isinstance(entry, _Opening) else entry for entry in waiting]
            return True
        self._waiting = [entry for entry in waiting if not isinstance(entry, Lead)]
        return len(self._waiting) < len(waiting)

    def _fits(self, op: Text | Code, room: int) -> int:
        """How many characters of what is left of a text fit."""
        return self._fit(op.text[self._offset : self._offset + room], room) if room > 0 else 0

    def _exact(self, text: str, cut: int) -> int:
        """Move a cut to where it takes nothing apart that is read as one; not before the current offset."""
        while cut > self._offset:
            window = text[self._offset : cut + 12]
            exact = boundary(window, cut - self._offset)
            if self._whole is not None and exact < len(window):
                exact = self._whole(window, exact)
            if self._offset + exact == cut:
                break
            cut = self._offset + exact
        return cut

    def _least(self, text: str, fits: int) -> int:
        """The end of the smallest piece, whether it fits or not; a cluster longer than the limit is cut between code points."""
        atom = self._atom.match(text, self._offset) if self._atom is not None else None
        if atom is not None:
            return int(atom.end())
        line = text.find("\n", self._offset, self._offset + fits)
        return max(self._offset + 1, self._offset + fits if line < 0 else line)

    def _divide(self, at: int, op: Text | Code, cut: int, rest: int) -> int:
        """End the message within a text and begin the next with what is left of it."""
        text = op.text[self._offset : cut]
        if not self._filled and text.isspace():  # a message of blanks is none
            self._offset = rest if rest < len(op.text) else 0
            return at if self._offset else at + 1
        if isinstance(op, Text):
            text = text.rstrip(SPACES) if self._filled or self._offset or self._keeps_blank else text.strip(SPACES)
        self._put_waiting(at)
        self._pieces.append(text)
        if isinstance(op, Code) and op.again and cut >= op.after and self._active and self._active[-1] is not _NULL:
            self._active[-1].reopen = op.again
        active = [(span, span.reopen) for span in self._active]
        if self._keeps_blank and isinstance(op, Text) and not active:
            rest = cut
        lead: list[_Waiting] = [Lead(op.resume)] if op.resume else []
        self._finish()
        self._offset = rest if rest < len(op.text) else 0
        self._reopen(active, lead)
        return at if self._offset else at + 1

    def _end_at(self, place: _Place) -> int:
        """End the message at a place that it holds."""
        del self._pieces[place.pieces :]
        self._active = [span for span, _ in place.active]
        self._finish()
        self._offset = 0
        self._reopen(place.active, place.waiting)
        return place.op

    def _between_words(self, ops: Sequence[Op]) -> int | None:
        """End the message at the last white space of an earlier text, if that is past a quarter of the limit."""
        words = self._words
        if words is None:
            return None
        text = self._pieces[words.pieces]
        blank = text.rfind(" ")
        head = text[:blank].rstrip(SPACES)
        if (words.used + self._size(head)) * 4 < self._limit or (not head and (not words.filled or words.active)):
            return None
        op = ops[words.op]
        whole, resume = (op.text, op.resume) if isinstance(op, Text) else ("", "")
        rest = words.base + (len(head) if self._keeps_blank and not words.active else blank + 1)
        del self._pieces[words.pieces :]
        self._pieces.append(head)
        self._active = [span for span, _ in words.active]
        self._finish()
        self._offset = rest if rest < len(whole) else 0
        self._reopen(words.active, [Lead(resume)] if resume else [])
        return words.op if self._offset else words.op + 1

    def _reopen(self, active: list[tuple[Span, str]], waiting: list[_Waiting]) -> None:
        lead = [entry for entry in waiting[:1] if isinstance(entry, Lead)]
        for span, reopen in active:
            span.reopen = reopen
        opens = [_Opening(span, reopen) for span, reopen in active]
        self._begin([*lead, *opens, *waiting[len(lead) :]])
