"""The OpenAI Responses stream to canonical events."""

from pipeline.events import Event
from pipeline.limits import Limits
from pipeline.normalize.stamp import Stamp


class ResponsesAdapter:
    """One turn's Responses stream; see the package for its tables."""

    def __init__(self, *, stamp: Stamp, limits: Limits | None = None) -> None:
        self.ended = False
        self.late = 0
        self._stamp = stamp
        self._limits = limits or Limits()

    def feed(self, data: bytes) -> list[Event]:
        """Take bytes; give the events that they complete."""
        raise NotImplementedError

    def close(self) -> list[Event]:
        """The body has ended."""
        raise NotImplementedError
