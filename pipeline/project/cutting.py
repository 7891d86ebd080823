"""Where a text that does not fit its message is cut in two.

Each returns where the first half ends, where the second begins, and whether that is a good place.
"""

import regex

from pipeline.project.pieces import Code

SPACES = " \t"
_LAST_BLANK = regex.compile(r"(?r)[ \t]+(?!\p{M})")  # a blank with a mark on it is a character to see
_MARK = regex.compile(r"\p{M}")
_LAST_SENTENCE = regex.compile(r"""(?r)(?<=[.!?…]["')\]”’»]*)[ \t]+(?!\p{M})""")
_LAST_CJK = regex.compile(r"(?r)[、。，．！？；：」』）】》〉]")
_DEPTH = regex.compile(r"[()]|[ \t]+")


def split_code(op: Code, offset: int, fits: int, rows: int) -> tuple[int, int, bool]:
    """Cut code behind the last line that fits, else within its line."""
    text, end = op.text, offset + fits
    if rows < text.count("\n", offset, end + 1):
        at = offset
        for _ in range(rows + 1):
            at = text.find("\n", at) + 1
        end = at - 1
    line = text.rfind("\n", offset + 1, end + 1)
    if line > offset and not text[offset:line].isspace():
        return line, line + len(op.joint), True
    return end, end, False


def split_text(text: str, offset: int, fits: int) -> tuple[int, int, bool]:
    """Cut a line behind a sentence in its last quarter, else at its last white space, outside parentheses if possible, else behind CJK
    punctuation, else anywhere.
    """
    end = offset + fits
    least = offset + max(1, fits // 4)
    seen = end if text[end : end + 1] in SPACES and _MARK.match(text, end + 1) else end + 1
    blank = _LAST_BLANK.search(text, offset, seen)
    late = offset + fits * 3 // 4
    if blank is not None and text.find("(", offset, blank.start()) >= 0:
        blank = _outside(text, offset, end, least, late) or blank
    elif blank is not None:
        blank = _LAST_SENTENCE.search(text, late, seen) or blank
    if blank is not None and blank.start() >= least and not text[offset : blank.start()].isspace():
        rest = blank.end()
        while rest < len(text) and text[rest] in SPACES:
            rest += 1
        return blank.start(), rest, True
    mark = _LAST_CJK.search(text, offset, end)
    if mark is not None and mark.end() >= least:
        return mark.end(), mark.end(), True
    return end, end, False


def _outside(text: str, offset: int, end: int, least: int, late: int) -> regex.Match[str] | None:
    """The last white space outside parentheses; from `late` on, the last behind a sentence."""
    depth, found, sentence = 0, None, None
    for match in _DEPTH.finditer(text, offset, end + 1):
        sign = match[0]
        if sign == "(":
            depth += 1
        elif sign == ")":
            depth = max(0, depth - 1)
        elif depth == 0 and match.start() >= least:
            found = match
            if match.start() >= late and text[match.start() - 1] in ".!?…":
                sentence = match
    return sentence or found
