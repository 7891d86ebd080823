"""The delivery role as a whole: each part applied exactly once and in order, whatever dies, and the truth told about the rest."""

import asyncio
from collections.abc import Callable

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from ledger import delivery
from ledger.parts import Verdict
from ledger.states import State
from tests.support.receivers import Act
from tests.support.waiting import wait_until
from tests.workers.delivery.conftest import SECRET, Site
from workers.delivery.channels.contract import Message
from workers.delivery.channels.webhook import Webhook
from workers.delivery.gate import Gate
from workers.delivery.outcomes import Outcome

Arrange = Callable[[str, Callable[[], None]], None]


def texts(site: Site) -> list[str]:
    return [body["text"] for body in site.receiver.texts]


def wanted(blocks: int) -> list[str]:
    return [f"text {block}" for block in range(blocks)]


async def test_blocks_reach_every_target_once_and_in_order(site: Site) -> None:
    turn = await site.turn("hook", "terminal", blocks=5)
    site.start()
    await site.until(10, State.SENT)
    assert texts(site) == wanted(5)
    assert [shown.strip() for shown in site.shown()] == wanted(5)
    assert len(site.receiver.requests) == 5
    keys, client = site.desk.keys, site.desk.client
    assert await client.hget(keys.turn(turn), "open_parts") == "0"
    for name in (keys.sending(1), keys.due(1), keys.unknown(1), keys.dead(1), keys.lanes(1)):
        assert await client.exists(name) == 0


async def test_requests_carry_the_headers_of_standard_webhooks(site: Site) -> None:
    await site.turn("hook", blocks=1)
    site.start()
    await site.until(1, State.SENT)
    [request] = site.receiver.requests
    [part] = await site.parts()
    assert Verifier(SECRET).verify(request.body, request.headers)
    assert request.headers["webhook-id"] == request.headers["Idempotency-Key"] == part.webhook_id
    assert request.headers["webhook-timestamp"] == str(part.attempt_at // 1000)


async def test_an_ended_turn_with_everything_sent_is_given_its_time_to_live(site: Site) -> None:
    turn = await site.turn("hook", blocks=2, state="completed")
    site.start()
    await site.until(2, State.SENT)

    async def expires() -> bool:
        return bool(await site.desk.client.pttl(site.desk.keys.turn(turn)) > 0)

    await wait_until(expires, "the turn's record has a time to live")


@pytest.mark.parametrize(
    ("point", "repeats"),
    [
        ("delivery.after_raise", 0),
        ("delivery.after_take", 0),
        ("delivery.before_plan", 0),
        ("delivery.after_plan", 0),
        ("delivery.before_intent", 0),
        ("delivery.after_intent", 0),
        ("delivery.after_answer", 1),
        ("delivery.after_receipt", 0),
    ],
)
async def test_whatever_a_dead_owner_left_is_finished_by_the_next(
    site: Site, at_failpoint: Arrange, point: str, repeats: int
) -> None:
    reached = asyncio.Event()
    at_failpoint(point, reached.set)
    await site.turn("hook", blocks=3)
    first = site.start()
    await asyncio.wait_for(reached.wait(), 10)
    await first.drop()
    site.start()
    await site.until(3, State.SENT)
    assert texts(site) == wanted(3)
    assert site.receiver.repeats == repeats


async def test_what_a_dead_owner_had_taken_is_planned_before_what_came_after_it(
    site: Site, at_failpoint: Arrange
) -> None:
    reached = asyncio.Event()
    at_failpoint("delivery.after_take", reached.set)
    turn = await site.turn("hook", blocks=2)
    first = site.start()
    await asyncio.wait_for(reached.wait(), 10)
    await first.drop()
    await site.desk.add_block(2, turn, text="text 2")
    site.start()
    await site.until(3, State.SENT)
    assert texts(site) == wanted(3)


@pytest.mark.parametrize(("point", "shown"), [("delivery.after_intent", 2), ("delivery.after_answer", 3)])
async def test_a_console_is_never_written_twice_and_the_rest_is_unknown(
    site: Site, at_failpoint: Arrange, point: str, shown: int
) -> None:
    reached = asyncio.Event()
    at_failpoint(point, reached.set)
    await site.turn("terminal", blocks=3)
    first = site.start()
    await asyncio.wait_for(reached.wait(), 10)
    await first.drop()
    site.start()
    await site.until(3, State.SENT, State.UNKNOWN)

    async def settled() -> bool:
        return (await site.states()) == [State.UNKNOWN, State.SENT, State.SENT]

    await wait_until(settled, "the rest of the lane is sent after the hold")
    assert [text.strip() for text in site.shown()] == wanted(3)[3 - shown :]


async def test_order_and_number_survive_every_kind_of_fault(site: Site) -> None:
    site.receiver.retry_after = "0"
    site.receiver.play(
        Act.FAIL_BEFORE,
        Act.FAIL_AFTER,
        Act.ACCEPT,
        Act.TOO_MANY,
        Act.RESET_AFTER,
        Act.ACCEPT,
        Act.RESET_BEFORE,
        Act.ACCEPT,
    )
    await site.turn("hook", blocks=5)
    site.start()
    await site.until(5, State.SENT)
    assert texts(site) == wanted(5)
    assert len(site.receiver.requests) == 5 + 5


async def test_a_receiver_that_never_answers_is_asked_again_under_the_same_key(site: Site) -> None:
    site.receiver.play(Act.STALL_AFTER)
    await site.turn("hook", blocks=2)
    site.start()
    await site.until(2, State.SENT)
    assert texts(site) == wanted(2)
    assert [request.repeated for request in site.receiver.requests] == [False, True, False]
    first, second, _ = site.receiver.requests
    assert first.body == second.body


async def test_a_receiver_that_is_down_holds_its_own_lane_alone(site: Site) -> None:
    await site.receiver.stop()
    await site.turn("hook", "terminal", blocks=3)
    site.start()
    await wait_until(lambda: len(site.shown()) == 3, "the console has everything")

    async def proven_not_sent() -> bool:
        first = (await site.parts())[0]
        return first.state is State.RETRY and first.failures > 0 and first.exposed_at == 0

    await wait_until(proven_not_sent, "the webhook was tried, and it is known that nothing arrived")
    await site.receiver.start()
    await site.until(6, State.SENT)
    assert texts(site) == wanted(3)
    assert site.receiver.repeats == 0


@pytest.mark.parametrize(("act", "status"), [(Act.GONE, 410), (Act.REFUSE, 400), (Act.REDIRECT, 307)])
async def test_a_permanent_answer_kills_the_part_and_not_the_lane(site: Site, act: Act, status: int) -> None:
    site.receiver.play(act)
    await site.turn("hook", blocks=2)
    site.start()
    await site.until(2, State.DEAD, State.SENT)
    dead, sent = await site.parts()
    assert (dead.state, sent.state) == (State.DEAD, State.SENT)
    assert f'"status":{status}' in dead.receipt
    listed = await site.desk.run(delivery.list_parts(site.desk.keys, 1, State.DEAD))
    assert [part for part, _ in listed] == [dead.id]


async def test_a_part_is_given_up_with_a_reason_when_it_is_too_old(site: Site) -> None:
    site.delivery = {"age_limit_ms": 300}
    site.receiver.otherwise = Act.FAIL_BEFORE
    await site.turn("hook", blocks=1)
    site.start()
    await site.until(1, State.DEAD)
    [part] = await site.parts()
    assert "age limit" in part.note


async def test_a_part_whose_attempts_are_used_up_is_given_up_and_the_next_goes_out(site: Site) -> None:
    site.delivery = {"max_attempts": 2, "backoff_base_ms": 1, "backoff_max_ms": 1}
    site.receiver.otherwise = Act.FAIL_BEFORE
    await site.turn("hook", blocks=2)
    site.start()
    await site.until(2, State.DEAD)
    assert len({request.id for request in site.receiver.requests}) == 2


async def test_without_a_key_an_unanswered_webhook_is_given_up_by_policy_drop(site: Site) -> None:
    site.hook = {"key_window_ms": 1_000, "policy": "drop"}
    site.receiver.play(Act.RESET_AFTER)
    await site.turn("hook", blocks=2)
    site.start()
    await site.until(2, State.ABANDONED, State.SENT)
    assert await site.states() == [State.ABANDONED, State.SENT]
    assert len(site.receiver.requests) == 2


async def test_without_a_key_policy_resend_is_a_waiver_and_counted(site: Site) -> None:
    site.hook = {"key_window_ms": 1_000, "policy": "resend"}
    site.receiver.play(Act.RESET_AFTER)
    await site.turn("hook", blocks=1)
    site.start()
    await site.until(1, State.SENT)
    [part] = await site.parts()
    assert part.waivers == 1
    assert site.receiver.repeats == 1


async def test_what_nobody_resolves_is_abandoned_and_never_sent_again(site: Site) -> None:
    site.hook = {"key_window_ms": 1_000}
    site.delivery = {"unknown_max_ms": 1_500, "unknown_hold_ms": 100}
    site.receiver.play(Act.RESET_BEFORE)
    await site.turn("hook", blocks=2)
    site.start()
    await site.until(2, State.ABANDONED, State.SENT)
    assert texts(site) == ["text 1"]
    assert len(site.receiver.requests) == 2


async def test_a_persons_word_settles_an_unknown_part(site: Site) -> None:
    site.hook = {"key_window_ms": 1_000}
    site.delivery = {"unknown_hold_ms": 60_000}
    site.receiver.play(Act.RESET_BEFORE)
    await site.turn("hook", blocks=2)
    site.start()

    async def resolved() -> bool:
        parts = await site.parts()
        if not parts or parts[0].state is not State.UNKNOWN:
            return False
        call = delivery.resolve(site.desk.keys, parts[0], sent=False, by="me", quarantine_ms=1_400, ttl_ms=60_000)
        return (await site.desk.run(call)).reply == "OK"

    await wait_until(resolved, "the quarantine is over and the word is taken", every_s=0.05)
    await site.until(2, State.SENT)
    assert texts(site) == wanted(2)


async def test_a_graceful_stop_hands_over_at_once_and_leaves_nothing_unknown(site: Site) -> None:
    await site.turn("hook", blocks=1)
    first = site.start()
    await site.until(1, State.SENT)
    await first.stop()
    for block in (1, 2):
        await site.desk.add_block(block, text=f"text {block}")
    site.start()
    await site.until(3, State.SENT, timeout_s=5)
    assert texts(site) == wanted(3)


async def test_a_stop_waits_for_the_attempt_that_is_out(site: Site) -> None:
    site.receiver.play(Act.STALL_BEFORE)
    await site.turn("hook", blocks=1)
    first = site.start()
    await wait_until(lambda: site.receiver.requests, "the request is out")
    first.halt.set()
    site.receiver.release()
    await first.task
    assert await site.states() == [State.SENT]


async def test_the_receipt_of_a_former_owner_is_taken_as_a_fact(site: Site, at_failpoint: Arrange) -> None:
    reached = asyncio.Event()
    at_failpoint("delivery.after_answer", reached.set)
    await site.turn("terminal", blocks=1)
    first = site.start()
    await asyncio.wait_for(reached.wait(), 10)
    await first.drop()
    site.delivery = {"unknown_hold_ms": 60_000}
    site.start()
    await site.until(1, State.UNKNOWN)
    [part] = await site.parts()
    step = await site.desk.receipt(part, part.attempt, Verdict.SENT)
    assert (step.reply, step.state) == ("OK", State.SENT)


async def test_an_attempt_that_outlives_its_owners_token_still_writes_its_receipt(site: Site) -> None:
    site.delivery = {"lease_ms": 6_000, "send_deadline_ms": 4_000}
    site.receiver.play(Act.STALL_BEFORE)
    await site.turn("hook", blocks=1)
    life = site.start()
    await wait_until(lambda: site.receiver.requests, "the request is out")
    await site.desk.own("99:other")
    await wait_until(lambda: 1 not in life.worker._serving, "the loss to be noticed")
    site.receiver.release()
    await site.until(1, State.SENT, timeout_s=5)
    assert len(site.receiver.requests) == 1


async def test_a_channel_that_raises_costs_nothing_but_the_attempt(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    send = Webhook.send
    raised: list[str] = []

    async def raises_once(self: Webhook, message: Message, gate: Gate) -> Outcome:
        if not raised:
            raised.append(message.attempt)
            raise RuntimeError("a fault of ours")
        return await send(self, message, gate)

    monkeypatch.setattr(Webhook, "send", raises_once)
    await site.turn("hook", blocks=2)
    site.start()
    await site.until(2, State.SENT)
    assert texts(site) == wanted(2)
    assert [part.attempts for part in await site.parts()] == [2, 1]


async def test_turns_of_a_serial_session_wait_for_those_before_them(site: Site) -> None:
    early, late = site.desk.turn, site.desk.turn[:-1] + "1"
    keys, client = site.desk.keys, site.desk.client
    await client.rpush(keys.serial(1, "s1"), early, late)
    await site.turn("hook", turn=early, serial=1)
    await site.turn("hook", turn=late, serial=1)
    await site.desk.add_block(0, late, text="late 0")
    await site.desk.add_block(0, early, text="early 0")
    site.start()
    await wait_until(lambda: texts(site) == ["early 0"], "the early turn is delivered")
    await site.desk.add_block(1, late, text="late 1")
    await site.desk.add_block(1, early, text="early 1")
    await wait_until(lambda: len(texts(site)) == 2, "the early turn goes on")
    await client.hset(keys.turn(early), "state", "completed")
    await site.until(2, State.SENT, turn=late)
    assert texts(site) == ["early 0", "early 1", "late 0", "late 1"]


async def test_turns_of_another_session_are_not_held_back(site: Site) -> None:
    early, late = site.desk.turn, site.desk.turn[:-1] + "1"
    await site.turn("hook", turn=early)
    await site.turn("hook", turn=late)
    await site.desk.add_block(0, late, text="late 0")
    await site.desk.add_block(0, early, text="early 0")
    site.start()
    await wait_until(lambda: texts(site) == ["late 0", "early 0"], "both are delivered in the order of commit")


async def test_suppressed_text_is_recorded_and_not_sent(site: Site) -> None:
    await site.turn("hook")
    await site.desk.add_block(0, text="given up", suppressed=True)
    await site.desk.add_block(1, text="text 1")
    site.start()
    await site.until(2, State.SUPPRESSED, State.SENT)
    assert texts(site) == ["text 1"]


async def test_a_block_that_no_channel_can_show_costs_itself_alone(site: Site) -> None:
    await site.turn("hook")
    await site.desk.add_block(0)
    await site.desk.client.hset(site.desk.keys.turn(site.desk.turn), "targets", '[{"channel":"pigeon","name":"hook"}]')
    other = await site.turn("hook", turn=site.desk.turn[:-1] + "1", blocks=1)
    site.start()
    await site.until(1, State.SENT, turn=other)
    await site.until(1, State.DEAD)


async def test_an_account_is_held_for_all_when_its_channel_asks_for_that(site: Site) -> None:
    site.receiver.play(Act.TOO_MANY)
    await site.turn("hook", blocks=1)
    site.start()
    await wait_until(lambda: site.receiver.requests, "the first attempt")
    budget = site.desk.keys.budget("hook")

    async def held() -> bool:
        return await site.desk.client.hget(budget, "held_until") is not None

    await wait_until(held, "the account is held")
    await site.until(1, State.SENT)
    assert len(site.receiver.requests) == 2


async def test_two_workers_share_and_neither_repeats_the_other(site: Site) -> None:
    site.start()
    site.start()
    await site.turn("hook", "terminal", blocks=8)
    await site.until(16, State.SENT)
    assert texts(site) == wanted(8)
    assert site.receiver.repeats == 0
    assert len(site.shown()) == 8
