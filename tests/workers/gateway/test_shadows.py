"""Shadow mode at the gateway: the mode that a turn is submitted with, and reports of the other path."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger import shadow
from tests.workers.gateway.stage import Stage, stage


@pytest.fixture
async def s(redis_url: str) -> AsyncIterator[Stage]:
    async with stage(redis_url) as opened:
        yield opened


async def turn_of(s: Stage, **body: Any) -> dict[str, Any]:
    status, told = await s.post("/v1/turns", {"request": {"input": "hi"}, "upstream": "main", **body})
    assert status in {200, 201}, told
    return dict(told)


def message(n: int, text: str = "a", target: str = "log") -> dict[str, Any]:
    return {"n": n, "target": target, "text": text}


async def test_a_switch_counts_for_turns_to_come_and_for_its_runtime_alone(s: Stage) -> None:
    before = await turn_of(s)
    await s.scripts.run(shadow.set_mode(s.keys, "main", "shadow"))
    shadowed, other = await turn_of(s, idempotency_key="k"), await turn_of(s, upstream="outside")
    await s.scripts.run(shadow.set_mode(s.keys, "main", "live"))
    again = await turn_of(s, idempotency_key="k")
    assert [told["mode"] for told in (before, shadowed, other, again)] == ["live", "shadow", "live", "shadow"]
    assert again["id"] == shadowed["id"]
    assert (await turn_of(s))["mode"] == "live"


async def test_the_configuration_decides_where_nothing_was_set(redis_url: str) -> None:
    async with stage(redis_url, modes={"main": "shadow"}) as s:
        assert (await turn_of(s))["mode"] == "shadow"
        await s.scripts.run(shadow.set_mode(s.keys, "main", "live"))
        assert (await turn_of(s))["mode"] == "live"
        await s.scripts.run(shadow.forget_mode(s.keys, "main"))
        assert (await turn_of(s))["mode"] == "shadow"


async def test_the_openai_surface_tells_the_mode_in_a_header(s: Stage) -> None:
    await s.scripts.run(shadow.set_mode(s.keys, "main", "shadow"))
    body = {"model": "small", "input": "hi", "background": True, "foldline": {"idempotency_key": "k"}}
    async with s.http.post(f"{s.url}/v1/responses", json=body) as answer:
        assert answer.headers["X-Foldline-Mode"] == "shadow"
    await s.scripts.run(shadow.set_mode(s.keys, "main", "live"))
    async with s.http.post(f"{s.url}/v1/responses", json=body) as answer:
        assert answer.headers["X-Foldline-Mode"] == "shadow"


async def test_the_other_path_tells_what_it_sent(s: Stage) -> None:
    await s.scripts.run(shadow.set_mode(s.keys, "main", "shadow"))
    turn = (await turn_of(s, targets=["log"]))["id"]
    status, told = await s.post(f"/v1/shadow/{turn}", {"messages": [message(0)]})
    assert (status, told) == (200, {"turn": turn, "messages": 1, "total": None, "whole": False})
    status, told = await s.post(f"/v1/shadow/{turn}", {"messages": [message(0), message(1)], "total": 2})
    assert (status, told["whole"]) == (200, True)
    status, told = await s.get(f"/v1/shadow/{turn}")
    assert (status, told["verdict"], told["runtime"]) == (200, "unfinished", "main")


async def test_a_report_that_cannot_be_kept_is_refused_by_name(s: Stage) -> None:
    live = (await turn_of(s))["id"]
    await s.scripts.run(shadow.set_mode(s.keys, "main", "shadow"))
    turn = (await turn_of(s, targets=["log"]))["id"]
    await s.post(f"/v1/shadow/{turn}", {"messages": [message(0)]})
    cases = [
        (await s.post(f"/v1/shadow/{live}", {"messages": []}), 409, "turn_is_live"),
        (await s.get(f"/v1/shadow/{live}"), 409, "turn_is_live"),
        (await s.post(f"/v1/shadow/0-{1:024x}", {}), 404, "not_found"),
        (await s.post(f"/v1/shadow/{turn}", {"messages": [message(0, "b")]}), 409, "report_conflict"),
        (await s.post(f"/v1/shadow/{turn}", {"messages": [message(3)], "total": 2}), 400, "invalid_value"),
        (await s.post(f"/v1/shadow/{turn}", {"messages": [message(1), message(1, "c")]}), 400, "invalid_value"),
        (await s.post(f"/v1/shadow/{turn}", {"messages": [message(1, target="hook")]}), 400, "target_unknown"),
        (await s.post(f"/v1/shadow/{turn}", {"messages": [message(-1)]}), 400, "invalid_value"),
        (await s.post(f"/v1/shadow/{turn}", {"total": 10_001}), 400, "invalid_value"),
    ]
    for number, ((status, told), expected, code) in enumerate(cases):
        assert (status, told["error"]["code"]) == (expected, code), number
