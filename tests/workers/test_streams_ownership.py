import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from ledger.commands import Scripts
from ledger.keys import Keyspace
from ledger.ownership import Raised, raise_owner, read_owner, release_owner
from tests.support.servers import Server
from tests.support.waiting import wait_until
from workers.config import RedisConfig
from workers.runtime.clock import SystemClock
from workers.streams.connection import connect
from workers.streams.guard import Guard
from workers.streams.lease import LeaseKeeper
from workers.streams.ownership_loop import Partitions, fair_share

KEYS = Keyspace("fl", 8)


class Served:
    """A role that writes down what it is told."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int]] = []
        self.breaks_at: int | None = None
        self.tell_served: Callable[[int], None] | None = None

    async def on_acquired(self, partition: int, raised: Raised) -> None:
        self.log.append(("acquired", partition))
        if self.tell_served is not None:
            self.tell_served(partition)
        if partition == self.breaks_at:
            raise RuntimeError("cannot serve")

    async def on_release(self, partition: int) -> None:
        self.log.append(("released", partition))

    def on_lost(self, partition: int) -> None:
        self.log.append(("lost", partition))


class Worker:
    """One process's share of the partitions."""

    def __init__(self, url: str, name: str, lease_ms: int, renew_ms: int, hand_over_ms: int) -> None:
        config = RedisConfig(url=url, block_ms=300, socket_timeout_ms=1000, partitions=8)
        clock = SystemClock()
        self.client = connect(config)
        self.served = Served()
        self.guard = Guard(clock, lease_ms)
        self.guard.observe("", run_id="", uptime_ms=10**9, server_ms=0)
        self.keeper = LeaseKeeper(config, clock, role="test", lease_ms=lease_ms, renew_ms=renew_ms)
        self.partitions = Partitions(
            "test",
            self.served,
            client=self.client,
            keys=KEYS,
            keeper=self.keeper,
            guard=self.guard,
            clock=clock,
            worker=name,
            lease_ms=lease_ms,
            renew_ms=renew_ms,
            hand_over_ms=hand_over_ms,
        )
        self.stop = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.keeper.start()
        self.task = asyncio.create_task(self.partitions.run(self.stop))

    async def end(self) -> None:
        self.stop.set()
        if self.task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self.task
        await self.keeper.stop()
        await self.client.aclose()

    async def die(self) -> None:
        """Stop renewing and say nothing any more, as a killed process does."""
        await self.keeper.stop()
        assert self.task is not None
        self.partitions._owned.clear()
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


@asynccontextmanager
async def fleet(
    url: str, *names: str, lease_ms: int = 600, renew_ms: int = 100, hand_over_ms: int = 0
) -> AsyncIterator[list[Worker]]:
    workers = [Worker(url, name, lease_ms, renew_ms, hand_over_ms) for name in names]
    try:
        yield workers
    finally:
        for worker in workers:
            await worker.end()


def counts(*workers: Worker) -> list[int]:
    return sorted(len(worker.partitions.owned) for worker in workers)


@pytest.mark.parametrize(("partitions", "workers"), [(16, 1), (16, 3), (7, 3), (3, 5), (8, 8)])
def test_shares_add_up_and_differ_by_at_most_one(partitions: int, workers: int) -> None:
    shares = [fair_share(partitions, workers, rank) for rank in range(workers)]
    assert sum(shares) == partitions
    assert max(shares) - min(shares) <= 1


async def test_one_worker_takes_everything_and_hands_it_over_when_it_stops(redis_url: str) -> None:
    async with fleet(redis_url, "a") as (a,):
        await a.start()
        await wait_until(lambda: counts(a) == [8], "all partitions")
        assert all(a.partitions.holds(partition) > 0 for partition in range(8))
        assert a.partitions.is_connected
        a.stop.set()
        await wait_until(lambda: a.task is not None and a.task.done(), "the hand-over")
        assert [what for what, _ in a.served.log] == ["acquired"] * 8 + ["released"] * 8
        owners = [await Scripts(a.client).run(read_owner(KEYS, role="test", partition=each)) for each in range(8)]
        assert [owner.token for owner in owners] == [""] * 8


async def test_a_second_and_a_third_worker_get_their_share_within_two_heartbeats_each(redis_url: str) -> None:
    async with fleet(redis_url, "a", "b", "c") as (a, b, c):
        await a.start()
        await wait_until(lambda: counts(a) == [8], "all partitions")
        await b.start()
        await wait_until(lambda: counts(a, b) == [4, 4], "two halves", timeout_s=5)
        await c.start()
        await wait_until(lambda: counts(a, b, c) == [2, 3, 3], "three shares", timeout_s=5)
        b.stop.set()
        await wait_until(lambda: counts(a, c) == [4, 4], "the share of the one that left", timeout_s=5)
        owned = [*a.partitions.owned, *c.partitions.owned]
        assert sorted(owned) == list(range(8))


async def test_a_stopping_worker_hands_over_without_waiting_for_a_lease(redis_url: str) -> None:
    async with fleet(redis_url, "a", "b", lease_ms=60_000, renew_ms=100) as (a, b):
        await a.start()
        await b.start()
        await wait_until(lambda: counts(a, b) == [4, 4], "two halves")
        a.stop.set()
        await wait_until(lambda: counts(b) == [8], "everything", timeout_s=5)


SELDOM_MS = 60_000
"""A heartbeat that no test waits for."""


async def test_what_a_worker_gives_up_is_taken_by_another_without_waiting_for_a_heartbeat(redis_url: str) -> None:
    async with fleet(redis_url, "a", "b", lease_ms=3 * SELDOM_MS, renew_ms=SELDOM_MS) as (a, b):
        await a.start()
        await wait_until(lambda: counts(a) == [8], "all partitions")
        await b.start()
        a.partitions._again.set()  # it looks around, and finds that its share is a half now
        await wait_until(lambda: counts(a, b) == [4, 4], "two halves")
        a.stop.set()
        await wait_until(lambda: counts(b) == [8], "everything")


async def halves(a: Worker, b: Worker) -> None:
    """Let two workers that never wait for a heartbeat share the partitions."""
    await a.start()
    await wait_until(lambda: counts(a) == [8], "all partitions")
    for worker in (a, b):
        worker.served.tell_served = worker.partitions.tell_served
    await b.start()
    a.partitions._again.set()
    await wait_until(lambda: counts(a, b) == [4, 4], "two halves")


async def test_partitions_that_need_time_are_kept_until_those_before_them_are_served(redis_url: str) -> None:
    async with fleet(redis_url, "a", "b", lease_ms=3 * SELDOM_MS, renew_ms=SELDOM_MS, hand_over_ms=SELDOM_MS) as (a, b):
        await halves(a, b)
        b.served.tell_served = None
        b.served.log.clear()
        a.stop.set()
        for taken in (2, 3):
            await wait_until(lambda so_far=taken: len(b.served.log) == so_far, "what is handed over")
            assert len(a.partitions.owned) == 4 - taken, "served by the one that stops until its turn has come"
            b.partitions.tell_served(b.served.log[taken - 2][1])
        await wait_until(lambda: counts(b) == [8], "everything")
        assert a.task is not None
        await a.task


async def test_where_nobody_tells_that_it_serves_everything_is_handed_over_a_heartbeat_later(redis_url: str) -> None:
    async with fleet(redis_url, "a", "b", lease_ms=SELDOM_MS, hand_over_ms=SELDOM_MS) as (a, b):
        await a.start()
        await b.start()
        await wait_until(lambda: counts(a, b) == [4, 4], "two halves")
        a.stop.set()
        await wait_until(lambda: counts(b) == [8], "everything")


async def test_a_process_that_stops_hands_over_one_by_one_for_a_limited_time(redis_url: str) -> None:
    async with fleet(redis_url, "a", "b", lease_ms=3 * SELDOM_MS, renew_ms=SELDOM_MS, hand_over_ms=1) as (a, b):
        await halves(a, b)
        b.served.tell_served = None
        a.stop.set()
        await wait_until(lambda: counts(b) == [8], "everything")


async def test_a_lone_worker_waits_for_nobody_when_it_stops(redis_url: str) -> None:
    async with fleet(redis_url, "a", lease_ms=3 * SELDOM_MS, renew_ms=SELDOM_MS, hand_over_ms=SELDOM_MS) as (a,):
        await a.start()
        await wait_until(lambda: counts(a) == [8], "all partitions")
        a.stop.set()
        await wait_until(lambda: a.task is not None and a.task.done(), "its end")


async def all_but_one(worker: Worker) -> None:
    """Start a worker that takes all partitions but one, which was another's and is given up, untold, once it has them."""
    call = raise_owner(KEYS, role="test", partition=3, worker="other", nonce="n", lease_ms=SELDOM_MS)
    other = await Scripts(worker.client).run(call)
    assert isinstance(other, Raised)
    await worker.start()
    await wait_until(lambda: counts(worker) == [7], "the others")
    await Scripts(worker.client).run(release_owner(KEYS, role="test", partition=3, token=other.token))


async def test_a_sign_of_another_version_makes_a_worker_look_around(redis_url: str) -> None:
    async with fleet(redis_url, "a", lease_ms=3 * SELDOM_MS, renew_ms=SELDOM_MS) as (a,):
        await all_but_one(a)

        async def heard() -> bool:
            return bool(await a.client.execute_command("PUBLISH", KEYS.freed("test"), "") == 1)

        await wait_until(heard, "somebody to listen")
        await wait_until(lambda: counts(a) == [8], "the one that was given up")


async def test_a_partition_that_there_is_not_is_not_taken_whatever_is_told_of_it(redis_url: str) -> None:
    async with fleet(redis_url, "a", lease_ms=3 * SELDOM_MS, renew_ms=SELDOM_MS) as (a,):
        await all_but_one(a)

        async def heard(payload: str) -> bool:
            return bool(await a.client.execute_command("PUBLISH", KEYS.freed("test"), payload) == 1)

        await wait_until(lambda: heard('{"freed": 99}'), "somebody to listen")
        for payload in ('{"freed": -1}', '{"freed": 1e999}', "[" * 9_999, '{"freed": 3}'):
            assert await heard(payload)
        await wait_until(lambda: counts(a) == [8], "the one that was given up")
        assert sorted(a.partitions.owned) == list(range(8))


async def test_a_release_that_the_server_refuses_is_left_to_the_lease(redis_url: str) -> None:
    async with fleet(redis_url, "a") as (a,):
        await a.start()
        await wait_until(lambda: counts(a) == [8], "all partitions")
        await a.keeper.stop()
        await a.client.execute_command("SET", KEYS.owner("test", 5), "damaged")
        a.stop.set()
        await wait_until(lambda: a.task is not None and a.task.done(), "its end")
        assert a.task is not None
        assert a.task.exception() is None
        assert a.served.log.count(("released", 5)) == 1


async def test_a_lease_that_is_waited_for_is_looked_at_when_it_runs_out(redis_url: str) -> None:
    async with fleet(redis_url, "a", lease_ms=3 * SELDOM_MS, renew_ms=SELDOM_MS) as (a,):
        call = raise_owner(KEYS, role="test", partition=3, worker="dead", nonce="n", lease_ms=1_000)
        await Scripts(a.client).run(call)
        await a.guard.check(a.client)
        a.guard._closed_until_ms = 0  # it has known this server for long
        await a.start()
        await wait_until(lambda: counts(a) == [8], "the partition whose owner is dead")


async def test_a_dead_workers_partitions_are_taken_over_when_their_leases_ran_out(redis_url: str) -> None:
    async with fleet(redis_url, "a", "b") as (a, b):
        await a.start()
        await wait_until(lambda: counts(a) == [8], "all partitions")
        await a.die()
        await b.start()
        await wait_until(lambda: counts(b) == [8], "the dead one's partitions")


async def test_nothing_is_taken_over_while_the_guard_is_closed_but_free_partitions_are(redis_url: str) -> None:
    async with fleet(redis_url, "a") as (a,):
        call = raise_owner(KEYS, role="test", partition=3, worker="dead", nonce="n", lease_ms=1)
        await Scripts(a.client).run(call)
        a.guard = a.partitions._guard = Guard(SystemClock(), 1500)
        a.guard.disturbed("test")
        await a.start()
        await wait_until(lambda: counts(a) == [7], "the free ones")
        assert 3 not in a.partitions.owned
        await wait_until(lambda: counts(a) == [8], "the lapsed one, after the guard has opened")


async def test_a_partition_taken_by_another_is_lost(redis_url: str) -> None:
    async with fleet(redis_url, "a") as (a,):
        await a.start()
        await wait_until(lambda: counts(a) == [8], "all partitions")
        client = a.client
        await client.execute_command("HSET", KEYS.owner("test", 5), "token", "99:other", "lease_until", 2**52)
        await wait_until(lambda: ("lost", 5) in a.served.log, "the loss")
        assert 5 not in a.partitions.owned
        assert ("released", 5) not in a.served.log


async def test_a_partition_that_cannot_be_served_is_released_and_tried_again(redis_url: str) -> None:
    async with fleet(redis_url, "a") as (a,):
        a.served.breaks_at = 2
        await a.start()
        await wait_until(lambda: a.served.log.count(("acquired", 2)) >= 2, "another try")
        assert ("released", 2) in a.served.log
        a.served.breaks_at = None
        await wait_until(lambda: counts(a) == [8], "all partitions")


async def test_a_partition_given_up_is_raised_anew(redis_url: str) -> None:
    async with fleet(redis_url, "a") as (a,):
        await a.start()
        await wait_until(lambda: counts(a) == [8], "all partitions")
        token = a.partitions.owned[1].token
        a.partitions.give_up(1)
        await wait_until(lambda: a.partitions.owned.get(1, a.partitions.owned[0]).token not in {token, a.partitions.owned[0].token}, "a new token")  # fmt: skip
        assert ("released", 1) in a.served.log


async def test_a_server_restart_loses_no_partition() -> None:
    with Server(aof=True) as server:
        async with fleet(server.url, "a", lease_ms=600, renew_ms=100) as (a,):
            await a.start()
            await wait_until(lambda: counts(a) == [8], "all partitions")
            tokens = {partition: raised.token for partition, raised in a.partitions.owned.items()}
            server.kill()
            await wait_until(lambda: not a.partitions.is_connected, "the outage to be seen")
            await wait_until(lambda: a.partitions.holds(0) == 0, "the leases to run out")
            server.start()
            await wait_until(lambda: all(a.partitions.holds(each) > 0 for each in range(8)), "the leases to come back")
            assert {partition: raised.token for partition, raised in a.partitions.owned.items()} == tokens
            assert not any(what == "lost" for what, _ in a.served.log)
