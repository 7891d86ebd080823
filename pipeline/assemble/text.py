"""Text to blocks: one rule set for every runtime.

Two rules end a block, in this order:

1. *Paragraph.* The first blank line outside a fence before which the block holds at least `min_chars` ends it, as soon
   as the next paragraph's first character is there.
2. *Full.* When the text does not fit `max_chars`, the block ends at the last newline outside a fence at or after
   `min_chars`, else after the last sentence, else at the last blank, else at the last line inside the fence, else hard.

And a flush ends it: a tool, another item, an idle event, the terminal. A block cut inside a fence gets a closer, and
the next one an opener; one that goes on with a table's rows is opened by the table's head. Both are ours and never part of the text.
`opener + text + closer` never exceeds `max_chars`.

Laws: the concatenation of `text + separator` over the blocks is the concatenation of the deltas, whatever the partition;
and between two flushes the boundaries depend on the text alone, never on where one delta ends and the next begins. A
decision is therefore taken only when no later character could change it. Lengths count UTF-16 units, as the channels do.
"""

from typing import Any

from pipeline.assemble.cuts import BLANKS, Cut, blank_cut, hard_cut, sentence_cut, table_head
from pipeline.fences import Fence, cut_opener, may_open, opened_by
from pipeline.graphemes import from_units, in_units
from pipeline.output import Block
from pipeline.settings import StreamSettings

_FLOOD = 1_024  # blanks behind a text, or without one, that nobody waits for the end of; at least twice a block
_SLICE = 8_192  # a longer delta is taken in pieces, so that finishing a block never copies more than this


class Numbers:
    """Counts the blocks of a turn."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.next = 0

    def take(self) -> int:
        """Return the next number."""
        self.next += 1
        return self.next - 1


class Assembler:
    """The open block of a turn. `push`, `idle` and `flush` return the blocks that they finished."""

    def __init__(self, settings: StreamSettings, numbers: Numbers | None = None) -> None:
        self.markers: dict[str, Any] = {}
        self._look = False
        self._quiet = self._free = self._full = 0
        self._settings = settings
        self._by_paragraph = settings.preference == "paragraph" or settings.chunk_mode == "newline"
        self._numbers = numbers or Numbers()
        self._flood = max(2 * settings.max_chars, _FLOOD)
        self._pieces: list[str] = []
        self._start(None, line_start=True)

    @property
    def held(self) -> int:
        """How many characters wait."""
        return self._quiet - self._free

    @property
    def holds_text(self) -> bool:
        """Whether anything but blanks waits."""
        return bool(self._joined().strip(BLANKS))

    @property
    def wants_idle_after_ms(self) -> int | None:
        """After how long a silence an idle event is wanted; None while too little text is held."""
        return self._settings.idle_ms if self.held >= self._settings.min_chars else None

    def push(self, text: str) -> list[Block]:
        """Add one delta."""
        if not text.isascii():
            text = in_units(text)
        self._pieces.append(text)
        self._free = free = self._free - len(text)
        if free >= 0 or (free >= self._full and not self._look and "\n" not in text):
            return []
        return self._more(text)

    def idle(self) -> list[Block]:
        """Give out what is held, when it is enough for a message; a row of a table waits for its end."""
        return self.flush(idle=True) if self.held >= self._settings.min_chars else []

    def flush(self, *, final: bool = False, idle: bool = False) -> list[Block]:
        """Give out what is held. Blank text and the start of a fence wait, unless it is final; at an idle one half a row does, too.

        Behind any other flush something else happened: what comes next is no table's row.
        """
        blocks = self._ready()
        while self.held:
            buffer = self._joined()
            held = 0 if final else self._held(buffer, idle=idle)
            shown = buffer[: len(buffer) - held]
            cut = self._flush_cut(shown)
            if cut is None:  # the closer of an open fence does not fit
                blocks.append(self._emit(buffer, self._full_cut(shown)))
                continue
            if cut.end == 0 and not final:
                break
            blocks.append(self._emit(buffer, cut, goes_on=idle))
            break  # all of it is out but what waits
        return blocks

    # -- the open block

    def _more(self, text: str) -> list[Block]:
        """Behind the point from which a block may end: look when a newline came, or when it is full."""
        if self.held > self._room + _SLICE and len(text) > _SLICE:
            self._pieces.pop()
            self._free += len(text)
            blocks: list[Block] = []
            for at in range(0, len(text), _SLICE):
                piece = text[at : at + _SLICE]
                self._pieces.append(piece)
                self._free -= len(piece)
                blocks += [] if self._free >= 0 else self._more(piece)
            return blocks
        if self._pending is not None or self._rows_of:
            return self._ready()
        if self._by_paragraph and not self._look:
            self._look = "\n" in text
        return self._ready() if self._look or self.held > self._room else []

    def _start(self, fence: Fence | None, *, line_start: bool, head: str = "") -> None:
        """Begin a block: inside `fence`, among a table's rows below its `head`, or outside; at the start of a line or within one."""
        self._fence = fence
        self._head = head
        self._rows_of = ""  # the head of a table whose rows may go on in this block: its first character tells
        self._opener = fence.reopen if fence is not None else head
        self._room = self._settings.max_chars - len(self._opener)
        self._quiet = min(self._settings.min_chars, self._room) if self._by_paragraph else self._room
        self._free = self._quiet  # characters that may come before anything has to be looked at
        self._full = self._quiet - self._room  # the same when it is full
        self._look = self._by_paragraph  # whether a paragraph may have ended since the last look
        self._line_start = line_start
        self._pending: Fence | None = None  # the block begins within the line that opens this
        # progress of the paragraph rule through the block's lines
        self._scan_at = 0
        self._scan_fence = fence
        self._scan_end = 0
        self._scan_blank = False

    def _joined(self) -> str:
        """The held text as one string."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def _emit(self, buffer: str, cut: Cut, *, goes_on: bool = True) -> Block:
        """Finish the block at the cut and begin the next one behind it; `goes_on`: what is cut may be a table.

        What is left of a fence when only its end is, is nothing to show: it goes with what separates.
        """
        end = cut.end
        fence = self._fence
        if self._opener and fence is not None and cut.fence is None and fence.closes(buffer[:end].strip("\n")):
            end = 0
        block = Block(
            ordinal=self._numbers.take(),
            opener=from_units(self._opener) if end else "",
            text=from_units(buffer[:end]),
            closer=cut.close if end else "",
            separator=buffer[end : cut.rest],
            markers=self.markers,
        )
        rest = buffer[cut.rest :]
        self._pieces = [rest] if rest else []
        at_line = goes_on and cut.fence is None and cut.line_start and buffer.count("\n", cut.end, cut.rest) == 1
        head = table_head(buffer[: cut.end].rstrip(BLANKS), self._head) if at_line else ""
        self._start(cut.fence, line_start=cut.line_start)
        self._pending = cut.pending
        self._rows_of = head if len(head) * 3 <= self._settings.max_chars else ""
        if cut.pending is not None or self._rows_of:  # its line's end, or its first character, is to be seen at once
            self._quiet = self._free = 0
            self._full = -self._room
            self._look = True
        self._free -= len(rest)
        return block

    def _go_on(self) -> None:
        """The block's first character is here: another row, below the same head, or no row."""
        held = self.held
        self._start(None, line_start=True, head=self._rows_of if self._joined().startswith("|") else "")
        self._free -= held

    def _ready(self) -> list[Block]:
        """End blocks for as long as the two rules allow it."""
        blocks: list[Block] = []
        while self.held > self._quiet:
            if self._rows_of:
                self._go_on()
                continue
            room = self._room
            buffer = self._joined()
            flood = self.held >= self._flood and len(buffer[: self._flood].rstrip(BLANKS)) <= room
            seen = buffer[: self._flood] if flood else buffer
            cut = self._opener_cut(buffer, room) if self._pending is not None else None
            if cut is None and self._by_paragraph and self._pending is None:
                cut = self._paragraph_cut(seen, room)
            if cut is None and flood:
                cut = self._flush_cut(seen)
            elif cut is None and self.held > room and len(buffer.rstrip(BLANKS)) > room:
                cut = self._full_cut(buffer)
            if cut is None:
                break
            blocks.append(self._emit(buffer, cut))
        return blocks

    def _opener_cut(self, buffer: str, room: int) -> Cut | None:
        """A block that begins within a fence's first line ends with that line, so that the next one can open the fence anew."""
        stop = buffer.find("\n", 0, room + 1)
        if stop < 0:
            return None
        pending, self._pending = self._pending, None
        if pending is not None and pending.marker[0] == "`" and "`" in buffer[:stop]:
            return None  # it was none
        return Cut(stop, stop + 1, pending, close="")

    def _paragraph_cut(self, buffer: str, room: int) -> Cut | None:
        """The first rule. Goes on from the line where the last look stopped."""
        self._look = False
        while True:
            start = self._scan_at
            newline = buffer.find("\n", start)
            line = buffer[start:] if newline < 0 else buffer[start:newline]
            content = line.strip(BLANKS)
            if content and self._scan_blank and self._scan_fence is None:
                if self._settings.min_chars <= self._scan_end <= room:
                    return Cut(self._scan_end, start)
                self._scan_blank = False
            if newline < 0:
                # unfinished: look again when a newline, or the first character behind a blank line, comes
                self._look = self._scan_blank
                return None
            if not content:
                self._scan_blank = self._scan_end > 0
            else:
                self._scan_blank = False
                self._scan_end = start + len(line.rstrip(BLANKS))
                self._scan_fence = self._after(self._scan_fence, line, whole=start > 0 or self._line_start)
            self._scan_at = newline + 1

    def _after(self, fence: Fence | None, line: str, *, whole: bool) -> Fence | None:
        """The fence that is open after a line; `whole` is false for the tail of a line that was cut."""
        if not whole:
            return self._pending if fence is None and self._is_opening(line) else fence
        if fence is None:
            return opened_by(line, self._settings.max_chars)
        return None if fence.closes(line) else fence

    def _is_opening(self, tail: str) -> bool:
        """Whether the rest of a cut line leaves the line an opener: a backtick would make it none."""
        return self._pending is not None and not (self._pending.marker[0] == "`" and "`" in tail)

    def _full_cut(self, buffer: str) -> Cut:
        """The second rule: the best end of a block that does not fit.

        Reads the block's room and one character more, which are there whatever the deltas were.
        """
        room = self._settings.max_chars - len(self._opener)
        least = self._settings.min_chars if not self._opener else min(self._settings.min_chars, room * 2 // 3)
        newline: Cut | None = None  # the last line's end outside a fence
        before: Cut | None = None  # the same, even below the minimum
        inner: Cut | None = None  # the last line's end inside a fence
        fence = self._fence
        content = start = 0  # where the fence's own text begins; where the line begins
        plain: list[tuple[int, int]] = []  # stretches of text outside fences, for sentences and blanks
        opening = False
        while start <= room:
            stop = buffer.find("\n", start, room + 1)
            line = buffer[start : room + 1] if stop < 0 else buffer[start:stop]
            whole = start > 0 or self._line_start
            row = line.startswith("|") and before is not None  # not to be cut, where a line ends before it
            if stop < 0:
                opening = fence is None and (may_open(line) if whole else self._is_opening(line))
                if fence is None and not opening and not row:
                    plain.append((start, start + len(line)))
                break
            after = self._after(fence, line, whole=whole)
            opening = fence is None and after is not None
            if opening:
                content = stop + 1
            elif fence is None and not row:
                plain.append((start, stop))
            end = start + len(line.rstrip(BLANKS))
            if after is None and end > start:
                before = Cut(end, self._line_end(buffer, stop))
                newline = before if end >= least else newline
            elif after is not None and not opening and least <= stop <= room - len(after.close):
                inner = Cut(stop, stop + 1, after) if buffer[content:stop].strip(BLANKS) else inner
            fence = after
            start = stop + 1
        else:
            opening = False
        if self._settings.preference == "sentence":
            cut = sentence_cut(buffer, plain, least, room) or newline or blank_cut(buffer, plain, least, room) or inner
        else:
            cut = newline or sentence_cut(buffer, plain, least, room) or blank_cut(buffer, plain, least, room) or inner
        if cut is None and before is not None and fence is None and buffer.startswith("|", start):
            cut = before
        if cut is not None:
            return cut
        cut = hard_cut(buffer, room, content, None if opening else fence, before)
        if opening and cut.end > start:
            cut.pending = self._cut_opener(buffer, start, cut.end)
        return cut

    def _cut_opener(self, buffer: str, start: int, end: int) -> Fence | None:
        """What the line opens that is cut at `end`; nothing, if its run of marks is cut."""
        if not start and not self._line_start:
            return self._pending
        opener = cut_opener(buffer[start:end], self._settings.max_chars)
        return None if opener is None or buffer[end : end + 1] == opener.marker[0] else opener

    def _flush_cut(self, shown: str) -> Cut | None:
        """Everything that is held; None when the fence's closer does not fit behind it."""
        if not shown.strip(BLANKS):
            return Cut(0, len(shown), self._fence, line_start=shown.endswith("\n") or self._line_start)
        fence, _, _ = self._walk(shown)
        last = shown.rfind("\n") + 1
        tail = last == 0 and not self._line_start
        if shown[last:] and not tail:
            fence = self._after(fence, shown[last:], whole=True)
        end = len(shown.rstrip(BLANKS)) if fence is None else len(shown) - shown.endswith("\n")
        closer = 0 if fence is None else len(fence.close)
        if len(self._opener) + end + closer > self._settings.max_chars:
            return None
        cut = Cut(end, len(shown), fence, line_start=shown.endswith("\n"))
        cut.pending = self._pending if tail and self._is_opening(shown) else None
        return cut

    def _held(self, buffer: str, *, idle: bool) -> int:
        """How many characters wait at a flush: what may yet become a fence's first or last line, an empty fence, half a row."""
        fence, opened, start = self._walk(buffer)
        line = buffer[start:]
        if fence is not None and opened is not None and not buffer[opened:].partition("\n")[2].strip(BLANKS):
            return len(buffer) - opened
        if not line or not (start > 0 or self._line_start):
            return 0
        waits = fence.may_close(line) if fence is not None else may_open(line) or (idle and line.startswith("|"))
        return len(line) if waits else 0

    def _walk(self, buffer: str) -> tuple[Fence | None, int | None, int]:
        """Behind the finished lines: the open fence, where this block opened it, where the unfinished line begins."""
        fence = self._fence
        opened: int | None = None
        start = 0
        while (stop := buffer.find("\n", start)) >= 0:
            after = self._after(fence, buffer[start:stop], whole=start > 0 or self._line_start)
            if fence is None and after is not None:
                opened = start
            fence = after
            start = stop + 1
        return fence, opened, start

    def _line_end(self, buffer: str, newline: int) -> int:
        """Behind the last newline of the blanks at `newline`: indentation stays with the text that it indents."""
        at = newline + 1
        rest = at
        while at < len(buffer) and buffer[at] in BLANKS:
            at += 1
            if buffer[at - 1] == "\n":
                rest = at
        return rest
