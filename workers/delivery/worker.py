"""The delivery role: owns partitions, plans their blocks into parts, sends them by the bracket of intent and receipt.

Authority: the partition's token for everything that is begun; nobody's for receipts, which are facts. States of a part: `ledger.states`.
Time: an attempt begins only when the lease outlasts its deadline and a margin, by our own clock. Loss: a partition that was lost begins
nothing new. Failure: whatever stands in `sending` under an older token is recovered before its lane goes on.
"""

import asyncio
import contextlib
import os
from collections.abc import Mapping

from ledger.commands import Scripts
from ledger.keys import Keyspace
from ledger.ownership import Raised
from workers.config import Config
from workers.delivery.channels.registry import open_channels
from workers.delivery.context import ROLE, Context
from workers.delivery.durability import AT_LEAST_ONCE, Barrier
from workers.delivery.pacing import Pace
from workers.delivery.partition import Partition
from workers.delivery.presence import LOOK_S, Presence
from workers.observability import logs
from workers.runtime import entropy, failpoints
from workers.runtime.clock import Clock, SystemClock
from workers.runtime.service import Services
from workers.streams.connection import connect
from workers.streams.guard import Guard
from workers.streams.lease import LeaseKeeper
from workers.streams.news import News
from workers.streams.ownership_loop import Partitions
from workers.streams.serving import listen, operations_port, serve
from workers.streams.startup import check_server

GUARD_S = 1.0
"""Between two looks at the server for what holds age limits back."""


class DeliveryWorker:
    """One delivery process: the partitions it serves and the tasks that serve them."""

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock | None = None,
        worker: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        clock = clock or SystemClock()
        client = connect(config.redis, name=ROLE)
        keys = Keyspace(config.redis.prefix, config.redis.partitions)
        scripts = Scripts(client)
        self.context = Context(
            config=config,
            client=client,
            scripts=scripts,
            keys=keys,
            clock=clock,
            guard=Guard(clock, config.delivery.lease_ms),
            news=News(config.redis, name="delivery-news"),
            pace=Pace(scripts, keys),
            channels=open_channels(config.targets, os.environ if environ is None else environ),
            barrier=Barrier(config.redis, client),
            worker=worker or entropy.worker_name(ROLE),
        )
        times = {"lease_ms": config.delivery.lease_ms, "renew_ms": config.delivery.renew_ms}
        self._keeper = LeaseKeeper(config.redis, clock, role=ROLE, **times)
        self.ownership = Partitions(
            ROLE,
            self,
            client=client,
            keys=keys,
            keeper=self._keeper,
            guard=self.context.guard,
            clock=clock,
            worker=self.context.worker,
            hand_over_ms=0,  # all begin at once to wait for the attempts that are out
            **times,
        )
        self._serving: dict[int, tuple[Partition, asyncio.Task[None]]] = {}
        self._ending: dict[asyncio.Task[None], Partition] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until the event is set, then hand over."""
        context = self.context
        tasks: list[asyncio.Task[None]] = []
        try:
            if not await check_server(
                context.client, context.config.redis, role=ROLE, guard=context.guard, give_up=stop.is_set
            ):
                return
            await context.barrier.start()
            if context.barrier.guarantee == AT_LEAST_ONCE and context.channels:
                logs.bind(role=ROLE).warning("targets_at_least_once", targets=sorted(context.channels))
            await self._keeper.start()
            tasks = [
                asyncio.create_task(listen(context.news, context.keys.blocks, self._served)),
                asyncio.create_task(self._watch_server()),
            ]
            presence = Presence(context)
            if presence.is_wanted:
                tasks.append(asyncio.create_task(self._show_typing(presence)))
            async with Services(*operations_port(context.config.service, self.ownership)):
                await self.ownership.run(stop)
        finally:
            for task, served in list(self._ending.items()):
                await _abandon(served, task)
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await self._close()

    async def _close(self) -> None:
        context = self.context
        await self._keeper.stop()
        for channel in context.channels.values():
            await channel.close()
        await context.news.close()
        await context.barrier.stop()
        await context.client.aclose()

    def _served(self) -> list[Partition]:
        return [partition for partition, _ in self._serving.values()]

    # what the sharing of partitions calls

    async def on_acquired(self, partition: int, raised: Raised) -> None:
        """Begin to serve a partition."""
        failpoints.hit("delivery.after_raise")
        served = Partition(self.context, partition, raised.token, self.ownership)
        self.context.news.watch(self.context.keys.blocks(partition), raised.blocks_position)
        self._serving[partition] = (served, asyncio.create_task(serve(served, self.ownership)))

    async def on_release(self, partition: int) -> None:
        """Let the attempts that are out write their receipts, then end; what does not end in time is left in `sending`."""
        served, task = self._serving.pop(partition, (None, None))
        if served is None or task is None:
            return
        self.context.news.forget(self.context.keys.blocks(partition))
        served.stop()
        config = self.context.config
        await asyncio.wait({task}, timeout=max(config.service.drain_ms, config.delivery.send_deadline_ms) / 1000)
        await _abandon(served, task)

    def on_lost(self, partition: int) -> None:
        """Begin nothing new; receipts of attempts that are out are facts and may still be written."""
        served, task = self._serving.pop(partition, (None, None))
        if served is None or task is None:
            return
        self.context.news.forget(self.context.keys.blocks(partition))
        served.stop()
        self._ending[task] = served
        task.add_done_callback(lambda ended: self._ending.pop(ended, None))

    async def _watch_server(self) -> None:
        while True:
            await self.context.guard.check(self.context.client)
            await asyncio.sleep(GUARD_S)

    async def _show_typing(self, presence: Presence) -> None:
        while True:
            await presence.show(self._serving)
            await asyncio.sleep(LOOK_S)


async def _abandon(served: Partition, task: asyncio.Task[None]) -> None:
    """End what did not end by itself."""
    task.cancel()
    await served.abandon()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def run(config: Config, stop: asyncio.Event) -> None:
    """Serve partitions until the event is set, then hand them over."""
    await DeliveryWorker(config).run(stop)
