import asyncio
from typing import Any

import pytest
import redis.asyncio as aioredis

from ledger.commands import Scripts
from ledger.keys import Keyspace
from workers.config import TargetConfig
from workers.delivery.pacing import Pace, account_of
from workers.delivery.terms import Rate, Terms


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


async def test_a_hold_of_one_chat_leaves_the_others_alone(redis_url: str) -> None:
    target = TargetConfig(channel="slack", account="bot")
    async with aioredis.Redis.from_url(redis_url, decode_responses=True) as client:
        pace = Pace(Scripts(client), Keyspace())
        await pace.hold("a", target, 60_000, "C1")
        assert 0 < await pace.wait_ms("a", target, Terms(), "C1") <= 60_000
        assert await pace.wait_ms("b", target, Terms(), "C2") == 0
        assert await client.exists("fl:{rate:bot/C1}") == 1


async def test_a_channels_documented_rates_hold_unless_others_are_configured(redis_url: str) -> None:
    terms = Terms(account_rate=Rate(per_s=0.01, burst=3), chat_rate=Rate(per_s=0.01, burst=1))
    async with aioredis.Redis.from_url(redis_url, decode_responses=True) as client:
        pace = Pace(Scripts(client), Keyspace())

        async def takes(account: str, *chats: str, **rates: float) -> list[bool]:
            target = TargetConfig(channel="slack", account=account, **rates)  # type: ignore[arg-type]  # rates alone
            return [await pace.wait_ms("a", target, terms, chat) == 0 for chat in chats]

        assert await takes("one", "C1", "C1", "C2", "C3", "C4") == [True, False, True, True, False]
        assert await takes("two", *["C1"] * 5, rate_per_s=0, chat_rate_per_s=0) == [True] * 5
        assert await takes("three", *["C1"] * 5, rate_per_s=0, chat_rate_per_s=0.01) == [True, True, True, False, False]
        assert await takes("four", "C1", "C2", rate_per_s=0.01, burst=1) == [True, False]
