"""Blocks become parts once, in order, under the owner's token, whatever reply was lost."""

from collections.abc import Sequence

import pytest

from ledger import delivery, planning
from ledger.errors import UnexpectedReply
from ledger.parts import NewPart, held_lane
from ledger.planning import BlockEntry, Planned, TakenBlocks
from ledger.states import State
from tests.support.deliveries import TTL_MS, Desk


async def take(desk: Desk, consumer: str = "c", count: int = 10) -> TakenBlocks:
    return await desk.run(planning.take_blocks(desk.keys, desk.p, token=desk.token, consumer=consumer, count=count))


async def adopt(desk: Desk, consumer: str) -> tuple[str, int]:
    return await desk.run(planning.adopt_blocks(desk.keys, desk.p, token=desk.token, consumer=consumer, count=10))


async def plan(desk: Desk, entry: BlockEntry, prev: str, *parts: NewPart) -> Planned:
    return await desk.run(
        planning.plan(
            desk.keys,
            desk.p,
            token=desk.token,
            prev=prev,
            entry=entry,
            parts=parts,
            ttl_ms=TTL_MS,
            index_ttl_ms=TTL_MS,
        )
    )


def blocks_of(entries: Sequence[BlockEntry]) -> list[int]:
    return [entry.block for entry in entries]


async def test_new_blocks_are_taken_in_order(desk: Desk) -> None:
    for block in range(3):
        await desk.add_block(block)
    taken = await take(desk)
    assert (taken.reply, taken.position, blocks_of(taken.entries)) == ("OK", "0-0", [0, 1, 2])


async def test_a_take_whose_reply_was_lost_is_given_again_before_anything_new(desk: Desk) -> None:
    await desk.add_block(0)
    await take(desk)
    await desk.add_block(1)
    assert blocks_of((await take(desk)).entries) == [0]


async def plan_two_of_three(desk: Desk) -> str:
    """Three blocks, all of them handed out, two of them planned; the position."""
    for block in range(3):
        await desk.add_block(block)
    taken = await take(desk)
    prev = "0-0"
    for entry in taken.entries[:2]:
        assert (await plan(desk, entry, prev, desk.new_part(entry.block))).reply == "OK"
        prev = entry.id
    return prev


@pytest.mark.parametrize("damage", ["destroyed", "0", "$"])
async def test_a_group_that_was_lost_or_moved_follows_the_position_again(desk: Desk, damage: str) -> None:
    position = await plan_two_of_three(desk)
    stream = desk.keys.blocks(desk.p)
    await desk.client.xgroup_destroy(stream, "delivery")
    if damage != "destroyed":
        await desk.client.xgroup_create(stream, "delivery", id=damage)
    taken = await take(desk)
    assert (taken.position, blocks_of(taken.entries)) == (position, [2]), "nothing again, and nothing left out"
    before = await desk.client.hgetall(desk.keys.turn(desk.turn))
    assert before["planned"] == "2"


async def test_a_group_that_was_lost_is_made_where_the_owner_adopts(desk: Desk) -> None:
    await plan_two_of_three(desk)
    await desk.client.xgroup_destroy(desk.keys.blocks(desk.p), "delivery")
    await desk.own("2:bbbb")
    assert await adopt(desk, "new") == ("OK", 0)
    assert blocks_of((await take(desk, "new")).entries) == [2]


async def test_a_block_that_was_planned_is_never_planned_again(desk: Desk) -> None:
    position = await plan_two_of_three(desk)
    first = (await desk.client.xrange(desk.keys.blocks(desk.p)))[0][0]
    again = BlockEntry(id=first, turn=desk.turn, block=0)
    await desk.client.delete(desk.keys.part(desk.new_part(0).id))  # as if its record had expired
    assert (await plan(desk, again, position, desk.new_part(0))).reply == "MISMATCH"
    assert await desk.client.hget(desk.keys.committed(desk.p), "blocks") == position


async def test_a_stale_owner_takes_and_adopts_nothing(desk: Desk) -> None:
    await desk.add_block(0)
    await desk.own("2:bbbb")
    desk.token = "1:aaaa"
    assert (await take(desk)).reply == "STALE"
    assert await adopt(desk, "c") == ("STALE", 0)


async def test_what_a_dead_owner_took_is_adopted_in_order_before_new_ones(desk: Desk) -> None:
    await desk.add_block(0)
    await desk.add_block(1)
    await take(desk, "dead")
    await desk.add_block(2)
    await desk.own("2:bbbb")
    assert await adopt(desk, "new") == ("OK", 2)
    assert await adopt(desk, "new") == ("OK", 0)
    assert blocks_of((await take(desk, "new")).entries) == [0, 1]
    consumers = await desk.client.xinfo_consumers(desk.keys.blocks(desk.p), "delivery")
    assert [row["name"] for row in consumers] == ["new"]


async def test_planning_makes_the_parts_their_lane_and_the_position_at_once(desk: Desk) -> None:
    await desk.add_block(0)
    taken = await take(desk)
    part = desk.new_part(0)
    planned = await plan(desk, taken.entries[0], taken.position, part)
    assert (planned.reply, planned.position, planned.may_retire) == ("OK", taken.entries[0].id, False)
    record = await desk.part(part.id)
    assert (record.state, record.body, record.lane, record.in_lane) == (State.PENDING, part.body, part.lane, True)
    assert await desk.where(record) == {"lane"}
    assert (await desk.client.xpending(desk.keys.blocks(desk.p), "delivery"))["pending"] == 0
    assert await desk.client.hmget(desk.keys.turn(desk.turn), "planned", "open_parts") == ["1", "1"]
    assert await desk.client.pttl(desk.keys.block(desk.turn, 0)) > 0


async def test_a_repeated_plan_adds_nothing(desk: Desk) -> None:
    await desk.add_block(0)
    taken = await take(desk)
    part = desk.new_part(0)
    await plan(desk, taken.entries[0], taken.position, part)
    assert (await plan(desk, taken.entries[0], taken.position, part)).reply == "ALREADY"
    assert await desk.run(delivery.read_lane(desk.keys, desk.p, part.lane)) == [part.id]
    assert await desk.client.hget(desk.keys.turn(desk.turn), "open_parts") == "1"


async def test_a_plan_that_leaves_an_entry_out_is_refused(desk: Desk) -> None:
    await desk.add_block(0)
    await desk.add_block(1)
    taken = await take(desk)
    skipped = await plan(desk, taken.entries[1], taken.entries[0].id, desk.new_part(1))
    assert (skipped.reply, skipped.position) == ("MISMATCH", "0-0")
    assert await desk.run(delivery.read_part(desk.keys, desk.new_part(1).id)) is None


async def test_a_stale_owner_plans_nothing(desk: Desk) -> None:
    await desk.add_block(0)
    taken = await take(desk)
    await desk.own("2:bbbb")
    desk.token = "1:aaaa"
    assert (await plan(desk, taken.entries[0], taken.position, desk.new_part(0))).reply == "STALE"


async def test_suppressed_and_unshowable_parts_are_settled_from_the_start(desk: Desk) -> None:
    await desk.add_block(0)
    taken = await take(desk)
    hidden = desk.new_part(0, state=State.SUPPRESSED, target="a")
    dead = desk.new_part(0, state=State.DEAD, target="b")
    await plan(desk, taken.entries[0], taken.position, hidden, dead)
    assert await desk.where(await desk.part(hidden.id)) == set()
    assert await desk.where(await desk.part(dead.id)) == {"dead"}
    assert await desk.client.pttl(desk.keys.part(hidden.id)) > 0
    assert await desk.client.hget(desk.keys.turn(desk.turn), "open_parts") == "0"


async def test_the_last_block_of_an_ended_turn_without_targets_lets_it_retire(desk: Desk) -> None:
    await desk.add_block(0)
    await desk.client.hset(desk.keys.turn(desk.turn), "state", "completed")
    taken = await take(desk)
    assert (await plan(desk, taken.entries[0], taken.position)).may_retire


async def test_a_part_cannot_begin_as_sent(desk: Desk) -> None:
    with pytest.raises(ValueError, match="begins as"):
        planning.plan(
            desk.keys,
            desk.p,
            token="t",
            prev="0-0",
            entry=BlockEntry(id="1-0", turn=desk.turn, block=0),
            parts=[desk.new_part(0, state=State.SENT)],
            ttl_ms=1,
            index_ttl_ms=1,
        )


async def test_a_key_of_a_foreign_kind_is_found_before_the_first_write(desk: Desk) -> None:
    await desk.add_block(0)
    taken = await take(desk)
    part = desk.new_part(0)
    await desk.client.set(desk.keys.lane(desk.p, part.lane), "not a list")
    with pytest.raises(UnexpectedReply, match="WRONGTYPE"):
        await plan(desk, taken.entries[0], taken.position, part)
    assert await desk.client.hget(desk.keys.committed(desk.p), "blocks") is None
    assert not await desk.client.exists(desk.keys.part(part.id))


async def test_a_block_is_read_back_and_a_gone_one_is_empty(desk: Desk) -> None:
    await desk.add_block(0, text="hello")
    assert (await desk.run(planning.read_block(desk.keys, desk.turn, 0)))["text"] == "hello"
    assert await desk.run(planning.read_block(desk.keys, desk.turn, 1)) == {}


# serial sessions


async def test_held_parts_join_their_lane_in_order(desk: Desk) -> None:
    first, second, third = (desk.new_part(block, held=block > 0) for block in range(3))
    for block, part in enumerate((first, second, third)):
        await desk.plan(part, block=block)
    held = second.lane
    assert held_lane(held) == (first.lane, desk.turn)
    assert held_lane(first.lane) is None

    async def merge(*parts: str, token: str = desk.token) -> str:
        return await desk.run(
            planning.merge_lane(desk.keys, desk.p, token=token, held=held, lane=first.lane, parts=parts)
        )

    assert await merge(second.id, third.id, token="0:old") == "STALE"
    assert await merge(second.id) == "MISMATCH"
    assert await merge(third.id, second.id) == "MISMATCH"
    assert await merge(second.id, third.id) == "OK"
    assert await merge(second.id, third.id) == "MISMATCH"
    lane = await desk.run(delivery.read_lane(desk.keys, desk.p, first.lane))
    assert lane == [first.id, second.id, third.id]
    assert (await desk.part(third.id)).lane == first.lane
    assert [name for name, _ in await desk.run(delivery.list_lanes(desk.keys, desk.p))] == [first.lane]


async def test_a_serial_session_names_its_first_unfinished_turn(desk: Desk) -> None:
    await desk.client.rpush(desk.keys.serial(desk.p, "s1"), "a", "b")
    assert await desk.run(planning.serial_head(desk.keys, desk.p, "s1")) == "a"
    assert await desk.run(planning.leave_serial(desk.keys, desk.p, "s1", "a")) == 1
    assert await desk.run(planning.serial_head(desk.keys, desk.p, "s1")) == "b"
    assert await desk.run(planning.serial_head(desk.keys, desk.p, "other")) == ""


async def test_a_part_that_exists_is_not_made_again_whatever_it_has_come_to(desk: Desk) -> None:
    [first] = await desk.plan(desk.new_part())
    await desk.bring(first, State.SENT)
    prev = await desk.client.hget(desk.keys.committed(desk.p), "blocks")
    again = BlockEntry(id=await desk.add_block(0), turn=desk.turn, block=0)
    await take(desk)
    assert (await plan(desk, again, prev, desk.new_part())).reply == "OK"
    assert (await desk.part(first.id)).state is State.SENT
    assert await desk.where(first) == set()
