"""Sharing the partitions of a role among its live workers: counts differ by at most one, and surplus is given back.

Each worker sends heartbeats and reads who else is alive. By its rank among them it knows its share; it takes free partitions
up to the share and hands back what is above it. A partition whose lease ran out is taken over, unless the guard says that
leases mean nothing now; one that was released or never owned is nobody's, and is taken at any time.

A graceful stop hands everything over. Where a new owner needs time before it serves (it rebuilds turns), partitions go a few at a time,
the next when one of those is served again: so each stands still for the time that it needs itself, not for that of all before it.

Time: a worker looks around with each heartbeat; sooner where another tells that it gave a partition up, and where a lease runs out that
it waits for. Both only save time: the heartbeat finds everything. Nobody waits longer than a heartbeat to be told that a partition is
served; after that the rest goes at once.
"""

import asyncio
import contextlib
import zlib
from collections.abc import Collection
from functools import partial
from typing import Any, Protocol

import redis.asyncio as aioredis

from ledger.commands import Scripts
from ledger.errors import LedgerError, Unavailable
from ledger.keys import Keyspace
from ledger.ownership import (
    NotFree,
    Notice,
    Raised,
    RenewStatus,
    heartbeat,
    leave,
    live_workers,
    notify,
    raise_owner,
    read_notice,
    read_owner,
    release_owner,
    renew_owner,
)
from workers.observability import logs, metrics
from workers.runtime import entropy
from workers.runtime.clock import Clock
from workers.runtime.service import until_set
from workers.streams.connection import AsyncClient
from workers.streams.guard import Guard
from workers.streams.handover import HandOver
from workers.streams.hints import HintsLost, listen
from workers.streams.lease import LeaseKeeper

MISSED_HEARTBEATS = 2
"""After so many a worker counts as dead in the sharing. Its partitions are safe until their leases run out; sooner than that the others
should know their share."""
LAPSE_MS = 5
"""How long behind a lease's end it is looked at."""
LISTEN_AGAIN_S = 1.0
"""Between two tries of the connection on which others tell that they gave partitions up."""
HANDED_AT_ONCE = 2
"""Partitions handed to each of the others at a time: one is rebuilt there while the next is committed and released here."""
RELEASE_TRIES = 3
"""A release that the server does not answer is left to the lease after so many tries."""


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
        client: AsyncClient,
        keys: Keyspace,
        keeper: LeaseKeeper,
        guard: Guard,
        clock: Clock,
        worker: str,
        lease_ms: int,
        renew_ms: int,
        hand_over_ms: int,
    ) -> None:
        """``hand_over_ms``: partitions need time before they are served, and the role says so by ``tell_served``; they are handed over one
        by one for so long at most when the process stops. 0: all at once.
        """
        self._role = role
        self._owner = owner
        self._client = client
        self._scripts = Scripts(client)
        self._keys = keys
        self._keeper = keeper
        self._guard = guard
        self._clock = clock
        self._worker = worker
        self._lease_ms = lease_ms
        self._renew_ms = renew_ms
        self._hand_over_ms = hand_over_ms
        self._owned: dict[int, Raised] = {}
        self._given_up: set[int] = set()
        self._again = asyncio.Event()
        self._freed = asyncio.Event()
        self._sharded = isinstance(client, aioredis.RedisCluster)
        self._offered: set[int] = set()
        """What others told they gave up, and was not looked at yet."""
        self._handover = HandOver(self._give)
        self._telling: set[asyncio.Task[None]] = set()
        self._look_at_ms = 0
        """When all partitions are looked at again: with the heartbeat, or when the first lease runs out that is waited for."""
        self._away = True
        self._log = logs.bind(role=role, worker=worker)

    @property
    def owned(self) -> dict[int, Raised]:
        """What is owned now, by partition."""
        return dict(self._owned)

    @property
    def is_connected(self) -> bool:
        """Whether the server answered the last heartbeat."""
        return not self._away

    def holds(self, partition: int) -> int:
        """Milliseconds that the partition's lease surely still has."""
        return self._keeper.holds(lease_name(self._role, partition))

    def give_up(self, partition: int) -> None:
        """Let a partition go that cannot be served as it stands; it is released and raised anew, here or elsewhere.

        May be called from the partition's own task: the release follows after it has ended.
        """
        self._given_up.add(partition)
        self._again.set()

    def tell_served(self, partition: int) -> None:
        """What a partition needs is done and it is served from here on: whoever hands over one by one goes on."""
        task = asyncio.create_task(self._tell(Notice.SERVED, partition))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def run(self, stop: asyncio.Event) -> None:
        """Take, keep and give back until the event is set; then hand everything over and return."""
        listening = asyncio.create_task(self._listen())
        try:
            while not stop.is_set():
                await self._turn()
                await self._rest(stop)
        finally:
            others = await self._leave()
            await self._hand_over(set(self._owned), others=others, within_ms=self._hand_over_ms)
            ending = {listening, *self._telling}
            for task in ending:
                task.cancel()
            await asyncio.wait(ending)

    async def _turn(self) -> None:
        """One heartbeat and what follows from it."""
        try:
            live = await self._scripts.run(
                heartbeat(self._keys, role=self._role, worker=self._worker, ttl_ms=self._renew_ms * MISSED_HEARTBEATS)
            )
            share = fair_share(self._keys.partitions, max(1, len(live)), _rank(self._worker, live))
            given_up, self._given_up = self._given_up, set()
            await asyncio.gather(*(self._give(partition) for partition in given_up))
            surplus = set(sorted(self._owned)[share:])
            await self._hand_over(surplus, others=len(live) - 1, within_ms=self._renew_ms)
            await self._look(share)
            self._away = False
        except LedgerError as error:
            if not isinstance(error, Unavailable):
                self._log.error("ownership_failed", error=str(error))
            self._guard.disturbed("reconnect")
            if not self._away:
                self._log.warning("server_unavailable", error=str(error))
            self._away = True
        metrics.OWNED.labels(role=self._role).set(len(self._owned))

    async def _rest(self, stop: asyncio.Event) -> None:
        """Wait for the next heartbeat; a partition that was given up or lost, or is free soon, is looked after sooner."""
        waits = [asyncio.ensure_future(event.wait()) for event in (stop, self._again, self._freed)]
        look_ms = self._renew_ms if self._away else self._look_at_ms - self._clock.boottime_ms()
        rest_ms = max(0, min(self._renew_ms, look_ms))
        _, pending = await asyncio.wait(waits, timeout=rest_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
        for wait in pending:
            wait.cancel()
        self._freed.clear()
        if self._again.is_set():
            self._again.clear()
            await until_set(stop, self._renew_ms / 10)

    async def _look(self, share: int) -> None:
        """Take up to the share: of what others told they gave up, and each heartbeat of all there is."""
        offered, self._offered = self._offered, set()
        now, total = self._clock.boottime_ms(), self._keys.partitions
        if offered and now < self._look_at_ms:
            await self._fill(share, sorted(offered))
            return
        self._look_at_ms = now + self._renew_ms
        start = hash_of(self._worker) % total
        await self._fill(share, [(start + step) % total for step in range(total)])  # where others begin least likely

    async def _fill(self, share: int, partitions: Collection[int]) -> None:
        """Take those of the partitions that are free, up to the share."""
        may_take_over: bool | None = None
        for partition in partitions:
            if len(self._owned) >= share:
                return
            if partition in self._owned:
                continue
            owner = await self._scripts.run(read_owner(self._keys, role=self._role, partition=partition))
            is_nobodys = owner.lease_until == 0
            if not is_nobodys and may_take_over is None:
                may_take_over = await self._guard.check(self._client)
            if is_nobodys or may_take_over:
                await self._raise(partition, is_takeover=not is_nobodys)

    async def _raise(self, partition: int, *, is_takeover: bool) -> None:
        asked_at = self._clock.boottime_ms()
        call = raise_owner(
            self._keys,
            role=self._role,
            partition=partition,
            worker=self._worker,
            nonce=entropy.nonce(),
            lease_ms=self._lease_ms,
        )
        raised = await self._scripts.run(call)
        if isinstance(raised, NotFree):
            lapses_at = self._clock.boottime_ms() + raised.remaining_ms + LAPSE_MS
            self._look_at_ms = min(self._look_at_ms, lapses_at)
            return
        if is_takeover:
            metrics.TAKEOVERS.labels(role=self._role).inc()
        self._owned[partition] = raised
        token = raised.token
        self._keeper.keep(
            lease_name(self._role, partition),
            renew_owner(self._keys, role=self._role, partition=partition, token=token, lease_ms=self._lease_ms),
            taken_at_ms=asked_at,
            is_lost=lambda reply: reply is RenewStatus.STALE,
            on_lost=partial(self._lost, partition, token),
        )
        self._log.info("partition_acquired", partition=partition, token=token, idle_raises=raised.idle_raises)
        try:
            await self._owner.on_acquired(partition, raised)
        except Exception:  # noqa: BLE001 - a role that cannot serve one partition still serves the others
            self._log.exception("partition_not_served", partition=partition)
            await self._release(partition)

    def _lost(self, partition: int, token: str) -> None:
        raised = self._owned.get(partition)
        if raised is None or raised.token != token:
            return
        del self._owned[partition]
        self._log.warning("partition_lost", partition=partition, token=token)
        self._owner.on_lost(partition)
        self._again.set()

    async def _release(self, partition: int) -> None:
        raised = self._owned.pop(partition, None)
        if raised is None:
            return
        await self._owner.on_release(partition)
        self._keeper.drop(lease_name(self._role, partition))
        call = release_owner(self._keys, role=self._role, partition=partition, token=raised.token)
        for _ in range(RELEASE_TRIES):
            try:
                await self._scripts.run(call)
                break
            except Unavailable:
                await asyncio.sleep(entropy.jitter(0.02, 0.1))
            except LedgerError as error:  # refused for good: the lease runs out
                self._log.error("release_refused", partition=partition, error=str(error))
                break
        self._log.info("partition_released", partition=partition)

    async def _give(self, partition: int) -> bool:
        """Release a partition and tell the others; False when it was not ours any more."""
        is_ours = partition in self._owned
        await self._release(partition)
        if is_ours:
            await self._tell(Notice.FREED, partition)
        return is_ours

    async def _hand_over(self, partitions: Collection[int], *, others: int, within_ms: int) -> None:
        """Give partitions to so many others."""
        at_once = HANDED_AT_ONCE * others if self._hand_over_ms and others else len(partitions)
        await self._handover.run(partitions, at_once=at_once, patience_ms=self._renew_ms, within_ms=within_ms)

    async def _listen(self) -> None:
        """Hear of partitions that others gave up."""
        channels = [self._keys.freed(self._role)]
        while True:
            with contextlib.suppress(HintsLost):
                await listen(
                    self._client,
                    channels,
                    sharded=self._sharded,
                    on_confirmed=lambda _: None,
                    on_hint=self._hear,
                )
            await asyncio.sleep(LISTEN_AGAIN_S)

    def _hear(self, payload: Any) -> None:
        match read_notice(payload):
            case (Notice.SERVED, partition):
                self._handover.served(partition)
                return
            case (Notice.FREED, partition) if 0 <= partition < self._keys.partitions:
                self._offered.add(partition)
            case _:
                self._look_at_ms = 0
        self._freed.set()

    async def _tell(self, notice: Notice, partition: int) -> None:
        call = notify(self._keys, role=self._role, notice=notice, partition=partition, sharded=self._sharded)
        try:
            await self._scripts.run(call)
        except LedgerError as error:
            self._log.debug("told_nobody", error=str(error))

    async def _leave(self) -> int:
        """Be gone for the others, so that the share is theirs from now on; returns how many they are, 0 where the server is away."""
        try:
            await self._scripts.run(leave(self._keys, role=self._role, worker=self._worker))
            others = await self._scripts.run(live_workers(self._keys, role=self._role))
        except LedgerError as error:
            self._log.debug("leave_unanswered", error=str(error))
            return 0
        return len(others)


def fair_share(partitions: int, workers: int, rank: int) -> int:
    """How many partitions the worker of this rank (0 first) is due among so many."""
    return partitions // workers + (1 if rank < partitions % workers else 0)


def lease_name(role: str, partition: int) -> str:
    """The name under which the keeper holds a partition's lease."""
    return f"{role}:{partition}"


def hash_of(worker: str) -> int:
    """A number that differs from worker to worker."""
    return zlib.crc32(worker.encode())


def _rank(worker: str, live: list[str]) -> int:
    return live.index(worker) if worker in live else len(live)
