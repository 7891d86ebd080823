"""What of a turn's events is waiting, on its way and kept: the pure half of publishing.

Events enter once, in order of `seq`. The next batch is cut from the front of what the server has not acknowledged, within
the bounds of one publish. Every reply says which number the server expects next, and `settle` follows it wherever it points:
forwards, and events have arrived; into the middle of a batch, and the rest goes again; backwards, and the server has lost
its tail, so that kept events go again. Only a number older than everything kept cannot be served.
"""

from collections import deque
from dataclasses import dataclass

from pipeline.codec import encode
from pipeline.events import TERMINALS, Event


class RolledBackError(Exception):
    """The server expects an event that nobody holds any more."""

    def __init__(self, expected: int) -> None:
        super().__init__(f"the server expects event {expected}, which is no longer kept")
        self.expected = expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """One event as it is stored."""

    seq: int
    text: str
    size: int
    terminal: str | None
    """The event's type when it is a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One publish."""

    first: int
    n: int
    events: str
    size: int
    terminal: str | None


class Batcher:
    """One turn's unacknowledged and recently acknowledged events."""

    def __init__(self, *, next_seq: int, max_events: int, max_bytes: int, keep_ms: int, keep_bytes: int) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._keep_ms = keep_ms
        self._keep_bytes = keep_bytes
        self._waiting: deque[Encoded] = deque()
        self._kept: deque[tuple[int, Encoded]] = deque()
        self._kept_size = 0
        self._after = next_seq
        self._expected = next_seq
        self.waiting_bytes = 0
        self.has_terminal = False

    @property
    def next_seq(self) -> int:
        """The number of the next event to be put."""
        return self._after

    @property
    def acknowledged(self) -> int:
        """How many events the server has: the number that it expects next."""
        return self._expected

    @property
    def is_done(self) -> bool:
        """The terminal has been put and everything is acknowledged."""
        return self.has_terminal and not self._waiting

    def put(self, event: Event) -> int:
        """Append an event and return its size; nothing is taken after a terminal (0)."""
        if self.has_terminal:
            return 0
        if event.seq != self._after:
            raise ValueError(f"event {event.seq} where {self._after} is next")
        data = encode(event)
        entry = Encoded(seq=event.seq, text=data.decode(), size=len(data), terminal=_terminal(event))
        self._waiting.append(entry)
        self._after += 1
        self.waiting_bytes += entry.size
        self.has_terminal = entry.terminal is not None
        return entry.size

    def seal(self) -> Batch | None:
        """Cut the next batch from the front, without taking it away: only a reply does that."""
        texts: list[str] = []
        size = 0
        last = None
        for entry in self._waiting:
            if texts and (len(texts) >= self._max_events or size + entry.size > self._max_bytes):
                break
            texts.append(entry.text)
            size += entry.size
            last = entry
        if last is None:
            return None
        return Batch(
            first=self._waiting[0].seq,
            n=len(texts),
            events="[" + ",\n".join(texts) + "]",
            size=size,
            terminal=last.terminal,
        )

    def settle(self, expected: int, now_ms: int) -> int:
        """Follow the server to the number that it expects; return by how many bytes less (or more) is waiting."""
        before = self.waiting_bytes
        while self._waiting and self._waiting[0].seq < expected:
            entry = self._waiting.popleft()
            self.waiting_bytes -= entry.size
            self._kept.append((now_ms, entry))
            self._kept_size += entry.size
        while self._kept and self._kept[-1][1].seq >= expected:
            _, entry = self._kept.pop()
            self._kept_size -= entry.size
            self.waiting_bytes += entry.size
            self._waiting.appendleft(entry)
        front = self._waiting[0].seq if self._waiting else self._after
        if expected != front:
            raise RolledBackError(expected)
        self._expected = expected
        self._forget(now_ms)
        return before - self.waiting_bytes

    def resend_kept(self) -> int:
        """Put everything kept in front again, for a server that may have lost it; return by how many bytes more waits."""
        before = self.waiting_bytes
        while self._kept:
            _, entry = self._kept.pop()
            self.waiting_bytes += entry.size
            self._waiting.appendleft(entry)
            self._expected = entry.seq
        self._kept_size = 0
        return self.waiting_bytes - before

    def restart_at(self, seq: int) -> None:
        """Drop everything and go on from a number: the last word on a turn whose log is beyond repair."""
        self._waiting.clear()
        self._kept.clear()
        self._kept_size = 0
        self.waiting_bytes = 0
        self.has_terminal = False
        self._after = self._expected = seq

    def _forget(self, now_ms: int) -> None:
        while self._kept and (self._kept[0][0] + self._keep_ms < now_ms or self._kept_size > self._keep_bytes):
            _, entry = self._kept.popleft()
            self._kept_size -= entry.size


def _terminal(event: Event) -> str | None:
    return str(event.__struct_config__.tag) if isinstance(event, TERMINALS) else None
