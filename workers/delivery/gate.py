"""The gate between an attempt and its socket: open only while the lease outlasts whatever the attempt may still do.

A channel asks the gate twice: before it opens a connection, and in the very step of the loop in which it writes. What an attempt may
still do is bounded by its deadline; when that passes, the socket is reset, so that nothing of it is flushed later.
What passed the gate may have arrived; what did not is proven not sent. A process paused between the question and the write is the one
case that this cannot see; the receipts detect it.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Any

from workers.runtime.clock import Clock

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class GateClosedError(Exception):
    """The lease or the deadline does not cover a write any more; nothing was written."""


class Gate:
    """One attempt's permission to write, counted from the moment it is made."""

    def __init__(self, remaining_ms: Callable[[], int], clock: Clock, *, send_deadline_ms: int, margin_ms: int) -> None:
        self._remaining_ms = remaining_ms
        self._clock = clock
        self._margin_ms = margin_ms
        self._ends_at_ms = clock.boottime_ms() + send_deadline_ms
        self._transport: asyncio.Transport | None = None
        self.written = False
        """Whether a write was let through: from here on the outcome is the channel's to tell."""

    @property
    def left_ms(self) -> int:
        """What is left of the attempt's deadline."""
        return max(0, self._ends_at_ms - self._clock.boottime_ms())

    @property
    def is_open(self) -> bool:
        """Whether the lease surely outlasts the rest of the attempt and the margin."""
        left = self.left_ms
        return left > 0 and self._remaining_ms() >= left + self._margin_ms

    def enter(self, transport: Any = None) -> None:
        """Ask in the same step as the write; raises GateClosedError, else the attempt counts as written."""
        if not self.is_open:
            raise GateClosedError
        self.written = True
        self._transport = transport

    def reset(self) -> None:
        """Tear the socket down so that nothing still buffered leaves."""
        transport = self._transport
        if transport is None:
            return
        handle = transport.get_extra_info("socket")
        if handle is not None:
            with contextlib.suppress(OSError):  # already closed by the other side
                handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        transport.abort()
