"""Sharing the partitions of a role among its live workers: counts differ by at most one, and surplus is given back.

Each worker sends heartbeats and reads who else is alive. By its rank among them it knows its share; it takes free partitions
up to the share and hands back what is above it. A partition whose lease ran out is taken over, unless the guard says that
leases mean nothing now. A graceful stop hands everything over at once.
"""

import asyncio
from typing import Protocol

from ledger.commands import Scripts
from ledger.keys import Keyspace
from ledger.ownership import Raised
from workers.runtime.clock import Clock
from workers.streams.guard import Guard
from workers.streams.lease import LeaseKeeper


class Owner(Protocol):
    """What a role does with its partitions."""

    async def on_acquired(self, partition: int, raised: Raised) -> None:
        """Begin to serve; return soon (start a task). An exception releases the partition again."""
        ...

    async def on_release(self, partition: int) -> None:
        """Finish what is in flight and end; when this returns, the partition is handed over."""
        ...

    def on_lost(self, partition: int) -> None:
        """End at once: another owner is at work, and nothing said with the old token is accepted."""
        ...


class Partitions:
    """The partitions that this process owns in one role."""

    def __init__(
        self,
        role: str,
        owner: Owner,
        *,
        scripts: Scripts,
        keys: Keyspace,
        keeper: LeaseKeeper,
        guard: Guard,
        clock: Clock,
        worker: str,
        lease_ms: int,
        renew_ms: int,
    ) -> None:
        raise NotImplementedError

    @property
    def owned(self) -> dict[int, Raised]:
        """What is owned now, by partition."""
        raise NotImplementedError

    def holds(self, partition: int) -> int:
        """Milliseconds that the partition's lease surely still has."""
        raise NotImplementedError

    async def run(self, stop: asyncio.Event) -> None:
        """Take, keep and give back until the event is set; then hand everything over and return."""
        raise NotImplementedError


def fair_share(partitions: int, workers: int, rank: int) -> int:
    """How many partitions the worker of this rank (0 first) is due among so many."""
    return partitions // workers + (1 if rank < partitions % workers else 0)


def lease_name(role: str, partition: int) -> str:
    """The name under which the keeper holds a partition's lease."""
    return f"{role}:{partition}"
