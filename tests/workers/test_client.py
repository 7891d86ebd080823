"""The producer's client: numbers, retries, claims; against a real gateway behind a proxy that loses replies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from ledger.external import EXTERNAL
from ledger.log import entries_of, read_entries
from ledger.turns import request_cancel
from pipeline.codec import decode_batch
from pipeline.events import TERMINALS, Event, TextDelta, TurnCompleted
from tests.workers.gateway.stage import Stage, stage
from workers.client import ClientError, Door, Producer, ProducerStaleError, TurnOverError

BODY: dict[str, Any] = {"upstream": "outside", "request": {}}


@pytest.fixture
async def s(redis_url: str) -> AsyncIterator[Stage]:
    async with stage(redis_url) as opened:
        yield opened


async def logged(s: Stage, turn: str) -> list[Event]:
    """The turn's events; their numbers have neither gap nor repeat."""
    ids = await s.scripts.run(entries_of(s.keys, turn))
    entries = await s.scripts.run(read_entries(s.keys, s.keys.partition_of_turn(turn), ids))
    events = [event for entry in entries if entry.producer == EXTERNAL for event in decode_batch(entry.events)]
    assert [event.seq for event in events] == list(range(len(events)))
    return events


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@asynccontextmanager
async def losing(url: str, *, request_every: int, reply_every: int) -> AsyncIterator[str]:
    """A proxy that refuses some requests before they arrive and drops the connection of some others after they were served."""
    count = 0

    async def pass_on(request: web.Request) -> web.StreamResponse:
        nonlocal count
        count += 1
        if count % request_every == 0:
            return web.Response(status=503)
        async with aiohttp.ClientSession() as session:
            headers = {name: value for name, value in request.headers.items() if name.lower().startswith("x-foldline")}
            async with session.request(
                request.method, url + request.path, data=await request.read(), headers=headers
            ) as answer:
                told = await answer.read()
        if count % reply_every == 0:
            assert request.transport is not None
            request.transport.close()
        return web.Response(status=answer.status, body=told, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", pass_on)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_a_turn_is_carried_to_its_end(s: Stage) -> None:
    async with Door.open(s.url) as door:
        producer = await Producer.submit(door, BODY, key="job-7")
        producer.delta("Hello, ")
        producer.delta("world.")
        await producer.flush()
        assert producer.acknowledged == 3
        await producer.complete(usage={"total_tokens": 3})
    events = await logged(s, producer.turn)
    assert text_of(events) == "Hello, world."
    assert isinstance(events[-1], TurnCompleted)
    assert events[1].at > 0


async def test_lost_requests_and_lost_replies_leave_every_event_once(s: Stage) -> None:
    words = [f"word {number} " for number in range(40)]
    async with (
        losing(s.url, request_every=4, reply_every=3) as url,
        Door.open(url) as door,
    ):
        producer = await Producer.submit(door, BODY, key="job-8")
        for word in words:
            producer.delta(word)
            if word.endswith(("3 ", "7 ")):
                await producer.flush()
        await producer.complete()
    events = await logged(s, producer.turn)
    assert text_of(events) == "".join(words)
    assert sum(isinstance(event, TERMINALS) for event in events) == 1


async def test_a_program_that_restarts_goes_on_where_it_stopped(s: Stage) -> None:
    async with Door.open(s.url) as door:
        first = await Producer.submit(door, BODY, key="job-9")
        first.delta("one ")
        await first.flush()
        first.delta("never sent")
        second = await Producer.submit(door, BODY, key="job-9")
        assert (second.turn, second.next_seq) == (first.turn, 2)
        with pytest.raises(ProducerStaleError):
            await first.flush()
        resumed = await Producer.resume(door, second.turn, second.token)
        resumed.delta("two")
        await resumed.complete()
        with pytest.raises(TurnOverError):
            await Producer.claim(door, first.turn)
    assert text_of(await logged(s, first.turn)) == "one two"


async def test_a_server_that_lost_its_tail_is_sent_it_again(s: Stage) -> None:
    async with Door.open(s.url) as door:
        producer = await Producer.submit(door, BODY)
        producer.delta("a")
        await producer.flush()
        saved = {key: await s.client.dump(key) for key in await s.client.keys("*")}
        producer.delta("b")
        await producer.flush()
        await s.client.flushall()
        for key, value in saved.items():
            await s.client.restore(key, 0, value or b"")
        producer.delta("c")
        await producer.complete()
    assert text_of(await logged(s, producer.turn)) == "abc"


async def test_a_cancel_is_heard_and_answered(s: Stage) -> None:
    async with Door.open(s.url) as door:
        producer = await Producer.submit(door, BODY)
        await s.scripts.run(request_cancel(s.keys, producer.turn, grace_ms=60_000))
        producer.delta("a")
        await producer.flush()
        assert producer.cancelled
        await producer.cancel()
    assert (await s.record(producer.turn)).ended == "turn_cancelled"


async def test_a_failure_ends_the_turn_by_its_name(s: Stage) -> None:
    async with Door.open(s.url) as door:
        producer = await Producer.submit(door, BODY)
        await producer.fail("tool_broke", "the tool broke")
        with pytest.raises(ValueError, match="terminal"):
            producer.delta("late")
    assert (await s.record(producer.turn)).ended == "turn_failed"


async def test_a_refusal_is_raised_with_its_diagnostic(s: Stage) -> None:
    async with Door.open(s.url) as door:
        with pytest.raises(ClientError) as refused:
            await Producer.submit(door, {"upstream": "nobody", "request": {}})
        assert refused.value.code == "upstream_unknown"
        producer = await Producer.submit(door, BODY)
        bad = msgspec.json.encode([{"type": "text_delta", "seq": 1, "at": 1}])
        with pytest.raises(ClientError) as refused:
            await door.post(f"/v1/turns/{producer.turn}/events", bad, {"X-Foldline-Producer": producer.token})
        assert refused.value.error["diagnostic"]["code"] == "member_missing"
        with pytest.raises(ClientError, match="carried by an ingest"):
            await Producer.resume(door, await s.submit(), "1:x")


async def test_a_gateway_that_stays_away_is_given_up_after_a_while() -> None:
    async with Door.open("http://127.0.0.1:9", patience_s=0.1) as door:
        with pytest.raises(aiohttp.ClientConnectionError):
            async with asyncio.timeout(20):
                await Producer.claim(door, "0-0")


async def test_programs_that_take_a_turn_from_each_other_leave_one_history(s: Stage) -> None:
    """Whoever has the token goes on behind what is stored; the words are known by their numbers, so no word may come twice."""
    words = [f"word {number} " for number in range(60)]
    async with losing(s.url, request_every=7, reply_every=5) as url, Door.open(url) as door:
        turn = (await Producer.submit(door, BODY, key="shared")).turn

        async def carry(steps: int) -> None:
            while True:
                try:
                    producer = await Producer.claim(door, turn)
                    left = words[producer.next_seq - 1 :]
                    for word in left[:steps]:
                        producer.delta(word)
                        await producer.flush()
                    if len(left) <= steps:
                        await producer.complete()
                        return
                except ProducerStaleError:
                    continue
                except TurnOverError:
                    return

        async with asyncio.timeout(60):
            await asyncio.gather(*(carry(steps) for steps in (3, 5, 11)))
    events = await logged(s, turn)
    assert text_of(events) == "".join(words)
    assert sum(isinstance(event, TERMINALS) for event in events) == 1


@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_an_end_whose_reply_is_lost_is_no_error(s: Stage, lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Door.open(s.url) as door:
        producer = await Producer.submit(door, BODY, key=f"end-{lost}")
        producer.delta("all")
        await producer.flush()
        post, replies = Door.post, [lost]

        async def losing_replies(self: Door, *request: Any) -> dict[str, Any]:
            told = await post(self, *request)
            while replies[0]:  # the reply did not arrive, and the same is asked again
                replies[0] -= 1
                told = await post(self, *request)
            return told

        monkeypatch.setattr(Door, "post", losing_replies)
        await producer.complete()
        assert producer.acknowledged == 3
    assert text_of(await logged(s, producer.turn)) == "all"
