"""A delivery worker in this process, on a real server, before a real receiver, with times short enough to see it recover."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis.asyncio as aioredis

from ledger.parts import PartRecord
from ledger.states import State
from tests.support.deliveries import Desk
from tests.support.receivers import Receiver
from tests.support.waiting import wait_until
from workers.config import Config, DeliveryConfig, RedisConfig, TargetConfig
from workers.delivery import planner, sender
from workers.delivery.worker import DeliveryWorker
from workers.runtime import failpoints

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
FAST: dict[str, Any] = {
    "lease_ms": 900,
    "renew_ms": 300,
    "send_deadline_ms": 400,
    "margin_ms": 100,
    "backoff_base_ms": 20,
    "backoff_max_ms": 100,
    "unknown_hold_ms": 200,
}


@dataclass
class Life:
    """One worker's life: `stop` is graceful, `drop` is what a kill leaves behind."""

    worker: DeliveryWorker
    task: asyncio.Task[None]
    halt: asyncio.Event

    async def stop(self) -> None:
        self.halt.set()
        await self.task

    async def drop(self) -> None:
        """End without a word: no receipt, no release, no farewell."""
        ownership: Any = self.worker.ownership

        async def silent(*_: object) -> None:
            return

        ownership._release = silent
        ownership._leave = silent
        for served, task in self.worker._serving.values():
            task.cancel()
            await served.abandon()
            await asyncio.wait({task})
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


@dataclass
class Site:
    """Everything one test needs."""

    desk: Desk
    receiver: Receiver
    console: Path
    redis_url: str
    lives: list[Life] = field(default_factory=list)
    delivery: dict[str, Any] = field(default_factory=dict)
    hook: dict[str, Any] = field(default_factory=dict)
    terminal: dict[str, Any] = field(default_factory=dict)
    redis: dict[str, Any] = field(default_factory=dict)
    chats: dict[str, dict[str, Any]] = field(default_factory=dict)
    """More targets, by name."""
    environ: dict[str, str] = field(default_factory=lambda: {"HOOK_SECRET": SECRET})

    def config(self) -> Config:
        hook = {"channel": "webhook", "url": self.receiver.url, "secret_env": "HOOK_SECRET", **self.hook}
        terminal = {"channel": "console", "path": str(self.console), **self.terminal}
        return Config(
            redis=RedisConfig(url=self.redis_url, partitions=self.desk.keys.partitions, block_ms=100, **self.redis),
            delivery=DeliveryConfig(**{**FAST, **self.delivery}),
            targets={
                "hook": TargetConfig(**hook),
                "terminal": TargetConfig(**terminal),
                **{name: TargetConfig(**settings) for name, settings in self.chats.items()},
            },
        )

    def start(self) -> Life:
        """A worker, started."""
        made = DeliveryWorker(self.config(), environ=self.environ)
        halt = asyncio.Event()
        life = Life(worker=made, task=asyncio.create_task(made.run(halt)), halt=halt)
        self.lives.append(life)
        return life

    async def turn(self, *targets: str, blocks: int = 0, turn: str | None = None, **fields: Any) -> str:
        """A running turn for these targets, with so many blocks committed."""
        chats = {name: settings["channel"] for name, settings in self.chats.items()}
        channels = {"hook": "webhook", "terminal": "console", **chats}
        listed = [{"channel": channels.get(name, "webhook"), "name": name} for name in targets]
        name = await self.desk.open_turn(turn, targets=msgspec.json.encode(listed).decode(), **fields)
        for block in range(blocks):
            await self.desk.add_block(block, name, text=f"text {block}")
        return name

    async def parts(self, turn: str | None = None) -> list[PartRecord]:
        """The turn's parts as they stand."""
        ids = await self.desk.client.lrange(self.desk.keys.parts(turn or self.desk.turn), 0, -1)
        return [await self.desk.part(part_id) for part_id in ids]

    async def states(self, turn: str | None = None) -> list[State]:
        return [part.state for part in await self.parts(turn)]

    async def until(self, count: int, *states: State, turn: str | None = None, timeout_s: float = 20.0) -> None:
        """Wait until so many parts exist and all are in one of these states."""

        async def there() -> bool:
            found = await self.states(turn)
            return len(found) == count and set(found) <= set(states)

        try:
            await wait_until(there, f"{count} parts {states}", timeout_s=timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; they are {await self.states(turn)}") from None

    def shown(self) -> list[str]:
        """The texts that the console got."""
        if not self.console.exists():
            return []
        return [msgspec.json.decode(line)["text"] for line in self.console.read_bytes().splitlines()]


@pytest.fixture
async def site(redis_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    async with aioredis.Redis.from_url(redis_url, decode_responses=True) as client, Receiver() as receiver:
        desk = Desk(client, partition=1)
        desk.keys = type(desk.keys)(partitions=2)
        site = Site(desk=desk, receiver=receiver, console=tmp_path / "console", redis_url=redis_url)
        yield site
        receiver.release()
        for life in site.lives:
            if not life.task.done():
                await life.stop()


@pytest.fixture
def at_failpoint(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], None]], None]:
    """Do something when a failpoint is reached in this process, once; the task that reached it goes no further."""

    def arrange(name: str, act: Callable[[], None]) -> None:
        armed = [name]

        def hit(reached: str) -> None:
            if reached in armed:
                armed.clear()
                act()
                raise asyncio.CancelledError

        for module in (planner, sender):
            monkeypatch.setattr(module, "hit", hit)
        monkeypatch.setattr(failpoints, "hit", hit)

    return arrange
