"""The hunt: fold owners that are killed again and again as soon as they have taken a partition with turns in flight, in bursts.

To the fleet that is what a turn that kills its owners looks like. So it folds with care, suspects turns that have done nothing, and sets
them aside; what they held must be given out all the same, also where the hunt goes on while that is done.
"""

import asyncio
import random
import time

import redis.asyncio as aioredis
from redis.exceptions import RedisError

from ledger.keys import Keyspace
from scripts.chaos.clients import Clients
from scripts.chaos.crew import Crew
from scripts.chaos.journal import Journal
from scripts.chaos.storage import Storage

BURST_S = 20.0
"""Longer than a few leases, as owners must be lost so often before anybody is suspected."""
CALM_S = 5.0
LOOK_S = 0.004
LATER_S = 0.08
"""A take-over is let go on for at most so long: until somewhere in the rebuild."""
LOST_MAX = 7
"""Where so many owners were lost in a row, the next may go on."""


class Hunter:
    """Hunts until all turns have ended. `kills` counts what it killed."""

    def __init__(
        self, crew: Crew, clients: Clients, storage: Storage, *, keys: Keyspace, journal: Journal, chance: random.Random
    ) -> None:
        self.kills = 0
        self._crew = crew
        self._clients = clients
        self._storage = storage
        self._keys = keys
        self._journal = journal
        self._chance = chance
        self._seen: dict[int, str] = {}

    async def run(self) -> None:
        """Burst after burst."""
        client = aioredis.Redis(port=self._storage.port, decode_responses=True, socket_timeout=0.5)
        try:
            while self._clients.ended < self._clients.turns:
                await asyncio.sleep(CALM_S)
                until = time.monotonic() + BURST_S
                while time.monotonic() < until and self._clients.ended < self._clients.turns:
                    await self._look(client)
                    await asyncio.sleep(LOOK_S)
        finally:
            await client.aclose()

    async def _look(self, client: aioredis.Redis) -> None:
        for partition in range(self._keys.partitions):
            try:
                fields = ("token", "worker", "idle_raises")
                token, worker, lost = map(str, await client.hmget(self._keys.owner("fold", partition), fields))
                in_flight = await client.zcard(self._keys.inflight(partition))
            except (RedisError, OSError):
                return  # the server is away
            if in_flight and lost.isdigit() and token != self._seen.get(partition):  # without an owner: None
                self._seen[partition] = token
                if int(lost) < LOST_MAX:
                    await asyncio.sleep(self._chance.uniform(0, LATER_S))
                    self._kill(worker, partition)

    def _kill(self, worker: str, partition: int) -> None:
        for slot in self._crew.alive("fold"):
            if slot.process is not None and f"-{slot.process.pid}-" in worker:
                self._crew.kill(slot)
                self.kills += 1
                self._journal.write(harm="hunted", where=slot.name, partition=partition)
