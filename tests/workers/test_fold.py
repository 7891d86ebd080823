import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from ledger.log import append_if_tail, read_positions
from ledger.records import TurnState
from ledger.turns import request_cancel
from pipeline.codec import encode_batch
from pipeline.events import Event, Status, TextDelta
from pipeline.output import Output
from pipeline.turn import Turn
from tests.support.servers import Server
from tests.support.waiting import wait_until
from tests.workers.fold_bench import KEYS, PARTITION, Bench, Owner, broken_off, config_of, story, turn_id
from workers.fold.partition import PartitionGoneError
from workers.fold.upkeep import Upkeep
from workers.fold.worker import FoldWorker
from workers.runtime import failpoints

PIECES = ["Hello, ", "world.\n\n", "A second paragraph ", "with **text**.\n\n", "And the end."]
STEPS = ["after_raise", "after_rebuild", "after_adopt", "after_take", "before_commit", "after_commit", "after_hint"]


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.fixture
async def bench(redis_url: str) -> AsyncIterator[Bench]:
    made = Bench(redis_url, config_of(redis_url))
    yield made
    await made.close()


@contextlib.asynccontextmanager
async def owner_of(bench: Bench) -> AsyncIterator[Owner]:
    owner = await Owner(bench).start()
    try:
        yield owner
    finally:
        await owner.kill()


async def run_whole(bench: Bench, turn: str, events: list[Event]) -> str:
    """Publish event by event under one owner, undisturbed; the frames."""
    await bench.open(turn)
    async with owner_of(bench):
        for event in events:
            await bench.publish(turn, [event])
        await wait_until(lambda: bench.ended(turn), "the end of the turn")
    return await bench.frames(turn)


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
            if _is_dead(owner):
                await owner.kill()
                owner = await Owner(bench).start()
        if not hits or len(hits) < nth:  # reached once for each owner: another take-over reaches it again
            await owner.kill()
            owner = await Owner(bench).start()
            await wait_until(lambda: _is_dead(owner) or _is_serving(owner), "the second take-over")
        if _is_dead(owner):
            await owner.kill()
            owner = await Owner(bench).start()
        await wait_until(lambda: bench.ended(turn), "the end of the turn")
    finally:
        await owner.kill()
    assert len(hits) >= nth, "the point was never reached"
    assert await bench.frames(turn) == undisturbed


def _is_dead(owner: Owner) -> bool:
    assert owner.task is not None
    assert owner.partition is not None
    hints = owner.partition._hints._task
    return owner.task.done() or (hints is not None and hints.done())


def _is_serving(owner: Owner) -> bool:
    return owner.partition is not None and owner.partition.is_serving


async def _folded_or_dead(bench: Bench, owner: Owner) -> None:
    async def settled() -> bool:
        return _is_dead(owner) or (await bench.scripts.run(read_positions(KEYS, PARTITION))).lag == 0

    await wait_until(settled, "the fold to catch up or die")


async def test_a_stale_owner_is_refused_and_changes_nothing(bench: Bench) -> None:
    turn, events = turn_id(1), story(turn_id(1), PIECES)
    undisturbed = await run_whole(bench, turn, events)
    await bench.client.execute_command("FLUSHALL")
    await bench.open(turn)
    async with owner_of(bench) as first:
        await bench.publish(turn, events[:3])
        await wait_until(lambda: _has_frames(bench, turn), "the first frames")
        assert first.partition is not None
        async with owner_of(bench) as second:
            await wait_until(lambda: _is_serving(second), "the second owner")
            first.partition.ring()
            await bench.publish(turn, events[3:])
            assert first.task is not None
            with pytest.raises(PartitionGoneError):
                await first.task
            await wait_until(lambda: bench.ended(turn), "the end of the turn")
    assert await bench.frames(turn) == undisturbed


async def _has_frames(bench: Bench, turn: str) -> bool:
    return (await bench.record(turn)).frames_next > 0


# turns that harm


def poison(monkeypatch: pytest.MonkeyPatch, turn: str, error: Callable[[], BaseException], text: str) -> list[bool]:
    """Make the core raise for one turn's delta with this text, while the returned list holds True."""
    push, armed = Turn.push, [True]

    def poisoned(self: Turn, event: Event) -> Output:
        if armed[0] and isinstance(event, TextDelta) and event.text == text and _turn_of(self) == turn:
            raise error()
        return push(self, event)

    names: dict[int, str] = {}
    init = Turn.__init__

    def remember(self: Turn, name: str, **options: object) -> None:
        names[id(self)] = name
        init(self, name, **options)  # type: ignore[arg-type]  # the options are passed on as they came

    def _turn_of(machine: Turn) -> str:
        return names[id(machine)]

    monkeypatch.setattr(Turn, "__init__", remember)
    monkeypatch.setattr(Turn, "push", poisoned)
    return armed


async def test_an_exception_while_folding_fails_that_turn_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = turn_id(1), turn_id(2)
    poison(monkeypatch, bad, lambda: ValueError("a defect of ours"), "world.\n\n")
    for turn in (bad, good):
        await bench.open(turn)
    async with owner_of(bench):
        for step, event in enumerate(story(good, PIECES)):
            if step < 3:
                await bench.publish(bad, [story(bad, PIECES)[step]])
            await bench.publish(good, [event])
        await wait_until(lambda: bench.ended(good), "the good turn")
        await wait_until(lambda: bench.ended(bad), "the bad turn")
    record = await bench.record(bad)
    assert record.state is TurnState.FAILED
    assert msgspec.json.decode(record.error)["code"] == "fold_error"
    assert record.quarantined
    assert "fold_error" in await bench.frames(bad)
    assert (await bench.record(good)).state is TurnState.COMPLETED


async def test_a_malformed_event_in_the_log_fails_its_turn(bench: Bench) -> None:
    turn = turn_id(1)
    await bench.open(turn)
    await bench.client.execute_command(
        "XADD",
        KEYS.log(PARTITION),
        "*",
        "turn",
        turn,
        "producer",
        "ingest",
        "seq",
        "0",
        "n",
        "1",
        "events",
        '[{"type":"x"}]',
    )
    async with owner_of(bench):
        await wait_until(lambda: bench.ended(turn), "the end of the turn")
    frames = await bench.frames(turn)
    assert frames.startswith("event: response.created")
    assert "event: response.failed" in frames


async def test_a_turn_that_kills_its_owners_is_set_aside_and_the_partition_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = turn_id(1), turn_id(2)
    poison(monkeypatch, bad, Killed, "world.\n\n")
    for turn in (bad, good):
        await bench.open(turn)
        await bench.publish(turn, story(turn, PIECES)[:2])
    async with owner_of(bench):
        await wait_until(lambda: _has_frames(bench, good), "the first frames")
    await bench.publish(bad, story(bad, PIECES)[2:])
    await bench.publish(good, story(good, PIECES)[2:])
    deaths = 0
    while not await bench.ended(good):
        async with owner_of(bench) as owner:

            async def over(owner: Owner = owner) -> bool:
                return _is_dead(owner) or await bench.ended(good)

            await wait_until(over, "a death or the end")
            deaths += _is_dead(owner)
        assert deaths < 10
    assert deaths >= 3
    record = await bench.record(bad)
    assert record.state is TurnState.FAILED
    assert msgspec.json.decode(record.error)["code"] == "fold_quarantined"
    assert (await bench.record(good)).state is TurnState.COMPLETED


async def test_a_turn_that_kills_its_owners_while_it_is_rebuilt_is_set_aside_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = turn_id(1), turn_id(2)
    armed = poison(monkeypatch, bad, Killed, "world.\n\n")
    armed[0] = False
    for turn in (bad, good):
        await bench.open(turn)
        await bench.publish(turn, story(turn, PIECES)[:3])
    async with owner_of(bench):
        await wait_until(lambda: _has_frames(bench, good), "the first frames")
    armed[0] = True
    await bench.publish(good, story(good, PIECES)[3:])
    deaths = 0
    while not await bench.ended(good):
        async with owner_of(bench) as owner:

            async def over(owner: Owner = owner) -> bool:
                return _is_dead(owner) or await bench.ended(good)

            await wait_until(over, "a death or the end")
            deaths += _is_dead(owner)
        assert deaths < 10
    assert msgspec.json.decode((await bench.record(bad)).error)["code"] == "fold_quarantined"
    assert "world" in await bench.frames(bad)


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [("digest", "00" * 32, "fold_diverged"), ("fold_version", "99", "fold_diverged"), ("", "", "log_trimmed")],
)
async def test_a_turn_that_cannot_be_rebuilt_as_it_was_is_failed_by_name_and_not_spliced(
    bench: Bench, field: str, value: str, code: str
) -> None:
    turn, events = turn_id(1), story(turn_id(1), PIECES)
    await bench.open(turn)
    await bench.publish(turn, events[:3])
    async with owner_of(bench):
        await wait_until(lambda: _has_frames(bench, turn), "the first frames")
    before = await bench.frames(turn)
    if field:
        await bench.client.execute_command("HSET", KEYS.turn(turn), field, value)
    else:
        await bench.client.execute_command("XTRIM", KEYS.log(PARTITION), "MAXLEN", 0)
    async with owner_of(bench):
        await wait_until(lambda: bench.ended(turn), "the end of the turn")
    frames = await bench.frames(turn)
    assert frames.startswith(before)
    assert frames.removeprefix(before).count("event: ") == 1
    assert code in frames.removeprefix(before)
    assert msgspec.json.decode((await bench.record(turn)).error)["code"] == code


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
        await wait_until(lambda: _has_frames(bench, turn), "the first frames")
        async with process(bench) as (second, _):
            stop.set()
            await wait_until(lambda: len(second.ownership.owned) == 2, "the hand-over", timeout_s=5)
            await bench.publish(turn, events[3:])
            await wait_until(lambda: bench.ended(turn), "the end of the turn")
    assert await bench.frames(turn) == undisturbed
    await bench.close()


async def test_a_server_restart_ends_no_turn() -> None:
    with Server(aof=True) as server:
        bench = Bench(server.url, config_of(server.url))
        turn, events = turn_id(1), story(turn_id(1), PIECES)
        await bench.open(turn)
        async with process(bench):
            await bench.publish(turn, events[:3])
            await wait_until(lambda: _has_frames(bench, turn), "the first frames")
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
        await wait_until(lambda: _has_frames(bench, lost), "the first frames")
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
        (server,) = worker._health()
        assert worker.context.config.service.port == 0
        await wait_until(lambda: worker.ownership.is_connected, "the server")
        await server.start()
        await server.stop()
    await bench.close()
