"""Saying that a process lives, for the roles that own no partition: it is told to operators, and nothing is decided by it.

Time: a heartbeat lapses on the server after three missed ones. Loss: a heartbeat that finds no server is not repeated; the next is.
"""

import asyncio
import contextlib
from typing import Any

from ledger.commands import Call, Scripts
from ledger.errors import LedgerError
from ledger.keys import Keyspace
from ledger.ownership import heartbeat, leave
from workers.observability import logs

EVERY_MS = 1_500
MISSED_HEARTBEATS = 3


class Attendance:
    """The heartbeats of one process; a service."""

    def __init__(self, scripts: Scripts, keys: Keyspace, *, role: str, worker: str) -> None:
        self._scripts = scripts
        self._keys = keys
        self._role = role
        self._worker = worker
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Be counted from now on."""
        self._task = asyncio.create_task(self._beat())

    async def stop(self) -> None:
        """Be gone at once, where the server is there to be told."""
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._tell(leave(self._keys, role=self._role, worker=self._worker))

    async def _beat(self) -> None:
        call = heartbeat(self._keys, role=self._role, worker=self._worker, ttl_ms=EVERY_MS * MISSED_HEARTBEATS)
        while True:
            await self._tell(call)
            await asyncio.sleep(EVERY_MS / 1000)

    async def _tell(self, call: Call[Any]) -> None:
        try:
            await self._scripts.run(call)
        except LedgerError as error:
            logs.bind(role=self._role, worker=self._worker).debug("heartbeat_unanswered", error=str(error))
