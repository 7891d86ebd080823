"""Waiting for a condition instead of for a time."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable


async def wait_until(
    condition: Callable[[], object] | Callable[[], Awaitable[object]],
    what: str,
    timeout_s: float = 10.0,
    every_s: float = 0.01,
) -> None:
    """Return when the condition holds; fail with its name when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        result = condition()
        if inspect.isawaitable(result):
            result = await result
        if result:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s} s in vain for: {what}")
        await asyncio.sleep(every_s)


def wait_until_sync(condition: Callable[[], object], what: str, timeout_s: float = 10.0, every_s: float = 0.01) -> None:
    """The same without a loop."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s} s in vain for: {what}")
        time.sleep(every_s)


async def turn_of_the_loop() -> None:
    """Let everything that is ready run once; no time passes."""
    await asyncio.sleep(0)
