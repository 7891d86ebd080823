"""Workers join, leave and share; a server that restarts ends no turn; a cluster carries the same turn."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.fleet.crashing import FIRST_GATE, SECOND_GATE, stage
from tests.support.fleet import Fleet, Worker
from tests.support.receivers import Receiver
from tests.support.servers import Cluster, Server
from tests.support.upstream import Upstream, text
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]

LEASE_S = 1.5


def owners(server: Server, role: str) -> dict[str, int]:
    """How many partitions each worker owns now."""
    counts: dict[str, int] = {}
    with server.client() as client:
        now = int(client.time()[0]) * 1000
        for key in client.keys(f"fl:{{*}}:owner:{role}"):
            record = client.hgetall(key)
            if int(record["lease_until"]) > now:
                counts[record["worker"]] = counts.get(record["worker"], 0) + 1
    return counts


@pytest.mark.parametrize("role", ["fold", "delivery"])
async def test_two_then_four_workers_differ_by_at_most_one_partition(
    role: str, redis_server: Server, tmp_path: Path
) -> None:
    with redis_server.client() as client:
        client.flushall()

    def even(workers: int, partitions: int) -> bool:
        counts = owners(redis_server, role)
        return (
            len(counts) == workers
            and sum(counts.values()) == partitions
            and max(counts.values()) - min(counts.values()) <= 1
        )

    async with Fleet(redis_server.url, tmp_path, upstreams={}, partitions=14) as fleet:
        for _ in range(2):
            await fleet.start(role, wait=False)
        await wait_until(lambda: even(2, 14), "two workers to share")
        for _ in range(2):
            await fleet.start(role, wait=False)
        await wait_until(lambda: even(4, 14), "four workers to share")
        assert await fleet.workers[0].terminate() == 0
        await wait_until(lambda: even(3, 14), "three workers to share")


async def test_a_terminated_fold_worker_hands_over_without_waiting_for_its_lease(
    redis_server: Server, tmp_path: Path
) -> None:
    long = {"FOLDLINE_FOLD_LEASE_MS": "60000", "FOLDLINE_FOLD_RENEW_MS": "400"}
    async with stage(redis_server, tmp_path) as s:
        s.upstream.pause_before(FIRST_GATE)
        first = await s.fleet.start("fold", environ=long)
        await s.fleet.start("ingest")
        turn = await s.submit()
        await s.fleet.framed(turn, FIRST_GATE)
        second = await s.fleet.start("fold", environ=long)
        began = time.monotonic()
        assert await first.terminate() == 0
        s.upstream.release(SECOND_GATE)
        await s.fleet.framed(turn, SECOND_GATE, timeout_s=20)
        assert time.monotonic() - began < 20, "the lease of a minute was waited for"
        s.upstream.release()
        assert (await s.fleet.ended(turn)).state == "completed"
        assert second.is_alive


async def test_a_server_restart_of_seconds_ends_no_turn(tmp_path: Path) -> None:
    with Server(aof=True) as server:
        async with stage(server, tmp_path) as s:
            s.upstream.pause_before(FIRST_GATE)
            workers = [await s.fleet.start(role) for role in ("ingest", "fold", "delivery")]
            turn = await s.submit()
            await s.fleet.framed(turn, FIRST_GATE)
            server.stop()
            s.upstream.release(SECOND_GATE)
            await s.upstream.reached(SECOND_GATE)
            await away(2 * LEASE_S)
            server.start()
            s.upstream.release()
            told = await s.told(turn)
            assert (await s.fleet.turn(turn)).state == "completed"
            assert told.frames.count("event: response.completed") == 1
            assert s.receiver.repeats <= 1
            assert len(s.upstream.received) == 1
            assert all(worker.is_alive for worker in workers), [tail_of(worker) for worker in workers]


async def away(seconds: float) -> None:
    """Leave the server down for longer than every lease: the length itself is what is tested."""
    await asyncio.get_running_loop().run_in_executor(None, time.sleep, seconds)


def tail_of(worker: Worker) -> str:
    """What a worker said last."""
    return f"{worker.role}: {worker.tail(500)}"


async def test_an_emptied_server_gives_new_turns_without_a_restart(redis_server: Server, tmp_path: Path) -> None:
    async with stage(redis_server, tmp_path) as s:
        s.upstream.pause_before(FIRST_GATE)
        workers = [await s.fleet.start(role) for role in ("ingest", "fold", "delivery")]
        turn = await s.submit()
        await s.fleet.framed(turn, FIRST_GATE)
        with redis_server.client() as client:
            client.flushall()
        s.upstream.release()
        again = await s.fleet.submit(request={"input": "Again."}, targets=["hook"], turn_hex="ab" * 12)
        assert (await s.fleet.ended(again)).state == "completed"
        assert all(worker.is_alive for worker in workers), [tail_of(worker) for worker in workers]


async def test_a_cluster_carries_a_turn_through_a_kill(tmp_path: Path) -> None:
    words = "One. Two. Three. " * 20
    with Cluster(3, kind="redis-server") as cluster:
        async with Upstream(text(words, pieces=32)) as upstream, Receiver() as receiver:
            upstreams = {"sample": {"base_url": upstream.base_url, "side_effects": False}}
            targets = {"hook": {"channel": "webhook", "url": receiver.url}}
            async with Fleet(cluster.url, tmp_path, upstreams=upstreams, targets=targets, cluster=True) as fleet:
                upstream.pause_before(FIRST_GATE)
                first = await fleet.start("fold")
                for role in ("ingest", "delivery", "fold"):
                    await fleet.start(role)
                made = [
                    await fleet.submit(session=f"s{number}", targets=["hook"], turn_hex=f"{number:024x}")
                    for number in range(6)
                ]
                assert len({fleet.keys.partition_of_turn(turn) for turn in made}) > 1
                for turn in made:
                    await fleet.framed(turn, FIRST_GATE)
                await first.kill()
                upstream.release()
                for turn in made:
                    assert (await fleet.settled(turn)).state == "completed"
                    shown = "".join(p.body for p in await fleet.parts(turn))
                    assert shown
                assert receiver.repeats == 0
