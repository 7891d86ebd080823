"""What differs between the messages that foldline would send and those that another path sent. Pure.

    spacing     the same words in the same messages, other white space between them (glued words are such)
    splitting   the same text, cut into messages at other places
    order       the same text at another place
    missing     text of ours that the other path did not send
    extra       text that the other path sent and we would not (a message sent twice is such)

A turn is equal when nothing of this is found for any of its targets. White space at a message's ends counts as nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from workers.shadow.alignment import CUT, Flat, Rest, Run, align, flatten

Span = tuple[int, int]
SHOWN_CHARS = 80
CONTEXT_CHARS = 24


class Kind(StrEnum):
    """How two lists of messages differ."""

    SPACING = "spacing"
    SPLITTING = "splitting"
    ORDER = "order"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One difference; messages are numbered from 1, 0 is nowhere. `ours` and `theirs` show the place in either list."""

    kind: Kind
    target: str
    ours_at: int
    theirs_at: int
    ours: str
    theirs: str

    def __str__(self) -> str:
        places = [f"{who} {at}" for who, at in (("ours", self.ours_at), ("theirs", self.theirs_at)) if at]
        return f"{self.kind} at {self.target} ({', '.join(places)})\n  - {self.ours}\n  + {self.theirs}"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything that differs, in order of the targets."""

    differences: tuple[Difference, ...]

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not self.differences

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that were found, each once, in the order of `Kind`."""
        found = {difference.kind for difference in self.differences}
        return tuple(kind for kind in Kind if kind in found)

    @property
    def diff(self) -> str:
        """All differences, readable: `-` is what foldline would send, `+` what the other path sent."""
        return "\n".join(str(difference) for difference in self.differences)


def compare(ours: Mapping[str, Sequence[str]], theirs: Mapping[str, Sequence[str]]) -> Comparison:
    """Hold messages against each other, target by target."""
    found: list[Difference] = []
    for target in dict.fromkeys([*ours, *theirs]):
        found += compare_lists(ours.get(target, ()), theirs.get(target, ()), target)
    return Comparison(differences=tuple(found))


def compare_lists(ours: Sequence[str], theirs: Sequence[str], target: str = "") -> list[Difference]:
    """Hold the messages of one target against each other."""
    return _Sides(flatten(ours), flatten(theirs), target).differences()


@dataclass(frozen=True)
class _Sides:
    """Two lists of messages for one target."""

    ours: Flat
    theirs: Flat
    target: str

    def differences(self) -> list[Difference]:
        runs, rests = align(self.ours, self.theirs)
        found = [difference for run in runs for difference in self._gaps(run)]
        return found + self._contents(runs, rests)

    def _gaps(self, run: Run) -> list[Difference]:
        """Where text is alike, and what lies between its characters is not."""
        found = []
        for step in range(1, run.size):
            i, j = run.ours + step, run.theirs + step
            mine, other = self.ours.gaps[i], self.theirs.gaps[j]
            if mine != other:
                kind = Kind.SPLITTING if CUT in (mine, other) else Kind.SPACING
                found.append(self._difference(kind, (i, i), (j, j)))
        return found

    def _contents(self, runs: Sequence[Run], rests: Sequence[Rest]) -> list[Difference]:
        """What is in one list alone; a stretch that both have, at two places, was moved."""
        gone = [rest.ours for rest in rests if rest.ours[0] < rest.ours[1]]
        come = [rest.theirs for rest in rests if rest.theirs[0] < rest.theirs[1]]
        found = []
        for span in gone:
            text = self.ours.chars[slice(*span)]
            twin = next((other for other in come if self.theirs.chars[slice(*other)] == text), None)
            if twin is None:
                found.append(self._difference(Kind.MISSING, span, None))
            else:
                come.remove(twin)
                found.append(self._difference(Kind.ORDER, *_moved(span, twin, runs)))
        return found + [self._difference(Kind.EXTRA, None, span) for span in come]

    def _difference(self, kind: Kind, left: Span | None, right: Span | None) -> Difference:
        return Difference(
            kind=kind,
            target=self.target,
            ours_at=self.ours.owners[left[0]] + 1 if left else 0,
            theirs_at=self.theirs.owners[right[0]] + 1 if right else 0,
            ours=_show(self.ours, left),
            theirs=_show(self.theirs, right),
        )


def _moved(ours: Span, theirs: Span, runs: Sequence[Run]) -> tuple[Span, Span]:
    """Of a text and what it changed places with, the shorter: a line that slipped past a paragraph is what moved, not the paragraph."""
    passed = [
        run
        for run in runs
        if (run.ours + run.size <= ours[0] and run.theirs >= theirs[1])
        or (run.ours >= ours[1] and run.theirs + run.size <= theirs[0])
    ]
    if not passed or sum(run.size for run in passed) >= ours[1] - ours[0]:
        return ours, theirs
    first, last = passed[0], passed[-1]
    return (first.ours, last.ours + last.size), (first.theirs, last.theirs + last.size)


def _show(flat: Flat, span: Span | None) -> str:
    """A stretch with its gaps written out; an empty one with what stands around it."""
    if span is None:
        return "(nothing)"
    start, stop = span
    if start == stop:
        start, stop = max(0, start - CONTEXT_CHARS), min(len(flat.chars), stop + CONTEXT_CHARS)
    shown = "".join(
        ("" if at == start else " ‖ " if flat.gaps[at] == CUT else flat.gaps[at].replace("\n", "⏎")) + flat.chars[at]
        for at in range(start, min(stop, start + SHOWN_CHARS))
    )
    return shown + ("…" if stop - start > SHOWN_CHARS else "")
