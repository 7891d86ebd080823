"""A part that is settled after its lane has gone on without it is marked as late, and found by that."""

import pytest

from ledger import delivery
from ledger.parts import PartRecord, Verdict
from ledger.states import Operation, State
from tests.support.deliveries import TTL_MS, Desk


async def aside(desk: Desk) -> PartRecord:
    """An unknown part that has stepped aside: the part behind it is the first of the lane now."""
    first, second = await desk.two()
    unknown = await desk.bring(first, State.UNKNOWN)
    assert (await desk.advance(unknown, Operation.STEP_ASIDE)).reply == "OK"
    assert await desk.run(delivery.lane_head(desk.keys, desk.p, first.lane)) == second.id
    return await desk.part(first.id)


async def late(desk: Desk) -> list[str]:
    found = await desk.run(delivery.list_late(desk.keys, desk.p))
    assert (await desk.run(delivery.tally(desk.keys, desk.p, dead_ms=TTL_MS))).late == len(found)
    return found


async def test_a_receipt_after_its_lane_went_on_is_late(desk: Desk) -> None:
    part = await aside(desk)
    assert (part.late, part.passed_at > 0) == (False, True)
    step = await desk.receipt(part, "first", Verdict.SENT)
    assert (step.reply, step.state, step.late) == ("OK", State.SENT, True)
    assert (await desk.part(part.id)).late
    assert await late(desk) == [part.id]
    again = await desk.receipt(part, "first", Verdict.SENT)
    assert (again.reply, again.late) == ("ALREADY", False), "counted once"


@pytest.mark.parametrize("operation", [Operation.RESOLVE_SENT, Operation.FOUND, Operation.DROP, Operation.ABANDON])
async def test_whoever_settles_it_then_it_is_late(desk: Desk, operation: Operation) -> None:
    part = await aside(desk)
    step = await desk.advance(part, operation)
    assert (step.reply, step.late) == ("OK", True)
    assert (await desk.part(part.id)).late
    assert await late(desk) == [part.id]


async def test_what_is_sent_again_after_it_stepped_aside_is_late(desk: Desk) -> None:
    part = await aside(desk)
    await desk.advance(part, Operation.RESOLVE_NOT_SENT)
    retry = await desk.part(part.id)
    assert (retry.state, retry.late) == (State.RETRY, False), "not settled yet"
    assert (await desk.intent(retry, "second")).reply == "OK"
    assert (await desk.receipt(retry, "second", Verdict.SENT)).late
    assert await late(desk) == [part.id]


async def test_what_was_taken_back_out_of_the_dead_is_late(desk: Desk) -> None:
    first, _ = await desk.two()
    dead = await desk.bring(first, State.DEAD)
    assert not dead.late, "its own end let the lane go on"
    await desk.advance(dead, Operation.REQUEUE)
    again = await desk.part(dead.id)
    assert (await desk.intent(again, "second")).reply == "OK"
    assert (await desk.receipt(again, "second", Verdict.SENT)).late


async def test_a_fact_that_comes_after_it_was_settled_otherwise_is_late_and_kept(desk: Desk) -> None:
    first, _ = await desk.two()
    abandoned = await desk.bring(first, State.ABANDONED)
    step = await desk.receipt(abandoned, "first", Verdict.SENT, receipt='{"status":200}')
    assert (step.reply, step.state, step.late) == ("LATE", State.ABANDONED, True)
    part = await desk.part(first.id)
    assert (part.late, part.late_receipt) == (True, '{"status":200}')
    assert await late(desk) == [part.id]


async def test_in_its_turn_nothing_is_late(desk: Desk) -> None:
    first, second = await desk.two()
    unknown = await desk.bring(first, State.UNKNOWN)
    step = await desk.receipt(unknown, "first", Verdict.SENT)
    assert (step.state, step.late) == (State.SENT, False), "it held its lane all the while"
    await desk.intent(second, "other")
    assert not (await desk.receipt(second, "other", Verdict.DEAD)).late
    assert await late(desk) == []


async def test_the_list_of_the_late_forgets_them_with_their_records(desk: Desk) -> None:
    part = await aside(desk)
    await desk.receipt(part, "first", Verdict.SENT)
    await desk.client.zadd(desk.keys.late(desk.p), {part.id: 1})
    assert (await desk.run(delivery.tally(desk.keys, desk.p, dead_ms=TTL_MS))).late == 0
