import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette

from ledger.records import TurnState
from tests.support.servers import Server
from tests.support.waiting import wait_until
from tests.workers.gateway.stage import created, delta, ended, read_events, stage
from workers.config import Config, GatewayConfig, RedisConfig, ServiceConfig
from workers.gateway import app
from workers.gateway.page import content_policy, page_text


async def test_bodies_beyond_the_limit_are_refused_before_they_are_held(redis_url: str) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 100

    async with stage(redis_url, max_body_bytes=2000) as on:
        for data in (b'{"request":"' + b"x" * 2000 + b'"}', chunks()):
            async with on.http.post(f"{on.url}/v1/turns", data=data) as answer:
                assert answer.status == 413
                assert (await answer.json())["error"]["code"] == "body_too_large"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b'"x"', b"\xff", b"{}x", b"[" * 100_000, b"null"])
async def test_a_body_that_is_no_json_object_is_400(redis_url: str, body: bytes) -> None:
    async with stage(redis_url) as on:
        for path in ("/v1/turns", "/v1/responses"):
            async with on.http.post(on.url + path, data=body) as answer:
                assert answer.status == 400
                assert (await answer.json())["error"]["code"] == "invalid_json"


async def test_headers_are_bounded(redis_url: str) -> None:
    async with stage(redis_url) as on:
        async with on.http.get(f"{on.url}/v1/turns/x", headers={"X-Long": "x" * 40_000}) as answer:
            assert answer.status == 431
        for header in ("Idempotency-Key", "X-Foldline-Session", "X-Foldline-Upstream"):
            status, body = await on.post("/v1/turns", {"request": {}}, **{header: "x" * 300})
            assert status == 400, header
            assert body["error"]["param"] == header.lower()


async def test_unknown_paths_and_methods_are_errors_of_the_same_shape(redis_url: str) -> None:
    async with stage(redis_url) as on:
        status, body = await on.get("/v1/chat/completions")
        assert (status, body["error"]["code"]) == (404, "not_found")
        status, body = await on.get("/v1/responses")
        assert (status, body["error"]["code"]) == (405, "method_not_allowed")


async def test_health_readiness_and_metrics_are_served(redis_url: str) -> None:
    async with stage(redis_url) as on:
        await wait_until(on.gateway.is_ready, "the channels are subscribed to")
        await on.submit()
        for path, expected in (
            ("/healthz", "ok"),
            ("/readyz", "ready"),
            ("/metrics", "foldline_turns_submitted_total"),
        ):
            async with on.http.get(on.url + path) as answer:
                assert answer.status == 200
                assert expected in await answer.text()


async def test_the_page_may_load_nothing_but_itself(redis_url: str) -> None:
    async with stage(redis_url) as on, on.http.get(f"{on.url}/") as answer:
        assert await answer.text() == page_text()
        assert answer.headers["Content-Security-Policy"] == content_policy()
    assert "default-src 'none'" in content_policy()
    assert "http://" not in page_text()
    assert "https://" not in page_text().replace('"https:"', "")


async def test_a_stopping_gateway_lets_its_streams_end_and_tells_those_who_wait(redis_url: str) -> None:
    stop = asyncio.Event()
    config = Config(redis=RedisConfig(url=redis_url), gateway=GatewayConfig(port=0), service=ServiceConfig(port=0))
    running = asyncio.ensure_future(app.run(config, stop))
    stop.set()
    await asyncio.wait_for(running, 10)
    async with stage(redis_url) as on:
        turn = await on.submit()
        await on.commit(turn, created(turn))
        streaming = await on.http.get(f"{on.url}/v1/turns/{turn}/events")
        await streaming.content.readuntil(b"response.created")
        waiting = asyncio.ensure_future(on.post("/v1/responses", {"model": "small", "input": "x"}))
        await wait_until(lambda: on.gateway.hub.watched == 2, "two clients are there")
        await on.gateway.stop()
        assert (await streaming.read()).endswith(b"\n\n")
        status, body = await waiting
        assert (status, body["error"]["code"]) == (503, "gateway_stopping")
        assert not (await on.record(turn)).cancel


async def test_another_gateway_goes_on_where_the_first_one_stopped(redis_url: str) -> None:
    async with stage(redis_url) as first:
        turn = await first.submit()
        await first.commit(turn, created(turn), delta(1, "a"))
        reading = await first.http.get(f"{first.url}/v1/turns/{turn}/events")
        had = (await reading.content.readuntil(b'"delta":"a"')).decode()
        held = [line.removeprefix("id: ") for line in had.split("\n") if line.startswith("id: ")][-1]
        await first.gateway.stop()
        async with stage(redis_url) as second:
            await first.commit(turn, delta(2, "b"), ended(3, turn), state=TurnState.COMPLETED)
            headers = {"Last-Event-ID": held}
            async with second.http.get(f"{second.url}/v1/turns/{turn}/events", headers=headers) as answer:
                events = await read_events(answer)
        assert [event.partition("-")[0] for event in events] == ["id: 2", "id: 3"]


async def test_a_server_that_restarts_ends_no_client_and_is_told_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Server(aof=True) as server:
        async with stage(server.url) as on:
            await wait_until(on.gateway.is_ready, "the channels are subscribed to")
            turn = await on.submit()
            await on.commit(turn, created(turn))
            reading = await on.http.get(f"{on.url}/v1/turns/{turn}/events")
            await reading.content.readuntil(b"response.created")
            server.kill()
            await wait_until(lambda: not on.gateway.is_ready(), "the gateway notices")
            status, body = await on.get(f"/v1/turns/{turn}")
            assert (status, body["error"]["code"]) == (503, "unavailable")
            server.start()
            await wait_until(on.gateway.is_ready, "the channels are subscribed to again")
            await on.commit(turn, delta(1, "a"), ended(2, turn), state=TurnState.COMPLETED)
            text = (await reading.read()).decode()
            assert [line for line in text.split("\n") if line.startswith("event: ")] == [
                "event: response.output_text.delta",
                "event: response.completed",
            ]
            assert "".join(capsys.readouterr()).count("hints_lost") == 1


def test_a_kept_connection_outlives_the_patience_of_clients_and_balancers() -> None:
    """Else one closes while the other sends: SDKs keep an idle connection for five seconds, balancers for sixty."""
    assert app._server_config(Starlette()).timeout_keep_alive > 60
