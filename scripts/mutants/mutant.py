"""One planted fault."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A fault in one file: each text of `edits` stands there exactly once and is replaced. `tests` are those that catch it."""

    name: str
    breaks: str
    """The rule, in words."""
    path: str
    edits: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]

    def applied(self, source: str) -> str:
        """The file with the fault in it; ValueError when the text is not there, or not only there."""
        for old, new in self.edits:
            if source.count(old) != 1:
                raise ValueError(f"{self.name}: {source.count(old)} times in {self.path}, not once: {old!r}")
            source = source.replace(old, new)
        return source
