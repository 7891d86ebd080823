"""The two bounds that stop the reading of a socket: bytes that wait to be published, and a partition's unfolded entries.

Nothing is dropped at a bound: whoever reads waits here before it reads on, and its upstream waits for it.
"""

import asyncio
from collections.abc import Callable


class _Waiters:
    """Tasks that wait until a condition may have changed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._event.wait()


class Room:
    """Bytes read and not yet published, over all turns of a process and for each turn.

    The bound is checked before a read, so that it can be passed by what one read brings.
    """

    def __init__(self, *, total_bytes: int, turn_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._turn_bytes = turn_bytes
        self._waiters = _Waiters()
        self.used = 0

    def moved(self, by: int) -> None:
        """Note that so many bytes came (positive) or were published (negative)."""
        self.used += by
        if by < 0:
            self._waiters.wake()

    def is_free(self, turn_used: int) -> bool:
        """Whether a turn that holds so many bytes may read."""
        return turn_used < self._turn_bytes and (self.used < self._total_bytes or turn_used == 0)

    async def wait(self, turn_used: Callable[[], int]) -> None:
        """Wait until the turn may read. A turn with nothing waiting always may: others' bytes cannot starve it."""
        await self._waiters.until(lambda: self.is_free(turn_used()))


class LagGate:
    """Closed while a partition's fold is behind: from the high mark on, until below the low mark."""

    def __init__(self, *, high: int, low: int, on_closed: Callable[[], None] | None = None) -> None:
        self._on_closed = on_closed
        self._high = high
        self._low = low
        self._waiters = _Waiters()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the partition's sockets are not to be read."""
        return self._closed

    def update(self, lag: int) -> None:
        """Take a reading of the lag."""
        if self._closed and lag < self._low:
            self._closed = False
            self._waiters.wake()
        elif not self._closed and lag >= self._high:
            self._closed = True
            if self._on_closed is not None:
                self._on_closed()

    async def wait(self) -> None:
        """Wait until the gate is open."""
        await self._waiters.until(lambda: not self._closed)
