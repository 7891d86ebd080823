"""Publishing against a real server whose replies get lost, that loses its tail, and whose readers are slow."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ledger.turns import Claimed, ClaimStatus, RenewReply
from pipeline.events import TurnCompleted, TurnFailed
from tests.support.upstream import Upstream, raw, text
from tests.support.waiting import wait_until
from tests.workers.ingest.rig import Rig, UnreliableScripts, config_for, text_of
from workers.ingest.bounds import LagGate, Room
from workers.ingest.publisher import Bench, Publisher, Verdict
from workers.ingest.runner import Outside, Runner
from workers.ingest.sources.http_stream import open_session
from workers.runtime.clock import SystemClock
from workers.streams.guard import Guard

WORDS = "All happy streams are alike; each unhappy stream is unhappy in its own way."


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream() as server:
        yield server


class Stage:
    """One turn on the stage: its claim, its runner, and the wires to pull."""

    def __init__(self, rig: Rig, scripts: UnreliableScripts, runner: Runner, bench: Bench, gate: LagGate) -> None:
        self.rig = rig
        self.scripts = scripts
        self.runner = runner
        self.bench = bench
        self.gate = gate
        self.turn = runner.turn
        self.holds_ms = 1_000


@asynccontextmanager
async def staged(redis_url: str, upstream: Upstream, **changes: Any) -> AsyncIterator[Stage]:
    config = config_for(redis_url, upstream.base_url, **changes)
    async with Rig(config) as rig, open_session() as session:
        await rig.submit()
        claimed: Claimed = await rig.claim(lease_ms=60_000)
        scripts = UnreliableScripts(rig.client)
        clock = SystemClock()
        bench = Bench(
            config=config.ingest,
            scripts=scripts,
            keys=rig.keys,
            guard=Guard(clock, config.ingest.lease_ms),
            clock=clock,
            room=Room(total_bytes=config.ingest.buffer_bytes, turn_bytes=config.ingest.turn_buffer_bytes),
        )
        gate = LagGate(high=config.ingest.lag_high, low=config.ingest.lag_low)
        outside = Outside(upstreams=config.upstreams, session=session, environ=os.environ)
        runner = Runner(bench, outside, claimed, gate, holds=lambda: stage.holds_ms)
        stage = Stage(rig, scripts, runner, bench, gate)
        yield stage
        assert bench.room.used == 0, "bytes are counted that nobody holds"


async def test_lost_replies_make_no_duplicate_and_no_hole(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS, pieces=30))
    async with staged(redis_url, upstream, batch_max_events=3) as stage:
        stage.scripts.lose["publish"] = 7
        assert await stage.runner.run() is Verdict.DONE
        assert stage.scripts.lost == 7
        assert isinstance(await stage.rig.ended(stage.turn), TurnCompleted)
        assert text_of(await stage.rig.events(stage.turn)) == WORDS


async def test_what_gathers_while_a_publish_is_in_flight_goes_in_the_next(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS, pieces=30))
    async with staged(redis_url, upstream) as stage:
        running = asyncio.create_task(stage.runner.run())
        await stage.rig.published(stage.turn, 1)
        stage.scripts.hold = asyncio.Event()
        await wait_until(lambda: stage.runner.publisher.batcher.has_terminal, "the whole answer to be read")
        stage.scripts.hold.set()
        await running
        events = await stage.rig.events(stage.turn)
        assert len(await stage.rig.client.lrange(stage.rig.keys.entries(stage.turn), 0, -1)) <= 3 < len(events)


async def test_a_server_that_lost_its_tail_gets_it_again(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS, pieces=12))
    upstream.pause_before(6)
    async with staged(redis_url, upstream) as stage:
        running = asyncio.create_task(stage.runner.run())
        await stage.rig.published(stage.turn, 6)
        saved = await stage.rig.saved()
        upstream.release(11)
        await stage.rig.published(stage.turn, 11)
        await stage.rig.restore(saved)
        upstream.release()
        assert await running is Verdict.DONE
        assert isinstance(await stage.rig.ended(stage.turn), TurnCompleted)
        assert text_of(await stage.rig.events(stage.turn)) == WORDS


async def test_a_tail_that_nobody_keeps_any_more_ends_the_turn_by_name(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS, pieces=12))
    upstream.pause_before(6)
    async with staged(redis_url, upstream, producer_keep_ms=0, turn_buffer_bytes=1) as stage:
        running = asyncio.create_task(stage.runner.run())
        await stage.rig.published(stage.turn, 6)
        saved = await stage.rig.saved()
        upstream.release(11)
        await stage.rig.published(stage.turn, 11)
        await stage.rig.restore(saved)
        upstream.release()
        assert await running is Verdict.DONE
        last = await stage.rig.ended(stage.turn)
        assert isinstance(last, TurnFailed)
        assert last.error.code == "log_rolled_back"


async def test_a_last_word_that_the_server_lost_is_said_again(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS, pieces=12))
    upstream.pause_before(6)
    async with staged(redis_url, upstream) as stage:
        running = asyncio.create_task(stage.runner.run())
        await stage.rig.published(stage.turn, 6)
        saved = await stage.rig.saved()
        upstream.release()
        await running
        publisher: Publisher = stage.runner.publisher
        assert await publisher.resend_kept() is Verdict.DONE
        await stage.rig.restore(saved)
        assert (await stage.rig.record(stage.turn)).ended == ""
        assert await publisher.resend_kept() is Verdict.DONE
        publisher.abandon()
        assert isinstance(await stage.rig.ended(stage.turn), TurnCompleted)
        assert text_of(await stage.rig.events(stage.turn)) == WORDS


async def test_an_emptied_server_ends_the_publishing_of_its_turns(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS, pieces=12))
    upstream.pause_before(6)
    async with staged(redis_url, upstream) as stage:
        running = asyncio.create_task(stage.runner.run())
        await upstream.reached(6)
        await stage.rig.published(stage.turn, 2)
        await stage.rig.client.flushdb()
        upstream.release(7)
        assert await running is Verdict.UNKNOWN_TURN
        await upstream.left()


async def test_a_second_terminal_is_refused_and_the_upstream_closed(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS, pieces=12))
    upstream.pause_before(6)
    async with staged(redis_url, upstream) as stage:
        running = asyncio.create_task(stage.runner.run())
        await upstream.reached(6)
        await stage.rig.published(stage.turn, 2)
        await stage.rig.client.hset(stage.rig.keys.turn(stage.turn), "ended", "turn_failed")
        upstream.release(7)
        assert await running is Verdict.ENDED
        await upstream.left()


async def test_a_full_turn_stops_reading_its_upstream_and_loses_nothing(redis_url: str, upstream: Upstream) -> None:
    piece = (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"m","output_index":0,'
    )
    piece += b'"content_index":0,"delta":"' + b"x" * 60_000 + b'"}\n\n'
    upstream.then(raw(*([piece] * 250)))  # more than the sockets' buffers hold
    async with staged(redis_url, upstream, turn_buffer_bytes=200_000, read_timeout_ms=300) as stage:
        stage.scripts.hold = asyncio.Event()
        stage.scripts.hold.set()
        running = asyncio.create_task(stage.runner.run())
        await stage.rig.published(stage.turn, 1)
        stage.scripts.hold.clear()
        publisher = stage.runner.publisher
        await wait_until(lambda: publisher.waiting_bytes >= 200_000, "the turn's bound to be full")
        clock = asyncio.get_running_loop()
        silent_until = clock.time() + 0.6
        await wait_until(lambda: clock.time() > silent_until, "two read time-outs with a full bound")
        assert not upstream.received[0].finished
        assert publisher.waiting_bytes < 600_000
        assert not running.done()
        stage.scripts.hold.set()
        assert await running is Verdict.DONE
        assert len(text_of(await stage.rig.events(stage.turn))) == 250 * 60_000


async def test_a_lagging_partition_stops_the_reading_until_it_is_folded(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS, pieces=40))
    upstream.pause_before(12)
    async with staged(redis_url, upstream, lag_high=10, lag_low=5) as stage:
        running = asyncio.create_task(stage.runner.run())
        await wait_until(lambda: stage.gate.closed, "the gate to close")
        upstream.release()
        await wait_until(lambda: upstream.received[0].finished, "the upstream to have written everything")
        published = (await stage.rig.record(stage.turn)).next["ingest"]
        assert published < 20
        assert not running.done()
        committed = stage.rig.keys.committed(0)
        await stage.rig.client.hset(committed, "folded", await stage.rig.client.hget(committed, "published"))
        stage.gate.update(0)
        assert await running is Verdict.DONE
        assert text_of(await stage.rig.events(stage.turn)) == WORDS


async def test_a_process_that_slept_asks_nothing_of_an_upstream_until_its_claim_is_renewed(
    redis_url: str, upstream: Upstream
) -> None:
    upstream.then(text(WORDS))
    async with staged(redis_url, upstream) as stage:
        stage.holds_ms = 0
        running = asyncio.create_task(stage.runner.run())
        await stage.rig.published(stage.turn, 1)
        stage.runner.on_renewed(RenewReply(status=ClaimStatus.OK, cancel=False))
        await stage.rig.published(stage.turn, 1)
        assert upstream.received == []
        stage.holds_ms = 1_000
        stage.runner.on_renewed(RenewReply(status=ClaimStatus.OK, cancel=False))
        assert await running is Verdict.DONE


async def test_a_process_that_slept_and_was_replaced_never_asks(redis_url: str, upstream: Upstream) -> None:
    async with staged(redis_url, upstream) as stage:
        stage.holds_ms = 0
        running = asyncio.create_task(stage.runner.run())
        await stage.rig.published(stage.turn, 1)
        stage.runner.lose()
        assert await running is Verdict.STALE
        assert upstream.received == []
