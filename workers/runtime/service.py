"""The contract of a part of a process that starts, serves and stops, and the one place that runs several of them."""

import asyncio
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Protocol, Self


class Service(Protocol):
    """Something with a life: started before it is used, stopped exactly once."""

    async def start(self) -> None:
        """Become ready, or raise."""
        ...

    async def stop(self) -> None:
        """Let go of everything; never raises for what is already gone."""
        ...


class Services:
    """Services started in order and stopped in the reverse order, also when a start fails half-way."""

    def __init__(self, *services: Service) -> None:
        self._services = services
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            for service in self._services:
                await service.start()
                self._stack.push_async_callback(service.stop)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()


async def until_set(event: asyncio.Event, timeout_ms: float) -> bool:
    """Wait for the event at most so long; whether it is set."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):  # wait_for may swallow a cancellation that comes with the result
            await event.wait()
    except TimeoutError:
        return event.is_set()
    return True
