"""Turns that wait because of us: a partition that nobody folds is waited for, loses nothing, ends nobody and stops nobody else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from ledger.keys import Keyspace
from ledger.log import read_frames
from ledger.ownership import Raised, raise_owner, release_owner
from ledger.records import TurnState
from ledger.turns import check_deadline
from pipeline.events import TurnCompleted
from tests.support.upstream import Upstream, text
from tests.support.waiting import wait_until
from tests.workers.ingest.rig import Rig, config_for, text_of
from workers.config import FoldConfig
from workers.fold.worker import FoldWorker

WORDS = "Once upon a time there was a stream, and nobody folded it."
LONG = "word " * 3_000
"""In short pieces it is more than may be read before the first publish is answered, which closes the gate."""
BOUNDS = {"lag_high": 10, "lag_low": 5, "turn_buffer_bytes": 65_536}
STALLED, OTHER = 0, 1
SILENCE_MS = 1_000


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream() as server:
        yield server


async def own(rig: Rig, partition: int) -> str:
    """Own a partition's fold and fold nothing; return the token."""
    call = raise_owner(rig.keys, role="fold", partition=partition, worker="idle", nonce="n", lease_ms=600_000)
    raised = await rig.scripts.run(call)
    assert isinstance(raised, Raised)
    return raised.token


@asynccontextmanager
async def folding(rig: Rig) -> AsyncIterator[None]:
    """A fold process that takes every partition that is free."""
    config = msgspec.structs.replace(rig.config, fold=FoldConfig(lease_ms=900, renew_ms=100))
    stop = asyncio.Event()
    task = asyncio.create_task(FoldWorker(config).run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def test_a_turn_that_its_partition_holds_back_is_neither_silent_nor_stalled(
    redis_url: str, upstream: Upstream
) -> None:
    upstream.then(text(LONG, pieces=1_500))
    config = config_for(redis_url, upstream.base_url, read_timeout_ms=SILENCE_MS, **BOUNDS)
    async with Rig(config) as rig:
        token = await own(rig, STALLED)
        turn = await rig.submit()
        key, committed = rig.keys.turn(turn), rig.keys.committed(STALLED)
        await rig.client.hset(key, "silence_ms", SILENCE_MS)
        rig.start()

        async def held_for_longer() -> bool:
            waited, heard = await rig.client.hmget(key, "waited_at", "last_event_at")
            return int(waited or 0) - int(heard or 0) > 2 * SILENCE_MS

        await wait_until(held_for_longer, "the turn to have been held back for longer than it may be silent", 40)
        assert len(await rig.events(turn)) < 1_500
        # everything that came is folded now, as far as this turn goes: what holds it back is the lag of others
        await rig.client.hset(committed, "log", (await rig.record(turn)).tail)
        assert await rig.scripts.run(check_deadline(rig.keys, turn, token=token)) is None
        await rig.client.hset(committed, "folded", 1_000_000)
        assert isinstance(await rig.ended(turn), TurnCompleted)
        assert text_of(await rig.events(turn)) == LONG


async def test_a_partition_that_nobody_folds_leaves_its_places_to_the_others(
    redis_url: str, upstream: Upstream
) -> None:
    upstream.then(*(text(LONG, pieces=1_500) for _ in range(2)), *(text(WORDS, pieces=30) for _ in range(4)))
    config = config_for(redis_url, upstream.base_url, max_turns=2, **BOUNDS)
    async with Rig(config) as rig:
        token = await own(rig, STALLED)
        stalled = [await rig.submit(number=number) for number in range(1, 4)]
        rig.start()
        async with folding(rig):
            await upstream.asked(2)
            others = [await rig.submit(number=number, partition=OTHER) for number in range(1, 4)]
            for turn in others:
                await folded(rig, turn)
            assert all([not (await rig.record(turn)).ended for turn in stalled])
            await rig.scripts.run(release_owner(rig.keys, role="fold", partition=STALLED, token=token))
            for turn in stalled:
                await folded(rig, turn)
            assert sorted([text_of(await rig.events(turn)) for turn in stalled]) == [WORDS, LONG, LONG]


async def folded(rig: Rig, turn: str) -> None:
    """Wait until the turn is completed and its public stream holds all of its words."""

    async def completed() -> bool:
        return (await rig.record(turn)).state is TurnState.COMPLETED

    await wait_until(completed, f"{turn} to be completed", 20)
    keys: Keyspace = rig.keys
    frames = "".join(entry.sse for entry in await rig.scripts.run(read_frames(keys, turn, after=-1)))
    assert WORDS in frames or LONG in frames
