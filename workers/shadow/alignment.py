"""Where two lists of messages say the same, character by character, whatever white space and cuts lie between. Pure.

A list of messages is read as one string of its visible characters, and the gap before each: nothing, white space, or the border of two
messages. White space at a message's own ends is no gap: no channel shows it. Runs are the stretches that both lists have alike;
what lies between them is in one list alone. Lines are matched first, then words, then the beginnings and ends of what is left: a line
that is moved is found as a line, and a word that is cut off as a word.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

CUT: Final = "\x00"
"""The gap between two messages."""


@dataclass(frozen=True, kw_only=True)
class Flat:
    """Messages as visible characters; `gaps[i]` lies before character i, `owners[i]` is the message that it stands in."""

    chars: str
    gaps: tuple[str, ...]
    owners: tuple[int, ...]

    def units(self, start: int, stop: int, *, words: bool) -> list[tuple[int, int]]:
        """The lines, or the words, of a stretch, as borders in it."""
        borders = [start]
        for at in range(start + 1, stop):
            gap = self.gaps[at]
            if gap and (words or gap == CUT or "\n" in gap):
                borders.append(at)
        return list(zip(borders, [*borders[1:], stop], strict=True)) if start < stop else []


@dataclass(frozen=True)
class Run:
    """So many characters are alike, from these places on."""

    ours: int
    theirs: int
    size: int


@dataclass(frozen=True)
class Rest:
    """A stretch of ours that stands against a stretch of theirs and is not alike; either may be empty."""

    ours: tuple[int, int]
    theirs: tuple[int, int]


def flatten(messages: Sequence[str]) -> Flat:
    """Read messages as characters and gaps."""
    chars: list[str] = []
    gaps: list[str] = []
    owners: list[int] = []
    for number, message in enumerate(messages):
        gap = CUT if chars else ""
        for char in message.strip():
            if char.isspace():
                gap += char
                continue
            chars.append(char)
            gaps.append(CUT if gap.startswith(CUT) else gap)
            owners.append(number)
            gap = ""
    return Flat(chars="".join(chars), gaps=tuple(gaps), owners=tuple(owners))


def align(ours: Flat, theirs: Flat) -> tuple[list[Run], list[Rest]]:
    """Find the runs of two lists, in order, and what lies between them."""
    if ours.chars == theirs.chars:
        return ([Run(0, 0, len(ours.chars))] if ours.chars else []), []
    runs: list[Run] = []
    rests: list[Rest] = []
    whole = Rest((0, len(ours.chars)), (0, len(theirs.chars)))
    _by_units(ours, theirs, whole, runs, rests, words=False)
    return _joined(runs), rests


def _by_units(ours: Flat, theirs: Flat, rest: Rest, runs: list[Run], rests: list[Rest], *, words: bool) -> None:
    """Match a stretch unit by unit."""
    mine, other = ours.units(*rest.ours, words=words), theirs.units(*rest.theirs, words=words)
    matcher = SequenceMatcher(
        None, [ours.chars[a:b] for a, b in mine], [theirs.chars[a:b] for a, b in other], autojunk=False
    )
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        left = _span(mine, i1, i2, rest.ours)
        right = _span(other, j1, j2, rest.theirs)
        if tag == "equal" or ours.chars[slice(*left)] == theirs.chars[slice(*right)]:
            runs.append(Run(left[0], right[0], left[1] - left[0]))
        elif tag == "replace" and not words:
            _by_units(ours, theirs, Rest(left, right), runs, rests, words=True)
        else:
            _by_ends(ours, theirs, Rest(left, right), runs, rests)


def _by_ends(ours: Flat, theirs: Flat, rest: Rest, runs: list[Run], rests: list[Rest]) -> None:
    """Match what two stretches begin and end with alike; what is left is not alike."""
    (a, b), (c, d) = rest.ours, rest.theirs
    start = a
    while a < b and c < d and ours.chars[a] == theirs.chars[c]:
        a, c = a + 1, c + 1
    if a > start:
        runs.append(Run(start, c - (a - start), a - start))
    tail = 0
    while b - tail > a and d - tail > c and ours.chars[b - tail - 1] == theirs.chars[d - tail - 1]:
        tail += 1
    if a < b - tail or c < d - tail:
        rests.append(Rest((a, b - tail), (c, d - tail)))
    if tail:
        runs.append(Run(b - tail, d - tail, tail))


def _span(units: list[tuple[int, int]], first: int, last: int, within: tuple[int, int]) -> tuple[int, int]:
    """The borders of some units together; an empty choice lies where it would begin."""
    if first < last:
        return units[first][0], units[last - 1][1]
    at = units[first][0] if first < len(units) else within[1]
    return at, at


def _joined(runs: list[Run]) -> list[Run]:
    """Runs that go on in both lists are one."""
    joined: list[Run] = []
    for run in runs:
        last = joined[-1] if joined else None
        if last is not None and last.ours + last.size == run.ours and last.theirs + last.size == run.theirs:
            joined[-1] = Run(last.ours, last.theirs, last.size + run.size)
        else:
            joined.append(run)
    return joined
