"""What the tests of the fold share: turns submitted and published by hand, and a partition served step by step."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from ledger.commands import Scripts
from ledger.keys import Keyspace, make_turn_id
from ledger.log import PublishStatus, publish, read_frames
from ledger.ownership import Raised, raise_owner
from ledger.records import TurnRecord
from ledger.turns import Claimed, NewTurn, SubmitStatus, TurnLimits, claim_turn, read_turn, submit, take_requests
from pipeline.codec import encode, encode_batch
from pipeline.events import (
    FOLD_VERSION,
    TERMINALS,
    BlockFinal,
    ErrorInfo,
    Event,
    Target,
    TextDelta,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from pipeline.output import Output
from pipeline.turn import Turn
from tests.support.waiting import wait_until
from workers.config import Config, FoldConfig, RedisConfig, RetentionConfig
from workers.fold.context import Context
from workers.fold.partition import Partition
from workers.runtime.clock import SystemClock
from workers.streams.connection import AsyncClient, connect
from workers.streams.guard import Guard
from workers.streams.news import News
from workers.streams.patience import patiently

PARTITION = 1
KEYS = Keyspace("fl", 2)
AT = 1_700_000_000_000
PIECES = ["Hello, ", "world.\n\n", "A second paragraph ", "with **text**.\n\n", "And the end."]


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


def turn_id(number: int) -> str:
    return make_turn_id(PARTITION, f"{number:024x}")


def config_of(url: str, **fold: int) -> Config:
    return Config(
        redis=RedisConfig(url=url, partitions=2, block_ms=200, socket_timeout_ms=1000),
        fold=FoldConfig(lease_ms=fold.pop("lease_ms", 900), renew_ms=fold.pop("renew_ms", 100), **fold),
        retention=RetentionConfig(log_ms=fold.pop("log_ms", 3_600_000)),
    )


def started(turn: str, settings: dict[str, int] | None = None) -> TurnStarted:
    return TurnStarted(
        seq=0,
        at=AT,
        fold=FOLD_VERSION,
        runtime="main",
        wire="responses",
        turn=turn,
        session=f"s-{turn}",
        model="m",
        settings=dict(settings or {}),
        targets=[Target(channel="console", name="out")],
    )


def story(turn: str, pieces: Sequence[str], settings: dict[str, int] | None = None) -> list[Event]:
    """A whole turn: one message that arrives in these pieces."""
    events: list[Event] = [started(turn, settings)]
    for piece in pieces:
        events.append(TextDelta(seq=len(events), at=AT + len(events), item=0, content=0, track="text", text=piece))
    events.append(
        BlockFinal(seq=len(events), at=AT + len(events), item=0, content=0, track="text", text="".join(pieces))
    )
    events.append(TurnCompleted(seq=len(events), at=AT + len(events), outcome="completed", usage={"total_tokens": 3}))
    return events


def broken_off(turn: str, text: str) -> list[Event]:
    """A turn that its upstream ends with an error."""
    return [
        started(turn),
        TextDelta(seq=1, at=AT + 1, item=0, content=0, track="text", text=text),
        TurnFailed(seq=2, at=AT + 2, error=ErrorInfo(code="upstream_error", message="no")),
    ]


@dataclass
class Bench:
    """A server and everything that a test of the fold does to it besides folding."""

    url: str
    config: Config
    client: AsyncClient = field(init=False)
    scripts: Scripts = field(init=False)
    tokens: dict[str, str] = field(default_factory=dict)
    raises: int = 0

    def __post_init__(self) -> None:
        self.client = connect(self.config.redis)
        self.scripts = Scripts(self.client)

    async def close(self) -> None:
        await self.client.aclose()

    async def submit(
        self,
        turn: str,
        settings: dict[str, int] | None = None,
        *,
        queue_ms: int = 60_000,
        parent: str = "",
        parent_call: str = "",
    ) -> None:
        """Create a turn."""
        new = NewTurn(
            turn=turn,
            tenant="t",
            runtime="main",
            session=f"s-{turn}",
            upstream="u",
            request="{}",
            started=encode(started(turn, settings)).decode(),
            targets=msgspec.json.encode([{"channel": "console", "name": "out"}]).decode(),
            limits=TurnLimits(
                queue_ms=queue_ms, turn_ms=3_600_000, silence_ms=3_600_000, tool_ms=3_600_000, bytes=10**8
            ),
            parent=parent,
            parent_call=parent_call,
        )
        assert await self.scripts.run(submit(KEYS, new, tenant_limit=100, partition_limit=100)) is SubmitStatus.OK

    async def claim(self, turn: str) -> None:
        """Become the turn's ingest process."""
        taken = await self.scripts.run(take_requests(KEYS, PARTITION, consumer="ingest-1", count=1, min_idle_ms=None))
        assert [entry.turn for entry in taken] == [turn]
        claimed = await self.scripts.run(
            claim_turn(KEYS, turn, entry=taken[0].id, worker="ingest-1", nonce=turn[-8:], lease_ms=60_000)
        )
        assert isinstance(claimed, Claimed)
        self.tokens[turn] = claimed.token

    async def open(
        self, turn: str, settings: dict[str, int] | None = None, *, parent: str = "", parent_call: str = ""
    ) -> None:
        """Submit and claim."""
        await self.submit(turn, settings, parent=parent, parent_call=parent_call)
        await self.claim(turn)

    async def publish(self, turn: str, events: Sequence[Event]) -> None:
        """Add one log entry."""
        last = events[-1]
        call = publish(
            KEYS,
            turn,
            token=self.tokens[turn],
            producer="ingest",
            first_seq=events[0].seq,
            events_json=encode_batch(events),
            n=len(events),
            terminal="terminal" if isinstance(last, TERMINALS) else None,
        )
        reply = await patiently(lambda: self.scripts.run(call), what="publish")
        assert reply.status in {PublishStatus.OK, PublishStatus.ALREADY}, reply

    async def record(self, turn: str) -> TurnRecord:
        """The turn's record."""
        record = await self.scripts.run(read_turn(KEYS, turn))
        assert record is not None
        return record

    async def frames(self, turn: str) -> str:
        """The whole public stream; fails when its numbers have a hole."""
        entries = await self.scripts.run(read_frames(KEYS, turn, after=-1))
        expected = 0
        for entry in entries:
            assert entry.first == expected
            expected += entry.n
        return "".join(entry.sse for entry in entries)

    async def ended(self, turn: str) -> bool:
        """Whether the turn's last frame is stored."""
        return (await self.record(turn)).state.is_terminal

    def context(self) -> Context:
        """A process of its own, as far as a partition sees it."""
        self.raises += 1
        client = connect(self.config.redis)
        clock = SystemClock()
        guard = Guard(clock, self.config.fold.lease_ms)
        return Context(
            config=self.config,
            client=client,
            scripts=Scripts(client),
            keys=KEYS,
            clock=clock,
            guard=guard,
            news=News(self.config.redis),
            worker=f"fold-{self.raises}",
        )

    async def take_over(self, context: Context, *, lease_ms: int = 1) -> Partition:
        """Raise the partition under a lease that is over at once, so that the next owner need not wait."""
        raised: Raised | None = None
        while raised is None:
            call = raise_owner(
                KEYS, role="fold", partition=PARTITION, worker=context.worker, nonce=context.worker, lease_ms=lease_ms
            )
            reply = await self.scripts.run(call)
            raised = reply if isinstance(reply, Raised) else None
        return Partition(context, PARTITION, raised)


class Owner:
    """A partition served in a task, with a bell that rings as in a real process."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.context = bench.context()
        self.partition: Partition | None = None
        self.task: asyncio.Task[None] | None = None
        self._bell: asyncio.Task[None] | None = None

    async def start(self) -> "Owner":
        """Take over and begin to serve."""
        self.partition = await self.bench.take_over(self.context)
        self.task = asyncio.create_task(self.partition.serve())
        self._bell = asyncio.create_task(self._listen())
        return self

    async def _listen(self) -> None:
        assert self.partition is not None
        while True:
            if await self.context.news.wait():
                self.partition.ring()

    async def stop(self) -> None:
        """Commit what is folded and end."""
        assert self.partition is not None
        assert self.task is not None
        self.partition.stop()
        await self.task
        await self.kill()

    async def kill(self) -> None:
        """End without a word, wherever it stands."""
        for task in (self.task, self._bell):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.exception()
        await self.context.news.close()
        await self.context.client.aclose()


@contextlib.asynccontextmanager
async def owner_of(bench: Bench) -> AsyncIterator[Owner]:
    owner = await Owner(bench).start()
    try:
        yield owner
    finally:
        await owner.kill()


async def run_whole(bench: Bench, turn: str, events: list[Event]) -> str:
    """Publish event by event under one owner, undisturbed; the frames."""
    await bench.open(turn)
    async with owner_of(bench):
        for event in events:
            await bench.publish(turn, [event])
        await wait_until(lambda: bench.ended(turn), "the end of the turn")
    return await bench.frames(turn)


def is_dead(owner: Owner) -> bool:
    assert owner.task is not None
    assert owner.partition is not None
    hints = owner.partition._hints._task
    return owner.task.done() or (hints is not None and hints.done())


def is_serving(owner: Owner) -> bool:
    return owner.partition is not None and owner.partition.is_serving


async def has_frames(bench: Bench, turn: str) -> bool:
    return (await bench.record(turn)).frames_next > 0


def poison(monkeypatch: pytest.MonkeyPatch, turn: str, error: Callable[[], BaseException], text: str) -> list[bool]:
    """Make the core raise for one turn's delta with this text, while the returned list holds True."""
    push, armed = Turn.push, [True]

    def poisoned(self: Turn, event: Event, producer: str = "ingest") -> Output:
        if armed[0] and isinstance(event, TextDelta) and event.text == text and _turn_of(self) == turn:
            raise error()
        return push(self, event, producer)

    names: dict[int, str] = {}
    init = Turn.__init__

    def remember(self: Turn, name: str, **options: object) -> None:
        names[id(self)] = name
        init(self, name, **options)  # type: ignore[arg-type]  # the options are passed on as they came

    def _turn_of(machine: Turn) -> str:
        return names[id(machine)]

    monkeypatch.setattr(Turn, "__init__", remember)
    monkeypatch.setattr(Turn, "push", poisoned)
    return armed
