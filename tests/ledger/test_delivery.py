"""Intents, receipts, recovery and persons' words, on a real server."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio as aioredis

from ledger import delivery
from ledger.parts import PartRecord, Verdict
from ledger.states import Operation, State
from tests.support.deliveries import TTL_MS, WINDOW_MS, Desk
from tests.support.waiting import wait_until

LONG_MS = 3_600_000


@pytest.fixture
async def desk(redis_url: str) -> AsyncIterator[Desk]:
    async with aioredis.Redis.from_url(redis_url, decode_responses=True) as client:
        desk = Desk(client)
        await desk.open_turn()
        await desk.own("1:aaaa")
        yield desk


async def two(desk: Desk) -> tuple[PartRecord, PartRecord]:
    """Two parts of one lane."""
    [first] = await desk.plan(desk.new_part(0), block=0)
    [second] = await desk.plan(desk.new_part(1), block=1)
    return first, second


async def advance(desk: Desk, part: PartRecord, operation: Operation, **options: Any) -> delivery.Step:
    given: dict[str, Any] = {"token": desk.token, "note": "", "ttl_ms": TTL_MS}
    return await desk.run(delivery.advance(desk.keys, desk.p, part=part, operation=operation, **{**given, **options}))


# intents


async def test_only_the_first_of_a_lane_may_be_sent(desk: Desk) -> None:
    first, second = await two(desk)
    assert (await desk.intent(second)).reply == "NOT_HEAD"
    assert (await desk.intent(first, "a")).reply == "OK"
    assert (await desk.intent(second)).reply == "NOT_HEAD"
    await desk.receipt(first, "a", Verdict.SENT)
    assert (await desk.intent(second)).reply == "OK"


async def test_an_intent_needs_the_owners_token(desk: Desk) -> None:
    first, _ = await two(desk)
    old = desk.token
    await desk.own("2:bbbb")
    desk.token = old
    assert (await desk.intent(first)).reply == "STALE"
    assert (await desk.part(first.id)).state is State.PENDING


async def test_a_repeated_intent_is_one_attempt(desk: Desk) -> None:
    first, _ = await two(desk)
    made = await desk.intent(first, "a")
    again = await desk.intent(first, "a")
    assert (again.reply, again.at, again.number) == ("ALREADY", made.at, 1)
    assert (await desk.part(first.id)).attempts == 1


async def test_an_intent_for_another_body_is_refused(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.client.hset(desk.keys.part(first.id), "body_hash", "other")
    assert (await desk.intent(first)).reply == "BODY"


async def test_an_intent_is_refused_for_a_part_that_is_gone(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.client.delete(desk.keys.part(first.id))
    assert (await desk.intent(first)).reply == "UNKNOWN_DELIVERY"


async def test_a_retry_waits_for_its_time(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.RETRY, wait_ms=LONG_MS)
    part = await desk.part(first.id)
    refused = await desk.intent(part)
    assert (refused.reply, refused.at) == ("EARLY", part.due_at)


async def test_an_attempts_time_is_the_servers_and_stands_in_the_record(desk: Desk) -> None:
    first, _ = await two(desk)
    made = await desk.intent(first, "a")
    part = await desk.part(first.id)
    seconds, micros = await desk.client.time()
    assert part.attempt_at == made.at
    assert 0 <= seconds * 1000 + micros // 1000 - made.at < 10_000
    assert part.attempts_made == {"a": f"1 {made.at} sending"}


# the key's window


async def test_after_the_window_nothing_that_may_have_arrived_is_sent_again(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.RETRY)  # a 5xx: it may have been taken
    part = await desk.part(first.id)
    assert part.exposed_at == part.attempt_at
    assert (await desk.intent(part, key_window_ms=1_000, need_ms=1_000)).reply == "LAPSED"
    lapsed = await advance(desk, part, Operation.LAPSE, key_window_ms=0)
    assert (lapsed.reply, lapsed.state) == ("OK", State.UNKNOWN)


async def test_a_lapse_is_refused_while_the_key_protects(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.RETRY)
    part = await desk.part(first.id)
    assert (await advance(desk, part, Operation.LAPSE, key_window_ms=WINDOW_MS)).reply == "EARLY"


async def test_what_is_proven_not_sent_opens_no_window(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.RETRY, proven=True)
    part = await desk.part(first.id)
    assert part.exposed_at == 0
    assert (await desk.intent(part, key_window_ms=0)).reply == "OK"


async def test_a_later_proof_does_not_clear_an_earlier_doubt(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.RETRY)
    await desk.intent(await desk.part(first.id), "b")
    await desk.receipt(first, "b", Verdict.RETRY, proven=True)
    assert (await desk.part(first.id)).exposed_at > 0


# receipts


async def test_a_receipt_is_taken_from_any_token(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.intent(first, "a")
    await desk.own("2:bbbb")
    step = await desk.receipt(first, "a", Verdict.SENT)
    assert (step.reply, step.state) == ("OK", State.SENT)


async def test_a_repeated_receipt_changes_nothing(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.SENT)
    assert (await desk.receipt(first, "a", Verdict.SENT)).reply == "ALREADY"
    assert await desk.client.hget(desk.keys.turn(desk.turn), "open_parts") == "1"


async def test_a_receipt_of_an_attempt_that_was_never_made_is_refused(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.intent(first, "a")
    assert (await desk.receipt(first, "z", Verdict.SENT)).reply == "OTHER_ATTEMPT"
    assert (await desk.part(first.id)).state is State.SENDING


async def test_nothing_takes_back_that_a_part_was_sent(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.SENT)
    assert (await desk.receipt(first, "a", Verdict.DEAD)).reply == "LATE"
    assert (await desk.part(first.id)).state is State.SENT


async def test_a_late_receipt_of_an_abandoned_part_is_kept_with_it(desk: Desk) -> None:
    first, _ = await two(desk)
    part = await desk.bring(first, State.ABANDONED)
    step = await desk.receipt(part, "first", Verdict.SENT, receipt='{"late":1}')
    assert (step.reply, step.state) == ("LATE", State.ABANDONED)
    assert await desk.client.hget(desk.keys.part(part.id), "late_receipt") == '{"late":1}'


async def reattempted(desk: Desk) -> PartRecord:
    """A part whose first owner is gone and whose second repeats it by key."""
    first, _ = await two(desk)
    await desk.intent(first, "a")
    await desk.own("2:bbbb")
    part = await desk.part(first.id)
    assert (await desk.intent(part, "b")).reply == "OK"
    return await desk.part(first.id)


async def test_two_attempts_that_both_arrived_are_detected(desk: Desk) -> None:
    part = await reattempted(desk)
    late = await desk.receipt(part, "a", Verdict.SENT)
    assert (late.reply, late.state) == ("DUPLICATE", State.SENDING)
    assert (await desk.receipt(part, "b", Verdict.SENT)).state is State.SENT
    after = await desk.part(part.id)
    assert after.duplicate_detected
    assert (await desk.receipt(part, "a", Verdict.SENT)).reply == "ALREADY"


async def test_they_are_detected_in_the_other_order_too(desk: Desk) -> None:
    part = await reattempted(desk)
    await desk.receipt(part, "b", Verdict.SENT)
    assert (await desk.receipt(part, "a", Verdict.SENT)).reply == "DUPLICATE"
    assert (await desk.part(part.id)).duplicate_detected


@pytest.mark.parametrize("verdict", [Verdict.RETRY, Verdict.UNKNOWN, Verdict.DEAD])
async def test_a_failed_repeat_of_what_did_arrive_ends_as_sent(desk: Desk, verdict: Verdict) -> None:
    part = await reattempted(desk)
    await desk.receipt(part, "a", Verdict.SENT)
    step = await desk.receipt(part, "b", verdict)
    assert (step.reply, step.state) == ("OK", State.SENT)


async def test_a_failed_first_attempt_says_nothing_about_the_second(desk: Desk) -> None:
    part = await reattempted(desk)
    step = await desk.receipt(part, "a", Verdict.RETRY)
    assert (step.reply, step.state) == ("OTHER_ATTEMPT", State.SENDING)


async def test_a_late_fact_between_two_attempts_saves_the_second(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.UNKNOWN)
    part = await desk.part(first.id)
    assert (await advance(desk, part, Operation.REKEY, key_window_ms=WINDOW_MS)).state is State.RETRY
    assert (await desk.receipt(part, "a", Verdict.SENT)).state is State.SENT
    assert (await desk.intent(await desk.part(first.id))).reply == "STATE"


# recovery


async def test_a_repeat_by_key_waits_for_the_quarantine(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.intent(first, "a")
    await desk.own("2:bbbb")
    part = await desk.part(first.id)
    early = await desk.intent(part, quarantine_ms=LONG_MS)
    assert (early.reply, early.at) == ("EARLY", part.attempt_at + LONG_MS)
    assert (await desk.intent(part, quarantine_ms=0)).reply == "OK"


async def test_an_attempt_of_our_own_is_not_recovered(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.intent(first, "a")
    part = await desk.part(first.id)
    assert (await desk.intent(part)).reply == "BUSY"
    assert (await advance(desk, part, Operation.RECOVER)).reply == "BUSY"


async def test_recovery_needs_the_owners_token_and_the_quarantine(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.intent(first, "a")
    await desk.own("2:bbbb")
    part = await desk.part(first.id)
    assert (await advance(desk, part, Operation.RECOVER, token="1:aaaa")).reply == "STALE"
    assert (await advance(desk, part, Operation.RECOVER, quarantine_ms=LONG_MS)).reply == "EARLY"
    assert (await advance(desk, part, Operation.RECOVER)).state is State.UNKNOWN


async def test_recovering_what_is_known_to_have_arrived_settles_it(desk: Desk) -> None:
    part = await reattempted(desk)
    await desk.receipt(part, "a", Verdict.SENT)
    await desk.own("3:cccc")
    assert (await advance(desk, await desk.part(part.id), Operation.RECOVER)).state is State.SENT


async def test_an_unknown_part_that_steps_aside_lets_its_lane_go_on(desk: Desk) -> None:
    first, second = await two(desk)
    part = await desk.bring(first, State.UNKNOWN)
    assert (await desk.intent(second)).reply == "NOT_HEAD"
    assert (await advance(desk, part, Operation.STEP_ASIDE)).state is State.UNKNOWN
    assert await desk.where(part) == {"unknown"}
    assert (await desk.intent(second)).reply == "OK"


async def test_an_age_counts_from_the_record_and_is_the_servers(desk: Desk) -> None:
    first, _ = await two(desk)
    call = {"since": "age_from", "age_ms": LONG_MS}
    assert (await advance(desk, first, Operation.EXPIRE, **call)).reply == "EARLY"
    assert (await advance(desk, first, Operation.EXPIRE, since="settled_at")).reply == "EARLY"


# persons


async def test_not_sent_is_not_believed_inside_the_quarantine(desk: Desk) -> None:
    first, _ = await two(desk)
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
    first, second = await two(desk)
    part = await desk.bring(first, State.UNKNOWN)
    call = delivery.resolve(desk.keys, part, sent=True, by="me", quarantine_ms=0, ttl_ms=TTL_MS)
    assert (await desk.run(call)).state is State.SENT
    assert (await desk.intent(second)).reply == "OK"


async def test_resending_without_knowing_is_counted(desk: Desk) -> None:
    first, _ = await two(desk)
    part = await desk.bring(first, State.UNKNOWN)
    early = delivery.resend(desk.keys, part, by="me", quarantine_ms=LONG_MS, ttl_ms=TTL_MS)
    assert (await desk.run(early)).reply == "EARLY"
    await desk.run(delivery.resend(desk.keys, part, by="me", quarantine_ms=0, ttl_ms=TTL_MS))
    after = await desk.part(part.id)
    assert (after.state, after.waivers) == (State.RETRY, 1)


@pytest.mark.parametrize("state", [State.PENDING, State.RETRY, State.UNKNOWN])
async def test_what_waits_can_be_dropped(desk: Desk, state: State) -> None:
    first, second = await two(desk)
    part = await desk.bring(first, state)
    step = await desk.run(delivery.drop(desk.keys, part, by="me", quarantine_ms=0, ttl_ms=TTL_MS))
    assert step.state is (State.ABANDONED if state is State.UNKNOWN else State.DEAD)
    assert (await desk.intent(second)).reply == "OK"


async def test_a_dead_part_that_is_queued_again_comes_first(desk: Desk) -> None:
    first, second = await two(desk)
    part = await desk.bring(first, State.DEAD)
    assert (await desk.run(delivery.requeue(desk.keys, part, by="me", ttl_ms=TTL_MS))).state is State.RETRY
    lane = await desk.run(delivery.read_lane(desk.keys, desk.p, first.lane))
    assert lane == [first.id, second.id]
    assert await desk.client.pttl(desk.keys.part(first.id)) == -1
    assert await desk.client.hget(desk.keys.turn(desk.turn), "open_parts") == "2"


async def test_a_part_queued_again_never_overtakes_one_that_is_being_sent(desk: Desk) -> None:
    first, second = await two(desk)
    part = await desk.bring(first, State.DEAD)
    await desk.intent(second, "b")
    await desk.run(delivery.requeue(desk.keys, part, by="me", ttl_ms=TTL_MS))
    lane = await desk.run(delivery.read_lane(desk.keys, desk.p, first.lane))
    assert lane == [second.id, first.id]
    assert (await desk.intent(await desk.part(first.id))).reply == "NOT_HEAD"


async def test_a_word_about_a_part_that_is_gone_is_refused(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.client.delete(desk.keys.part(first.id))
    assert (await desk.run(delivery.requeue(desk.keys, first, by="me", ttl_ms=TTL_MS))).reply == "UNKNOWN_DELIVERY"
    assert (await desk.receipt(first, "a", Verdict.SENT)).reply == "UNKNOWN_DELIVERY"
    assert await desk.run(delivery.read_part(desk.keys, first.id)) is None


# retiring


async def test_the_last_settled_part_of_an_ended_turn_says_so(desk: Desk) -> None:
    first, second = await two(desk)
    await desk.intent(first, "a")
    assert not (await desk.receipt(first, "a", Verdict.SENT)).may_retire
    await desk.client.hset(desk.keys.turn(desk.turn), "state", "completed")
    await desk.intent(second, "b")
    assert (await desk.receipt(second, "b", Verdict.SENT)).may_retire
    assert (await desk.receipt(second, "b", Verdict.SENT)).may_retire  # a repeat, after a lost reply


async def test_a_turn_whose_record_is_gone_is_not_made_again(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.client.delete(desk.keys.turn(desk.turn))
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.SENT)
    assert not await desk.client.exists(desk.keys.turn(desk.turn))


# looking


async def test_lanes_are_due_when_their_head_can_be_acted_upon(desk: Desk) -> None:
    first, _ = await two(desk)
    due = await desk.run(delivery.due_lanes(desk.keys, desk.p, count=10))
    assert due.lanes == [first.lane]
    await desk.intent(first, "a", quarantine_ms=LONG_MS)
    due = await desk.run(delivery.due_lanes(desk.keys, desk.p, count=10))
    assert (due.lanes, due.later) == ([], (await desk.part(first.id)).attempt_at + LONG_MS)
    await desk.receipt(first, "a", Verdict.SENT)
    assert (await desk.run(delivery.due_lanes(desk.keys, desk.p, count=10))).lanes == [first.lane]


async def test_a_lane_is_put_off_only_while_its_head_is_the_one_decided_about(desk: Desk) -> None:
    first, second = await two(desk)

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
    first, second = await two(desk)
    await desk.bring(first, State.UNKNOWN)
    await advance(desk, await desk.part(first.id), Operation.STEP_ASIDE)
    await desk.bring(second, State.DEAD)
    tally = await desk.run(delivery.tally(desk.keys, desk.p, dead_ms=LONG_MS))
    assert (tally.unknown, tally.dead, tally.sending, tally.due, tally.lanes) == (1, 1, 0, 0, 0)
    assert 0 < tally.unknown_since <= tally.now
    assert await desk.run(delivery.list_parts(desk.keys, desk.p, State.UNKNOWN)) == [(first.id, tally.unknown_since)]
    assert await desk.run(delivery.list_parts(desk.keys, desk.p, State.DEAD)) == [(second.id, tally.dead_since)]
    assert await desk.run(delivery.parts_of(desk.keys, desk.turn)) == [first.id, second.id]
    assert await desk.run(delivery.lane_head(desk.keys, desk.p, first.lane)) == ""


async def test_the_dead_are_forgotten_with_their_records(desk: Desk) -> None:
    first, _ = await two(desk)
    await desk.bring(first, State.DEAD)
    await desk.client.zadd(desk.keys.dead(desk.p), {first.id: 1})
    assert (await desk.run(delivery.tally(desk.keys, desk.p, dead_ms=LONG_MS))).dead == 0


async def test_a_record_tells_everything_in_plain_fields(desk: Desk) -> None:
    first, _ = await two(desk)
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
