"""The attack: at so many turns ended a process dies, and between the deaths processes freeze, connections break, replies get lost."""

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import redis.asyncio as aioredis
from redis.exceptions import RedisError

from ledger.keys import Keyspace
from scripts.chaos.clients import Clients
from scripts.chaos.crew import Crew, Slot
from scripts.chaos.journal import Journal
from scripts.chaos.storage import Storage

KILLS_PER_TURN = 0.1
SERVER_SHARE = 0.1
"""Of the kills hit the server itself."""
FREEZE_S = {"ingest": 5.0, "fold": 5.0, "delivery": 3.0, "gateway": 5.0}
"""Longest freeze. For delivery below send deadline and lease together: beyond that only a key protects, and a bare receiver cannot tell."""
STALL_S = 4.0
LOSE_S = 0.4
SERVER_AWAY_S = 0.5
POLL_S = 0.01


class Storm:
    """Disturbs until all turns have ended. `counts` says what it did."""

    def __init__(
        self, crew: Crew, clients: Clients, storage: Storage, *, keys: Keyspace, journal: Journal, chance: random.Random
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._crew = crew
        self._clients = clients
        self._storage = storage
        self._keys = keys
        self._journal = journal
        self._chance = chance
        self._server_busy = False
        self._passing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Kill at evenly spread numbers of ended turns; each kill is followed by some lesser harm."""
        kills = max(1, round(self._clients.turns * KILLS_PER_TURN))
        for number in range(kills):
            due = (number + 0.5) * self._clients.turns / kills
            while self._clients.ended < due:  # noqa: ASYNC110 - one condition of many, looked at now and then
                await asyncio.sleep(POLL_S)
            await self._kill()
            for harm, share in ((self._freeze, 0.5), (self._cut, 0.4), (self._stall, 0.2), (self._lose, 0.5)):
                if self._chance.random() < share:
                    self._start(harm(self._chance.choice(self._crew.slots)))
            if self._chance.random() < 0.1 and (alive := self._crew.alive()):
                self._count("terminations", (slot := self._chance.choice(alive)).name)
                self._crew.terminate(slot)
        await self.calm()

    async def calm(self) -> None:
        """Wait until every harm that is under way is over."""
        while self._passing:
            await asyncio.wait(self._passing)

    def _start(self, harm: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(harm)
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    def _count(self, what: str, where: str, **more: object) -> None:
        self.counts[what] += 1
        self._journal.write(harm=what, where=where, **more)

    # kills

    async def _kill(self) -> None:
        """Kill the server or a worker; it counts as in flight when that very process carried something unfinished."""
        if self._chance.random() < SERVER_SHARE and not self._server_busy:
            in_flight = bool(self._clients.open_turns)
            self._server_busy = True
            self._storage.kill()
            self._start(self._bring_back())
            name = "server"
        else:
            while not (alive := self._crew.alive()):  # noqa: ASYNC110 - the same
                await asyncio.sleep(POLL_S)
            slot = self._chance.choice(alive)
            in_flight = await self._carries(slot)
            self._crew.kill(slot)
            name = slot.name
        self._count("kills", name, in_flight=in_flight)
        self.counts["kills_in_flight"] += in_flight

    async def _bring_back(self) -> None:
        await asyncio.sleep(self._chance.uniform(0, SERVER_AWAY_S))
        await self._storage.start()
        self._server_busy = False

    async def _carries(self, slot: Slot) -> bool:
        """Whether a process holds an unfinished turn: its claim, its partition, its client."""
        if slot.role == "gateway":
            return self._clients.streams[slot.name] > 0
        assert slot.process is not None  # it is alive
        mark = f"-{slot.process.pid}-"
        client = aioredis.Redis(port=self._storage.port, decode_responses=True, socket_timeout=0.5)
        try:
            if slot.role == "ingest":
                for turn in [turn for turn in self._clients.open_turns.values() if turn]:
                    state, worker = await client.hmget(self._keys.turn(turn), "state", "ingest_worker")
                    if state == "running" and mark in (worker or ""):
                        return True
                return False
            for partition in range(self._keys.partitions):
                worker = await client.hget(self._keys.owner(slot.role, partition), "worker")
                if mark not in (worker or ""):
                    continue
                waiting = self._keys.inflight if slot.role == "fold" else self._keys.lanes
                if await client.zcard(waiting(partition)):
                    return True
        except (RedisError, OSError):
            return False  # nobody can say: it does not count
        finally:
            await client.aclose()
        return False

    # lesser harm

    async def _freeze(self, slot: Slot) -> None:
        if not slot.is_alive or slot.frozen:
            return
        seconds = self._chance.uniform(0.1, FREEZE_S[slot.role])
        process = slot.process
        self._count("freezes", slot.name, seconds=round(seconds, 2))
        self._crew.freeze(slot)
        await asyncio.sleep(seconds)
        if slot.process is process:
            self._crew.resume(slot)

    async def _cut(self, slot: Slot) -> None:
        self._count("cuts", slot.name)
        slot.proxy.cut()

    async def _stall(self, slot: Slot) -> None:
        self._count("stalls", slot.name)
        await slot.proxy.stall(self._chance.uniform(0.1, STALL_S))

    async def _lose(self, slot: Slot) -> None:
        self._count("lost_replies", slot.name)
        await slot.proxy.lose_replies(self._chance.uniform(0.01, LOSE_S))
