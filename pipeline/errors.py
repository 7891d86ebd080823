"""The pipeline's exceptions, and the one form in which a fault is described.

    PipelineError
    ├── WireError          the upstream, or a producer of events, broke its protocol
    │   └── EventRefused   an event is not one that the contract knows
    ├── LimitExceeded      a turn outgrew one of its bounds; the turn ends by that bound's name
    └── MisuseError        our own caller broke a rule of these modules

A fault of the other side always carries a Diagnostic: what was expected, what was found, and where. Code and path are
for programs, the message is for people; nothing here quotes more than a short piece of what was found.
"""

import msgspec

FOUND_CHARS = 120  # a diagnostic is read in a terminal line; the stream itself holds the rest


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault: `path` is a JSON path into what was read, `found` a short piece of it."""

    code: str
    path: str = "$"
    expected: str
    found: str
    turn: str | None = None
    producer: str | None = None
    seq: int | None = None

    def __str__(self) -> str:
        where = "".join(
            f", {name} {value}"
            for name, value in (("turn", self.turn), ("producer", self.producer), ("seq", self.seq))
            if value is not None
        )
        return f"{self.code} at {self.path}: expected {self.expected}, found {self.found}{where}"


class PipelineError(Exception):
    """Whatever the pipeline raises on purpose."""


class WireError(PipelineError):
    """The other side broke its protocol; the diagnostic says how."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic


class EventRefused(WireError):  # noqa: N818  the word of the contract
    """An event that the contract does not know was refused at the door."""


class LimitExceeded(PipelineError):  # noqa: N818  the word of the contract
    """A bound of the turn is full; `name` is the bound's."""

    def __init__(self, name: str, value: int) -> None:
        super().__init__(f"the turn exceeds its bound {name} of {value}")
        self.name = name


class MisuseError(PipelineError):
    """Our caller broke a rule: a turn pushed after its end, a bound that does not exist."""


def shorten(found: object) -> str:
    """Write a value for a diagnostic: JSON where it is JSON, cut where it is long."""
    if isinstance(found, (bytes, bytearray, memoryview)):
        text = bytes(found[:FOUND_CHARS]).decode("utf-8", "replace")
        return text if len(found) <= FOUND_CHARS else text + "…"
    try:
        text = msgspec.json.encode(found).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = type(found).__name__
    return text if len(text) <= FOUND_CHARS else text[:FOUND_CHARS] + "…"
