from collections.abc import AsyncIterator

import msgspec
import pytest

from ledger.log import read_positions
from ledger.records import TurnState
from tests.support.waiting import wait_until
from tests.workers.fold_bench import (
    KEYS,
    PARTITION,
    PIECES,
    Bench,
    Killed,
    Owner,
    broken_off,
    config_of,
    has_frames,
    is_dead,
    is_serving,
    owner_of,
    run_whole,
    story,
    turn_id,
)
from workers.fold import hints
from workers.runtime import failpoints
from workers.streams.serving import PartitionGoneError

STEPS = ["after_raise", "after_rebuild", "after_adopt", "after_take", "before_commit", "after_commit", "after_hint"]


@pytest.fixture
async def bench(redis_url: str) -> AsyncIterator[Bench]:
    made = Bench(redis_url, config_of(redis_url))
    yield made
    await made.close()


# the way of an undisturbed turn


async def test_a_turns_events_become_numbered_frames_blocks_and_a_terminal_record(bench: Bench) -> None:
    turn = turn_id(1)
    frames = await run_whole(bench, turn, story(turn, PIECES))

    record = await bench.record(turn)
    assert record.state is TurnState.COMPLETED
    assert record.frames_next == frames.count("event: ")
    assert record.blocks_next >= 1
    assert msgspec.json.decode(record.usage) == {"total_tokens": 3}
    assert record.digest
    assert "event: response.completed" in frames
    blocks = await bench.client.execute_command("XRANGE", KEYS.blocks(PARTITION), "-", "+")
    assert len(blocks) == record.blocks_next
    positions = await bench.scripts.run(read_positions(KEYS, PARTITION))
    assert positions.lag == 0
    assert await bench.client.execute_command("XPENDING", KEYS.log(PARTITION), "fold") in ([0, None, None, None], {"pending": 0, "min": None, "max": None, "consumers": []})  # fmt: skip


async def test_frames_do_not_depend_on_how_events_are_batched(bench: Bench) -> None:
    turn, events = turn_id(1), story(turn_id(1), PIECES)
    one_by_one = await run_whole(bench, turn, events)
    await bench.client.execute_command("FLUSHALL")
    await bench.open(turn)
    await bench.publish(turn, events)
    async with owner_of(bench):
        await wait_until(lambda: bench.ended(turn), "the end of the turn")
    assert await bench.frames(turn) == one_by_one


async def test_a_failed_turn_keeps_what_it_produced(bench: Bench) -> None:
    turn = turn_id(1)
    frames = await run_whole(bench, turn, broken_off(turn, "half an answer"))
    record = await bench.record(turn)
    assert record.state is TurnState.FAILED
    assert msgspec.json.decode(record.error)["code"] == "upstream_error"
    assert "half an answer" in frames
    assert "event: response.failed" in frames


async def test_many_turns_of_a_partition_are_committed_together_and_apart(bench: Bench) -> None:
    turns = [turn_id(number) for number in range(1, 6)]
    for turn in turns:
        await bench.open(turn)
    for step in range(len(PIECES) + 3):
        for turn in turns:
            await bench.publish(turn, [story(turn, PIECES)[step]])
    async with owner_of(bench):
        for turn in turns:
            await wait_until(lambda turn=turn: bench.ended(turn), "the end of the turns")
    texts = {(await bench.frames(turn)).replace(turn, "T") for turn in turns}
    assert len(texts) == 1


async def test_small_bounds_make_many_commits_and_the_same_frames(bench: Bench, redis_url: str) -> None:
    turn, events = turn_id(1), story(turn_id(1), PIECES)
    whole = await run_whole(bench, turn, events)
    await bench.client.execute_command("FLUSHALL")
    bench.config = config_of(redis_url, commit_max_bytes=1, take_count=2)
    assert await run_whole(bench, turn, events) == whole


async def test_a_hint_tells_of_every_commit_with_frames(bench: Bench) -> None:
    turn = turn_id(1)
    pubsub = bench.client.pubsub()
    await pubsub.subscribe(KEYS.hint(PARTITION))
    frames = await run_whole(bench, turn, story(turn, PIECES))
    told, hint = "", {}
    while told != frames:
        message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=2)
        if message is None:  # the confirmation of the subscription
            continue
        hint = msgspec.json.decode(message["data"])
        assert hint["turn"] == turn
        assert hint["n"] == hint["sse"].count("event: ")
        told += hint["sse"]
    assert hint["ended"] is True
    await pubsub.aclose()  # type: ignore[no-untyped-call]  # the client carries no type here


@pytest.mark.parametrize("together_bytes", [1, 256 * 1024])
async def test_hints_of_turns_that_are_committed_together_all_come_and_each_turns_in_order(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, together_bytes: int
) -> None:
    monkeypatch.setattr(hints, "TOGETHER_BYTES", together_bytes)
    turns = [turn_id(number) for number in range(1, 9)]
    for turn in turns:
        await bench.open(turn)
        await bench.publish(turn, story(turn, PIECES))
    told = dict.fromkeys(turns, "")
    async with bench.client.pubsub() as pubsub:
        await pubsub.subscribe(KEYS.hint(PARTITION))
        async with owner_of(bench):

            async def all_is_told() -> bool:
                message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=0.1)
                if message is not None:
                    hint = msgspec.json.decode(message["data"])
                    told[hint["turn"]] += hint["sse"]
                return told == {turn: await bench.frames(turn) for turn in turns} and all(told.values())

            await wait_until(all_is_told, "every hint")


# owners that die


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("step", STEPS)
async def test_another_owner_goes_on_byte_for_byte_wherever_the_first_was_killed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, step: str, nth: int
) -> None:
    turn, events = turn_id(1), story(turn_id(1), PIECES)
    undisturbed = await run_whole(bench, turn, events)
    await bench.client.execute_command("FLUSHALL")

    hits: list[str] = []

    def hit(name: str) -> None:
        if name == f"fold.{step}":
            hits.append(name)
            if len(hits) == nth:
                raise Killed

    monkeypatch.setattr(failpoints, "hit", hit)
    await bench.open(turn)
    owner = await Owner(bench).start()
    try:
        for event in events:
            await bench.publish(turn, [event])
            await _folded_or_dead(bench, owner)
            if is_dead(owner):
                await owner.kill()
                owner = await Owner(bench).start()
        if not hits or len(hits) < nth:  # reached once for each owner: another take-over reaches it again
            await owner.kill()
            owner = await Owner(bench).start()
            await wait_until(lambda: is_dead(owner) or is_serving(owner), "the second take-over")
        if is_dead(owner):
            await owner.kill()
            owner = await Owner(bench).start()
        await wait_until(lambda: bench.ended(turn), "the end of the turn")
    finally:
        await owner.kill()
    assert len(hits) >= nth, "the point was never reached"
    assert await bench.frames(turn) == undisturbed


async def _folded_or_dead(bench: Bench, owner: Owner) -> None:
    async def settled() -> bool:
        return is_dead(owner) or (await bench.scripts.run(read_positions(KEYS, PARTITION))).lag == 0

    await wait_until(settled, "the fold to catch up or die")


async def test_a_stale_owner_is_refused_and_changes_nothing(bench: Bench) -> None:
    turn, events = turn_id(1), story(turn_id(1), PIECES)
    undisturbed = await run_whole(bench, turn, events)
    await bench.client.execute_command("FLUSHALL")
    await bench.open(turn)
    async with owner_of(bench) as first:
        await bench.publish(turn, events[:3])
        await wait_until(lambda: has_frames(bench, turn), "the first frames")
        assert first.partition is not None
        async with owner_of(bench) as second:
            await wait_until(lambda: is_serving(second), "the second owner")
            first.partition.ring()
            await bench.publish(turn, events[3:])
            assert first.task is not None
            with pytest.raises(PartitionGoneError):
                await first.task
            await wait_until(lambda: bench.ended(turn), "the end of the turn")
    assert await bench.frames(turn) == undisturbed
