"""Repeating an operation while the server is away, instead of failing because it was.

Only what is safe to repeat is given to ``patiently``: a ledger call that answers a repeat with ``ALREADY``, or a read.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ledger.errors import Full, Unavailable
from workers.observability import logs, metrics
from workers.runtime import entropy
from workers.streams.guard import Guard

T = TypeVar("T")

FIRST_WAIT_S = 0.02
LONGEST_WAIT_S = 1.0


async def patiently(
    operation: Callable[[], Awaitable[T]],
    *,
    what: str,
    role: str = "",
    guard: Guard | None = None,
    give_up: Callable[[], bool] | None = None,
) -> T:
    """Run the operation until it answers; Unavailable and Full are waited out, everything else is raised.

    An outage is logged once when it begins and once when it ends, and closes the guard. ``give_up`` is asked before each
    repeat: when it says yes (the lease is gone, the process stops), the last error is raised.
    """
    wait = FIRST_WAIT_S
    failed = False
    while True:
        try:
            result = await operation()
        except (Unavailable, Full) as error:
            metrics.UNAVAILABLE.labels(role=role).inc()
            if guard is not None and isinstance(error, Unavailable):
                guard.disturbed("reconnect")
            if give_up is not None and give_up():
                raise
            if not failed:
                logs.bind(what=what).warning("server_unavailable", error=str(error))
            failed = True
            await asyncio.sleep(entropy.jitter(wait / 2, wait))
            wait = min(wait * 2, LONGEST_WAIT_S)
            continue
        if failed:
            logs.bind(what=what).info("server_back")
        return result
