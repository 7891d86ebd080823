import asyncio
from typing import Any

import pytest

from ledger.records import TurnRecord, TurnState
from tests.support.waiting import wait_until
from tests.workers.gateway.stage import Stage, created, delta, ended, read_events, stage


async def queued_turn(on: Stage) -> str:
    """Return the one turn that was submitted."""

    async def names() -> list[Any]:
        return list(await on.client.keys("fl:*:turn:*"))

    await wait_until(names, "a turn is submitted")
    (key,) = await names()
    return str(key).rpartition(":")[2]


async def finish(
    on: Stage, turn: str, state: TurnState = TurnState.COMPLETED, *, error: str = "", upstream_id: str = ""
) -> None:
    status = {"cancelled": "incomplete"}.get(state.value, state.value)
    await on.commit(turn, created(turn), ended(1, turn, status), state=state, error=error, upstream_id=upstream_id)


async def test_a_stream_is_sent_as_it_is_stored_without_ids(redis_url: str) -> None:
    async with stage(redis_url) as on:
        body = {"model": "small", "input": "hi", "stream": True}
        async with on.http.post(f"{on.url}/v1/responses", json=body) as answer:
            turn = answer.headers["X-Foldline-Turn"]
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            frames = [created(turn), delta(1, "a"), ended(2, turn)]
            await on.commit(turn, *frames[:2])
            await on.commit(turn, frames[2], state=TurnState.COMPLETED)
            assert await read_events(answer) == [frame.sse.strip() for frame in frames]
        for after in range(3):
            async with on.http.get(f"{on.url}/v1/responses/resp_{turn}?stream=true&starting_after={after}") as answer:
                assert await read_events(answer) == [frame.sse.strip() for frame in frames[after + 1 :]]


async def test_a_request_without_stream_waits_for_the_end_and_returns_the_final_object(redis_url: str) -> None:
    async with stage(redis_url) as on:
        asked = asyncio.ensure_future(on.post("/v1/responses", {"model": "small", "input": "hi"}))
        turn = await queued_turn(on)
        await on.commit(turn, created(turn), delta(1, "a"))
        await on.commit(turn, ended(2, turn, usage={"total_tokens": 5}), state=TurnState.COMPLETED)
        status, body = await asked
        assert status == 200
        assert (body["id"], body["status"], body["usage"]) == (f"resp_{turn}", "completed", {"total_tokens": 5})


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("upstream_unauthorized", 401),
        ("upstream_rate_limited", 429),
        ("upstream_server_error", 502),
        ("upstream_bad_request", 400),
        ("upstream_stalled", 504),
        ("upstream_connect_failed", 502),
        ("ingest_lost", 502),
        ("never_taken", 503),
        ("over_age", 504),
        ("something_new", 502),
    ],
)
async def test_a_failed_turn_is_the_http_error_of_a_request_that_waited(redis_url: str, code: str, status: int) -> None:
    async with stage(redis_url) as on:
        asked = asyncio.ensure_future(on.post("/v1/responses", {"model": "small", "input": "hi"}))
        turn = await queued_turn(on)
        error = f'{{"code":"{code}","message":"in the upstream\'s words","type":"its_type"}}'
        await finish(on, turn, TurnState.FAILED, error=error)
        answered, body = await asked
        assert answered == status
        assert body["error"] == {
            "message": "in the upstream's words",
            "type": "its_type",
            "param": None,
            "code": code,
        }


async def test_a_client_that_stops_waiting_leaves_the_turn_running(redis_url: str) -> None:
    async with stage(redis_url) as on:
        asked = asyncio.ensure_future(on.post("/v1/responses", {"model": "small", "input": "hi"}))
        turn = await queued_turn(on)
        await wait_until(lambda: on.gateway.hub.watched == 1, "the request waits")
        asked.cancel()
        await wait_until(lambda: on.gateway.hub.watched == 0, "nothing is held for it")
        assert not (await on.record(turn)).cancel


async def test_a_background_turn_is_answered_at_once_and_polled(redis_url: str) -> None:
    async with stage(redis_url) as on:
        status, body = await on.post(
            "/v1/responses",
            {"model": "small", "input": "hi", "background": True, "metadata": {"a": "b"}, "instructions": "be short"},
        )
        assert (status, body["status"], body["background"], body["model"]) == (200, "queued", True, "small")
        assert (body["metadata"], body["instructions"], body["output"]) == ({"a": "b"}, "be short", [])
        path, turn = f"/v1/responses/{body['id']}", body["id"].removeprefix("resp_")
        await on.commit(turn, created(turn))
        assert (await on.get(path))[1]["status"] == "in_progress"
        await on.commit(turn, ended(1, turn), state=TurnState.COMPLETED)
        assert (await on.get(path))[1]["status"] == "completed"


async def test_a_cancelled_turn_says_so_though_its_stream_cannot(redis_url: str) -> None:
    async with stage(redis_url) as on:
        _, body = await on.post("/v1/responses", {"model": "small", "input": "hi", "background": True})
        path, turn = f"/v1/responses/{body['id']}", body["id"].removeprefix("resp_")
        cancelling = asyncio.ensure_future(on.post(f"{path}/cancel", {}))

        async def flagged() -> bool:
            return (await on.record(turn)).cancel

        await wait_until(flagged, "the flag stands")
        await finish(on, turn, TurnState.CANCELLED)
        assert (await cancelling)[1]["status"] == "cancelled"
        assert (await on.get(path))[1]["status"] == "cancelled"
        assert (await on.post(f"{path}/cancel", {}))[1]["status"] == "cancelled", "a repeat changes nothing"
        async with on.http.get(f"{on.url}{path}?stream=true") as answer:
            assert "event: response.incomplete" in (await read_events(answer))[-1]


async def test_a_lost_turn_ends_an_openai_stream_with_an_error_event(redis_url: str) -> None:
    async with stage(redis_url) as on:
        body = {"model": "small", "input": "hi", "stream": True}
        async with on.http.post(f"{on.url}/v1/responses", json=body) as answer:
            await on.commit(answer.headers["X-Foldline-Turn"], created(answer.headers["X-Foldline-Turn"]))
            await answer.content.readuntil(b"response.created")
            await on.client.flushall()
            rest = (await answer.read()).decode()
        assert "event: error\n" in rest
        assert '"code":"turn_lost"' in rest


async def submitted(on: Stage, **body: Any) -> TurnRecord:
    status, answer = await on.post("/v1/responses", {"model": "small", "background": True, **body})
    assert status == 200, answer
    return await on.record(answer["id"].removeprefix("resp_"))


async def test_a_conversation_goes_on_at_the_previous_turns_upstream_and_session(redis_url: str) -> None:
    async with stage(redis_url) as on:
        first = await submitted(on, model="odd", input="one")
        await finish(on, first.id, upstream_id="resp_theirs")
        second = await submitted(on, model="odd", input="two", previous_response_id=f"resp_{first.id}")
        assert (second.session, second.upstream) == (first.session, "other")
        assert '"previous_response_id":"resp_theirs"' in second.request
        assert f'"previous_response_id":"resp_{first.id}"' in second.started


async def test_a_previous_response_that_cannot_be_continued_is_a_clear_error(redis_url: str) -> None:
    async with stage(redis_url) as on:

        async def code(ident: Any, **more: Any) -> tuple[int, str, str]:
            status, body = await on.post("/v1/responses", {"input": "x", "previous_response_id": ident, **more})
            return status, body["error"]["code"], body["error"]["param"]

        param = "previous_response_id"
        for unknown in ("resp_0-0123456789abcdef01234567", "resp_67c9", "x", "resp_999-0123456789abcdef01234567", 7):
            assert await code(unknown) == (404, "previous_response_not_found", param), unknown
        running = await submitted(on, input="one")
        assert await code(f"resp_{running.id}") == (409, "previous_response_not_finished", param)
        await finish(on, running.id, TurnState.FAILED)
        assert await code(f"resp_{running.id}") == (400, "previous_response_unusable", param)
        whole = await submitted(on, input="two")
        await finish(on, whole.id, upstream_id="resp_theirs")
        elsewhere = await code(f"resp_{whole.id}", foldline={"upstream": "other"})
        assert elsewhere == (400, "previous_response_elsewhere", "upstream")


async def test_unknown_responses_are_404_in_openais_shape(redis_url: str) -> None:
    async with stage(redis_url) as on:
        for ident in (
            "resp_0-0123456789abcdef01234567",
            "resp_nonsense",
            "0-0123456789abcdef01234567",
            "resp_" + "9" * 900,
        ):
            for method, path in (("GET", ""), ("GET", "?stream=true"), ("POST", "/cancel")):
                async with on.http.request(method, f"{on.url}/v1/responses/{ident}{path}") as answer:
                    assert answer.status == 404
                    assert (await answer.json())["error"]["code"] == "not_found"


@pytest.mark.parametrize("query", ["stream=maybe", "stream=true&starting_after=-1", "stream=true&starting_after=1e3"])
async def test_query_values_are_checked(redis_url: str, query: str) -> None:
    async with stage(redis_url) as on:
        record = await submitted(on, input="x")
        status, body = await on.get(f"/v1/responses/resp_{record.id}?{query}")
        assert (status, body["error"]["code"]) == (400, "invalid_value")


async def test_a_member_that_is_no_object_is_refused_by_its_name(redis_url: str) -> None:
    async with stage(redis_url) as on:
        for odd in (3, {"unknown": 1}):
            status, body = await on.post("/v1/responses", {"input": "x", "foldline": odd})
            assert (status, body["error"]["param"]) == (400, "foldline")
