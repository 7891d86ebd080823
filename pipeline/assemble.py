"""Text to blocks: one rule set for every runtime.

Two rules end a block, in this order:

1. *Paragraph.* The first blank line outside a fence before which the block holds at least `min_chars` ends it, as soon
   as the next paragraph's first character is there.
2. *Full.* When the text does not fit `max_chars`, the block ends at the last newline outside a fence at or after
   `min_chars`, else after the last sentence, else at the last blank, else at the last line inside the fence, else hard.

And a flush ends it: a tool, another item, an idle event, the terminal. A block cut inside a fence gets a closer, and
the next one an opener; both are ours and never part of the text. `opener + text + closer` never exceeds `max_chars`.

Laws: the concatenation of `text + separator` over the blocks is the concatenation of the deltas, whatever the partition;
and between two flushes the boundaries depend on the text alone, never on where one delta ends and the next begins. A
decision is therefore taken only when no later character could change it.
"""

import re
import unicodedata

from pipeline.fences import Fence, may_open, opened_by
from pipeline.output import Block
from pipeline.settings import StreamSettings

_BLANKS = " \t\r\n"
_SENTENCE = re.compile(r"[.!?][\"')\]]*(?=[ \t])|[。！？]")
_BLANK = re.compile(r"[ \t]+")
_JOINER = "\u200d"
_CLUSTER = 16  # code points; a longer cluster is cut


class _Cut:
    """Where a block ends: its text at `end`, its separator at `rest`; the fence open there, and what closes the block."""

    __slots__ = ("close", "end", "fence", "line_start", "rest")

    def __init__(
        self, end: int, rest: int, fence: Fence | None = None, *, line_start: bool = True, close: str | None = None
    ) -> None:
        self.end = end
        self.rest = rest
        self.fence = fence
        self.line_start = line_start
        self.close = close if close is not None else fence.close if fence is not None else ""


class Assembler:
    """The open block of a turn. `push`, `idle` and `flush` return the blocks that they finished."""

    def __init__(self, settings: StreamSettings) -> None:
        self._settings = settings
        self._ordinal = 0
        self._pieces: list[str] = []
        self._length = 0
        self._look = False  # a newline came since the last look: a paragraph may have ended
        self._start(None, line_start=True)

    @property
    def blocks(self) -> int:
        """How many blocks were made."""
        return self._ordinal

    @property
    def wants_idle_after_ms(self) -> int | None:
        """After how long a silence an idle event is wanted; None while too little text is held."""
        return self._settings.idle_ms if self._length >= self._settings.min_chars else None

    def push(self, text: str) -> list[Block]:
        """Add one delta."""
        self._pieces.append(text)
        self._length += len(text)
        if "\n" in text:
            self._look = True
        settings = self._settings
        if self._length + len(self._opener) <= settings.max_chars and not (
            self._look and self._length > settings.min_chars
        ):
            return []
        return self._ready()

    def idle(self) -> list[Block]:
        """Give out what is held, when it is enough for a message."""
        return self.flush() if self._length >= self._settings.min_chars else []

    def flush(self, *, final: bool = False) -> list[Block]:
        """Give out what is held. Blank text and the start of a fence wait, unless it is final."""
        blocks = self._ready()
        while self._length:
            buffer = self._joined()
            held = 0 if final else self._held(buffer)
            shown = buffer[: len(buffer) - held]
            cut = self._flush_cut(shown)
            if cut is None:  # the closer of an open fence does not fit
                blocks.append(self._emit(buffer, self._full_cut(shown)))
                continue
            if cut.end == 0 and not final:
                break
            blocks.append(self._emit(buffer, cut))
            if held or not self._length:
                break
        return blocks

    # -- the open block

    def _start(self, fence: Fence | None, *, line_start: bool) -> None:
        """Begin a block: inside `fence` or outside, at the start of a line or within one."""
        self._fence = fence
        self._opener = fence.reopen if fence is not None else ""
        self._line_start = line_start
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

    def _emit(self, buffer: str, cut: _Cut) -> Block:
        """Finish the block at the cut and begin the next one behind it."""
        block = Block(
            ordinal=self._ordinal,
            opener=self._opener if cut.end else "",
            text=buffer[: cut.end],
            closer=cut.close if cut.end else "",
            separator=buffer[cut.end : cut.rest],
        )
        self._ordinal += 1
        rest = buffer[cut.rest :]
        self._pieces = [rest] if rest else []
        self._length = len(rest)
        self._look = "\n" in rest
        self._start(cut.fence, line_start=cut.line_start)
        return block

    def _ready(self) -> list[Block]:
        """End blocks for as long as the two rules allow it."""
        blocks: list[Block] = []
        paragraphs = self._settings.preference == "paragraph"
        self._look = self._look and paragraphs
        while self._length:
            room = self._settings.max_chars - len(self._opener)
            if self._length <= min(self._settings.min_chars, room):
                break
            buffer = self._joined()
            cut = self._paragraph_cut(buffer, room) if paragraphs else None
            if cut is None:
                if self._length <= room or len(buffer.rstrip(_BLANKS)) <= room:
                    break
                cut = self._full_cut(buffer)
            blocks.append(self._emit(buffer, cut))
        return blocks

    def _paragraph_cut(self, buffer: str, room: int) -> _Cut | None:
        """The first rule. Goes on from the line where the last look stopped."""
        self._look = False
        while True:
            start = self._scan_at
            newline = buffer.find("\n", start)
            line = buffer[start:] if newline < 0 else buffer[start:newline]
            content = line.strip(_BLANKS)
            if content and self._scan_blank and self._scan_fence is None:
                if self._settings.min_chars <= self._scan_end <= room:
                    return _Cut(self._scan_end, start)
                self._scan_blank = False
            if newline < 0:
                # unfinished: look again when a newline, or the first character behind a blank line, comes
                self._look = self._scan_blank
                return None
            if not content:
                self._scan_blank = self._scan_end > 0
            else:
                self._scan_blank = False
                self._scan_end = start + len(line.rstrip(_BLANKS))
                self._scan_fence = self._after(self._scan_fence, line, whole=start > 0 or self._line_start)
            self._scan_at = newline + 1

    def _after(self, fence: Fence | None, line: str, *, whole: bool) -> Fence | None:
        """The fence that is open after a line; `whole` is false for the tail of a line that was cut."""
        if not whole:
            return fence
        if fence is None:
            return opened_by(line, self._settings.max_chars)
        return None if fence.closes(line) else fence

    def _full_cut(self, buffer: str) -> _Cut:
        """The second rule: the best end of a block that does not fit.

        Reads the block's room and one character more, which are there whatever the deltas were.
        """
        room = self._settings.max_chars - len(self._opener)
        least = self._settings.min_chars if not self._opener else min(self._settings.min_chars, room * 2 // 3)
        newline: _Cut | None = None  # the last line's end outside a fence
        before: _Cut | None = None  # the same, even below the minimum
        inner: _Cut | None = None  # the last line's end inside a fence
        fence = self._fence
        content = start = 0  # where the fence's own text begins; where the line begins
        plain: list[tuple[int, int]] = []  # stretches of text outside fences, for sentences and blanks
        opening = False
        while start <= room:
            stop = buffer.find("\n", start, room + 1)
            line = buffer[start : room + 1] if stop < 0 else buffer[start:stop]
            whole = start > 0 or self._line_start
            if stop < 0:
                opening = whole and fence is None and may_open(line)
                if fence is None and not opening:
                    plain.append((start, start + len(line)))
                break
            after = self._after(fence, line, whole=whole)
            opening = fence is None and after is not None
            if opening:
                content = stop + 1
            elif fence is None:
                plain.append((start, stop))
            end = start + len(line.rstrip(_BLANKS))
            if after is None and end > start:
                before = _Cut(end, self._line_end(buffer, stop))
                newline = before if end >= least else newline
            elif after is not None and not opening and least <= stop <= room - len(after.close):
                inner = _Cut(stop, stop + 1, after) if buffer[content:stop].strip(_BLANKS) else inner
            fence = after
            start = stop + 1
        else:
            opening = False
        cut = newline or _inline_cut(buffer, plain, least, room) or inner
        if cut is not None:
            return cut
        return _hard_cut(buffer, room, content, None if opening else fence, before)

    def _flush_cut(self, shown: str) -> _Cut | None:
        """Everything that is held; None when the fence's closer does not fit behind it."""
        if not shown.strip(_BLANKS):
            return _Cut(0, len(shown), self._fence, line_start=shown.endswith("\n") or self._line_start)
        fence, _, _ = self._walk(shown)
        last = shown.rfind("\n") + 1
        if shown[last:]:
            fence = self._after(fence, shown[last:], whole=last > 0 or self._line_start)
        end = len(shown.rstrip(_BLANKS)) if fence is None else len(shown) - shown.endswith("\n")
        closer = 0 if fence is None else len(fence.close)
        if len(self._opener) + end + closer > self._settings.max_chars:
            return None
        return _Cut(end, len(shown), fence, line_start=shown.endswith("\n"))

    def _held(self, buffer: str) -> int:
        """How many characters wait at a flush: what may yet become a fence's first or last line, or an empty fence."""
        fence, opened, start = self._walk(buffer)
        line = buffer[start:]
        if fence is not None and opened is not None and not buffer[opened:].partition("\n")[2].strip(_BLANKS):
            return len(buffer) - opened
        if not line or not (start > 0 or self._line_start):
            return 0
        waits = may_open(line) if fence is None else fence.may_close(line)
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
        while at < len(buffer) and buffer[at] in _BLANKS:
            at += 1
            if buffer[at - 1] == "\n":
                rest = at
        return rest


def _inline_cut(buffer: str, plain: list[tuple[int, int]], least: int, room: int) -> _Cut | None:
    """The last end of a sentence, else the last blank, outside fences and past the minimum."""
    for pattern, behind in ((_SENTENCE, True), (_BLANK, False)):
        for start, stop in reversed(plain):
            best = 0
            for match in pattern.finditer(buffer, start, stop):
                end = match.end() if behind else match.start()
                if least <= end <= room and buffer[:end].strip(_BLANKS):
                    best = end
            if best:
                rest = best
                while rest < len(buffer) and buffer[rest] in " \t":
                    rest += 1
                return _Cut(best, rest, line_start=False)
    return None


def _hard_cut(buffer: str, room: int, content: int, fence: Fence | None, before: _Cut | None) -> _Cut:
    """Cut in the middle of a word: the text offers nothing better. Characters that belong together stay so."""
    close = fence.close if fence is not None else ""
    if fence is not None and room - len(close) <= content:  # the fence has just begun, and nothing of it fits
        if before is not None:
            return before
        close = ""
    wanted = end = max(1, min(room - len(close), len(buffer)))
    while 1 < end < len(buffer) and wanted - end < _CLUSTER and _joins(buffer[end - 1], buffer[end]):
        end -= 1
    if end == 1 or wanted - end == _CLUSTER:
        end = wanted
    return _Cut(end, end, fence, line_start=buffer[end - 1] == "\n", close=close)


def _joins(left: str, right: str) -> bool:
    """Whether two code points are shown as one character, or end a line together."""
    return (
        _JOINER in (left, right)
        or (left == "\r" and right == "\n")
        or unicodedata.category(right) in {"Mn", "Me", "Mc"}
        or "\U0001f3fb" <= right <= "\U0001f3ff"
        or ("\U0001f1e6" <= left <= "\U0001f1ff" and "\U0001f1e6" <= right <= "\U0001f1ff")
    )
