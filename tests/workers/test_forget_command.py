"""`foldline forget` without a fleet: what it finds, what it refuses by name, how much it takes at once."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio as aioredis
from typer.testing import CliRunner, Result

from ledger import turns
from ledger.access import scoped
from ledger.keys import make_turn_id
from tests.ledger.conftest import Bench
from tests.support.deliveries import Desk
from tests.support.environment import without_settings
from workers.cli import ROLES, run_role
from workers.commands import forget
from workers.commands.index import build


@pytest.fixture
async def desk(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    """A desk in the partition of session `s1`."""
    without_settings(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOLDLINE_REDIS_URL", redis_url)
    monkeypatch.setenv("FOLDLINE_REDIS_PARTITIONS", "8")
    monkeypatch.setattr(forget, "LOOK_S", 0.01)
    async with aioredis.Redis.from_url(redis_url, decode_responses=True) as client:
        made = Desk(client)
        made.p = made.keys.partition_of("s1")
        made.turn = make_turn_id(made.p, "0" * 24)
        await made.own("1:aaaa")
        yield made


async def over(desk: Desk) -> None:
    await desk.client.hset(desk.keys.turn(desk.turn), "state", "completed")


async def run(*arguments: str, code: int = 0) -> Result:
    result = await asyncio.to_thread(CliRunner().invoke, build(run_role, ROLES), ["forget", *arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


async def run_json(*arguments: str, code: int = 0) -> Any:
    return json.loads((await run(*arguments, "--json", code=code)).stdout)


async def test_it_is_said_whose_data_goes(desk: Desk) -> None:
    assert "say whose data" in (await run(code=2)).stderr
    assert (await run_json("--session", "s1"))["turns"] == 0


async def test_more_than_goes_in_one_step_goes_in_several(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget, "AT_ONCE", 3)
    monkeypatch.setattr(forget, "SLICE", 4)
    await desk.open_turn(tenant="default")
    for block in range(10):
        await desk.plan(desk.new_part(block), block=block)
    await over(desk)
    would = await run_json("--session", "s1", "--dry-run")
    assert (would["turns"], would["deliveries"]) == (1, 10)
    assert await desk.client.exists(desk.keys.turn(desk.turn)) == 1
    done = await run_json("--session", "s1")
    assert (done["turns"], done["deliveries"], done["refused"]) == (1, 10, {})
    assert not [key for key in await desk.client.keys("*") if desk.turn in key]
    assert await desk.client.exists(desk.keys.lanes(desk.p)) == 0


async def test_a_part_whose_turn_is_gone_is_found_by_its_session(desk: Desk) -> None:
    await desk.open_turn()
    first, second = await desk.two()
    await desk.client.delete(desk.keys.turn(desk.turn), desk.keys.parts(desk.turn))
    assert (await run_json("--session", "s2"))["deliveries"] == 0
    assert (await run_json("--session", "s1", "--tenant", "acme"))["deliveries"] == 0, "another tenant's of that name"
    assert (await run_json("--session", "s1"))["deliveries"] == 2
    assert await desk.client.exists(desk.keys.part(first.id), desk.keys.part(second.id)) == 0


async def test_a_tenants_part_whose_turn_is_gone_is_found_by_its_tenant(desk: Desk) -> None:
    await desk.open_turn()
    [part] = await desk.plan(desk.new_part(0, session=scoped("acme", "any")))
    await desk.client.delete(desk.keys.turn(desk.turn))
    assert (await run_json("--tenant", "other"))["deliveries"] == 0
    assert (await run_json("--tenant", "acme"))["deliveries"] == 1
    assert await desk.client.exists(desk.keys.part(part.id)) == 0


async def test_what_may_be_on_its_way_is_refused_by_name(desk: Desk) -> None:
    await desk.open_turn(tenant="default")
    first, _ = await desk.two()
    await desk.intent(first)
    await over(desk)
    refused = await run_json("--session", "s1", "--wait", "0", code=2)
    assert refused["refused"] == {desk.turn: "an attempt of it may be on its way"}
    assert f"turn {desk.turn} is still there" in (await run("--session", "s1", "--wait", "0", code=2)).stderr
    await desk.client.hset(desk.keys.part(first.id), "attempt_at", 1)
    assert (await run_json("--session", "s1"))["turns"] == 1


async def test_blocks_that_nobody_has_planned_are_waited_for(desk: Desk) -> None:
    await desk.open_turn(state="completed", tenant="default")
    await desk.add_block(0)
    refused = await run_json("--session", "s1", "--wait", "0", code=2)
    assert refused["refused"] == {desk.turn: "its blocks wait for a delivery process to plan them"}


async def test_a_turn_that_nobody_carries_is_cancelled_and_refused_by_name(desk: Desk) -> None:
    new = Bench(None, desk.keys).new(desk.turn, tenant="default", session="s1")
    await desk.run(turns.submit(desk.keys, new, tenant_limit=9, partition_limit=9))
    bound = turns.claim_idempotency(
        desk.keys, tenant="default", key="k", turn=desk.turn, session="s1", body_hash="b", ttl_ms=60_000
    )
    await desk.run(bound)
    told = await run_json("--session", "s1", "--wait", "0", code=2)
    assert (told["cancelled"], told["refused"]) == (1, {desk.turn: "it has not ended"})
    record = await desk.run(turns.read_turn(desk.keys, desk.turn))
    assert record is not None
    assert record.cancel
    assert await desk.client.exists(desk.keys.idem("default", "k")) == 1, "its key goes with it"


async def test_a_key_that_was_bound_and_never_used_goes_by_its_tenant(desk: Desk) -> None:
    for tenant in ("acme", "other"):
        bound = turns.claim_idempotency(
            desk.keys, tenant=tenant, key="k", turn=desk.turn, session="x", body_hash="b", ttl_ms=60_000
        )
        await desk.run(bound)
    assert (await run_json("--tenant", "acme"))["idempotency_keys"] == 1
    assert await desk.client.keys("fl:idem:*") == [desk.keys.idem("other", "k")]
