"""Where a block that does not fit ends within its lines."""

import regex

from pipeline.fences import Fence
from pipeline.graphemes import boundary

BLANKS = " \t\r\n"
# searched backwards, so that the last is found first
_SENTENCE = regex.compile(r"""(?r)[.!?]["')\]]*(?=[ \t])|[。！？][」』”’）]*""")
_BLANK = regex.compile(r"(?r)[ \t]+")
_PIPE = regex.compile(r"(?<!\\)\|")
_DELIMITERS = regex.compile(r"\|(?:[ \t]*:?-+:?[ \t]*\|)*[ \t]*(?::?-+:?[ \t]*)?\r?")


class Cut:
    """Where a block ends: its text at `end`, its separator at `rest`; the fence open there, and what closes the block."""

    __slots__ = ("close", "end", "fence", "line_start", "pending", "rest")

    def __init__(
        self, end: int, rest: int, fence: Fence | None = None, *, line_start: bool = True, close: str | None = None
    ) -> None:
        self.end = end
        self.rest = rest
        self.fence = fence
        self.line_start = line_start
        self.pending: Fence | None = None  # the cut is within the line that opens this
        self.close = close if close is not None else fence.close if fence is not None else ""


def sentence_cut(buffer: str, plain: list[tuple[int, int]], least: int, room: int) -> Cut | None:
    """The last end of a sentence in the stretches outside fences, past the minimum."""
    return _inline_cut(_SENTENCE, buffer, plain, least, room)


def blank_cut(buffer: str, plain: list[tuple[int, int]], least: int, room: int) -> Cut | None:
    """The last white space in the stretches outside fences, past the minimum."""
    return _inline_cut(_BLANK, buffer, plain, least, room)


def _inline_cut(
    pattern: regex.Pattern[str], buffer: str, plain: list[tuple[int, int]], least: int, room: int
) -> Cut | None:
    behind = pattern is _SENTENCE
    for start, stop in reversed(plain):
        if stop < least:
            return None
        for match in pattern.finditer(buffer, start, stop):
            end = match.end() if behind else match.start()
            if end < least or not buffer[:end].strip(BLANKS):
                break
            if end <= room:
                rest = end
                while rest < len(buffer) and buffer[rest] in " \t":
                    rest += 1
                return Cut(end, rest, line_start=False)
    return None


def table_head(text: str, known: str) -> str:
    """The head of the table whose rows a text ends in, with the line under it; `known`: that of a table in which the text began.

    Empty where no table is open. Only rows that begin with a pipe count: of any other line nobody knows until a blank line comes.
    """
    stop = len(text)
    below = ""
    while stop > 0:
        start = text.rfind("\n", 0, stop) + 1
        line = text[start:stop]
        if not line.startswith("|"):
            return ""
        if below and _DELIMITERS.fullmatch(below) and len(_PIPE.findall(line)) == len(_PIPE.findall(below)):
            return f"{line}\n{below}\n"
        below, stop = line, start - 1
    return known


def hard_cut(buffer: str, room: int, content: int, fence: Fence | None, before: Cut | None) -> Cut:
    """Cut in the middle of a word: the text offers nothing better.

    What is read as one character stays whole, unless it alone is longer than the room.
    """
    close = fence.close if fence is not None else ""
    if fence is not None and room - len(close) <= content:  # the fence has just begun, and nothing of it fits
        if before is not None:
            return before
        close = ""
    end = boundary(buffer, max(1, min(room - len(close), len(buffer))))
    if end <= content and close:
        close = ""
        end = boundary(buffer, max(1, min(room, len(buffer))))
    if not end:
        end = max(1, min(room, len(buffer)))
        if "\ud800" <= buffer[end - 1] <= "\udbff":
            end += -1 if end > 1 else 1  # never between the halves of a character
    return Cut(end, end, fence, line_start=buffer[end - 1] == "\n", close=close)
