"""The wire of our own events, one JSON object in a line: recorded logs, and producers that speak the contract already."""

from pipeline.codec import decode
from pipeline.errors import Diagnostic, EventRefused, MisuseError, shorten
from pipeline.events import TERMINALS, Event
from pipeline.limits import Limits
from pipeline.normalize.stamp import Stamp


class CanonicalAdapter:
    """Passes events as they are, their own `seq` and `at` included; a line that is no event is refused.

    The one wire whose faults are raised: it is spoken by programs of ours, and a line that is not an event has no meaning
    that could be passed on. Blank lines are nothing.
    """

    def __init__(self, *, stamp: Stamp, limits: Limits | None = None) -> None:
        self.ended = False
        self.late = 0
        self.unsure = False
        self._stamp = stamp
        self._limits = limits or Limits()
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self._closed = False

    def feed(self, data: bytes) -> list[Event]:
        """Take bytes; raise EventRefused for a line that is not an event."""
        if self._closed:
            raise MisuseError("fed after close")
        *lines, rest = data.split(b"\n")
        if lines and self._tail:
            lines[0] = b"".join([*self._tail, lines[0]])
            self._tail.clear()
            self._tail_bytes = 0
        if rest:
            self._tail.append(rest)
            self._tail_bytes += len(rest)
        if self._tail_bytes > self._limits.sse_line_bytes:
            raise EventRefused(
                Diagnostic(
                    code="sse_line_bytes",
                    expected=f"a line of at most {self._limits.sse_line_bytes} bytes",
                    found=shorten(b"".join(self._tail)),
                )
            )
        return self._events(lines)

    def close(self) -> list[Event]:
        """The lines have ended: take the last one, if it has no line feed."""
        if self._closed:
            raise MisuseError("closed twice")
        self._closed = True
        return self._events([b"".join(self._tail)])

    def _events(self, lines: list[bytes]) -> list[Event]:
        events: list[Event] = []
        for line in lines:
            if not line.strip():
                continue
            event = decode(line)
            if self.ended:
                self.late += 1
                continue
            self.ended = isinstance(event, TERMINALS)
            events.append(event)
        return events
