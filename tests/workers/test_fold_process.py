import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TypeVar

import aiohttp
import msgspec
import pytest

from ledger.commands import Call, Scripts
from ledger.errors import Unavailable
from ledger.log import append_if_tail
from ledger.ownership import Notice, Raised, raise_owner, read_notice
from ledger.records import TurnState
from ledger.turns import request_cancel
from pipeline.codec import encode_batch
from pipeline.events import Status
from tests.support.servers import Server
from tests.support.waiting import wait_until
from tests.workers.fold_bench import (
    KEYS,
    PARTITION,
    PIECES,
    Bench,
    config_of,
    has_frames,
    owner_of,
    run_whole,
    story,
    turn_id,
)
from workers.fold.partition import Partition
from workers.fold.upkeep import Upkeep
from workers.fold.worker import FoldWorker
from workers.observability.health import HealthServer
from workers.streams.serving import operations_port

T = TypeVar("T")


@pytest.fixture
async def bench(redis_url: str) -> AsyncIterator[Bench]:
    made = Bench(redis_url, config_of(redis_url))
    yield made
    await made.close()


# the clock


@contextlib.asynccontextmanager
async def kept_up(bench: Bench) -> AsyncIterator[Upkeep]:
    async with owner_of(bench) as owner:
        assert owner.partition is not None
        partition = owner.partition
        upkeep = Upkeep(owner.context, lambda: [partition])
        owner.context.guard.observe("", run_id="", uptime_ms=10**9, server_ms=0)
        await wait_until(lambda: partition.is_serving, "the owner")
        yield upkeep


async def _end_due(bench: Bench, upkeep: Upkeep, turn: str) -> None:
    async def due_and_ended() -> bool:
        for partition in upkeep._partitions():
            await upkeep.end_due(partition)
        return await bench.ended(turn)

    await wait_until(due_and_ended, "the turn to be ended by name")


async def test_a_turn_that_nobody_takes_is_ended_with_a_whole_stream(bench: Bench) -> None:
    turn = turn_id(1)
    await bench.submit(turn, queue_ms=1)
    async with kept_up(bench) as upkeep:
        await _end_due(bench, upkeep, turn)
    frames = await bench.frames(turn)
    assert frames.startswith("event: response.created")
    assert "event: response.failed" in frames
    assert msgspec.json.decode((await bench.record(turn)).error)["code"] == "never_taken"
    assert await bench.client.execute_command("XLEN", KEYS.requests(PARTITION)) == 0


async def test_a_cancelled_turn_without_an_ingest_process_is_ended_by_the_fold(bench: Bench) -> None:
    turn = turn_id(1)
    await bench.open(turn)
    await bench.publish(turn, story(turn, PIECES)[:3])
    await bench.scripts.run(request_cancel(KEYS, turn, grace_ms=1))
    async with kept_up(bench) as upkeep:
        await _end_due(bench, upkeep, turn)
    assert (await bench.record(turn)).state is TurnState.CANCELLED
    assert "event: response.incomplete" in await bench.frames(turn)


async def test_a_silence_flushes_held_text_into_a_block_once(bench: Bench) -> None:
    turn, events = turn_id(1), story(turn_id(1), PIECES, {"idle_ms": 20, "min_chars": 1})
    await bench.open(turn, {"idle_ms": 20, "min_chars": 1})
    await bench.publish(turn, events[:2])
    async with kept_up(bench) as upkeep:

        async def flushed() -> bool:
            await upkeep.tick()
            return (await bench.record(turn)).blocks_next == 1

        await wait_until(flushed, "the block")
        await upkeep.tick()
        assert (await bench.record(turn)).next["fold"] == 1
        await bench.publish(turn, events[2:])
        await wait_until(lambda: bench.ended(turn), "the end of the turn")


async def test_a_partition_whose_node_is_away_keeps_no_turn_of_another_alive(bench: Bench) -> None:
    class HalfGone(Scripts):
        async def run(self, call: Call[T]) -> T:
            if "{0}" in call.routing_key:
                raise Unavailable("the node is away")
            return await super().run(call)

    turn = turn_id(1)
    await bench.submit(turn, queue_ms=1)
    async with kept_up(bench) as upkeep:
        [here] = upkeep._partitions()
        call = raise_owner(KEYS, role="fold", partition=0, worker="w", nonce="n", lease_ms=60_000)
        raised = await bench.scripts.run(call)
        assert isinstance(raised, Raised)
        away = Partition(here._context, 0, raised)
        away.is_serving = True
        context = replace(here._context, scripts=HalfGone(bench.client))
        both = Upkeep(context, lambda: [away, here])

        async def ticked_and_ended() -> bool:
            await both.tick()
            return await bench.ended(turn)

        await wait_until(ticked_and_ended, "the turn to be ended by name")


async def test_no_idle_event_follows_a_delta_that_it_did_not_know(bench: Bench) -> None:
    turn, events = turn_id(1), story(turn_id(1), PIECES)
    await bench.open(turn)
    await bench.publish(turn, events[:2])
    async with owner_of(bench) as owner:
        assert owner.partition is not None
        partition = owner.partition
        await wait_until(lambda: turn in partition.turns, "the turn")
        seen = partition.turns[turn].tail
        await bench.publish(turn, events[2:3])
        call = append_if_tail(
            KEYS,
            turn,
            token=partition.token,
            tail=seen,
            first_seq=0,
            events_json=encode_batch([Status(seq=0, at=0, name="idle")]),
            n=1,
        )
        assert (await bench.scripts.run(call)).status.value == "TAIL_MOVED"


async def test_the_log_is_trimmed_behind_what_is_finished(redis_url: str) -> None:
    config = msgspec.structs.replace(
        config_of(redis_url), retention=msgspec.structs.replace(config_of(redis_url).retention, log_ms=1)
    )
    bench = Bench(redis_url, config)
    turn = turn_id(1)
    await bench.open(turn)
    async with kept_up(bench) as upkeep:
        await bench.publish(turn, story(turn, PIECES))
        await wait_until(lambda: bench.ended(turn), "the end of the turn")

        async def trimmed() -> bool:
            upkeep._trim_at = 0
            await upkeep.tick()
            return int(await bench.client.execute_command("XLEN", KEYS.log(PARTITION))) <= 1

        await wait_until(trimmed, "the trim")
    await bench.close()


# the process


@contextlib.asynccontextmanager
async def process(bench: Bench) -> AsyncIterator[tuple[FoldWorker, asyncio.Event]]:
    worker, stop = FoldWorker(bench.config), asyncio.Event()
    task = asyncio.create_task(worker.run(stop))
    try:
        yield worker, stop
    finally:
        stop.set()
        await task


async def test_a_stopping_process_hands_over_in_the_middle_of_a_turn(redis_url: str) -> None:
    bench = Bench(redis_url, config_of(redis_url, lease_ms=60_000, renew_ms=100))
    turn, events = turn_id(1), story(turn_id(1), PIECES)
    undisturbed = await run_whole(bench, turn, events)
    await bench.client.execute_command("FLUSHALL")
    await bench.open(turn)
    async with process(bench) as (first, stop):
        await wait_until(lambda: len(first.ownership.owned) == 2, "both partitions")
        await bench.publish(turn, events[:3])
        await wait_until(lambda: has_frames(bench, turn), "the first frames")
        async with process(bench) as (second, _):
            stop.set()
            await wait_until(lambda: len(second.ownership.owned) == 2, "the hand-over", timeout_s=5)
            await bench.publish(turn, events[3:])
            await wait_until(lambda: bench.ended(turn), "the end of the turn")
    assert await bench.frames(turn) == undisturbed
    await bench.close()


async def test_a_process_tells_of_each_partition_that_it_serves_it(bench: Bench) -> None:
    told: set[object] = set()
    async with bench.client.pubsub() as listener:
        await listener.subscribe(KEYS.freed("fold"))
        await listener.get_message(timeout=5)
        async with process(bench):

            async def both_are_told() -> bool:
                message = await listener.get_message(ignore_subscribe_messages=True, timeout=0.1)
                told.add(read_notice(message["data"]) if message else None)
                return told >= {(Notice.SERVED, 0), (Notice.SERVED, 1)}

            await wait_until(both_are_told, "both partitions")


async def test_a_server_restart_ends_no_turn() -> None:
    with Server(aof=True) as server:
        bench = Bench(server.url, config_of(server.url))
        turn, events = turn_id(1), story(turn_id(1), PIECES)
        await bench.open(turn)
        async with process(bench):
            await bench.publish(turn, events[:3])
            await wait_until(lambda: has_frames(bench, turn), "the first frames")
            before = await bench.frames(turn)
            server.kill()
            server.start()
            await bench.publish(turn, events[3:])
            await wait_until(lambda: bench.ended(turn), "the end of the turn", timeout_s=15)
        assert (await bench.record(turn)).state is TurnState.COMPLETED
        assert (await bench.frames(turn)).startswith(before)
        await bench.close()


async def test_a_server_that_was_emptied_heals_for_new_turns_without_a_restart(bench: Bench) -> None:
    lost, new = turn_id(1), turn_id(2)
    await bench.open(lost)
    async with process(bench) as (worker, _):
        await wait_until(lambda: len(worker.ownership.owned) == 2, "both partitions")
        await bench.publish(lost, story(lost, PIECES)[:3])
        await wait_until(lambda: has_frames(bench, lost), "the first frames")
        await bench.client.execute_command("FLUSHALL")
        await bench.open(new)
        await bench.publish(new, story(new, PIECES))
        await wait_until(lambda: bench.ended(new), "the new turn")
    assert (await bench.record(new)).state is TurnState.COMPLETED


async def test_a_process_answers_on_its_operations_port(redis_url: str) -> None:
    config = msgspec.structs.replace(
        config_of(redis_url), service=msgspec.structs.replace(config_of(redis_url).service, port=0)
    )
    bench = Bench(redis_url, config)
    async with process(bench) as (worker, _):
        (server,) = operations_port(config.service, worker.ownership)
        assert isinstance(server, HealthServer)
        await wait_until(lambda: worker.ownership.is_connected, "the server")
        await server.start()
        async with aiohttp.request("GET", f"http://127.0.0.1:{server.port}/readyz") as answer:
            assert answer.status == 200
        await server.stop()
    await bench.close()
