"""Intents, receipts, recovery and persons' words, on a real server."""

import pytest

from ledger.parts import PartRecord, Verdict
from ledger.states import Operation, State
from tests.support.deliveries import WINDOW_MS, Desk

LONG_MS = 3_600_000


# intents


async def test_only_the_first_of_a_lane_may_be_sent(desk: Desk) -> None:
    first, second = await desk.two()
    assert (await desk.intent(second)).reply == "NOT_HEAD"
    assert (await desk.intent(first, "a")).reply == "OK"
    assert (await desk.intent(second)).reply == "NOT_HEAD"
    await desk.receipt(first, "a", Verdict.SENT)
    assert (await desk.intent(second)).reply == "OK"


async def test_an_intent_needs_the_owners_token(desk: Desk) -> None:
    first, _ = await desk.two()
    old = desk.token
    await desk.own("2:bbbb")
    desk.token = old
    assert (await desk.intent(first)).reply == "STALE"
    assert (await desk.part(first.id)).state is State.PENDING


async def test_a_repeated_intent_is_one_attempt(desk: Desk) -> None:
    first, _ = await desk.two()
    made = await desk.intent(first, "a")
    again = await desk.intent(first, "a")
    assert (again.reply, again.at, again.number) == ("ALREADY", made.at, 1)
    assert (await desk.part(first.id)).attempts == 1


async def test_an_intent_for_another_body_is_refused(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.client.hset(desk.keys.part(first.id), "body_hash", "other")
    assert (await desk.intent(first)).reply == "BODY"


async def test_an_intent_is_refused_for_a_part_that_is_gone(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.client.delete(desk.keys.part(first.id))
    assert (await desk.intent(first)).reply == "UNKNOWN_DELIVERY"


async def test_a_retry_waits_for_its_time(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.RETRY, wait_ms=LONG_MS)
    part = await desk.part(first.id)
    refused = await desk.intent(part)
    assert (refused.reply, refused.at) == ("EARLY", part.due_at)


async def test_an_attempts_time_is_the_servers_and_stands_in_the_record(desk: Desk) -> None:
    first, _ = await desk.two()
    made = await desk.intent(first, "a")
    part = await desk.part(first.id)
    seconds, micros = await desk.client.time()
    assert part.attempt_at == made.at
    assert 0 <= seconds * 1000 + micros // 1000 - made.at < 10_000
    assert part.attempts_made == {"a": f"1 {made.at} sending"}


# the key's window


async def test_after_the_window_nothing_that_may_have_arrived_is_sent_again(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.RETRY)  # a 5xx: it may have been taken
    part = await desk.part(first.id)
    assert part.exposed_at == part.attempt_at
    assert (await desk.intent(part, key_window_ms=1_000, need_ms=1_000)).reply == "LAPSED"
    lapsed = await desk.advance(part, Operation.LAPSE, key_window_ms=0)
    assert (lapsed.reply, lapsed.state) == ("OK", State.UNKNOWN)


async def test_a_lapse_is_refused_while_the_key_protects(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.RETRY)
    part = await desk.part(first.id)
    assert (await desk.advance(part, Operation.LAPSE, key_window_ms=WINDOW_MS)).reply == "EARLY"


async def test_what_is_proven_not_sent_opens_no_window(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.RETRY, proven=True)
    part = await desk.part(first.id)
    assert part.exposed_at == 0
    assert (await desk.intent(part, key_window_ms=0)).reply == "OK"


async def test_a_later_proof_does_not_clear_an_earlier_doubt(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.RETRY)
    await desk.intent(await desk.part(first.id), "b")
    await desk.receipt(first, "b", Verdict.RETRY, proven=True)
    assert (await desk.part(first.id)).exposed_at > 0


# receipts


async def test_a_receipt_is_taken_from_any_token(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.intent(first, "a")
    await desk.own("2:bbbb")
    step = await desk.receipt(first, "a", Verdict.SENT)
    assert (step.reply, step.state) == ("OK", State.SENT)


async def test_a_repeated_receipt_changes_nothing(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.SENT)
    assert (await desk.receipt(first, "a", Verdict.SENT)).reply == "ALREADY"
    assert await desk.client.hget(desk.keys.turn(desk.turn), "open_parts") == "1"


async def test_a_receipt_of_an_attempt_that_was_never_made_is_refused(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.intent(first, "a")
    assert (await desk.receipt(first, "z", Verdict.SENT)).reply == "OTHER_ATTEMPT"
    assert (await desk.part(first.id)).state is State.SENDING


async def test_nothing_takes_back_that_a_part_was_sent(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.SENT)
    assert (await desk.receipt(first, "a", Verdict.DEAD)).reply == "LATE"
    assert (await desk.part(first.id)).state is State.SENT


async def test_a_late_receipt_of_an_abandoned_part_is_kept_with_it(desk: Desk) -> None:
    first, _ = await desk.two()
    part = await desk.bring(first, State.ABANDONED)
    step = await desk.receipt(part, "first", Verdict.SENT, receipt='{"late":1}')
    assert (step.reply, step.state) == ("LATE", State.ABANDONED)
    assert await desk.client.hget(desk.keys.part(part.id), "late_receipt") == '{"late":1}'


async def test_what_is_known_to_have_arrived_is_not_sent_again_when_it_is_requeued(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.DEAD)
    assert (await desk.receipt(first, "a", Verdict.SENT)).reply == "LATE"
    step = await desk.advance(await desk.part(first.id), Operation.REQUEUE)
    assert (step.reply, step.state) == ("OK", State.SENT)
    assert await desk.client.hget(desk.keys.turn(desk.turn), "open_parts") == "1"


async def reattempted(desk: Desk) -> PartRecord:
    """A part whose first owner is gone and whose second repeats it by key."""
    first, _ = await desk.two()
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
    first, _ = await desk.two()
    await desk.intent(first, "a")
    await desk.receipt(first, "a", Verdict.UNKNOWN)
    part = await desk.part(first.id)
    assert (await desk.advance(part, Operation.REKEY, key_window_ms=WINDOW_MS)).state is State.RETRY
    assert (await desk.receipt(part, "a", Verdict.SENT)).state is State.SENT
    assert (await desk.intent(await desk.part(first.id))).reply == "STATE"


# recovery


async def test_a_repeat_by_key_waits_for_the_quarantine(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.intent(first, "a")
    await desk.own("2:bbbb")
    part = await desk.part(first.id)
    early = await desk.intent(part, quarantine_ms=LONG_MS)
    assert (early.reply, early.at) == ("EARLY", part.attempt_at + LONG_MS)
    assert (await desk.intent(part, quarantine_ms=0)).reply == "OK"


async def test_an_attempt_of_our_own_is_not_recovered(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.intent(first, "a")
    part = await desk.part(first.id)
    assert (await desk.intent(part)).reply == "BUSY"
    assert (await desk.advance(part, Operation.RECOVER)).reply == "BUSY"


async def test_recovery_needs_the_owners_token_and_the_quarantine(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.intent(first, "a")
    await desk.own("2:bbbb")
    part = await desk.part(first.id)
    assert (await desk.advance(part, Operation.RECOVER, token="1:aaaa")).reply == "STALE"
    assert (await desk.advance(part, Operation.RECOVER, quarantine_ms=LONG_MS)).reply == "EARLY"
    assert (await desk.advance(part, Operation.RECOVER)).state is State.UNKNOWN


async def test_recovering_what_is_known_to_have_arrived_settles_it(desk: Desk) -> None:
    part = await reattempted(desk)
    await desk.receipt(part, "a", Verdict.SENT)
    await desk.own("3:cccc")
    assert (await desk.advance(await desk.part(part.id), Operation.RECOVER)).state is State.SENT


async def test_an_unknown_part_that_steps_aside_lets_its_lane_go_on(desk: Desk) -> None:
    first, second = await desk.two()
    part = await desk.bring(first, State.UNKNOWN)
    assert (await desk.intent(second)).reply == "NOT_HEAD"
    assert (await desk.advance(part, Operation.STEP_ASIDE)).state is State.UNKNOWN
    assert await desk.where(part) == {"unknown"}
    assert (await desk.intent(second)).reply == "OK"


async def test_an_age_counts_from_the_record_and_is_the_servers(desk: Desk) -> None:
    first, _ = await desk.two()
    call = {"since": "age_from", "age_ms": LONG_MS}
    assert (await desk.advance(first, Operation.EXPIRE, **call)).reply == "EARLY"
    assert (await desk.advance(first, Operation.EXPIRE, since="settled_at")).reply == "EARLY"
