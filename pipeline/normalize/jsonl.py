"""Bytes to lines, for wires of one JSON message in a line.

A line ends at LF, with or without a CR before it, and nowhere else; a cut inside a UTF-8 sequence changes nothing, because
only whole lines are read as text. Blank lines are nothing. A line has a bound; past it, `exceeded` names it and nothing more
is taken.
"""

from pipeline.limits import Limits


class LineSplitter:
    """Holds the unfinished line between two reads."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.exceeded: str | None = None
        self._bound = (limits or Limits()).sse_line_bytes
        self._tail: list[bytes] = []
        self._tail_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; give the lines that they complete, without their ends."""
        if self.exceeded is not None:
            return []
        *lines, rest = data.split(b"\n")
        if lines and self._tail:
            lines[0] = self._joined(lines[0])
        whole: list[bytes] = []
        for line in lines:
            if len(line) > self._bound:
                self._exceed()
                return whole
            if stripped := line.strip():
                whole.append(stripped)
        if rest:
            self._tail.append(rest)
            self._tail_bytes += len(rest)
            if self._tail_bytes > self._bound:
                self._exceed()
        return whole

    def close(self) -> list[bytes]:
        """The bytes have ended: give the last line, if it has no end of its own."""
        last = self._joined(b"").strip()
        return [last] if last and self.exceeded is None else []

    def _joined(self, end: bytes) -> bytes:
        line = b"".join([*self._tail, end])
        self._tail.clear()
        self._tail_bytes = 0
        return line

    def _exceed(self) -> None:
        self.exceeded = "sse_line_bytes"
        self._tail.clear()
