"""The ingest process: takes submitted turns, opens their upstreams, publishes what they say as canonical events.

Authority: each turn's claim, a token in its record; the pending entry in `requests` only mirrors it. States of a turn here:
taken (its entry was handed to us), claimed, running, ended; and for a few seconds kept, in case the server loses its tail.
Time: claims are renewed by the lease keeper on a thread of its own. Loss: a claim is lost when the server says so. Drain:
nothing new is taken, running turns may end, and the claims of those that do not are released for others to decide.
"""

import asyncio
import contextlib
import os
from collections import deque
from functools import partial
from typing import Any

from ledger.commands import Scripts
from ledger.errors import LedgerError
from ledger.keys import Keyspace
from ledger.log import read_positions
from ledger.turns import (
    Claimed,
    ClaimRefused,
    ClaimStatus,
    RequestEntry,
    claim_turn,
    release_turn,
    renew_turn,
    take_requests,
)
from workers.config import Config
from workers.ingest.bounds import LagGate, Room
from workers.ingest.publisher import Bench, Publisher, Verdict
from workers.ingest.runner import Outside, Runner
from workers.ingest.sources.agents import Agents
from workers.ingest.sources.http_stream import open_session
from workers.observability import logs, metrics
from workers.observability.health import HealthServer
from workers.runtime import entropy
from workers.runtime.clock import SystemClock
from workers.runtime.failpoints import hit
from workers.streams.attendance import Attendance
from workers.streams.connection import AsyncClient, connect
from workers.streams.guard import Guard
from workers.streams.lease import LeaseKeeper
from workers.streams.news import News
from workers.streams.patience import patiently
from workers.streams.startup import check_server

SWEEP_MS = 900
"""Between two looks at all partitions: for entries that a lost wake-up hid, and for those that others abandoned."""
LAG_POLL_S = 0.2
"""Between two readings of the lag of a partition that is paused, when no publish brings one."""


async def run(config: Config, stop: asyncio.Event) -> None:
    """Ingest turns until `stop` is set, then drain: take nothing new, let running turns end, release the rest."""
    clock = SystemClock()
    client = connect(config.redis, name="ingest")
    keeper = LeaseKeeper(
        config.redis, clock, role="ingest", lease_ms=config.ingest.lease_ms, renew_ms=config.ingest.renew_ms
    )
    bench = Bench(
        config=config.ingest,
        scripts=Scripts(client),
        keys=Keyspace(prefix=config.redis.prefix, partitions=config.redis.partitions),
        guard=Guard(clock, config.ingest.lease_ms),
        clock=clock,
        room=Room(total_bytes=config.ingest.buffer_bytes, turn_bytes=config.ingest.turn_buffer_bytes),
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(client.aclose)
        session = await stack.enter_async_context(open_session())
        news = News(config.redis, name="ingest-news")
        stack.push_async_callback(news.close)
        await keeper.start()
        stack.push_async_callback(keeper.stop)
        agents = Agents(config.ingest.max_agents)
        if any(upstream.wire == "acp" for upstream in config.upstreams.values()):
            agents.prepare()
        stack.push_async_callback(agents.close)
        outside = Outside(upstreams=config.upstreams, session=session, agents=agents, environ=os.environ)
        if not await check_server(client, config.redis, role="ingest", guard=bench.guard, give_up=stop.is_set):
            return
        worker = IngestWorker(bench, outside, client=client, keeper=keeper, news=news)
        attendance = Attendance(bench.scripts, bench.keys, role="ingest", worker=worker.name)
        await attendance.start()
        stack.push_async_callback(attendance.stop)
        if config.service.port is not None:
            health = HealthServer(config.service.host, config.service.port, lambda: worker.is_ready)
            await health.start()
            stack.push_async_callback(health.stop)
        await worker.run(stop, drain_ms=config.service.drain_ms)


class IngestWorker:
    """The turns of one process."""

    def __init__(self, bench: Bench, outside: Outside, *, client: AsyncClient, keeper: LeaseKeeper, news: News) -> None:
        self.name = entropy.worker_name("ingest")
        self.is_ready = False
        self._bench = bench
        self._outside = outside
        self._client = client
        self._keeper = keeper
        self._news = news
        self._log = logs.bind(worker=self.name)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._carried = [0] * bench.keys.partitions
        """How many turns are carried in each partition."""
        self._freed = asyncio.Event()
        lag = {"high": bench.config.lag_high, "low": bench.config.lag_low}
        self._gates = [LagGate(**lag, on_closed=self._freed.set) for _ in range(bench.keys.partitions)]
        self._recent: deque[tuple[int, Publisher]] = deque()
        self._streams = {bench.keys.requests(partition): partition for partition in range(bench.keys.partitions)}

    @property
    def running(self) -> int:
        """How many turns this process carries."""
        return len(self._tasks)

    async def run(self, stop: asyncio.Event, *, drain_ms: int) -> None:
        """Take and carry turns until `stop` is set, then drain."""
        for key in self._streams:
            self._news.watch(key, "0-0")
        taking = asyncio.create_task(self._take())
        polling = asyncio.create_task(self._poll_lag())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({taking, polling, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for loop in (taking, polling):
                if loop.done():
                    loop.result()  # a loop that ended by itself met a fault: say so instead of standing still
            await _end(taking)
            if self._tasks:
                self._log.info("draining", turns=len(self._tasks))
                await asyncio.wait(self._tasks.values(), timeout=drain_ms / 1000)
        finally:
            self.is_ready = False
            for task in (taking, polling, stopping, *self._tasks.values()):
                await _end(task)

    # taking

    @property
    def _places(self) -> int:
        """How many more turns may be taken.

        Those of a partition that is behind stand still, so they leave their places to the other partitions; but not without bound.
        """
        most = self._bench.config.max_turns
        still = sum(count for count, gate in zip(self._carried, self._gates, strict=True) if gate.closed)
        return most - (len(self._tasks) - min(still, most))

    async def _take(self) -> None:
        due_ms = 0
        full = False
        while True:
            if self._places <= 0:
                full = True
                self._freed.clear()
                await self._freed.wait()
                continue
            now = self._bench.clock.boottime_ms()
            if full or now >= due_ms:
                full = False
                due_ms = now + min(SWEEP_MS, self._bench.config.lease_ms // 3)  # no closed guard passes unseen
                await self._sweep()
            changed = await self._news.wait(max(1, due_ms - self._bench.clock.boottime_ms()))
            for key in changed:
                await self._take_partition(self._streams[key], min_idle_ms=None)

    async def _sweep(self) -> None:
        """Look at every partition, also for what others abandoned, unless the server was away a moment ago."""
        calm = await self._bench.guard.check(self._client)
        await self._keep_recent(calm=calm)
        for partition in range(self._bench.keys.partitions):
            await self._take_partition(partition, min_idle_ms=self._bench.config.lease_ms if calm else None)

    async def _take_partition(self, partition: int, *, min_idle_ms: int | None) -> None:
        bench = self._bench
        count = min(bench.config.take_count, self._places)
        if count <= 0 or self._gates[partition].closed:
            return
        call = take_requests(bench.keys, partition, consumer=self.name, count=count, min_idle_ms=min_idle_ms)
        try:
            entries = await bench.scripts.run(call)
        except LedgerError as error:  # the next sweep asks again; what a lost reply handed out is taken once it is idle
            self.is_ready = False
            metrics.UNAVAILABLE.labels(role="ingest").inc()
            self._log.debug("take_unanswered", partition=partition, error=str(error))
            return
        self.is_ready = True
        for entry in entries:
            hit("ingest.after_take")
            self._news.seen(bench.keys.requests(partition), entry.id)
            if entry.turn not in self._tasks:
                task = asyncio.create_task(self._carry(entry, self._gates[partition]))
                self._tasks[entry.turn] = task
                self._carried[partition] += 1
                metrics.INGEST_TURNS.inc()
                task.add_done_callback(partial(self._ended, entry.turn, partition))

    def _ended(self, turn: str, partition: int, task: asyncio.Task[None]) -> None:
        del self._tasks[turn]
        self._carried[partition] -= 1
        metrics.INGEST_TURNS.dec()
        self._freed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("turn_dropped", turn=turn, error=repr(error))

    # carrying

    async def _carry(self, entry: RequestEntry, gate: LagGate) -> None:
        bench = self._bench
        nonce = entropy.nonce()
        call = claim_turn(
            bench.keys, entry.turn, entry=entry.id, worker=self.name, nonce=nonce, lease_ms=bench.config.lease_ms
        )
        taken_at_ms = bench.clock.boottime_ms()
        claimed = await patiently(lambda: bench.scripts.run(call), what="claim_turn", role="ingest", guard=bench.guard)
        if isinstance(claimed, ClaimRefused):
            return
        hit("ingest.after_claim")
        if claimed.claims > 1:
            metrics.TAKEOVERS.labels(role="ingest").inc()
        name = f"turn:{entry.turn}"
        runner = Runner(bench, self._outside, claimed, gate, holds=lambda: self._keeper.holds(name))
        self._keep(name, runner, claimed, taken_at_ms)
        try:
            verdict = await runner.run()
        except asyncio.CancelledError:
            await self._release(claimed)
            raise
        finally:
            self._keeper.drop(name)
        self._log.info("turn_carried", turn=runner.turn, verdict=verdict.value)
        if verdict is Verdict.DONE:
            self._recent.append((bench.clock.boottime_ms(), runner.publisher))
        elif verdict is Verdict.UNKNOWN_TURN:
            metrics.SERVER_LOST_DATA.labels(role="ingest").inc()

    def _keep(self, name: str, runner: Runner, claimed: Claimed, taken_at_ms: int) -> None:
        bench = self._bench
        runner.on_paused = partial(self._keeper.hurry, name)
        self._keeper.keep(
            name,
            lambda: renew_turn(
                bench.keys,
                runner.turn,
                token=claimed.token,
                lease_ms=bench.config.lease_ms,
                waits=runner.waits,
            ),
            taken_at_ms=taken_at_ms,
            is_lost=lambda reply: reply.status is ClaimStatus.STALE or reply.status is ClaimStatus.UNKNOWN_TURN,
            on_lost=runner.lose,
            on_reply=runner.on_renewed,
        )

    async def _release(self, claimed: Claimed) -> None:
        """Let others decide at once; if the server does not answer, the lease runs out instead."""
        call = release_turn(self._bench.keys, claimed.record.id, token=claimed.token)
        with contextlib.suppress(LedgerError, TimeoutError):
            async with asyncio.timeout(1):
                await self._bench.scripts.run(call)

    # what is kept after the end

    async def _keep_recent(self, *, calm: bool) -> None:
        """Say the last words of ended turns again after a disturbance, while they are kept: the server may have lost them."""
        if calm:
            oldest_ms = self._bench.clock.boottime_ms() - self._bench.config.producer_keep_ms
            while self._recent and self._recent[0][0] < oldest_ms:
                self._recent.popleft()[1].abandon()
            return
        with contextlib.suppress(TimeoutError):  # still away: the next sweep tries again
            async with asyncio.timeout(self._bench.config.lease_ms / 1000):
                while self._recent:
                    await self._recent[0][1].resend_kept()
                    self._recent.popleft()[1].abandon()

    async def _poll_lag(self) -> None:
        while True:
            await asyncio.sleep(LAG_POLL_S)
            for partition, gate in enumerate(self._gates):
                if gate.closed:
                    with contextlib.suppress(LedgerError):
                        gate.update((await self._bench.scripts.run(read_positions(self._bench.keys, partition))).lag)


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
