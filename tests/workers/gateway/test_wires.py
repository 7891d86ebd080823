"""Requests to upstreams of other wires: refused at the door where the wire has no form for them, or taken as they are."""

import msgspec

from tests.workers.gateway.stage import stage


async def test_what_the_wire_has_no_form_for_is_refused_and_binds_no_key(redis_url: str) -> None:
    async with stage(redis_url) as on:
        for extra, param in (
            ({"previous_response_id": None, "max_tool_calls": 2}, "max_tool_calls"),
            ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ):
            body = {"request": {"model": "talker", "input": "x", **extra}, "idempotency_key": "k"}
            status, answer = await on.post("/v1/turns", body)
            assert (status, answer["error"]["code"], answer["error"]["param"]) == (
                400,
                "upstream_request_unsupported",
                param,
            )
        status, _ = await on.post("/v1/turns", {"request": {"model": "talker", "input": "x"}, "idempotency_key": "k"})
        assert status == 201


async def test_a_response_of_a_wire_that_keeps_none_cannot_be_continued_by_its_id(redis_url: str) -> None:
    async with stage(redis_url) as on:
        status, answer = await on.post("/v1/responses", {"model": "talker", "input": "x", "background": True})
        assert (status, answer["model"]) == (200, "talker")
        record = await on.record(answer["id"][5:])
        assert msgspec.json.decode(record.started)["wire"] == "chat"


async def test_a_verbatim_request_is_kept_as_it_is_on_both_surfaces(redis_url: str) -> None:
    async with stage(redis_url) as on:
        native = {"model": "talker", "messages": [{"role": "user", "content": "x"}], "tools": [{"odd": 1}]}
        turn = await on.submit(upstream="talk", request=native, verbatim=True)
        kept = {**native, "stream": True, "foldline": {"verbatim": True}}
        record = await on.record(turn)
        assert msgspec.json.decode(record.request) == kept
        assert msgspec.json.decode(record.started)["response"] == {"model": "talker"}
        body = {**native, "background": True, "foldline": {"verbatim": True}}
        _, answer = await on.post("/v1/responses", body)
        assert msgspec.json.decode((await on.record(answer["id"][5:])).request) == kept
