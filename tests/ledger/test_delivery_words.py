"""What persons may say about a delivery, when a turn may go, what an operator sees, and what an account may send."""

import json

import pytest

from ledger import delivery
from ledger.parts import Verdict
from ledger.states import Operation, State
from tests.support.deliveries import TTL_MS, Desk
from tests.support.waiting import wait_until

LONG_MS = 3_600_000


# persons


async def test_not_sent_is_not_believed_inside_the_quarantine(desk: Desk) -> None:
    first, _ = await desk.two()
    part = await desk.bring(first, State.UNKNOWN)

    async def resolve(*, sent: bool, quarantine_ms: int) -> delivery.Step:
        return await desk.run(
            delivery.resolve(desk.keys, part, sent=sent, by="me", quarantine_ms=quarantine_ms, ttl_ms=TTL_MS)
        )

    assert (await resolve(sent=False, quarantine_ms=LONG_MS)).reply == "EARLY"
    assert (await resolve(sent=False, quarantine_ms=0)).state is State.RETRY
    again = await desk.part(part.id)
    assert (again.exposed_at, again.failures) == (0, 0)
    assert "by me" in again.note


async def test_sent_is_believed_at_once(desk: Desk) -> None:
    first, second = await desk.two()
    part = await desk.bring(first, State.UNKNOWN)
    call = delivery.resolve(desk.keys, part, sent=True, by="me", quarantine_ms=0, ttl_ms=TTL_MS)
    assert (await desk.run(call)).state is State.SENT
    assert (await desk.intent(second)).reply == "OK"


async def test_resending_without_knowing_is_counted(desk: Desk) -> None:
    first, _ = await desk.two()
    part = await desk.bring(first, State.UNKNOWN)
    early = delivery.resend(desk.keys, part, by="me", quarantine_ms=LONG_MS, ttl_ms=TTL_MS)
    assert (await desk.run(early)).reply == "EARLY"
    await desk.run(delivery.resend(desk.keys, part, by="me", quarantine_ms=0, ttl_ms=TTL_MS))
    after = await desk.part(part.id)
    assert (after.state, after.waivers) == (State.RETRY, 1)


@pytest.mark.parametrize("state", [State.PENDING, State.RETRY, State.UNKNOWN])
async def test_what_waits_can_be_dropped(desk: Desk, state: State) -> None:
    first, second = await desk.two()
    part = await desk.bring(first, state)
    step = await desk.run(delivery.drop(desk.keys, part, by="me", quarantine_ms=0, ttl_ms=TTL_MS))
    assert step.state is (State.ABANDONED if state is State.UNKNOWN else State.DEAD)
    assert (await desk.intent(second)).reply == "OK"


async def test_a_dead_part_that_is_queued_again_comes_first(desk: Desk) -> None:
    first, second = await desk.two()
    part = await desk.bring(first, State.DEAD)
    assert (await desk.run(delivery.requeue(desk.keys, part, by="me", ttl_ms=TTL_MS))).state is State.RETRY
    lane = await desk.run(delivery.read_lane(desk.keys, desk.p, first.lane))
    assert lane == [first.id, second.id]
    assert await desk.client.pttl(desk.keys.part(first.id)) == -1
    assert await desk.client.hget(desk.keys.turn(desk.turn), "open_parts") == "2"


async def test_a_part_queued_again_never_overtakes_one_that_is_being_sent(desk: Desk) -> None:
    first, second = await desk.two()
    part = await desk.bring(first, State.DEAD)
    await desk.intent(second, "b")
    await desk.run(delivery.requeue(desk.keys, part, by="me", ttl_ms=TTL_MS))
    lane = await desk.run(delivery.read_lane(desk.keys, desk.p, first.lane))
    assert lane == [second.id, first.id]
    assert (await desk.intent(await desk.part(first.id))).reply == "NOT_HEAD"


async def test_a_word_about_a_part_that_is_gone_is_refused(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.client.delete(desk.keys.part(first.id))
    assert (await desk.run(delivery.requeue(desk.keys, first, by="me", ttl_ms=TTL_MS))).reply == "UNKNOWN_DELIVERY"
    assert (await desk.receipt(first, "a", Verdict.SENT)).reply == "UNKNOWN_DELIVERY"
    assert await desk.run(delivery.read_part(desk.keys, first.id)) is None


# retiring


async def test_the_last_settled_part_of_an_ended_turn_says_so(desk: Desk) -> None:
    first, second = await desk.two()
    await desk.intent(first, "a")
    assert not (await desk.receipt(first, "a", Verdict.SENT)).may_retire
    await desk.client.hset(desk.keys.turn(desk.turn), "state", "completed")
    await desk.intent(second, "b")
    assert (await desk.receipt(second, "b", Verdict.SENT)).may_retire
    assert (await desk.receipt(second, "b", Verdict.SENT)).may_retire  # a repeat, after a lost reply


async def test_a_turn_whose_record_is_gone_is_not_made_again(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.client.delete(desk.keys.turn(desk.turn))
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.SENT)
    assert not await desk.client.exists(desk.keys.turn(desk.turn))


# looking


async def test_lanes_are_due_when_their_head_can_be_acted_upon(desk: Desk) -> None:
    first, _ = await desk.two()
    due = await desk.run(delivery.due_lanes(desk.keys, desk.p, count=10))
    assert due.lanes == [first.lane]
    await desk.intent(first, "a", quarantine_ms=LONG_MS)
    due = await desk.run(delivery.due_lanes(desk.keys, desk.p, count=10))
    assert (due.lanes, due.later) == ([], (await desk.part(first.id)).attempt_at + LONG_MS)
    await desk.receipt(first, "a", Verdict.SENT)
    assert (await desk.run(delivery.due_lanes(desk.keys, desk.p, count=10))).lanes == [first.lane]


async def test_a_lane_is_put_off_only_while_its_head_is_the_one_decided_about(desk: Desk) -> None:
    first, second = await desk.two()

    async def defer(head: str, token: str = desk.token) -> str:
        return await desk.run(
            delivery.defer_lane(desk.keys, desk.p, token=token, lane=first.lane, head=head, wait_ms=LONG_MS)
        )

    assert await defer(second.id) == "MISMATCH"
    assert await defer(first.id, "0:old") == "STALE"
    assert await defer(first.id) == "OK"
    assert (await desk.run(delivery.due_lanes(desk.keys, desk.p, count=10))).lanes == []
    for part in (first, second):
        await desk.run(delivery.forget_part(desk.keys, desk.p, first.lane, part.id))
    assert await defer("") == "OK"
    assert await desk.run(delivery.list_lanes(desk.keys, desk.p)) == []


async def test_parts_are_counted_and_listed_by_state(desk: Desk) -> None:
    first, second = await desk.two()
    await desk.bring(first, State.UNKNOWN)
    await desk.advance(await desk.part(first.id), Operation.STEP_ASIDE)
    await desk.bring(second, State.DEAD)
    tally = await desk.run(delivery.tally(desk.keys, desk.p, dead_ms=LONG_MS))
    assert (tally.unknown, tally.dead, tally.sending, tally.due, tally.lanes) == (1, 1, 0, 0, 0)
    assert 0 < tally.unknown_since <= tally.now
    assert await desk.run(delivery.list_parts(desk.keys, desk.p, State.UNKNOWN)) == [(first.id, tally.unknown_since)]
    assert await desk.run(delivery.list_parts(desk.keys, desk.p, State.DEAD)) == [(second.id, tally.dead_since)]
    assert await desk.run(delivery.parts_of(desk.keys, desk.turn)) == [first.id, second.id]
    assert await desk.run(delivery.lane_head(desk.keys, desk.p, first.lane)) == ""


async def test_the_dead_are_forgotten_with_their_records(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.bring(first, State.DEAD)
    await desk.client.zadd(desk.keys.dead(desk.p), {first.id: 1})
    assert (await desk.run(delivery.tally(desk.keys, desk.p, dead_ms=LONG_MS))).dead == 0


async def test_a_record_tells_everything_in_plain_fields(desk: Desk) -> None:
    first, _ = await desk.two()
    part = await desk.bring(first, State.SENT)
    fields = await desk.client.hgetall(desk.keys.part(part.id))
    assert fields["state"] == "sent"
    assert json.loads(fields["receipt"]) == {}
    assert (fields["channel"], fields["target"], fields["session"]) == ("webhook", "hook", "s1")


# budgets


async def test_a_budget_gives_its_burst_and_then_makes_wait(desk: Desk) -> None:
    async def take() -> int:
        return await desk.run(delivery.budget_take(desk.keys, "bot", rate_per_s=0.5, burst=2))

    assert [await take(), await take()] == [0, 0]
    assert 0 < await take() <= 2_000
    assert await desk.client.pttl(desk.keys.budget("bot")) > 0


async def test_a_budget_fills_again_with_time(desk: Desk) -> None:
    async def take() -> int:
        return await desk.run(delivery.budget_take(desk.keys, "bot", rate_per_s=50, burst=1))

    assert await take() == 0

    async def filled() -> bool:
        return await take() == 0

    await wait_until(filled, "another send is allowed")


async def test_an_unlimited_budget_is_held_all_the_same_when_its_channel_asks(desk: Desk) -> None:
    async def take() -> int:
        return await desk.run(delivery.budget_take(desk.keys, "bot", rate_per_s=0, burst=1))

    assert await take() == 0
    until = await desk.run(delivery.budget_hold(desk.keys, "bot", wait_ms=LONG_MS))
    assert await desk.run(delivery.budget_hold(desk.keys, "bot", wait_ms=1)) == until
    assert 0 < await take() <= LONG_MS
    assert await desk.client.pttl(desk.keys.budget("bot")) > 0


async def test_what_was_written_is_waited_for_on_disk_or_on_a_replica(desk: Desk) -> None:
    assert await desk.run(delivery.wait_copied(timeout_ms=1)) is False, "there is no replica"
    written = delivery.wait_written(timeout_ms=5)
    assert written.by_sha() == ("WAITAOF", 1, 0, 5)
    assert (written.decode([1, 0]), written.decode([0, 0])) == (True, False)
