import asyncio

import pytest

from tests.support.waiting import turn_of_the_loop
from workers.config import RedisConfig
from workers.streams.cancelling import heeding
from workers.streams.connection import connect


async def test_a_task_that_is_cancelled_at_any_moment_of_its_calls_ends(redis_url: str) -> None:
    client = connect(RedisConfig(url=redis_url))
    await client.ping()

    async def read_for_ever() -> None:
        while True:
            await client.execute_command("XRANGE", "fl:nothing", "-", "+")

    for turns in range(60):
        task = asyncio.ensure_future(read_for_ever())
        for _ in range(turns % 12):
            await turn_of_the_loop()
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=2)
        assert done, f"the cancellation after {turns % 12} turns of the loop was forgotten"
    await client.aclose()


async def test_a_time_out_around_calls_comes(redis_url: str) -> None:
    client = connect(RedisConfig(url=redis_url))

    async def ask_for(seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while True:
                await client.execute_command("PING")

    for attempt in range(40):
        with pytest.raises(TimeoutError):
            await ask_for(0.0003 * attempt)
    await client.aclose()


async def test_a_call_that_was_cancelled_before_is_not_disturbed_in_its_clean_up() -> None:
    async def clean_up() -> str:
        await turn_of_the_loop()
        return "released"

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return await heeding(clean_up())
        raise AssertionError

    task = asyncio.ensure_future(work())
    await turn_of_the_loop()
    task.cancel()
    assert await task == "released"
