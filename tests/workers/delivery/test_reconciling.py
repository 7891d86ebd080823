"""A receiver that knows no keys and can be asked: each part is taken once, whatever was lost on the way."""

import asyncio
from collections.abc import Callable

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from ledger.parts import part_from_hash
from ledger.states import State
from tests.support.receivers import Act
from tests.support.waiting import wait_until
from tests.workers.delivery.conftest import SECRET, Site
from workers.config import TargetConfig
from workers.delivery.channels.contract import Message
from workers.delivery.channels.webhook import Webhook
from workers.delivery.gate import Gate
from workers.delivery.outcomes import Capability, Found, Outcome
from workers.runtime.clock import SystemClock

Arrange = Callable[[str, Callable[[], None]], None]


@pytest.fixture
def asked(site: Site) -> Site:
    """The site, whose hook knows no keys and can be asked."""
    site.receiver.dedupes = False
    site.hook = {"key_window_ms": 1, "reconcile_url": site.receiver.find_url}
    return site


def texts(site: Site) -> list[str]:
    return [body["text"] for body in site.receiver.texts]


@pytest.mark.parametrize("act", [Act.RESET_BEFORE, Act.RESET_AFTER, Act.FAIL_BEFORE, Act.FAIL_AFTER])
async def test_what_the_receiver_has_is_not_sent_again_and_what_it_has_not_is(asked: Site, act: Act) -> None:
    asked.receiver.play(act)
    await asked.turn("hook", blocks=3)
    asked.start()
    await asked.until(3, State.SENT)
    assert texts(asked) == [f"text {block}" for block in range(3)]
    taken = act in {Act.RESET_AFTER, Act.FAIL_AFTER}
    assert len(asked.receiver.requests) == (3 if taken else 4)
    assert len(asked.receiver.asked) == 1


async def test_nobody_asks_while_the_request_may_still_be_on_its_way(asked: Site) -> None:
    asked.receiver.play(
        Act.STALL_BEFORE
    )  # taken only when the sender has long given up, and before the quarantine is over
    await asked.turn("hook", blocks=1)
    asked.start()
    await asked.until(1, State.UNKNOWN)
    clock, began = SystemClock(), SystemClock().boottime_ms()
    await wait_until(lambda: clock.boottime_ms() > began + 500, "half of the quarantine")
    assert asked.receiver.asked == []
    assert len(asked.receiver.requests) == 1
    asked.receiver.release()
    await asked.until(1, State.SENT)
    assert texts(asked) == ["text 0"]
    assert len(asked.receiver.requests) == 1


async def test_an_answer_that_settles_nothing_is_asked_for_again(asked: Site) -> None:
    asked.delivery = {"unknown_hold_ms": 60_000}
    asked.receiver.play(Act.RESET_AFTER)
    asked.receiver.answers.extend([500, 301, 204])
    await asked.turn("hook", blocks=2)
    asked.start()
    await asked.until(2, State.SENT)
    assert texts(asked) == ["text 0", "text 1"]
    assert len(asked.receiver.asked) == 4


async def test_a_part_that_left_its_lane_is_still_asked_for(asked: Site) -> None:
    asked.receiver.play(Act.RESET_AFTER)
    asked.receiver.answers.extend([500] * 8)
    await asked.turn("hook", blocks=2)
    asked.start()
    await asked.until(2, State.SENT)
    assert texts(asked) == ["text 0", "text 1"]


@pytest.mark.parametrize("point", ["delivery.after_intent", "delivery.after_answer"])
async def test_a_successor_asks_for_what_a_dead_owner_left(asked: Site, at_failpoint: Arrange, point: str) -> None:
    reached = asyncio.Event()
    at_failpoint(point, reached.set)
    await asked.turn("hook", blocks=3)
    first = asked.start()
    await asyncio.wait_for(reached.wait(), 10)
    await first.drop()
    asked.start()
    await asked.until(3, State.SENT)
    assert texts(asked) == [f"text {block}" for block in range(3)]
    await wait_until(lambda: len(asked.receiver.asked) == 1, "the one question")


async def test_a_question_is_signed_and_a_receiver_that_is_away_is_unclear(site: Site) -> None:
    config = TargetConfig(
        channel="webhook", url=site.receiver.url, key_window_ms=1, reconcile_url=site.receiver.find_url
    )
    hook = Webhook(config, SECRET)
    assert hook.capability is Capability.RECONCILE
    part = part_from_hash("1-a/0/b/0", {"state": "unknown", "content_type": "application/json"})
    assert part is not None
    headers = hook.headers(part, SystemClock().now_ms(), b"{}")
    assert headers["webhook-id"] == part.webhook_id
    assert Verifier(SECRET).verify(b"{}", headers) == {}
    assert await hook.find(part, at=1, timeout_s=5) is Found.NO
    await site.receiver.stop()
    assert await hook.find(part, at=1, timeout_s=5) is Found.UNCLEAR
    await hook.close()


async def test_a_pause_longer_than_the_quarantine_between_look_and_write_is_detected(
    asked: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What no check can prevent: the process stands still after its last look at the lease, and writes when another has sent."""
    send, wakes = Webhook.send, asyncio.Event()
    first: list[str] = []

    async def sleeps_once(self: Webhook, message: Message, gate: Gate) -> Outcome:
        if first:
            return await send(self, message, gate)
        first.append(message.attempt)
        await wakes.wait()
        monkeypatch.setattr(gate, "_remaining_ms", lambda: 1 << 40)
        monkeypatch.setattr(gate, "_ends_at_ms", SystemClock().boottime_ms() + 5_000)
        return await send(self, message, gate)

    monkeypatch.setattr(Webhook, "send", sleeps_once)
    await asked.turn("hook", blocks=1)
    life = asked.start()
    await wait_until(lambda: first, "the attempt")
    owner = asked.desk.keys.owner("delivery", 1)
    await asked.desk.client.hset(owner, mapping={"token": "99:other", "lease_until": SystemClock().now_ms() + 60_000})
    await wait_until(lambda: 1 not in life.worker._serving, "the loss to be noticed")
    await asked.desk.client.hset(owner, "lease_until", 0)
    asked.start()
    await asked.until(1, State.SENT)
    wakes.set()

    async def detected() -> bool:
        [part] = await asked.parts()
        return part.duplicate_detected

    await wait_until(detected, "the duplicate to be recorded")
    assert texts(asked) == ["text 0", "text 0"]
    await wait_until(lambda: "duplicate_detected" in "".join(capsys.readouterr()), "the alarm")
