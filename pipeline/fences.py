"""Code fences of Markdown, as far as cutting text needs them (CommonMark 0.31, section 4.5).

An opener is up to three spaces, a run of at least three backticks or tildes, and an info string, in which a backtick
opener allows no backtick. A closer is the same character, a run at least as long, and nothing but blanks behind it.
Lines end at LF; a CR before it is ignored.
"""

import re
from dataclasses import dataclass

_OPENER = re.compile(r" {0,3}(?:(`{3,})[^`\n]*|(~{3,})[^\n]*)\Z")
_OPENER_START = re.compile(r" {0,3}(?:`{3,}[^`\n]*|~{3,}[^\n]*)\Z")


@dataclass(frozen=True, slots=True)
class Fence:
    """An open fence: its marker, and how a block that starts or ends inside it says so."""

    marker: str
    reopen: str
    close: str

    def closes(self, line: str) -> bool:
        """Whether the line, without its LF, ends this fence."""
        stripped = line.rstrip(" \t\r")
        run = stripped.lstrip(" ")
        return len(stripped) - len(run) <= 3 and len(run) >= len(self.marker) and run == self.marker[0] * len(run)

    def may_close(self, line: str) -> bool:
        """Whether the line, not yet finished, can still become a closer."""
        run = line.strip(" \t\r")
        return bool(run) and len(line) - len(line.lstrip(" ")) <= 3 and run == self.marker[0] * len(run)


def opened_by(line: str, max_chars: int) -> Fence | None:
    """The fence that a line, without its LF, opens; None for any other line.

    With a small `max_chars` the info string is left out when the fence is opened again, and below that the fence is
    not reopened at all: its text is then cut raw.
    """
    match = _OPENER.match(line.rstrip("\r"))
    if match is None:
        return None
    marker = match[1] or match[2]
    opener = match[0].rstrip()
    if len(opener) + len(marker) + 3 <= max_chars:
        return Fence(marker, opener + "\n", "\n" + marker)
    if 2 * len(marker) + 3 <= max_chars:
        return Fence(marker, marker + "\n", "\n" + marker)
    return Fence(marker, "", "")


def cut_opener(line: str, max_chars: int) -> Fence | None:
    """The fence that a line will open which is cut behind this much of it; None where it is no opener so far.

    An opener that does not fit a block is not written again: the bare marker is, if even that fits.
    """
    match = _OPENER_START.match(line)
    if match is None:
        return None
    run = line.lstrip(" ")
    marker = run[0] * (len(run) - len(run.lstrip(run[0])))
    if 2 * len(marker) + 3 <= max_chars:
        return Fence(marker, marker + "\n", "\n" + marker)
    return Fence(marker, "", "")


def may_open(line: str) -> bool:
    """Whether the line, not yet finished, can still become an opener."""
    return _OPENER_START.match(line) is not None
