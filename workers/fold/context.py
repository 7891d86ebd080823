"""What all parts of one fold process share."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TypeVar

from ledger.commands import Call, Scripts
from ledger.keys import Keyspace
from workers.config import Config
from workers.runtime.clock import Clock
from workers.streams.connection import AsyncClient
from workers.streams.guard import Guard
from workers.streams.news import News
from workers.streams.patience import patiently

T = TypeVar("T")

ROLE = "fold"

REBUILDS_AT_ONCE = 2
"""Partitions of one process that are rebuilt side by side, so that the first go on long before the last."""
REBUILD_WAIT_S = 5.0
"""How long a partition waits for those before it: one whose server is away must not hold up the others."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """The process: its configuration, its clients, its name."""

    config: Config
    client: AsyncClient
    scripts: Scripts
    keys: Keyspace
    clock: Clock
    guard: Guard
    news: News
    worker: str
    _rebuilds: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(REBUILDS_AT_ONCE))

    @contextlib.asynccontextmanager
    async def rebuilding(self) -> AsyncIterator[None]:
        """A time in which one partition is rebuilt, when its turn has come or it has waited for long enough."""
        try:
            async with asyncio.timeout(REBUILD_WAIT_S):
                await self._rebuilds.acquire()
        except TimeoutError:
            yield
            return
        try:
            yield
        finally:
            self._rebuilds.release()

    async def run(self, call: Call[T], /) -> T:
        """Run a ledger call until it is answered; the very same call each time."""
        return await patiently(lambda: self.scripts.run(call), what=call.name, role=ROLE, guard=self.guard)
