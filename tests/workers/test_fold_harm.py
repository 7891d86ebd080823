from collections.abc import AsyncIterator

import msgspec
import pytest

from ledger.log import entries_of, publish, read_block, read_entries
from ledger.records import TurnState
from tests.support.waiting import wait_until
from tests.workers.fold_bench import (
    KEYS,
    PARTITION,
    PIECES,
    Bench,
    Killed,
    Owner,
    config_of,
    has_frames,
    is_dead,
    owner_of,
    poison,
    story,
    turn_id,
)
from workers.commands.refold import fold


@pytest.fixture
async def bench(redis_url: str) -> AsyncIterator[Bench]:
    made = Bench(redis_url, config_of(redis_url))
    yield made
    await made.close()


# turns that harm


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
    block = await bench.scripts.run(read_block(KEYS, bad, 0))
    assert block is not None
    assert block.text == PIECES[0].rstrip()
    assert "fold_error" in msgspec.json.decode(block.markers)["note"]
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
        await wait_until(lambda: has_frames(bench, good), "the first frames")
    await bench.publish(bad, story(bad, PIECES)[2:])
    await bench.publish(good, story(good, PIECES)[2:])
    deaths = 0
    while not await bench.ended(good):
        async with owner_of(bench) as owner:

            async def over(owner: Owner = owner) -> bool:
                return is_dead(owner) or await bench.ended(good)

            await wait_until(over, "a death or the end")
            deaths += is_dead(owner)
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
        await wait_until(lambda: has_frames(bench, good), "the first frames")
    armed[0] = True
    await bench.publish(good, story(good, PIECES)[3:])
    deaths = 0
    while not await bench.ended(good):
        async with owner_of(bench) as owner:

            async def over(owner: Owner = owner) -> bool:
                return is_dead(owner) or await bench.ended(good)

            await wait_until(over, "a death or the end")
            deaths += is_dead(owner)
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
        await wait_until(lambda: has_frames(bench, turn), "the first frames")
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
    record = await bench.record(turn)
    last = await bench.scripts.run(read_block(KEYS, turn, record.blocks_next - 1))
    assert last is not None
    assert (last.text, code in last.markers) == ("".join(PIECES[:2]).rstrip(), True)
    assert msgspec.json.decode((await bench.record(turn)).error)["code"] == code


async def test_a_turn_that_could_not_be_folded_to_its_end_folds_again_to_the_same(bench: Bench) -> None:
    turn = turn_id(1)
    await bench.open(turn)
    await bench.publish(turn, story(turn, PIECES)[:3])
    call = publish(
        KEYS, turn, token=bench.tokens[turn], producer="ingest", first_seq=3, events_json='["no event"]', n=1
    )
    await bench.scripts.run(call)
    async with owner_of(bench):
        await wait_until(lambda: bench.ended(turn), "the end of the turn")
    record = await bench.record(turn)
    assert msgspec.json.decode(record.error)["code"] == "fold_error"
    ids = await bench.scripts.run(entries_of(KEYS, turn))
    folded = fold(record, await bench.scripts.run(read_entries(KEYS, PARTITION, ids)))
    assert folded.sse == await bench.frames(turn)
    assert (folded.live.digest, folded.live.blocks_next) == (record.digest, record.blocks_next)
    assert "".join(block.text + block.separator for block in folded.blocks) == "".join(PIECES[:2])
