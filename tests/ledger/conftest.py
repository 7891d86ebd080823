"""Fixtures of the ledger's tests: calls over a blocking client, and builders of what is submitted, published and committed."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

import pytest
import redis
import redis.asyncio as aioredis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ledger import log, ownership, turns
from ledger.commands import Call, SyncScripts
from ledger.keys import Keyspace
from ledger.records import BlockRecord, TurnState
from tests.support.deliveries import Desk

T = TypeVar("T")
LEASE_MS = 60_000


def events(first: int, n: int, tail: str = "") -> str:
    """A batch of made-up events."""
    return "[" + ",\n".join(f'{{"seq":{seq},"text":"a,b\\n{tail}"}}' for seq in range(first, first + n)) + "]"


@dataclass
class Bench:
    """One partition under test: a client, the keys, and short words for the usual steps."""

    client: Any
    keys: Keyspace = field(default_factory=lambda: Keyspace(partitions=4))
    partition: int = 3
    numbers: Iterator[int] = field(default_factory=count)
    token: str = ""

    def run(self, call: Call[T]) -> T:
        """Run a call."""
        return SyncScripts(self.client).run(call)

    def turn_id(self) -> str:
        """A new turn's id in the partition."""
        return f"{self.partition}-{next(self.numbers):024x}"

    def new(self, turn: str = "", **changes: Any) -> turns.NewTurn:
        """A turn to submit."""
        limits = turns.TurnLimits(queue_ms=60_000, turn_ms=3_600_000, silence_ms=60_000, tool_ms=60_000, bytes=0)
        fields: dict[str, Any] = {
            "turn": turn or self.turn_id(),
            "tenant": "acme",
            "runtime": "main",
            "session": "s1",
            "upstream": "model",
            "request": '{"input":"hi"}',
            "started": '{"type":"turn_started"}',
            "targets": "[]",
            "limits": limits,
        }
        return turns.NewTurn(**(fields | changes))

    def submit(self, turn: str = "", **changes: Any) -> str:
        """Submit a turn and return its id."""
        new = self.new(turn, **changes)
        assert self.run(turns.submit(self.keys, new, tenant_limit=100, partition_limit=100)) == turns.SubmitStatus.OK
        return new.turn

    def record(self, turn: str) -> Any:
        """The turn's record, which must be there."""
        record = self.run(turns.read_turn(self.keys, turn))
        assert record is not None
        return record

    def claim(self, turn: str, nonce: str = "n1", worker: str = "w1", lease_ms: int = LEASE_MS) -> Any:
        """Claim a turn."""
        entry = self.client.hget(self.keys.turn(turn), "entry") or "0-1"
        return self.run(turns.claim_turn(self.keys, turn, entry=entry, worker=worker, nonce=nonce, lease_ms=lease_ms))

    def claimed(self) -> tuple[str, str]:
        """A submitted turn with the token of its claim."""
        turn = self.submit()
        return turn, self.claim(turn).token

    def raised(self, nonce: str = "o1") -> ownership.Raised:
        """Own the partition in the fold."""
        reply = self.raise_(nonce)
        assert isinstance(reply, ownership.Raised)
        self.token = reply.token
        return reply

    def raise_(self, nonce: str, role: str = "fold", lease_ms: int = LEASE_MS) -> ownership.Raised | ownership.NotFree:
        """Try to own the partition."""
        return self.run(
            ownership.raise_owner(
                self.keys, role=role, partition=self.partition, worker=f"w-{nonce}", nonce=nonce, lease_ms=lease_ms
            )
        )

    def publish(
        self, turn: str, token: str, first: int, n: int = 1, terminal: str | None = None, tail: str = ""
    ) -> log.PublishReply:
        """Publish made-up events."""
        return self.run(
            log.publish(
                self.keys,
                turn,
                token=token,
                producer="ingest",
                first_seq=first,
                events_json=events(first, n, tail),
                n=n,
                terminal=terminal,
            )
        )

    def append(
        self, turn: str, tail: str, first: int = 0, n: int = 1, terminal: str | None = None, word: str = ""
    ) -> log.PublishReply:
        """Append the fold's own events."""
        return self.run(
            log.append_if_tail(
                self.keys,
                turn,
                token=self.token,
                tail=tail,
                first_seq=first,
                events_json=events(first, n, word),
                n=n,
                terminal=terminal,
            )
        )

    def take(self, after: str = "0-0", count: int = 100, token: str = "") -> log.TakeReply:
        """Take log entries."""
        call = log.take_log(
            self.keys, self.partition, token=token or self.token, consumer="c1", after=after, count=count
        )
        return self.run(call)

    def adopt(self, consumer: str = "c1") -> log.AdoptReply:
        """Adopt what an owner before took."""
        return self.run(log.adopt(self.keys, self.partition, token=self.token, consumer=consumer))

    def pending(self, stream: str = "log", group: str = "fold") -> list[str]:
        """Ids of a group's pending entries."""
        key = self.keys.log(self.partition) if stream == "log" else self.keys.requests(self.partition)
        return [one["message_id"] for one in self.client.xpending_range(key, group, "-", "+", 10_000)]

    def batch(self, prev: str, entries: Sequence[str], *effects: log.TurnCommit, commit_id: str = "c1") -> log.Commit:
        """A commit of entries, each of one event."""
        return log.Commit(
            partition=self.partition,
            token=self.token,
            prev=prev,
            last=entries[-1] if entries else prev,
            commit_id=commit_id,
            entries=entries,
            events=len(entries),
            turns=effects,
            retention_ms=50_000,
        )

    def commit(self, batch: log.Commit) -> log.CommitReply:
        """Commit."""
        return self.run(log.commit(self.keys, batch))

    def lapse(self, key: str, name: str) -> None:
        """Let a lease or a date in a hash lie in the past."""
        self.client.hset(key, name, 1)

    def everything(self) -> dict[str, Any]:
        """All keys and what they hold, for comparison."""
        return {key: self.client.dump(key) for key in sorted(self.client.keys("*"))}


def effect(turn: str, frames_next: int = 0, frames: int = 1, blocks_next: int = 0, **changes: Any) -> log.TurnCommit:
    """The effects of a batch on a turn: frames that say their numbers."""
    fields: dict[str, Any] = {
        "sse": "".join(f"data: {number}\n\n" for number in range(frames_next, frames_next + frames)),
        "digest": f"d{frames_next + frames}",
        "fold_version": 1,
        "state": TurnState.RUNNING,
    }
    return log.TurnCommit(
        turn=turn, frames_next=frames_next, frames=frames, blocks_next=blocks_next, **(fields | changes)
    )


def block(text: str) -> BlockRecord:
    """A block of plain text."""
    return BlockRecord(opener="", text=text, closer="", separator="\n\n", markers="{}")


def connect(url: str) -> redis.Redis:
    """A blocking client, retries off."""
    return redis.Redis.from_url(url, decode_responses=True, socket_timeout=10, retry=Retry(NoBackoff(), 0))


@pytest.fixture
def bench(redis_url: str) -> Iterator[Bench]:
    """An empty server with one partition to work on."""
    client = connect(redis_url)
    yield Bench(client)
    client.close()


@pytest.fixture
async def desk(redis_url: str) -> AsyncIterator[Desk]:
    """A turn of two targets, and the delivery role's owner of its partition."""
    async with aioredis.Redis.from_url(redis_url, decode_responses=True) as client:
        desk = Desk(client)
        await desk.open_turn()
        await desk.own("1:aaaa")
        yield desk
