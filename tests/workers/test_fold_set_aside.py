"""Turns that their owners were lost at: ended by name with what they held, the same wherever the owner that ends them is lost too."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from ledger.log import entries_of, publish, read_block, read_entries
from ledger.records import BlockRecord, TurnState
from ledger.retention import SuspectStatus, suspect
from pipeline.events import Event, TextDelta, ToolFinished
from pipeline.output import Output
from pipeline.turn import Turn
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
from tests.workers.test_fold_children import CHILD, PARENT, caught_up, told
from workers.commands.refold import DIFFERENT, SAME, Refolded, compare, fold
from workers.fold.partition import CAREFUL_FROM
from workers.runtime import failpoints

TURN = turn_id(1)
FED = PIECES[:2]
"""What was folded and committed before the entry at which owners are lost; all of it is held."""


@pytest.fixture
async def bench(redis_url: str) -> AsyncIterator[Bench]:
    made = Bench(redis_url, config_of(redis_url))
    yield made
    await made.close()


@dataclass(frozen=True)
class End:
    """All that came of a turn."""

    code: str
    frames: str
    blocks: list[BlockRecord]
    digest: str

    @property
    def text(self) -> str:
        return "".join(block.text + block.separator for block in self.blocks)


async def end_of(bench: Bench, turn: str = TURN) -> End:
    record = await bench.record(turn)
    blocks = [await bench.scripts.run(read_block(KEYS, turn, number)) for number in range(record.blocks_next)]
    return End(
        code=msgspec.json.decode(record.error)["code"],
        frames=await bench.frames(turn),
        blocks=[block for block in blocks if block is not None],
        digest=record.digest,
    )


async def refolded(bench: Bench, turn: str = TURN) -> Refolded:
    record, end = await bench.record(turn), await end_of(bench, turn)
    ids = await bench.scripts.run(entries_of(KEYS, turn))
    folded = fold(record, await bench.scripts.run(read_entries(KEYS, PARTITION, ids)))
    empty = Refolded(turn=turn, result="", state=record.state.value, entries=len(ids))
    return compare(empty, record, folded, end.frames, list(end.blocks))


async def fold_up_to(bench: Bench, events: list[Event], settings: dict[str, Any] | None = None) -> None:
    """Have these events of the turn folded and committed, and its owner gone."""
    await bench.open(TURN, settings)
    await bench.publish(TURN, events)
    async with owner_of(bench) as owner:
        await caught_up(bench, owner)


async def mark(bench: Bench, *, entry: bool = True, owners: int = 1) -> None:
    """Lose so many owners at the turn's last log entry, or while they rebuilt it."""
    at = (await bench.scripts.run(entries_of(KEYS, TURN)))[-1] if entry else ""
    for _ in range(owners):
        context = bench.context()
        lost = await bench.take_over(context)
        call = suspect(KEYS, PARTITION, token=lost.token, turn=TURN, entry=at)
        for _ in range(2):  # a repeat counts nothing
            assert await bench.scripts.run(call) is SuspectStatus.OK
        await context.client.aclose()


async def held_and_marked(bench: Bench, settings: dict[str, Any] | None = None, **how: Any) -> None:
    events = story(TURN, PIECES, settings)
    await fold_up_to(bench, events[:3], settings)
    await bench.publish(TURN, events[3:])
    await mark(bench, **how)


async def set_aside(bench: Bench) -> End:
    async with owner_of(bench):
        await wait_until(lambda: bench.ended(TURN), "the end of the turn")
    return await end_of(bench)


# what is given out


@pytest.mark.parametrize(("how", "machine"), [({}, True), ({"entry": False}, True), ({"owners": 3}, False)])
async def test_what_a_turn_held_is_given_out_when_it_is_set_aside(
    bench: Bench, how: dict[str, Any], *, machine: bool
) -> None:
    await held_and_marked(bench, **how)
    before = await bench.frames(TURN)
    end = await set_aside(bench)
    assert (end.code, end.text) == ("fold_quarantined", "".join(FED))
    assert "fold_quarantined" in msgspec.json.decode(end.blocks[-1].markers)["note"]
    assert end.frames.startswith(before)
    more = end.frames.removeprefix(before)
    assert ("output_item.done" in more) is machine, "a machine ends what it had begun"
    assert more.rstrip().rpartition("event: ")[2].startswith("response.failed")
    assert (await refolded(bench)).result == SAME


@pytest.mark.parametrize("owners", [1, 3])
@pytest.mark.parametrize("policy", ["deliver", "note", "suppress"])
async def test_the_policy_for_failures_decides_about_it(bench: Bench, policy: str, owners: int) -> None:
    await held_and_marked(bench, {"on_failure": policy}, owners=owners)
    end = await set_aside(bench)
    markers = msgspec.json.decode(end.blocks[0].markers)
    assert end.text == "".join(FED)
    assert ("note" in markers) is (policy == "note")
    assert markers.get("suppressed", False) is (policy == "suppress")
    assert len(end.blocks) == 1


async def test_text_that_was_given_out_before_is_not_given_out_again(bench: Bench) -> None:
    settings = {"min_chars": 10, "max_chars": 100}
    for owners in (1, 3):
        await bench.client.execute_command("FLUSHALL")
        events = story(TURN, [*PIECES, "and more"], settings)
        await fold_up_to(bench, events[:6], settings)
        assert (await bench.record(TURN)).blocks_next >= 2
        await bench.publish(TURN, events[6:])
        await mark(bench, owners=owners)
        assert (await set_aside(bench)).text == "".join(PIECES)
        assert (await refolded(bench)).result == SAME


async def test_a_turn_that_is_unfolded_yet_is_set_aside_as_well(bench: Bench) -> None:
    for owners in (1, 3):
        await bench.client.execute_command("FLUSHALL")
        await bench.open(TURN)
        await bench.publish(TURN, story(TURN, PIECES))
        await mark(bench, owners=owners)
        end = await set_aside(bench)
        assert (end.text, end.frames.count("event: ")) == ("", 2)
        assert (await refolded(bench)).result == SAME


# owners that are lost while they do it


@pytest.mark.parametrize("step", ["after_raise", "before_commit", "after_commit", "rebuild"])
@pytest.mark.parametrize("times", [1, 2])
async def test_the_end_is_the_same_wherever_its_owners_are_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, step: str, times: int
) -> None:
    await held_and_marked(bench)
    undisturbed = await set_aside(bench)
    await bench.client.execute_command("FLUSHALL")
    await held_and_marked(bench)
    hits: list[str] = []

    def hit(name: str) -> None:
        if name == f"fold.{step}" and len(hits) < times:
            hits.append(name)
            raise Killed

    push = Turn.push

    def pushed(self: Turn, event: Event, producer: str = "ingest") -> Output:
        if isinstance(event, TextDelta):
            hit("fold.rebuild")
        return push(self, event, producer)

    monkeypatch.setattr(failpoints, "hit", hit)
    monkeypatch.setattr(Turn, "push", pushed)
    while not await bench.ended(TURN) or not hits:
        owner = await Owner(bench).start()

        async def over(owner: Owner = owner) -> bool:
            return is_dead(owner) or await bench.ended(TURN)

        await wait_until(over, "a death or the end")
        await owner.kill()
    assert len(hits) == (1 if step == "after_commit" else times)
    end = await end_of(bench)
    assert (end.code, end.blocks) == (undisturbed.code, undisturbed.blocks)
    is_given_up = times == 2 and step in {
        "rebuild",
        "before_commit",
    }  # three owners were lost at it: no fourth folds it
    assert (end == undisturbed) is not is_given_up
    assert (await refolded(bench)).result == SAME


async def test_a_turn_that_kills_whenever_it_is_folded_is_ended_all_the_same(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = turn_id(2)
    await fold_up_to(bench, story(TURN, PIECES)[:3])
    await bench.open(good)
    await bench.publish(good, story(good, PIECES))
    armed = poison(monkeypatch, TURN, Killed, PIECES[1])
    deaths = 0
    while not await bench.ended(good):
        async with owner_of(bench) as owner:

            async def over(owner: Owner = owner) -> bool:
                return is_dead(owner) or await bench.ended(good)

            await wait_until(over, "a death or the end")
            deaths += is_dead(owner)
        assert deaths < 10
    armed[0] = False
    end = await end_of(bench)
    assert (end.code, end.text) == ("fold_quarantined", "".join(FED))
    assert (await bench.record(good)).state is TurnState.COMPLETED
    assert (await refolded(bench)).result == SAME


async def test_the_suspect_is_dealt_with_before_any_other_turn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first = turn_id(2)
    await bench.open(first)
    await bench.publish(first, story(first, PIECES)[:3])
    await held_and_marked(bench)
    poison(monkeypatch, first, Killed, PIECES[1])
    async with owner_of(bench) as owner:
        await wait_until(lambda: is_dead(owner), "the other turn's rebuild")
    assert await bench.ended(TURN)


# a rebuild that cannot be had


async def test_a_turn_that_folds_otherwise_gives_out_what_was_read_and_not_a_word_of_the_other_fold(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = story(TURN, PIECES)
    await fold_up_to(bench, events[:3])
    before, push = await bench.frames(TURN), Turn.push

    def otherwise(self: Turn, event: Event, producer: str = "ingest") -> Output:
        event = msgspec.structs.replace(event, text=event.text.upper()) if isinstance(event, TextDelta) else event
        return push(self, event, producer)

    monkeypatch.setattr(Turn, "push", otherwise)
    end = await set_aside(bench)
    assert (end.code, end.text) == ("fold_diverged", "".join(FED))
    assert end.frames.startswith(before)
    assert end.frames.removeprefix(before).count("event: ") == 1
    found = await refolded(bench)
    assert found.result == DIFFERENT
    assert "number of frames" not in found.differences
    monkeypatch.setattr(Turn, "push", push)
    assert (await refolded(bench)).result == SAME, "by the fold that it was committed by"


async def test_a_suspect_that_folds_otherwise_is_ended_as_diverged(bench: Bench) -> None:
    await held_and_marked(bench)
    await bench.client.execute_command("HSET", KEYS.turn(TURN), "digest", "00" * 32)
    end = await set_aside(bench)
    assert (end.code, end.text) == ("fold_diverged", "".join(FED))


async def test_what_is_folded_and_not_yet_committed_is_given_out_where_a_second_fold_differs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    push, seen = Turn.push, []

    def otherwise(self: Turn, event: Event, producer: str = "ingest") -> Output:
        if isinstance(event, TextDelta):
            if event.text == PIECES[2]:
                raise ValueError("a defect of ours")
            seen.append(event.text)
            if len(seen) > 2:
                event = msgspec.structs.replace(event, text=event.text.upper())
        return push(self, event, producer)

    monkeypatch.setattr(Turn, "push", otherwise)
    await bench.open(TURN)
    for event in story(TURN, PIECES):
        await bench.publish(TURN, [event])
    end = await set_aside(bench)
    assert (end.code, end.text) == ("fold_diverged", "".join(FED))


async def test_a_parent_is_told_all_that_a_child_gave_out_before_it_was_set_aside(bench: Bench) -> None:
    settings = {"min_chars": 10, "max_chars": 100}
    await bench.open(PARENT)
    async with owner_of(bench) as owner:
        await bench.publish(PARENT, story(PARENT, PIECES)[:2])
        await caught_up(bench, owner)
        await bench.open(CHILD, settings, parent=PARENT)
        await bench.publish(CHILD, story(CHILD, PIECES, settings)[:6])
        await caught_up(bench, owner)
    assert (await bench.record(CHILD)).blocks_next > 0
    await bench.client.execute_command("HSET", KEYS.turn(CHILD), "digest", "00" * 32)
    async with owner_of(bench):
        await wait_until(lambda: bench.ended(CHILD), "the end of the child")
    last = (await told(bench))[-1]
    assert isinstance(last, ToolFinished)
    assert last.output["text"] == "".join(PIECES)


async def test_an_event_that_cannot_be_folded_and_a_fold_that_cannot_end_gives_out_what_was_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fold_up_to(bench, story(TURN, PIECES)[:3])
    push = Turn.push

    def endless(self: Turn, event: Event, producer: str = "ingest") -> Output:
        if not isinstance(event, TextDelta) and event.seq == 0 and event.at == 0:
            raise ValueError("a defect of ours")
        return push(self, event, producer)

    monkeypatch.setattr(Turn, "push", endless)
    call = publish(KEYS, TURN, token=bench.tokens[TURN], producer="ingest", first_seq=3, events_json='["no"]', n=1)
    await bench.scripts.run(call)
    end = await set_aside(bench)
    assert (end.code, end.text) == ("fold_error", "".join(FED))
    assert (await refolded(bench)).result == SAME
    assert await has_frames(bench, TURN)


async def test_an_owner_that_is_stopped_before_it_begins_forgets_no_owner_that_was_lost(bench: Bench) -> None:
    await held_and_marked(bench, owners=3)
    context, served = bench.context(), list[int]()
    stopped = await bench.take_over(context)
    assert stopped._raised.idle_raises >= CAREFUL_FROM
    stopped._on_serving = served.append
    stopped.stop()
    await stopped.serve()
    assert served == [], "nobody is told that it serves"
    successor = await bench.take_over(context)
    assert (successor._raised.suspect, successor._raised.suspect_lost) == (TURN, 3)
    await context.news.close()
    await context.client.aclose()
    assert (await set_aside(bench)).text == "".join(FED)
