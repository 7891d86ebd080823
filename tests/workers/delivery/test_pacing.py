import asyncio
from typing import Any

import pytest
import redis.asyncio as aioredis

from ledger.commands import Scripts
from ledger.keys import Keyspace
from workers.config import TargetConfig
from workers.delivery.pacing import Pace, account_of


def test_places_are_given_out_and_a_freed_one_rings_once() -> None:
    scripts: Any = None
    pace = Pace(scripts, Keyspace(), places=1)
    bell = asyncio.Event()
    assert pace.take_place()
    assert not pace.take_place()
    assert pace.free == 0
    pace.ring_when_free(bell)
    pace.give_place()
    assert bell.is_set()
    bell.clear()
    assert pace.take_place()
    pace.give_place()
    assert not bell.is_set()


def test_targets_of_one_account_share_a_budget() -> None:
    assert account_of("a", TargetConfig(channel="webhook", account="bot")) == "bot"
    assert account_of("a", TargetConfig(channel="webhook")) == "a"


@pytest.mark.parametrize("rate", [0.0, 0.5])
async def test_a_hold_is_for_everybody(redis_url: str, rate: float) -> None:
    target = TargetConfig(channel="webhook", rate_per_s=rate, burst=5)
    async with aioredis.Redis.from_url(redis_url, decode_responses=True) as client:
        mine, theirs = Pace(Scripts(client), Keyspace()), Pace(Scripts(client), Keyspace())
        assert await mine.wait_ms("a", target) == 0
        await theirs.hold("a", target, 60_000)
        assert 0 < await mine.wait_ms("a", target) <= 60_000
