"""The fold role: owns partitions, folds their log into frames and blocks, commits them with their cause."""

import asyncio

from ledger.commands import Scripts
from ledger.keys import Keyspace
from ledger.ownership import Raised
from workers.config import Config
from workers.fold.context import ROLE, Context
from workers.fold.partition import Partition
from workers.fold.upkeep import Upkeep
from workers.observability import metrics
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


class FoldWorker:
    """One fold process: the partitions it serves and the tasks that serve them."""

    def __init__(self, config: Config, *, clock: Clock | None = None, worker: str | None = None) -> None:
        clock = clock or SystemClock()
        client = connect(config.redis, name=ROLE)
        self.context = Context(
            config=config,
            client=client,
            scripts=Scripts(client),
            keys=Keyspace(config.redis.prefix, config.redis.partitions),
            clock=clock,
            guard=Guard(clock, config.fold.lease_ms),
            news=News(config.redis, name="fold-news"),
            worker=worker or entropy.worker_name(ROLE),
        )
        times = {"lease_ms": config.fold.lease_ms, "renew_ms": config.fold.renew_ms}
        self._keeper = LeaseKeeper(config.redis, clock, role=ROLE, **times)
        self.ownership = Partitions(
            ROLE,
            self,
            client=client,
            keys=self.context.keys,
            keeper=self._keeper,
            guard=self.context.guard,
            clock=clock,
            worker=self.context.worker,
            hand_over_ms=config.service.drain_ms // 2,  # and then there is time to end what is left
            **times,
        )
        self._serving: dict[int, tuple[Partition, asyncio.Task[None]]] = {}
        self._upkeep = Upkeep(self.context, self._served)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until the event is set, then hand over."""
        context, ended = self.context, asyncio.Event()
        tasks: list[asyncio.Task[None]] = []
        try:
            if not await check_server(
                context.client, context.config.redis, role=ROLE, guard=context.guard, give_up=stop.is_set
            ):
                return
            await self._keeper.start()
            tasks = [
                asyncio.create_task(self._upkeep.run(ended)),
                asyncio.create_task(listen(context.news, context.keys.log, self._served)),
            ]
            async with Services(*operations_port(context.config.service, self.ownership)):
                await self.ownership.run(stop)
        finally:
            ended.set()
            for task in tasks[1:]:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            await self._keeper.stop()
            await self.context.news.close()
            await self.context.client.aclose()

    def _served(self) -> list[Partition]:
        return [partition for partition, _ in self._serving.values()]

    # what the sharing of partitions calls

    async def on_acquired(self, partition: int, raised: Raised) -> None:
        """Begin to serve a partition."""
        served = Partition(self.context, partition, raised, on_serving=self.ownership.tell_served)
        self._serving[partition] = (served, asyncio.create_task(serve(served, self.ownership)))

    async def on_release(self, partition: int) -> None:
        """Commit what is folded and end; an owner that cannot, because the server is away, leaves it to its successor."""
        served = self._serving.pop(partition, None)
        if served is None:
            return
        served[0].stop()
        await asyncio.wait({served[1]}, timeout=self.context.config.service.drain_ms / 1000)
        served[1].cancel()
        await asyncio.wait({served[1]})
        _forget_measures(partition)
        failpoints.hit("fold.before_release")

    def on_lost(self, partition: int) -> None:
        """End at once."""
        served = self._serving.pop(partition, None)
        if served is not None:
            served[1].cancel()
            _forget_measures(partition)


def _forget_measures(partition: int) -> None:
    """Show nothing more of a partition that another process measures now."""
    for gauge in (metrics.FOLD_LAG, metrics.FOLD_INFLIGHT):
        gauge.labels(partition=partition)  # removing one that was never shown is an error
        gauge.remove(str(partition))


async def run(config: Config, stop: asyncio.Event) -> None:
    """Serve partitions until the event is set, then hand them over."""
    await FoldWorker(config).run(stop)
