"""Renewing leases on a thread and a connection of its own, so that a long rebuild or a busy loop does not lose them.

Authority: the server. Time: a lease counts from *before* the renewing request was sent, on the boot clock, plus its length;
so our view ends before the server's. Loss: only the server's ``STALE`` is one; a lease that ran out while the server was
away is renewed with the same token, if nobody has taken it. Until then ``holds`` is 0 and its holder begins nothing new.
"""

from collections.abc import Callable
from typing import TypeVar

from ledger.commands import Call
from workers.config import RedisConfig
from workers.runtime.clock import Clock

T = TypeVar("T")


class LeaseKeeper:
    """The leases of one process, each under a name of the caller's choosing (a partition, a turn)."""

    def __init__(self, config: RedisConfig, clock: Clock, *, role: str, lease_ms: int, renew_ms: int) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        """Start the thread; callbacks will run on the calling loop."""
        raise NotImplementedError

    async def stop(self) -> None:
        """End the thread; nothing is released by it."""
        raise NotImplementedError

    def keep(
        self,
        name: str,
        renew: Call[T],
        *,
        taken_at_ms: int,
        is_lost: Callable[[T], bool],
        on_lost: Callable[[], None],
        on_reply: Callable[[T], None] | None = None,
    ) -> None:
        """Renew from now on. ``taken_at_ms`` is the boot clock before the request that took the lease.

        ``is_lost`` judges a reply (on the thread; pure); ``on_lost`` and ``on_reply`` run on the loop. A lost lease is dropped.
        """
        raise NotImplementedError

    def drop(self, name: str) -> None:
        """Stop renewing; no callback of it runs afterwards."""
        raise NotImplementedError

    def holds(self, name: str) -> int:
        """Milliseconds that the lease surely still has; 0 when it has run out, was lost or was never kept."""
        raise NotImplementedError
