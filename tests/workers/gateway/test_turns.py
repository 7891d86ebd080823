import asyncio
import json
from typing import Any

import aiohttp
import pytest

from ledger.records import TurnState
from tests.support.waiting import wait_until
from tests.workers.gateway.stage import Stage, created, delta, ended, read_events, stage
from workers.gateway.sse import StoredFrame, parse_event_id
from workers.gateway.watch import READ_BYTES


async def start(on: Stage, turn: str, **headers: str) -> aiohttp.ClientResponse:
    answer = await on.http.get(f"{on.url}/v1/turns/{turn}/events", headers=headers)
    assert answer.status == 200, await answer.text()
    return answer


async def test_a_turn_is_read_live_by_many_clients_over_one_listening_connection(redis_url: str) -> None:
    async with stage(redis_url, poll_ms=1000) as on:
        await wait_until(on.gateway.is_ready, "the channels are subscribed to")
        turn = await on.submit()
        clients = [await start(on, turn) for _ in range(20)]
        await wait_until(lambda: on.gateway.hub.watched == 20, "all clients watch")
        frames = [created(turn), *(delta(n, "x") for n in range(1, 9)), ended(9, turn)]
        for one in frames:
            state = TurnState.COMPLETED if one is frames[-1] else TurnState.RUNNING
            await on.commit(turn, one, state=state)
        streams = [await read_events(client) for client in clients]
        stored = [StoredFrame(one.number, one.sse.encode()) for one in frames]
        expected = [f"id: {one.event_id}\n{one.sse.decode().strip()}" for one in stored]
        assert all(stream == expected for stream in streams)
        await wait_until(lambda: on.gateway.hub.watched == 0, "no reader is left behind")
        listening = [one for one in await on.client.client_list() if one["name"] == "foldline-hints"]
        assert len(listening) == 1


async def test_lost_hints_and_an_unheard_channel_delay_a_client_and_lose_nothing(redis_url: str) -> None:
    async with stage(redis_url) as on:
        turn = await on.submit()
        client = await start(on, turn)
        await on.commit(turn, created(turn), hint=False)
        await on.commit(turn, delta(1, "a"), delta(2, "b"), hint=False)
        await on.commit(turn, ended(3, turn), state=TurnState.COMPLETED)
        numbers = [event.split("-")[0] for event in await read_events(client)]
        assert numbers == ["id: 0", "id: 1", "id: 2", "id: 3"]


@pytest.mark.parametrize("hint", [True, False])
async def test_commits_larger_than_one_read_of_the_stream_are_read_to_their_end(redis_url: str, *, hint: bool) -> None:
    async with stage(redis_url, client_queue_bytes=1000) as on:
        turn = await on.submit()
        client = await start(on, turn)
        whole = [created(turn), *(delta(number, "x" * READ_BYTES) for number in range(1, 13)), ended(13, turn)]
        for at in range(0, 14, 2):
            state = TurnState.COMPLETED if at == 12 else TurnState.RUNNING
            await on.commit(turn, *whole[at : at + 2], state=state, hint=hint)
        numbers = [int(event.removeprefix("id: ").split("-")[0]) for event in await read_events(client)]
        assert numbers == list(range(14))


async def test_a_client_goes_on_behind_the_frame_that_it_names(redis_url: str) -> None:
    async with stage(redis_url) as on:
        turn = await on.submit()
        await on.commit(turn, created(turn), delta(1, "a"))
        await on.commit(turn, delta(2, "b"), ended(3, turn), state=TurnState.COMPLETED)
        whole = await read_events(await start(on, turn))
        for held in range(3):
            ident = whole[held].split("\n")[0].removeprefix("id: ")
            assert await read_events(await start(on, turn, **{"Last-Event-ID": ident})) == whole[held + 1 :]
            async with on.http.get(f"{on.url}/v1/turns/{turn}/events?last_event_id={ident}") as answer:
                assert await read_events(answer) == whole[held + 1 :]
        last = whole[-1].split("\n")[0].removeprefix("id: ")
        async with on.http.get(f"{on.url}/v1/turns/{turn}/events", headers={"Last-Event-ID": last}) as answer:
            assert answer.status == 204, "EventSource stops coming back"


async def test_a_client_that_holds_other_bytes_is_told_that_the_stream_was_rolled_back(redis_url: str) -> None:
    async with stage(redis_url) as on:
        turn = await on.submit()
        await on.commit(turn, created(turn), delta(1, "a"))
        (event,) = await read_events(await start(on, turn, **{"Last-Event-ID": "1-00000000"}))
        assert event.startswith("event: stream_error\n")
        assert '"code":"stream_rolled_back"' in event
        (event,) = await read_events(await start(on, turn, **{"Last-Event-ID": "5-00000000"}))
        assert '"code":"stream_rolled_back"' in event


async def test_a_stream_that_loses_its_tail_ends_its_clients(redis_url: str) -> None:
    async with stage(redis_url) as on:
        turn = await on.submit()
        await on.commit(turn, created(turn))
        await on.commit(turn, delta(1, "a"))
        client = await start(on, turn)
        await client.content.readuntil(b'"delta":"a"')
        await on.client.xtrim(on.keys.frames(turn), maxlen=0)
        await on.client.hset(on.keys.turn(turn), "frames_next", 1)
        events = (await client.read()).decode()
        assert '"code":"stream_rolled_back"' in events


async def test_an_emptied_server_ends_every_client_with_turn_lost_and_new_turns_work(redis_url: str) -> None:
    async with stage(redis_url) as on:
        running, queued = await on.submit(), await on.submit()
        await on.commit(running, created(running))
        clients = [await start(on, running), await start(on, queued)]
        await clients[0].content.readuntil(b"response.created")
        await on.client.flushall()
        for client in clients:
            assert '"code":"turn_lost"' in (await client.read()).decode()
        on.raised.clear()
        turn = await on.submit()
        await on.commit(turn, created(turn), ended(1, turn), state=TurnState.COMPLETED)
        assert len(await read_events(await start(on, turn))) == 2


async def test_an_expired_stream_is_410_with_a_code(redis_url: str) -> None:
    async with stage(redis_url) as on:
        turn = await on.submit()
        await on.commit(turn, created(turn), ended(1, turn), state=TurnState.COMPLETED)
        await on.client.delete(on.keys.frames(turn))
        for path in (
            f"/v1/turns/{turn}/events",
            f"/v1/responses/resp_{turn}?stream=true",
            f"/v1/responses/resp_{turn}",
        ):
            status, body = await on.get(path)
            assert (status, body["error"]["code"]) == (410, "stream_expired"), path


async def test_silence_is_filled_with_comments(redis_url: str) -> None:
    async with stage(redis_url, keepalive_ms=30) as on:
        client = await start(on, await on.submit())
        await client.content.readuntil(b": keepalive\n\n: keepalive\n\n")
        assert client.headers["X-Accel-Buffering"] == "no"
        assert "no-cache" in client.headers["Cache-Control"]
        client.close()
        await wait_until(lambda: on.gateway.hub.watched == 0, "the reader of a client that went is gone")


async def test_a_client_that_goes_does_not_end_the_turn(redis_url: str) -> None:
    async with stage(redis_url) as on:
        turn = await on.submit()
        await on.commit(turn, created(turn))
        client = await start(on, turn)
        await client.content.readuntil(b"response.created")
        client.close()
        await wait_until(lambda: on.gateway.hub.watched == 0, "the reader has gone")
        record = await on.record(turn)
        assert (record.state, record.cancel) == (TurnState.RUNNING, False)


async def test_a_client_that_does_not_read_costs_no_more_than_its_bound(redis_url: str) -> None:
    async with stage(redis_url, client_queue_bytes=20_000) as on:
        turn = await on.submit()
        reader, writer = await asyncio.open_connection("127.0.0.1", on.gateway.port, limit=1024)
        writer.write(f"GET /v1/turns/{turn}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await wait_until(lambda: on.gateway.hub.watched == 1, "the client watches")
        (watch,) = on.gateway.hub._watches[turn]
        await on.commit(turn, created(turn))
        peak = 0
        for number in range(1, 1200):
            await on.commit(turn, delta(number, "x" * 8_000))
            peak = max(peak, watch.queued_bytes)
        await on.commit(turn, ended(1200, turn), state=TurnState.COMPLETED)
        assert peak <= 20_000
        assert watch.number < 1200, "it is far behind"
        text = b""
        while b"response.completed" not in text[-4000:]:
            chunk = await reader.read(65536)
            assert chunk
            text += chunk
        ids = [line[4:].split(b"-")[0] for line in text.split(b"\n") if line.startswith(b"id: ")]
        assert ids == [str(number).encode() for number in range(1201)]
        writer.close()


async def test_a_turn_is_shown_with_its_state_and_names(redis_url: str) -> None:
    async with stage(redis_url) as on:
        turn = await on.submit(
            session="chat-1", targets=["log", "hook", "log"], serial=True, settings={"min_chars": 10}
        )
        status, body = await on.get(f"/v1/turns/{turn}")
        assert status == 200
        assert body["id"] == turn
        assert (body["state"], body["session"], body["upstream"], body["serial"]) == ("queued", "chat-1", "main", True)
        assert body["targets"] == ["log", "hook"]
        await on.commit(
            turn,
            created(turn),
            ended(1, turn, "failed"),
            state=TurnState.FAILED,
            error='{"code":"upstream_stalled","message":"no byte"}',
            usage='{"total_tokens":3}',
        )
        status, body = await on.get(f"/v1/turns/{turn}")
        assert (body["state"], body["frames"], body["error"]["code"]) == ("failed", 2, "upstream_stalled")
        assert body["usage"] == {"total_tokens": 3}


async def test_an_open_target_takes_the_recipient_that_a_turn_names(redis_url: str) -> None:
    async with stage(redis_url) as on:
        turn = await on.submit(targets=["room:C1/17.5", "room:C2", "room:C1/17.5"])
        wanted = json.loads((await on.record(turn)).targets)
    assert [(target["name"], target["recipient"]) for target in wanted] == [("room", "C1/17.5"), ("room", "C2")]


async def test_a_cancel_flags_the_turn_and_answers_its_record(redis_url: str) -> None:
    async with stage(redis_url) as on:
        turn = await on.submit()
        cancelling = asyncio.ensure_future(on.post(f"/v1/turns/{turn}/cancel", {}))

        async def flagged() -> bool:
            return (await on.record(turn)).cancel

        await wait_until(flagged, "the flag stands")
        await on.commit(turn, created(turn), ended(1, turn, "incomplete"), state=TurnState.CANCELLED)
        status, body = await cancelling
        assert (status, body["state"], body["cancel_requested"]) == (200, "cancelled", True)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, None),
        ({"request": []}, "request"),
        ({"request": {}, "url": "http://x"}, None),
        ({"request": {}, "session": "a b"}, "session"),
        ({"request": {}, "session": "x" * 257}, "session"),
        ({"request": {}, "session": "a|b"}, "session"),
        ({"request": {}, "idempotency_key": "ä"}, "idempotency_key"),
        ({"request": {}, "targets": ["nowhere"]}, "targets"),
        ({"request": {}, "targets": ["log:elsewhere"]}, "targets"),
        ({"request": {}, "targets": [{"url": "http://x"}]}, "targets[0]"),
        ({"request": {}, "settings": {"speed": 1}}, "settings.speed"),
        ({"request": {}, "settings": {"min_chars": "many"}}, "settings.min_chars"),
        ({"request": {}, "upstream": "https://example.invalid"}, "upstream"),
        ({"request": {"model": 7}}, "model"),
    ],
)
async def test_what_is_no_turn_is_refused_by_name(redis_url: str, body: Any, param: str | None) -> None:
    async with stage(redis_url) as on:
        status, answer = await on.post("/v1/turns", body)
        assert status == 400, answer
        assert answer["error"]["type"] == "invalid_request_error"
        assert answer["error"]["param"] == param
        assert await on.client.keys("*turn:*") == []


async def test_an_event_id_that_is_none_is_refused(redis_url: str) -> None:
    async with stage(redis_url) as on:
        turn = await on.submit()
        status, answer = await on.get(f"/v1/turns/{turn}/events", **{"Last-Event-ID": "x" * 1000})
        assert (status, answer["error"]["param"]) == (400, "Last-Event-ID")
        assert parse_event_id("1-00000000") == (1, "00000000")
