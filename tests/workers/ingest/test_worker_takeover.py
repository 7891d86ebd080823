"""Turns that change hands: a process dies, sleeps, is stopped; another begins, asks again, reads again, or ends them."""

from collections.abc import AsyncIterator

import pytest

from ledger.turns import request_cancel
from pipeline.events import Status, TurnCancelled, TurnCompleted, TurnFailed
from tests.support.upstream import HEADERS, Answer, Answerer, Received, Upstream, text
from tests.support.waiting import wait_until
from tests.workers.ingest.rig import Rig, config_for, text_of

WORDS = "Once upon a time there was a stream."


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream() as server:
        yield server


async def test_a_dead_process_turn_without_any_event_is_simply_begun(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS))
    async with Rig(config_for(redis_url, upstream.base_url)) as rig:
        turn = await rig.submit()
        await rig.claim()
        rig.start()
        assert isinstance(await rig.ended(turn), TurnCompleted)
        assert not any(isinstance(event, Status) and event.name == "restarted" for event in await rig.events(turn))


async def test_an_unanswered_request_without_side_effects_is_made_again(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS))
    async with Rig(config_for(redis_url, upstream.base_url, side_effects=False)) as rig:
        turn = await rig.submit()
        await rig.publish(await rig.claim(), rig.started(turn))
        rig.start()
        assert isinstance(await rig.ended(turn), TurnCompleted)
        events = await rig.events(turn)
        assert isinstance(events[1], Status)
        assert events[1].name == "restarted"
        assert text_of(events) == WORDS


@pytest.mark.parametrize(("side_effects", "said"), [(True, False), (False, True)])
async def test_a_request_that_may_have_acted_or_was_answered_is_lost_with_its_process(
    redis_url: str, upstream: Upstream, *, side_effects: bool, said: bool
) -> None:
    async with Rig(config_for(redis_url, upstream.base_url, side_effects=side_effects)) as rig:
        turn = await rig.submit()
        more = [Status(seq=1, at=1, name="upstream_started", wire={"type": "response.created"})] if said else []
        await rig.publish(await rig.claim(), rig.started(turn), *more)
        rig.start()
        last = await rig.ended(turn)
        assert isinstance(last, TurnFailed)
        assert last.error.code == "ingest_lost"
        assert upstream.received == []


async def test_a_live_process_keeps_its_turn_beyond_its_first_lease(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS))
    upstream.pause_before(HEADERS)
    async with Rig(config_for(redis_url, upstream.base_url)) as rig:
        turn = await rig.submit()
        rig.start()
        rig.start()
        await upstream.asked(1)
        first = (await rig.record(turn)).ingest_lease_until

        async def renewed() -> bool:
            return (await rig.record(turn)).ingest_lease_until > first + 2 * rig.config.ingest.lease_ms

        await wait_until(renewed, "two lease periods of renewals")
        upstream.release()
        assert isinstance(await rig.ended(turn), TurnCompleted)
        assert (await rig.record(turn)).ingest_epoch == 1


async def test_a_process_whose_claim_was_taken_says_nothing_more(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS))
    upstream.pause_before(6)
    async with Rig(config_for(redis_url, upstream.base_url)) as rig:
        turn = await rig.submit()
        rig.start()
        await upstream.reached(6)
        await rig.published(turn, 3)
        await rig.client.hset(rig.keys.turn(turn), "ingest_token", "9:another")
        await upstream.left()
        assert (await rig.record(turn)).ended == ""


async def test_draining_lets_turns_end_and_releases_those_that_do_not(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS))
    upstream.pause_before(HEADERS)
    async with Rig(config_for(redis_url, upstream.base_url, side_effects=False)) as rig:
        turn = await rig.submit()
        rig.start()
        await upstream.asked(1)
        await rig.stop()
        record = await rig.record(turn)
        assert (record.ingest_token, record.ended) == ("", "")
        await upstream.left(request=0)
        upstream.release()
        rig.start()
        assert isinstance(await rig.ended(turn), TurnCompleted)


async def test_a_turn_that_ends_while_draining_is_whole(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS))
    upstream.pause_before(6)
    async with Rig(config_for(redis_url, upstream.base_url)) as rig:
        turn = await rig.submit()
        rig.start()
        await upstream.reached(6)
        task, stop = rig._workers[0]
        stop.set()
        upstream.release()
        await task
        assert isinstance((await rig.events(turn))[-1], TurnCompleted)


def stored(words: str) -> Answerer:
    """Answer a request, and each later reading of its response, with the same stream."""
    answered: list[Answer] = []

    def answer(received: Received) -> Answer:
        if received.path.endswith("/responses"):
            answered.append(text(words, pieces=9)(received))
        return answered[0]

    return answer


async def test_a_resumable_upstream_is_read_again_and_goes_on_where_the_log_ends(
    redis_url: str, upstream: Upstream
) -> None:
    upstream.then(stored(WORDS))
    upstream.pause_before(7)
    async with Rig(config_for(redis_url, upstream.base_url, resumable=True)) as rig:
        turn = await rig.submit()
        rig.start()
        await upstream.reached(7)
        await rig.published(turn, 6)
        await rig.stop()
        before = await rig.events(turn)
        upstream.release()
        rig.start()
        assert isinstance(await rig.ended(turn), TurnCompleted)
        events = await rig.events(turn)
        assert events[: len(before)] == before
        assert text_of(events) == WORDS
        assert [received.path.count("/") for received in upstream.received] == [2, 3]


async def test_a_second_answer_that_is_not_the_first_is_never_spliced(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS, pieces=9), text(WORDS.upper(), pieces=9))
    upstream.pause_before(7)
    async with Rig(config_for(redis_url, upstream.base_url, resumable=True)) as rig:
        turn = await rig.submit()
        rig.start()
        await upstream.reached(7)
        await rig.published(turn, 6)
        await rig.stop()
        before = await rig.events(turn)
        upstream.release()
        rig.start()
        last = await rig.ended(turn)
        assert isinstance(last, TurnFailed)
        assert last.error.code == "ingest_lost"
        assert (await rig.events(turn))[:-1] == before


async def test_a_cancel_is_told_to_an_upstream_that_runs_by_itself(redis_url: str, upstream: Upstream) -> None:
    upstream.then(stored(WORDS))
    upstream.pause_before(6)
    async with Rig(config_for(redis_url, upstream.base_url, resumable=True)) as rig:
        turn = await rig.submit()
        rig.start()
        await upstream.reached(6)
        await rig.published(turn, 3)
        await rig.scripts.run(request_cancel(rig.keys, turn, grace_ms=10_000))
        assert isinstance(await rig.ended(turn), TurnCancelled)
        await upstream.asked(2)
        assert upstream.received[1].path.endswith("/cancel")
        upstream.release()
