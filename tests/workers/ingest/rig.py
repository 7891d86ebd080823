"""What the tests of the ingest process share: turns submitted by hand, a worker in this loop, the log read back."""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
from redis.asyncio import Redis

from ledger.commands import Call, Scripts
from ledger.errors import Unavailable
from ledger.keys import Keyspace, make_turn_id
from ledger.log import INGEST, PublishReply, entries_of, publish, read_entries
from ledger.records import TurnRecord
from ledger.turns import Claimed, NewTurn, TurnLimits, claim_turn, read_turn, submit, take_requests
from pipeline.codec import decode_batch, encode, encode_batch
from pipeline.events import FOLD_VERSION, TERMINALS, Event, TextDelta, TurnStarted
from tests.support.waiting import wait_until
from workers.config import Config, IngestConfig, RedisConfig, ServiceConfig, UpstreamConfig
from workers.ingest.worker import run
from workers.streams.connection import connect

T = TypeVar("T")
LIMITS = TurnLimits(queue_ms=60_000, turn_ms=60_000, silence_ms=60_000, tool_ms=60_000, bytes=1 << 30)


def config_for(redis_url: str, base_url: str, **changes: Any) -> Config:
    """Short leases and quick retries; `changes` go to the upstream where it has such a setting, else to ingest."""
    upstream = {name: value for name, value in changes.items() if name in UpstreamConfig.__struct_fields__}
    ingest = {name: value for name, value in changes.items() if name in IngestConfig.__struct_fields__}
    assert upstream.keys() | ingest.keys() == changes.keys()
    return Config(
        redis=RedisConfig(url=redis_url, partitions=2, block_ms=100),
        ingest=IngestConfig(**{"lease_ms": 600, "renew_ms": 150, "retry_base_ms": 10, "retry_max_ms": 200, **ingest}),
        service=ServiceConfig(drain_ms=200),
        upstreams={"test": UpstreamConfig(**{"base_url": base_url, "read_timeout_ms": 5_000, **upstream})},
    )


class Rig:
    """A client of the ledger, and the workers that a test starts."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.keys = Keyspace(config.redis.prefix, config.redis.partitions)
        self.client = connect(config.redis, name="test")
        self.scripts = Scripts(self.client)
        self._workers: list[tuple[asyncio.Task[None], asyncio.Event]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in range(len(self._workers)):
            await self.stop(number)
        await self.client.aclose()

    def start(self, config: Config | None = None) -> None:
        """Start an ingest worker in this loop."""
        stop = asyncio.Event()
        self._workers.append((asyncio.create_task(run(config or self.config, stop)), stop))

    async def stop(self, number: int = -1) -> None:
        """Stop a worker as SIGTERM does, and raise what it raised."""
        task, stop = self._workers[number]
        stop.set()
        await task

    async def submit(
        self,
        request: Mapping[str, Any] | None = None,
        *,
        number: int = 1,
        upstream: str = "test",
        partition: int = 0,
    ) -> str:
        """Submit a turn."""
        turn = make_turn_id(partition, f"{number:024x}")
        known = self.config.upstreams.get(upstream)
        started = msgspec.structs.replace(self.started(turn), wire=known.wire if known is not None else "responses")
        new = NewTurn(
            turn=turn,
            tenant="test",
            runtime="main",
            session="session",
            upstream=upstream,
            request=msgspec.json.encode(request or {"model": "m", "input": "hi"}).decode(),
            started=encode(started).decode(),
            targets="[]",
            limits=LIMITS,
        )
        await self.scripts.run(submit(self.keys, new, tenant_limit=1000, partition_limit=1000))
        return turn

    @staticmethod
    def started(turn: str) -> TurnStarted:
        """The first event of a turn."""
        return TurnStarted(
            seq=0,
            at=1,
            fold=FOLD_VERSION,
            runtime="main",
            wire="responses",
            turn=turn,
            session="session",
            upstream="test",
        )

    async def claim(self, *, lease_ms: int = 300) -> Claimed:
        """Claim the turn that was submitted, as a process does that dies right after."""
        taken = await self.scripts.run(take_requests(self.keys, 0, consumer="dead", count=1, min_idle_ms=None))
        call = claim_turn(
            self.keys, taken[0].turn, entry=taken[0].id, worker="dead", nonce="feedfeedfeedfeed", lease_ms=lease_ms
        )
        claimed = await self.scripts.run(call)
        assert isinstance(claimed, Claimed)
        return claimed

    async def publish(self, claimed: Claimed, *events: Event) -> PublishReply:
        """Publish under a claim."""
        call = publish(
            self.keys,
            claimed.record.id,
            token=claimed.token,
            producer=INGEST,
            first_seq=events[0].seq,
            events_json=encode_batch(list(events)),
            n=len(events),
        )
        return await self.scripts.run(call)

    async def record(self, turn: str) -> TurnRecord:
        """The turn's record."""
        record = await self.scripts.run(read_turn(self.keys, turn))
        assert record is not None
        return record

    async def events(self, turn: str) -> list[Event]:
        """The turn's events as they stand in the log; their numbers have neither gap nor repeat."""
        ids = await self.scripts.run(entries_of(self.keys, turn))
        found: list[Event] = []
        for start in range(0, len(ids), 500):
            for entry in await self.scripts.run(read_entries(self.keys, 0, ids[start : start + 500])):
                found += decode_batch(entry.events)
        assert [event.seq for event in found] == list(range(len(found)))
        return found

    async def ended(self, turn: str, timeout_s: float = 15) -> Event:
        """Wait for the turn's terminal in the log, which is the last event and the only one of its kind."""

        async def has_ended() -> bool:
            return bool((await self.record(turn)).ended)

        await wait_until(has_ended, f"{turn} to end", timeout_s)
        events = await self.events(turn)
        assert sum(isinstance(event, TERMINALS) for event in events) == 1
        return events[-1]

    async def published(self, turn: str, count: int) -> None:
        """Wait until so many events are in the log."""

        async def enough() -> bool:
            return (await self.record(turn)).next.get(INGEST, 0) >= count

        await wait_until(enough, f"{count} events of {turn}")

    async def saved(self) -> dict[str, bytes]:
        """Everything that the server holds now."""
        async with Redis.from_url(self.config.redis.url) as plain:
            found: dict[str, bytes] = {}
            for key in await plain.keys("*"):
                value = await plain.dump(key)
                assert isinstance(key, bytes)
                assert value is not None
                found[key.decode()] = value
            return found

    async def restore(self, saved: Mapping[str, bytes]) -> None:
        """Let the server fall back to what it held: its tail is lost."""
        async with Redis.from_url(self.config.redis.url) as plain:
            await plain.flushdb()
            for key, value in saved.items():
                await plain.restore(key, 0, value, replace=True)  # a worker may write in between


def text_of(events: list[Event]) -> str:
    """The text that the deltas make."""
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.track == "text")


class UnreliableScripts(Scripts):
    """Runs every call for real and loses chosen replies: what was written stays written."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.lose: dict[str, int] = {}
        self.lost = 0
        self.hold: asyncio.Event | None = None

    async def run(self, call: Call[T]) -> T:
        """Run a call; the reply may be lost, or a publish be held until the test lets it go."""
        if self.hold is not None and call.name == "publish":
            await self.hold.wait()
        reply = await super().run(call)
        if self.lose.get(call.name, 0) > 0:
            self.lose[call.name] -= 1
            self.lost += 1
            raise Unavailable(f"{call.name}: the reply was lost")
        return reply
