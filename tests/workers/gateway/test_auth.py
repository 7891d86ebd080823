from typing import Any

import pytest

from tests.workers.gateway.stage import Stage, created, stage
from workers.config import Config, GatewayConfig, RedisConfig
from workers.gateway.app import Gateway

BODY = {"request": {"input": "x"}, "upstream": "main"}


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


async def code(on: Stage, path: str, **headers: str) -> tuple[int, str]:
    status, body = await on.get(path, **headers)
    return status, body["error"]["code"]


async def test_without_keys_everybody_on_the_machine_is_the_default_tenant(redis_url: str) -> None:
    async with stage(redis_url) as on:
        turn = await on.submit()
        assert (await on.record(turn)).tenant == "default"
        status, _ = await on.get(f"/v1/turns/{turn}", **bearer("whatever an SDK sends"))
        assert status == 200


async def test_as_soon_as_a_key_exists_every_request_needs_one(redis_url: str) -> None:
    async with stage(redis_url) as on:
        turn = await on.submit()
        await on.add_key("fl-acme", "acme")
        for method, path in (
            ("GET", f"/v1/turns/{turn}"),
            ("GET", f"/v1/turns/{turn}/events"),
            ("POST", f"/v1/turns/{turn}/cancel"),
            ("POST", "/v1/turns"),
            ("POST", "/v1/responses"),
            ("GET", f"/v1/responses/resp_{turn}"),
            ("GET", "/metrics"),
            ("POST", f"/v1/responses/resp_{turn}/cancel"),
        ):
            for headers, expected in (({}, "missing_api_key"), (bearer("fl-other"), "invalid_api_key")):
                async with on.http.request(method, on.url + path, json=BODY, headers=headers) as answer:
                    body = await answer.json()
                    assert (answer.status, body["error"]["code"]) == (401, expected), path
                    assert body["error"]["type"] == "authentication_error"
        assert (await on.post("/v1/turns", BODY, **bearer("fl-acme")))[0] == 201


async def test_a_turn_is_visible_to_its_tenant_alone(redis_url: str) -> None:
    async with stage(redis_url) as on:
        await on.add_key("fl-acme", "acme")
        await on.add_key("fl-bell", "bell")
        body = {**BODY, "session": "chat", "idempotency_key": "k"}
        _, mine = await on.post("/v1/turns", body, **bearer("fl-acme"))
        _, theirs = await on.post("/v1/turns", body, **bearer("fl-bell"))
        assert mine["id"] != theirs["id"], "a key of one tenant is none of the other's"
        assert mine["session"] == theirs["session"] == "chat"
        assert (await on.record(mine["id"])).session != (await on.record(theirs["id"])).session
        turn = mine["id"]
        await on.commit(turn, created(turn))
        missing = "0-0123456789abcdef01234567"
        for path in (
            "/v1/turns/{}",
            "/v1/turns/{}/events",
            "/v1/responses/resp_{}",
            "/v1/responses/resp_{}?stream=true",
        ):
            other = await on.get(path.format(turn), **bearer("fl-bell"))
            none = await on.get(path.format(missing), **bearer("fl-bell"))
            assert other[0] == none[0] == 404
            assert str(other[1]).replace(turn, missing) == str(none[1]), "it cannot be told that the turn exists"
        previous = {"input": "x", "previous_response_id": f"resp_{turn}"}
        status, answer = await on.post("/v1/responses", previous, **bearer("fl-bell"))
        assert (status, answer["error"]["code"]) == (404, "previous_response_not_found")
        assert (await on.get(f"/v1/turns/{turn}", **bearer("fl-acme")))[0] == 200


async def test_a_revoked_key_stops_working_and_the_gateway_does_not_open_again(redis_url: str) -> None:
    async with stage(redis_url) as on:
        await on.add_key("fl-acme", "acme")
        assert (await on.post("/v1/turns", BODY, **bearer("fl-acme")))[0] == 201
        await on.client.delete(on.keys.api_keys)
        assert await code(on, "/v1/turns/x", **bearer("fl-acme")) == (401, "invalid_api_key")
        assert await code(on, "/v1/turns/x") == (401, "missing_api_key")


async def test_a_cookie_is_a_key_for_reading_and_for_nothing_else(redis_url: str) -> None:
    async with stage(redis_url) as on:
        await on.add_key("fl-acme", "acme")
        cookie = {"Cookie": "foldline_key=fl-acme"}
        assert await code(on, "/v1/turns/x", **cookie) == (404, "not_found")
        status, body = await on.post("/v1/turns", BODY, **cookie)
        assert (status, body["error"]["code"]) == (401, "missing_api_key")


async def test_keys_can_be_asked_for_on_loopback(redis_url: str) -> None:
    async with stage(redis_url, require_keys=True) as on:
        assert await code(on, "/v1/turns/x") == (401, "missing_api_key")


async def test_a_name_that_points_at_loopback_is_no_way_in(redis_url: str) -> None:
    async with stage(redis_url) as on:
        assert await code(on, "/v1/turns/x", Host="evil.example:8137") == (403, "host_refused")
        assert await code(on, "/v1/turns/x", Host="[::1") == (403, "host_refused")
        for host in ("localhost:1", "127.0.0.1", "[::1]:8137"):
            assert await code(on, "/v1/turns/x", Host=host) == (404, "not_found")


async def test_a_page_of_another_origin_starts_nothing_unless_it_is_allowed(redis_url: str) -> None:
    async with stage(redis_url, cors=["https://chat.example"]) as on:

        async def post(origin: str) -> tuple[int, Any, str | None]:
            async with on.http.post(f"{on.url}/v1/turns", json=BODY, headers={"Origin": origin}) as answer:
                return answer.status, await answer.json(), answer.headers.get("Access-Control-Allow-Origin")

        status, body, allowed = await post("https://evil.example")
        assert (status, body["error"]["code"], allowed) == (403, "origin_refused", None)
        status, _, allowed = await post("https://chat.example")
        assert (status, allowed) == (201, "https://chat.example")
        assert (await post(on.url))[0] == 201, "the gateway's own page"
        preflight = {
            "Origin": "https://chat.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
        }
        async with on.http.options(f"{on.url}/v1/turns", headers=preflight) as answer:
            assert answer.status == 200
            assert answer.headers["Access-Control-Allow-Origin"] == "https://chat.example"
        async with on.http.options(
            f"{on.url}/v1/turns", headers={**preflight, "Origin": "https://evil.example"}
        ) as answer:
            assert answer.status == 400


@pytest.mark.parametrize(("keys", "host"), [(0, "127.0.0.1"), (1, "0.0.0.0")])
async def test_the_gateway_leaves_loopback_only_when_a_key_exists(redis_url: str, keys: int, host: str) -> None:
    if keys:
        async with stage(redis_url) as on:
            await on.add_key("fl-acme", "acme")
    gateway = Gateway(Config(redis=RedisConfig(url=redis_url), gateway=GatewayConfig(host="0.0.0.0", port=0)))
    await gateway.start()
    assert gateway.host == host
    await gateway.stop()
