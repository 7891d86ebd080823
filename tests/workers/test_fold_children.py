"""Children under the fold: what they tell their parents, once and in order, whoever dies; and their own text, whatever became of the parent."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from ledger.log import entries_of, publish, read_block, read_entries, read_positions
from ledger.records import TurnState
from pipeline.codec import decode_batch
from pipeline.events import Event, Status, ToolFinished, ToolStarted, TurnCancelled
from tests.support.waiting import wait_until
from tests.workers.fold_bench import (
    AT,
    KEYS,
    PARTITION,
    PIECES,
    Bench,
    Killed,
    Owner,
    broken_off,
    config_of,
    is_dead,
    is_serving,
    owner_of,
    story,
    turn_id,
)
from workers.fold.children import ANSWER_CHARS, NO_ITEM, Child, can_hear
from workers.runtime import failpoints

STEPS = ["after_raise", "after_rebuild", "after_adopt", "after_take", "before_commit", "after_commit", "after_hint"]
SETTINGS = {"min_chars": 5, "max_chars": 30}
PARENT, CHILD = turn_id(1), turn_id(2)
TEXT = "".join(PIECES)


@pytest.fixture
async def bench(redis_url: str) -> AsyncIterator[Bench]:
    made = Bench(redis_url, config_of(redis_url))
    yield made
    await made.close()


async def told(bench: Bench, parent: str = PARENT, child: str = CHILD) -> list[Event]:
    """What stands in the parent's log under the child's name; numbered without a gap."""
    ids = await bench.scripts.run(entries_of(KEYS, parent))
    entries = await bench.scripts.run(read_entries(KEYS, PARTITION, ids))
    found = [event for one in entries if one.producer == f"child:{child}" for event in decode_batch(one.events)]
    assert [event.seq for event in found] == list(range(len(found)))
    return found


def names(events: list[Event]) -> list[str]:
    return [event.name if isinstance(event, Status) else type(event).__name__ for event in events]


async def caught_up(bench: Bench, owner: Owner) -> None:
    async def settled() -> bool:
        return is_dead(owner) or (await bench.scripts.run(read_positions(KEYS, PARTITION))).lag == 0

    await wait_until(settled, "the fold to catch up or die")


async def text_of(bench: Bench, turn: str) -> str:
    record = await bench.record(turn)
    blocks = [await bench.scripts.run(read_block(KEYS, turn, number)) for number in range(record.blocks_next)]
    return "".join(block.text + block.separator for block in blocks if block is not None)


async def run_family(bench: Bench, parent: list[Event], child: list[Event], *, parent_call: str = "") -> None:
    """The parent begins, the child runs to its end, the parent goes on to its own."""
    await bench.open(PARENT, SETTINGS)
    async with owner_of(bench) as owner:
        await bench.publish(PARENT, parent[:3])
        await caught_up(bench, owner)
        await bench.open(CHILD, SETTINGS, parent=PARENT, parent_call=parent_call)
        for event in child:
            await bench.publish(CHILD, [event])
        await wait_until(lambda: bench.ended(CHILD), "the child's end")
        await bench.publish(PARENT, parent[3:])
        await wait_until(lambda: bench.ended(PARENT), "the parent's end")


async def test_a_parent_hears_of_its_childs_start_its_blocks_and_its_end(bench: Bench) -> None:
    await run_family(bench, story(PARENT, PIECES, SETTINGS), story(CHILD, PIECES, SETTINGS), parent_call="call_7")
    events = await told(bench)
    blocks = (await bench.record(CHILD)).blocks_next
    assert names(events)[0] == "child_started"
    assert names(events)[-2:] == ["child_ended", "ToolFinished"]
    assert set(names(events)[1:-2]) == {"child_progress"}
    last = events[-1]
    assert isinstance(last, ToolFinished)
    assert (last.item, last.call_id, last.status) == (NO_ITEM, "call_7", "completed")
    assert last.output == {"turn": CHILD, "state": "completed", "text": TEXT}
    ending = events[-2]
    assert isinstance(ending, Status)
    assert ending.wire is not None
    assert ending.wire["child"]["blocks"] == blocks > 1
    frames = await bench.frames(PARENT)
    for kind, times in (("started", 1), ("progress", len(events) - 3), ("ended", 1)):
        assert frames.count(f"event: foldline.child.{kind}\n") == times
    assert await text_of(bench, PARENT) == await text_of(bench, CHILD) == TEXT


async def test_a_childs_result_answers_the_call_that_its_parent_waits_for(bench: Bench) -> None:
    first, *rest = story(PARENT, PIECES)
    first = msgspec.structs.replace(first, tools={"delegate": "gateway"})
    call = ToolStarted(seq=2, at=AT + 2, item=1, call_id="call_7", name="delegate", kind="function")
    await bench.open(PARENT)
    async with owner_of(bench) as owner:
        await bench.publish(PARENT, [first, rest[0], call])
        await caught_up(bench, owner)
        assert await bench.client.hexists(KEYS.turn(PARENT), "tool_since")
        await bench.open(CHILD, parent=PARENT, parent_call="call_7")
        await bench.publish(CHILD, story(CHILD, PIECES))
        await wait_until(lambda: bench.ended(CHILD), "the child's end")
        await caught_up(bench, owner)
        assert not await bench.client.hexists(KEYS.turn(PARENT), "tool_since")


async def test_a_child_that_ends_cuts_no_word_of_its_parent(bench: Bench) -> None:
    parent = story(PARENT, ["Half ", "a wo", "rd and more."])
    await run_family(bench, parent, story(CHILD, PIECES))  # the child runs behind the second piece
    assert (await bench.record(PARENT)).blocks_next == 1


async def test_a_failed_child_says_why(bench: Bench) -> None:
    await run_family(bench, story(PARENT, PIECES), broken_off(CHILD, "half an answer"))
    last = (await told(bench))[-1]
    assert isinstance(last, ToolFinished)
    assert (last.status, last.call_id) == ("failed", CHILD)
    assert last.output["text"] == "half an answer"
    assert last.output["error"]["code"] == "upstream_error"


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
async def test_a_child_whose_parent_has_ended_is_delivered_all_the_same(bench: Bench, end: str) -> None:
    ends = {"completed": story(PARENT, ["x"])[-1], "failed": broken_off(PARENT, "x")[-1]}
    terminal = ends.get(end) or TurnCancelled(seq=0, at=AT, reason="cancelled")
    await bench.open(PARENT, SETTINGS)
    async with owner_of(bench) as owner:
        await bench.publish(PARENT, story(PARENT, PIECES, SETTINGS)[:2])
        await caught_up(bench, owner)
        await bench.open(CHILD, SETTINGS, parent=PARENT)
        child = story(CHILD, PIECES, SETTINGS)
        await bench.publish(CHILD, child[:2])
        await caught_up(bench, owner)
        await bench.publish(PARENT, [msgspec.structs.replace(terminal, seq=2)])
        await wait_until(lambda: bench.ended(PARENT), "the parent's end")
        frames = await bench.frames(PARENT)
        await bench.publish(CHILD, child[2:])
        await wait_until(lambda: bench.ended(CHILD), "the child's end")
    assert await text_of(bench, CHILD) == TEXT
    record = await bench.record(CHILD)
    assert record.notes_unheard == record.notes_next - len(await told(bench)) > 0
    assert await bench.frames(PARENT) == frames


async def test_a_child_that_the_fold_itself_ends_is_told_of_too(bench: Bench) -> None:
    await bench.open(PARENT)
    async with owner_of(bench) as owner:
        await bench.publish(PARENT, story(PARENT, PIECES)[:2])
        await caught_up(bench, owner)
        await bench.open(CHILD, parent=PARENT)
        await bench.publish(CHILD, story(CHILD, PIECES)[:2])
        await caught_up(bench, owner)
        call = publish(
            KEYS, CHILD, token=bench.tokens[CHILD], producer="ingest", first_seq=2, events_json='["no event"]', n=1
        )
        await bench.scripts.run(call)
        await wait_until(lambda: bench.ended(CHILD), "the child's end")
    events = await told(bench)
    assert names(events) == ["child_started", "child_progress", "child_ended", "ToolFinished"]
    assert isinstance(events[-1], ToolFinished)
    assert events[-1].output["error"]["code"] == "fold_error"
    assert events[-1].output["text"] == PIECES[0]
    assert (await bench.record(PARENT)).state is TurnState.RUNNING


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("step", STEPS)
async def test_nothing_is_told_twice_or_left_out_wherever_the_owner_is_killed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, step: str, nth: int
) -> None:
    parent, child = story(PARENT, PIECES, SETTINGS), story(CHILD, PIECES, SETTINGS)
    await run_family(bench, parent, child)
    undisturbed, text = await told(bench), await bench.frames(CHILD)
    await bench.client.execute_command("FLUSHALL")
    hits: list[str] = []

    def hit(name: str) -> None:
        if name == f"fold.{step}":
            hits.append(name)
            if len(hits) == nth:
                raise Killed

    await bench.open(PARENT, SETTINGS)
    owner = await Owner(bench).start()
    try:
        await bench.publish(PARENT, parent[:3])
        await caught_up(bench, owner)
        await bench.open(CHILD, SETTINGS, parent=PARENT)
        monkeypatch.setattr(failpoints, "hit", hit)
        for event in child:
            await bench.publish(CHILD, [event])
            await caught_up(bench, owner)
            if is_dead(owner):
                await owner.kill()
                owner = await Owner(bench).start()
        if len(hits) < nth:  # reached once for each owner: other take-overs reach it again
            for _ in range(nth - len(hits)):
                await owner.kill()
                owner = await Owner(bench).start()
                await wait_until(lambda one=owner: is_dead(one) or is_serving(one), "the next take-over")
        if is_dead(owner):
            await owner.kill()
            owner = await Owner(bench).start()
        await wait_until(lambda: bench.ended(CHILD), "the child's end")
        await bench.publish(PARENT, parent[3:])
        await wait_until(lambda: bench.ended(PARENT), "the parent's end")
    finally:
        await owner.kill()
    assert len(hits) >= nth, "the point was never reached"
    assert await told(bench) == undisturbed
    assert await bench.frames(CHILD) == text
    assert (await bench.frames(PARENT)).count("event: foldline.child.ended\n") == 1
    assert await text_of(bench, PARENT) == TEXT


def test_a_long_answer_is_cut_in_the_parents_log_and_says_so() -> None:
    child = Child(CHILD, PARENT)
    child._keep("x" * ANSWER_CHARS)
    ending = child.ended("completed", None)[1]
    assert isinstance(ending, ToolFinished)
    assert "truncated" not in ending.output
    child._keep("y")
    cut = child.ended("completed", None)[1]
    assert isinstance(cut, ToolFinished)
    assert cut.output["truncated"] is True
    assert cut.output["text"] == "x" * ANSWER_CHARS


def test_only_a_turn_of_the_same_partition_can_hear() -> None:
    assert can_hear(PARENT, CHILD)
    assert not can_hear(f"0-{1:024x}", CHILD)
    assert not can_hear(CHILD, CHILD)
    assert not can_hear("", CHILD)
