"""The ingest process on a real server against a real upstream: how turns end, are cancelled, taken over and drained."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger.turns import request_cancel
from pipeline.events import (
    Event,
    ToolFinished,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from tests.support.upstream import (
    Answerer,
    Upstream,
    conversation,
    error,
    html,
    json_body,
    raw,
    reset,
    text,
)
from tests.support.waiting import wait_until
from tests.workers.ingest.rig import Rig, config_for, text_of
from workers.ingest.bounds import Room
from workers.ingest.publisher import Bench
from workers.ingest.runner import Outside
from workers.ingest.sources.http_stream import open_session
from workers.ingest.worker import IngestWorker
from workers.runtime.clock import SystemClock
from workers.streams.guard import Guard
from workers.streams.lease import LeaseKeeper
from workers.streams.news import News

WORDS = "Once upon a time there was a stream."


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream() as server:
        yield server


async def ended_by(redis_url: str, upstream: Upstream, *answers: Answerer, **changes: Any) -> tuple[Event, list[Event]]:
    upstream.then(*answers)
    async with Rig(config_for(redis_url, upstream.base_url, **changes)) as rig:
        turn = await rig.submit()
        rig.start()
        last = await rig.ended(turn)
        return last, await rig.events(turn)


async def test_a_turn_is_published_from_its_start_to_its_completion(redis_url: str, upstream: Upstream) -> None:
    last, events = await ended_by(redis_url, upstream, text(WORDS, pieces=9))
    assert isinstance(events[0], TurnStarted)
    assert isinstance(last, TurnCompleted)
    assert text_of(events) == WORDS
    assert upstream.received[0].body == {"model": "m", "input": "hi", "stream": True}


async def test_the_key_reaches_the_upstream_and_no_record(
    redis_url: str, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_UPSTREAM_KEY", "sk-very-secret")
    upstream.then(error(401, "invalid_api_key", "Incorrect API key provided."))
    async with Rig(config_for(redis_url, upstream.base_url, api_key_env="TEST_UPSTREAM_KEY")) as rig:
        turn = await rig.submit()
        rig.start()
        await rig.ended(turn)
        assert upstream.received[0].headers["Authorization"] == "Bearer sk-very-secret"
        keys = [str(key) for key in await rig.client.keys("*")]
        assert rig.keys.turn(turn) in keys
        for key in keys:
            assert "sk-very-secret" not in await _dump(rig, key)


async def _dump(rig: Rig, key: str) -> str:
    readers = {"hash": ("HGETALL",), "stream": ("XRANGE", "-", "+"), "list": ("LRANGE", "0", "-1")}
    kind = str(await rig.client.type(key))
    command, *arguments = readers.get(kind, ("ZRANGE", "0", "-1"))
    return repr(await rig.client.execute_command(command, key, *arguments))


@pytest.mark.parametrize(
    ("answer", "changes", "code", "message"),
    [
        (error(401, "invalid_api_key", "Wrong key."), {}, "upstream_unauthorized", "Wrong key."),
        (
            error(429, "rate_limit_exceeded", "Slow down."),
            {"connect_retries": 1},
            "upstream_rate_limited",
            "Slow down.",
        ),
        (error(429, "x", "Tomorrow.", retry_after="86400"), {}, "upstream_rate_limited", "Tomorrow."),
        (error(500, "server_error", "Oops."), {}, "upstream_server_error", "Oops."),
        (html(502, "Bad gateway"), {}, "upstream_server_error", "Bad gateway"),
        (error(404, "model_not_found", "No such model."), {}, "upstream_bad_request", "No such model."),
        (json_body({}, status=302), {}, "upstream_bad_response", ""),
        (text(WORDS, keep=6, ending="stall"), {"read_timeout_ms": 60}, "upstream_stalled", "60 ms"),
        (text(WORDS, keep=6), {}, "upstream_truncated", ""),
        (text(WORDS, keep=6, ending="cut"), {}, "upstream_truncated", "closed the connection"),
        (text(WORDS, keep=6, ending="reset"), {}, "upstream_truncated", "closed the connection"),
        (reset(), {}, "upstream_truncated", "before it answered"),
    ],
    ids=[
        "401",
        "429",
        "429 for a day",
        "500",
        "html",
        "404",
        "redirect",
        "stall",
        "eof",
        "cut",
        "reset",
        "reset at once",
    ],
)
async def test_each_upstream_failure_ends_the_turn_by_its_own_code(
    redis_url: str, upstream: Upstream, answer: Answerer, changes: dict[str, Any], code: str, message: str
) -> None:
    last, events = await ended_by(redis_url, upstream, answer, **changes)
    assert isinstance(last, TurnFailed)
    assert last.error.code == code
    assert message in last.error.message
    assert isinstance(events[0], TurnStarted)


async def test_an_error_body_with_status_200_fails_the_turn_in_the_upstreams_words(
    redis_url: str, upstream: Upstream
) -> None:
    answer = json_body({"error": {"message": "Overloaded.", "type": "server_error", "code": "overloaded"}})
    last, _ = await ended_by(redis_url, upstream, answer)
    assert isinstance(last, TurnFailed)
    assert (last.error.code, last.error.message) == ("overloaded", "Overloaded.")


async def test_a_whole_response_in_place_of_a_stream_is_the_turn(redis_url: str, upstream: Upstream) -> None:
    response = {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "output": [
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": WORDS, "annotations": []}],
            }
        ],
    }
    last, events = await ended_by(redis_url, upstream, json_body(response))
    assert isinstance(last, TurnCompleted)
    assert text_of(events) == WORDS


async def test_a_refused_connection_is_tried_again_until_it_is_there(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS))
    await upstream.close()
    async with Rig(config_for(redis_url, upstream.base_url, connect_retries=50)) as rig:
        turn = await rig.submit()
        rig.start()
        await rig.published(turn, 1)
        await upstream.open()
        assert isinstance(await rig.ended(turn), TurnCompleted)


async def test_a_connection_that_is_never_made_fails_the_turn(redis_url: str, upstream: Upstream) -> None:
    await upstream.close()
    last, _ = await ended_by(redis_url, upstream, text(WORDS), connect_retries=2)
    assert isinstance(last, TurnFailed)
    assert last.error.code == "upstream_connect_failed"


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_upstream_is_asked_again(redis_url: str, upstream: Upstream, status: int) -> None:
    last, events = await ended_by(redis_url, upstream, error(status, "busy", "Later.", retry_after="0.02"), text(WORDS))
    assert isinstance(last, TurnCompleted)
    assert text_of(events) == WORDS
    assert len(upstream.received) == 2


async def test_an_upstream_that_nobody_configured_fails_the_turn(redis_url: str, upstream: Upstream) -> None:
    async with Rig(config_for(redis_url, upstream.base_url)) as rig:
        turn = await rig.submit(upstream="other")
        rig.start()
        last = await rig.ended(turn)
        assert isinstance(last, TurnFailed)
        assert last.error.code == "upstream_not_configured"
        assert isinstance((await rig.events(turn))[0], TurnStarted)


async def test_a_function_is_called_and_answered_in_two_turns(redis_url: str, upstream: Upstream) -> None:
    upstream.then(conversation("look", '{"at":"it"}', WORDS))
    tools = [{"type": "function", "name": "look", "parameters": {}}]
    async with Rig(config_for(redis_url, upstream.base_url)) as rig:
        rig.start()
        first = await rig.submit({"input": "hi", "tools": tools})
        await rig.ended(first)
        call = next(event for event in await rig.events(first) if isinstance(event, ToolFinished))
        assert call.input == '{"at":"it"}'
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "seen"}
        second = await rig.submit({"input": [output], "tools": tools}, number=2)
        await rig.ended(second)
        assert text_of(await rig.events(second)) == WORDS


async def test_many_turns_are_carried_at_once_within_the_bound(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS))
    upstream.pause_before(4)
    async with Rig(config_for(redis_url, upstream.base_url, max_turns=3)) as rig:
        turns = [await rig.submit(number=number) for number in range(1, 6)]
        rig.start()
        await upstream.asked(3)
        for turn in turns[:3]:
            await rig.published(turn, 2)
        assert len(upstream.received) == 3
        upstream.release()
        for turn in turns:
            assert isinstance(await rig.ended(turn), TurnCompleted)
        assert len(upstream.received) == 5


async def test_a_cancel_closes_the_upstream_and_ends_the_turn_as_cancelled(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS))
    upstream.pause_before(6)
    async with Rig(config_for(redis_url, upstream.base_url)) as rig:
        turn = await rig.submit()
        rig.start()
        await upstream.reached(6)
        await rig.scripts.run(request_cancel(rig.keys, turn, grace_ms=10_000))
        assert isinstance(await rig.ended(turn), TurnCancelled)
        await upstream.left()
        events = await rig.events(turn)
        assert WORDS.startswith(text_of(events))
        assert text_of(events)


async def test_a_turn_cancelled_before_it_was_taken_never_asks_the_upstream(redis_url: str, upstream: Upstream) -> None:
    async with Rig(config_for(redis_url, upstream.base_url)) as rig:
        turn = await rig.submit()
        await rig.scripts.run(request_cancel(rig.keys, turn, grace_ms=10_000))
        rig.start()
        assert isinstance(await rig.ended(turn), TurnCancelled)
        assert isinstance((await rig.events(turn))[0], TurnStarted)
        assert upstream.received == []


async def test_bytes_that_are_no_stream_fail_the_turn(redis_url: str, upstream: Upstream) -> None:
    last, _ = await ended_by(redis_url, upstream, raw(b"hello\n\nworld\n\n"))
    assert isinstance(last, TurnFailed)


async def test_a_partition_that_was_behind_is_read_on_once_it_is_folded(redis_url: str, upstream: Upstream) -> None:
    upstream.then(text(WORDS, pieces=30))
    upstream.pause_before(12)
    async with Rig(config_for(redis_url, upstream.base_url, lag_high=10, lag_low=5)) as rig:
        turn = await rig.submit()
        rig.start()
        await rig.published(turn, 10)
        upstream.release()
        await wait_until(lambda: upstream.received[0].finished, "the upstream to have written everything")
        assert (await rig.record(turn)).ended == ""
        committed = rig.keys.committed(0)
        await rig.client.hset(committed, "folded", str(await rig.client.hget(committed, "published")))
        assert isinstance(await rig.ended(turn), TurnCompleted)


async def test_the_last_words_of_a_turn_are_said_again_to_a_server_that_lost_them(
    redis_url: str, upstream: Upstream
) -> None:
    upstream.then(text(WORDS, pieces=9))
    upstream.pause_before(6)
    config = config_for(redis_url, upstream.base_url)
    clock, stop = SystemClock(), asyncio.Event()
    async with Rig(config) as rig, open_session() as session:
        bench = Bench(
            config=config.ingest,
            scripts=rig.scripts,
            keys=rig.keys,
            guard=Guard(clock, config.ingest.lease_ms),
            clock=clock,
            room=Room(total_bytes=config.ingest.buffer_bytes, turn_bytes=config.ingest.turn_buffer_bytes),
        )
        keeper = LeaseKeeper(config.redis, clock, role="ingest", lease_ms=600, renew_ms=150)
        news = News(config.redis)
        await keeper.start()
        outside = Outside(upstreams=config.upstreams, session=session, environ={})
        worker = IngestWorker(bench, outside, client=rig.client, keeper=keeper, news=news)
        turn = await rig.submit()
        running = asyncio.create_task(worker.run(stop, drain_ms=200))
        await upstream.reached(6)
        await rig.published(turn, 5)
        saved = await rig.saved()
        upstream.release()
        await rig.ended(turn)
        await wait_until(lambda: worker.running == 0, "the turn to be let go")
        await rig.restore(saved)
        bench.guard.disturbed("restart")
        assert isinstance(await rig.ended(turn), TurnCompleted)
        assert text_of(await rig.events(turn)) == WORDS
        stop.set()
        await running
        await keeper.stop()
        await news.close()
