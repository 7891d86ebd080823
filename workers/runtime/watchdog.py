"""The end of a process whose loop does not turn any more.

Leases are renewed on a thread of their own, so that a busy loop does not lose them. An endless loop would then hold its partitions for
ever. So another thread asks the loop for a sign of life; where none comes for the configured time, it writes down what every thread is
doing and ends the process. Its leases run out, and whoever takes over finds which turn it was folding. Answers are counted, not
clock readings: a process that was suspended and goes on has missed none.
"""

import asyncio
import faulthandler
import os
import sys
import threading

from workers.observability import logs

STALLED_EXIT = 251
"""The exit code of a process that was ended here; no failpoint has it."""
CHECKS = 10
"""Questions within the configured time."""


class Watchdog:
    """Watches the loop that starts it."""

    def __init__(self, stall_ms: int) -> None:
        self._stall_ms = stall_ms
        self._ended = threading.Event()
        self._answered = threading.Event()
        self._thread: threading.Thread | None = None

    async def start(self) -> None:
        """Begin to ask."""
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._watch, args=(loop,), name="foldline-watchdog", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        missed = 0
        while True:
            self._answered.clear()
            try:
                loop.call_soon_threadsafe(self._answered.set)
            except RuntimeError:
                return  # the loop is closed: the process ends by itself
            if self._ended.wait(self._stall_ms / CHECKS / 1000):
                return
            missed = 0 if self._answered.is_set() else missed + 1
            if missed >= CHECKS:
                logs.bind(stall_ms=self._stall_ms).error("loop_stalled")
                faulthandler.dump_traceback(file=sys.__stderr__ or 2)
                os._exit(STALLED_EXIT)
