"""The wire of our own events, one JSON object in a line: recorded logs, and producers that speak the contract already."""

from pipeline.events import Event
from pipeline.limits import Limits
from pipeline.normalize.stamp import Stamp


class CanonicalAdapter:
    """Passes events as they are, their own `seq` and `at` included; a line that is no event is refused."""

    def __init__(self, *, stamp: Stamp, limits: Limits | None = None) -> None:
        self.ended = False
        self.late = 0
        self._stamp = stamp
        self._limits = limits or Limits()

    def feed(self, data: bytes) -> list[Event]:
        """Take bytes; raise EventRefused for a line that is not an event."""
        raise NotImplementedError

    def close(self) -> list[Event]:
        """Take the unfinished last line, if it is an event."""
        raise NotImplementedError
