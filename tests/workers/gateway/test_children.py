"""Children at the gateway: whose they are, where they belong and where they go."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger.log import publish
from pipeline.codec import decode
from pipeline.events import TurnStarted
from tests.workers.gateway.stage import Stage, stage


@pytest.fixture
async def s(redis_url: str) -> AsyncIterator[Stage]:
    async with stage(redis_url) as opened:
        yield opened


async def begun(s: Stage, **body: Any) -> str:
    """A turn whose first event is published."""
    turn = await s.submit(**body)
    await s.client.hset(s.keys.turn(turn), "ingest_token", "1:n")
    events = f"[{(await s.record(turn)).started}]"
    call = publish(s.keys, turn, token="1:n", producer="ingest", first_seq=0, events_json=events, n=1)
    assert (await s.scripts.run(call)).status == "OK"
    return turn


async def child(s: Stage, parent: str, **body: Any) -> tuple[int, Any]:
    return await s.post("/v1/turns", {"request": {"input": "hi"}, "upstream": "main", "parent": parent, **body})


async def test_a_child_belongs_to_its_parents_session_and_goes_where_it_goes(s: Stage) -> None:
    parent = await begun(s, session="talk", targets=["log"])
    status, told = await child(s, parent, parent_call="call_7")
    assert (status, told["runtime"], told["parent"], told["session"]) == (201, "subagent", parent, "talk")
    assert told["targets"] == ["log"]
    record = await s.record(told["id"])
    first = decode(record.started)
    assert isinstance(first, TurnStarted)
    assert (first.parent, first.parent_call, first.runtime) == (parent, "call_7", "subagent")
    assert s.keys.partition_of_turn(told["id"]) == s.keys.partition_of_turn(parent)


async def test_a_child_may_go_elsewhere_or_nowhere(s: Stage) -> None:
    parent = await begun(s, targets=["log"])
    assert (await child(s, parent, targets=["hook"]))[1]["targets"] == ["hook"]
    assert (await child(s, parent, targets=[]))[1]["targets"] == []


async def test_a_child_of_a_child_is_of_the_same_session(s: Stage) -> None:
    parent = await begun(s, session="talk")
    _, told = await child(s, parent)
    await s.client.hset(s.keys.turn(told["id"]), "tail", "1-1")
    assert (await child(s, told["id"]))[1]["session"] == "talk"


async def test_the_same_key_gives_the_same_child(s: Stage) -> None:
    parent = await begun(s)
    first = await child(s, parent, idempotency_key="k")
    again = await child(s, parent, idempotency_key="k")
    assert (first[0], again[0]) == (201, 200)
    assert first[1]["id"] == again[1]["id"]
    other = await begun(s)
    assert (await child(s, other, idempotency_key="k"))[0] == 409


async def test_what_cannot_have_a_child_is_said_by_name(s: Stage) -> None:
    parent = await begun(s, session="talk")
    cases = [
        (await child(s, f"0-{1:024x}"), 404, "parent_not_found"),
        (await child(s, "nonsense"), 404, "parent_not_found"),
        (await child(s, await s.submit()), 409, "parent_not_started"),
        (await child(s, parent, session="elsewhere"), 400, "session_elsewhere"),
        (await s.post("/v1/turns", {"request": {}, "upstream": "main", "parent_call": "c"}), 400, "invalid_value"),
    ]
    for (status, told), expected, code in cases:
        assert (status, told["error"]["code"]) == (expected, code)


async def test_another_tenants_turn_cannot_be_a_parent(s: Stage) -> None:
    parent = await begun(s)
    await s.add_key("secret-of-another", "another")
    status, told = await s.post(
        "/v1/turns",
        {"request": {"input": "hi"}, "upstream": "main", "parent": parent},
        Authorization="Bearer secret-of-another",
    )
    assert (status, told["error"]["code"]) == (404, "parent_not_found")
