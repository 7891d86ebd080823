import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.support.waiting import wait_until
from workers.streams.handover import HandOver

SELDOM_MS = 600_000
"""A time that no test waits for."""


class Giver:
    """A process that gives partitions, and what it has given so far."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.given: list[int] = []
        self.is_ours = True
        self.ending = asyncio.Event()
        self.ending.set()
        self.handover = HandOver(self._give)

    async def _give(self, partition: int) -> bool:
        self.begun.append(partition)
        await self.ending.wait()
        self.given.append(partition)
        return self.is_ours

    def start(
        self, count: int, *, at_once: int, patience_ms: int = SELDOM_MS, within_ms: int = SELDOM_MS
    ) -> asyncio.Task[None]:
        """Begin to give partitions 0 to `count` - 1."""
        run: Coroutine[Any, Any, None] = self.handover.run(
            range(count), at_once=at_once, patience_ms=patience_ms, within_ms=within_ms
        )
        return asyncio.create_task(run)


async def test_the_next_partition_goes_when_one_before_it_is_served_again() -> None:
    giver = Giver()
    task = giver.start(5, at_once=2)
    for served in range(3):
        await wait_until(lambda so_far=served: len(giver.given) == 2 + so_far, "two that are not served")
        assert giver.given == [*range(2 + served)], "no more than two at once"
        giver.handover.served(served)
    await task
    assert giver.given == [0, 1, 2, 3, 4], "the last ones are not waited for"


async def test_what_is_told_of_others_partitions_changes_nothing() -> None:
    giver = Giver()
    task = giver.start(2, at_once=1)
    await wait_until(lambda: giver.given == [0], "the first one")
    giver.handover.served(1)
    giver.handover.served(7)
    assert giver.given == [0]
    giver.handover.served(0)
    await task


@pytest.mark.parametrize("limits", [{"patience_ms": 1}, {"within_ms": 1}])
async def test_where_nobody_tells_in_time_all_that_is_left_goes_at_once(limits: dict[str, int]) -> None:
    giver = Giver()
    await giver.start(9, at_once=2, **limits)
    assert sorted(giver.given) == [*range(9)]


async def test_a_partition_that_cannot_end_does_not_keep_the_others() -> None:
    giver = Giver()
    giver.ending.clear()
    task = giver.start(3, at_once=1, patience_ms=1)
    await wait_until(lambda: sorted(giver.begun) == [0, 1, 2], "the patience to be over")
    assert giver.given == []
    giver.ending.set()
    await task
    assert sorted(giver.given) == [0, 1, 2]


async def test_a_partition_that_was_lost_meanwhile_is_not_waited_for() -> None:
    giver = Giver()
    giver.is_ours = False
    await giver.start(3, at_once=1)
    assert giver.given == [0, 1, 2]
