from typing import Any

import msgspec
import pytest

from ledger.keys import digest_of
from ledger.records import TurnState
from pipeline import codec
from pipeline.events import FOLD_VERSION, Target, TurnStarted
from pipeline.limits import Limits
from pipeline.settings import resolve_layers
from tests.workers.gateway.stage import UPSTREAMS, Stage, created, stage
from workers.config import Config, GatewayConfig
from workers.gateway.errors import HttpError
from workers.gateway.submit import Wanted, choose_upstream, upstream_request

CONFIG = Config(upstreams=UPSTREAMS, gateway=GatewayConfig(default_upstream="main"))


@pytest.mark.parametrize(
    ("request_", "said", "upstream"),
    [
        ({}, None, "main"),
        ({}, "other", "other"),
        ({"model": "odd"}, None, "other"),
        ({"model": "odd"}, "main", "main"),
        ({"model": "other/anything"}, None, "other"),
        ({"model": "nobody/anything"}, None, "main"),
    ],
)
def test_the_upstream_is_said_or_follows_from_the_model_or_is_the_default(
    request_: dict[str, Any], said: str | None, upstream: str
) -> None:
    assert choose_upstream(CONFIG, Wanted(tenant="t", request=request_, upstream=said), None) == upstream


def test_without_a_default_the_only_upstream_serves_and_several_are_an_error() -> None:
    only = Config(upstreams={"main": UPSTREAMS["main"]})
    assert choose_upstream(only, Wanted(tenant="t", request={}), None) == "main"
    with pytest.raises(HttpError, match="upstream_needed"):
        choose_upstream(Config(upstreams=UPSTREAMS), Wanted(tenant="t", request={}), None)


def test_the_upstream_gets_a_stream_request_in_its_own_words() -> None:
    body = {"model": "main/small", "input": "x", "background": True, "foldline": {}, "stream": False, "odd": [1]}
    sent = upstream_request(body, "main", UPSTREAMS["main"], None)
    assert sent == {"model": "small", "input": "x", "stream": True, "odd": [1]}
    assert upstream_request({"input": "x"}, "main", UPSTREAMS["main"], None)["model"] == "small"


async def test_everything_that_configuration_decides_is_frozen_in_the_first_event(redis_url: str) -> None:
    async with stage(redis_url) as on:
        turn = await on.submit(
            upstream="other",
            session="chat",
            targets=["hook"],
            settings={"min_chars": 5},
            request={"model": "odd", "input": "x", "metadata": {"k": "v"}},
        )
        record = await on.record(turn)
        started = codec.decode(record.started)
        assert isinstance(started, TurnStarted)
        assert (started.seq, started.turn, started.session, started.upstream) == (0, turn, "chat", "other")
        assert (started.fold, started.wire, started.runtime, started.model) == (
            FOLD_VERSION,
            "responses",
            "main",
            "odd",
        )
        assert started.targets == [Target(channel="webhook", name="hook")]
        assert started.settings == {**resolve_layers([]).values, "min_chars": 5}
        assert started.tools == {"lookup": "gateway"}
        assert started.limits == Limits().frozen()
        assert started.response == {"model": "odd", "metadata": {"k": "v"}}
        assert msgspec.json.decode(record.request)["stream"] is True
        assert turn.startswith(f"{on.keys.partition_of('chat')}-")


async def test_a_session_is_said_or_follows_from_the_key_or_is_the_turns_own(redis_url: str) -> None:
    async with stage(redis_url) as on:
        said = await on.record(await on.submit(session="chat"))
        keyed = await on.record(await on.submit(idempotency_key="k"))
        own = await on.record(await on.submit())
        assert said.session == "chat"
        assert keyed.session == digest_of("default", "k")[:24]
        assert own.session == own.id.partition("-")[2]
        for record in (said, keyed, own):
            assert record.id.startswith(f"{on.keys.partition_of(record.session)}-")
        for body, headers in (({"conversation": "conv_1"}, {}), ({"conversation": {"id": "conv_1"}}, {})):
            _, answer = await on.post("/v1/responses", {"input": "x", "background": True, **body}, **headers)
            assert (await on.record(answer["id"][5:])).session == "conv_1"
        _, answer = await on.post("/v1/responses", {"input": "x", "background": True}, **{"X-Foldline-Session": "s-1"})
        assert (await on.record(answer["id"][5:])).session == "s-1"


async def test_one_key_and_body_is_one_turn_and_another_body_is_refused(redis_url: str) -> None:
    async with stage(redis_url) as on:
        body = {"request": {"input": "x"}, "idempotency_key": "k-1"}
        first, again = await on.post("/v1/turns", body), await on.post("/v1/turns", body)
        assert (first[0], again[0]) == (201, 200)
        assert first[1]["id"] == again[1]["id"]
        by_header = await on.post("/v1/turns", {"request": {"input": "x"}}, **{"Idempotency-Key": "k-1"})
        assert by_header[1]["id"] == first[1]["id"]
        status, other = await on.post("/v1/turns", {"request": {"input": "y"}, "idempotency_key": "k-1"})
        assert (status, other["error"]["code"]) == (409, "idempotency_key_reused")
        assert len(await on.client.keys("fl:*:turn:*")) == 1


async def test_a_turn_whose_gateway_died_between_key_and_submit_is_completed_by_the_retry(redis_url: str) -> None:
    async with stage(redis_url) as on:
        body = {"request": {"input": "x"}, "idempotency_key": "k-1"}
        _, first = await on.post("/v1/turns", body)
        await on.client.delete(on.keys.turn(first["id"]))  # what a death after the key's record leaves behind
        status, again = await on.post("/v1/turns", body)
        assert (status, again["id"]) == (201, first["id"])


async def refusal(on: Stage) -> tuple[int, str, int]:
    async with on.http.post(f"{on.url}/v1/turns", json={"request": {"input": "x"}, "session": "s"}) as answer:
        body = await answer.json()
        return answer.status, body["error"]["code"], int(answer.headers["Retry-After"])


async def test_beyond_the_bounds_a_turn_is_refused_and_a_finished_one_makes_room(redis_url: str) -> None:
    async with stage(redis_url, tenant_limit=2) as on:
        turn = await on.submit(session="s")
        await on.submit(session="s", idempotency_key="k")
        assert await refusal(on) == (429, "tenant_full", 2)
        status, _ = await on.post(
            "/v1/turns", {"request": {"input": "hi"}, "upstream": "main", "session": "s", "idempotency_key": "k"}
        )
        assert status == 200, "an accepted turn stays accepted"
        await on.commit(turn, created(turn), state=TurnState.COMPLETED)
        await on.submit(session="s")


async def test_the_partition_has_a_bound_of_its_own(redis_url: str) -> None:
    async with stage(redis_url, partition_limit=1) as on:
        await on.submit(session="s")
        assert await refusal(on) == (429, "partition_full", 2)


async def test_a_server_without_room_refuses_new_turns_and_accepts_none_of_them(redis_url: str) -> None:
    async with stage(redis_url) as on:
        await on.client.hset(on.keys.committed(on.keys.partition_of("s")), "full", "1")
        assert await refusal(on) == (429, "memory_full", 5)
        assert await on.client.keys("fl:*:turn:*") == []


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_full_server_is_no_error_of_ours_and_takes_the_same_request_when_it_has_room(
    redis_url: str, key: str | None
) -> None:
    async with stage(redis_url) as on:
        body = {"request": {"input": "x"}, "upstream": "main", "idempotency_key": key}
        await on.client.config_set("maxmemory", "1mb")
        try:
            async with on.http.post(f"{on.url}/v1/turns", json=body) as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (429, "5")
                assert (await answer.json())["error"]["code"] == "memory_full"
        finally:
            await on.client.config_set("maxmemory", "0")
        assert (await on.post("/v1/turns", body))[0] == 201
