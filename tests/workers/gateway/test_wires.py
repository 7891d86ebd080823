"""Requests to upstreams of other wires: refused at the door where the wire has no form for them, or taken as they are."""

import msgspec
import pytest

from tests.workers.gateway.stage import stage
from workers.gateway.errors import status_of_failure


@pytest.mark.parametrize(
    ("code", "kind", "status"),
    [
        ("upstream_rate_limited", "RESOURCE_EXHAUSTED", 429),
        ("upstream_server_error", "overloaded_error", 503),
        ("overloaded_error", None, 503),
        ("400", "INVALID_ARGUMENT", 400),
        ("503", "UNAVAILABLE", 503),
        ("451", None, 451),
        ("upstream_server_error", "529", 529),
        ("-32603", None, 502),
        ("4000", None, 502),
        ("malformed_function_call", None, 502),
        (None, None, 502),
    ],
)
def test_a_request_that_waited_is_answered_with_the_status_that_the_upstreams_words_stand_for(
    code: str | None, kind: str | None, status: int
) -> None:
    assert status_of_failure({"code": code, "type": kind}) == status


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
