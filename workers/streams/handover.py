"""Giving partitions to others: a few at a time where a new owner needs time before it serves, while the rest is still served here.

So each partition stands still for the time that it needs itself, and not for that of all before it. Time: nobody waits long to be told
that a partition is served. Loss: where that is not told in time (it was lost, nobody is there, or the server is away), all that is left
is given at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection


class HandOver:
    """What one process gives to the others of its role."""

    def __init__(self, give: Callable[[int], Awaitable[bool]]) -> None:
        """``give`` ends serving a partition and releases it; False when it was not owned any more."""
        self._give = give
        self._awaited: dict[int, asyncio.Event] = {}

    def served(self, partition: int) -> None:
        """Another serves the partition."""
        if partition in self._awaited:
            self._awaited[partition].set()

    async def run(self, partitions: Collection[int], *, at_once: int, patience_ms: int, within_ms: int) -> None:
        """Give all of them, so many at once.

        The next goes when one of those is served again; none waits longer than the patience for that, and all together not longer than
        the limit. The last ones are not waited for.
        """
        left = sorted(partitions)
        giving: list[asyncio.Future[bool]] = []
        loop = asyncio.get_running_loop()
        until = loop.time() + within_ms / 1000

        def give_next() -> tuple[int, asyncio.Future[bool]]:
            partition = left.pop(0)
            giving.append(asyncio.ensure_future(self._give(partition)))
            if not left:  # nobody has to be waited for any more
                for served in self._awaited.values():
                    served.set()
            return partition, giving[-1]

        async def lane() -> None:
            while left:
                partition, given = give_next()
                if left and not await self._in_time(partition, given, min(until, loop.time() + patience_ms / 1000)):
                    while left:
                        give_next()

        await asyncio.gather(*(lane() for _ in range(at_once)))
        await asyncio.gather(*giving)

    async def _in_time(self, partition: int, given: asyncio.Future[bool], until: float) -> bool:
        served = self._awaited[partition] = asyncio.Event()
        try:
            async with asyncio.timeout_at(until):
                if await asyncio.shield(given):
                    await served.wait()
        except TimeoutError:
            return False
        finally:
            del self._awaited[partition]
        return True
