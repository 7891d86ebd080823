"""A server forgets what was sent; the process that sent it does not, says so, and nothing goes out a second time."""

from collections.abc import Callable

import pytest

from ledger.parts import PartRecord, Verdict, part_from_hash
from ledger.states import State
from tests.support.receivers import Act
from tests.support.rollback import Copy
from tests.support.waiting import wait_until
from tests.workers.delivery.conftest import Site
from workers.delivery.outcomes import Outcome, lost, not_sent
from workers.delivery.recall import REMEMBERED, Recall

Arrange = Callable[[str, Callable[[], None]], None]
SENT = Outcome(verdict=Verdict.SENT, reason="accepted")


def record(state: State = State.PENDING, ident: str = "x", **fields: str) -> PartRecord:
    part = part_from_hash(ident, {"state": state, "token": "1:a", **fields})
    assert part is not None
    return part


async def test_what_a_rolled_back_server_asks_for_again_is_written_again_not_sent(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.receiver.dedupes = False
    site.hook = {"key_window_ms": 1}
    before = await site.turn("hook", blocks=3)
    site.start()
    await site.until(3, State.SENT)
    copy = await Copy.of(site.redis_url)
    for block in range(3, 6):
        await site.desk.add_block(block, before, text=f"text {block}")
    await site.until(6, State.SENT)
    with_blocks = [site.receiver.texts[block]["text"] for block in range(6)]
    await copy.restore(site.redis_url)
    assert await site.states() == [State.SENT] * 3
    for block in range(3, 6):
        await site.desk.add_block(block, before, text=f"text {block}")
    await site.until(6, State.SENT)
    assert [body["text"] for body in site.receiver.texts] == with_blocks
    assert "".join(capsys.readouterr()).count("delivery_rolled_back") == 3


async def test_an_outcome_that_was_unknown_stays_unknown(site: Site) -> None:
    site.hook = {"key_window_ms": 1}
    site.delivery = {"unknown_hold_ms": 60_000}
    site.receiver.play(Act.RESET_AFTER)
    turn = await site.turn("hook")
    life = site.start()
    await wait_until(lambda: life.worker._serving, "a partition")
    copy = await Copy.of(site.redis_url)
    await site.desk.add_block(0, turn, text="text 0")
    await site.until(1, State.UNKNOWN)
    await copy.restore(site.redis_url)
    await site.desk.add_block(0, turn, text="text 0")
    await site.until(1, State.UNKNOWN)
    assert len(site.receiver.requests) == 1


def test_only_what_the_record_lacks_is_recalled() -> None:
    recall = Recall()
    recall.begin(record(), "a")
    recall.end("x", "a", SENT)
    missing = recall.missing_in(record(), "1:a")
    assert missing is not None
    assert missing.fact is SENT
    assert recall.missing_in(record(State.RETRY, **{"attempt:a": "1 1 retry"}), "1:a") is None
    assert recall.missing_in(record(State.UNKNOWN), "1:a") is None
    assert recall.missing_in(record(State.SENDING, attempt="a"), "1:a") == missing
    assert recall.missing_in(record(State.SENDING, attempt="a"), "2:b") is None
    assert recall.missing_in(record(ident="y"), "1:a") is None


def test_an_attempt_that_broke_off_is_unknown_and_one_that_never_left_is_forgotten() -> None:
    recall = Recall()
    recall.begin(record(), "a")
    missing = recall.missing_in(record(State.SENDING, attempt="a"), "1:a")
    assert missing is not None
    assert missing.fact == lost("receipt_lost")
    recall.end("x", "other", SENT)
    recall.end("x", "a", not_sent("refused"))
    assert recall.missing_in(record(), "1:a") is None
    recall.end("x", "a", SENT)
    assert recall.missing_in(record(), "1:a") is None


def test_the_memory_is_bounded_and_can_forget() -> None:
    recall = Recall()
    for number in range(REMEMBERED + 1):
        recall.begin(record(ident=f"x{number}"), "a")
    assert recall.missing_in(record(ident="x0"), "1:a") is None
    assert recall.missing_in(record(ident="x1"), "1:a") is not None
    recall.forget("x1")
    assert recall.missing_in(record(ident="x1"), "1:a") is None
