"""Publishing one turn's events: one publish in flight, kept until its reply is known, followed by what has gathered meanwhile.

Authority: the turn's token. `STALE` means that another process carries the turn: nothing more is said and the upstream is
closed at once. The same holds for a turn that has ended or that the server does not know.
Loss: an unanswered publish is sent again as it was; whether the first one arrived shows in `next`, which the batcher follows.
Failure: when the server wants events that are no longer kept, the turn ends as `log_rolled_back`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ledger.commands import Scripts
from ledger.keys import Keyspace
from ledger.log import INGEST, PublishReply, PublishStatus, publish
from pipeline.events import ErrorInfo, Event, TurnFailed
from workers.config import IngestConfig
from workers.ingest.batcher import Batch, Batcher, RolledBackError
from workers.ingest.bounds import LagGate, Room
from workers.observability import logs, metrics
from workers.runtime.clock import Clock, perf_s
from workers.runtime.failpoints import hit
from workers.streams.guard import Guard
from workers.streams.patience import patiently


class Verdict(Enum):
    """How publishing ended."""

    DONE = "done"  # the terminal is acknowledged
    STALE = "stale"  # somebody else carries the turn
    ENDED = "ended"  # the turn had a terminal already
    UNKNOWN_TURN = "unknown_turn"  # the server does not know it (any more)


REFUSALS = {
    PublishStatus.STALE: Verdict.STALE,
    PublishStatus.ENDED: Verdict.ENDED,
    PublishStatus.UNKNOWN_TURN: Verdict.UNKNOWN_TURN,
}


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all turns of a process work with."""

    config: IngestConfig
    scripts: Scripts
    keys: Keyspace
    guard: Guard
    clock: Clock
    room: Room


class Publisher:
    """One turn's way into the log."""

    def __init__(self, bench: Bench, turn: str, token: str, *, next_seq: int, gate: LagGate) -> None:
        self._bench = bench
        self._turn = turn
        self._token = token
        self._gate = gate
        self._log = logs.bind(turn=turn, partition=bench.keys.partition_of_turn(turn))
        self._news = asyncio.Event()
        self._progress = asyncio.Event()
        self.on_cancel: Callable[[], None] | None = None
        self.on_acknowledged: Callable[[int], None] | None = None
        self.batcher = Batcher(
            next_seq=next_seq,
            max_events=bench.config.batch_max_events,
            max_bytes=bench.config.batch_max_bytes,
            keep_ms=bench.config.producer_keep_ms,
            keep_bytes=bench.config.turn_buffer_bytes,
        )

    @property
    def waiting_bytes(self) -> int:
        """Bytes of this turn that the server has not acknowledged."""
        return self.batcher.waiting_bytes

    def put(self, event: Event) -> None:
        """Take an event; it goes with the next publish."""
        self._bench.room.moved(self.batcher.put(event))
        self._news.set()

    async def acknowledged(self, count: int) -> None:
        """Wait until the server has this many of the turn's events."""
        while self.batcher.acknowledged < count:
            self._progress.clear()
            await self._progress.wait()

    async def run(self) -> Verdict:
        """Publish until the terminal is acknowledged, or the server refuses the turn."""
        while True:
            batch = self.batcher.seal()
            if batch is None:
                if self.batcher.is_done:
                    return Verdict.DONE
                self._news.clear()
                await self._news.wait()
                continue
            hit("ingest.before_terminal" if batch.terminal else "ingest.before_publish")
            reply = await self._publish(batch)
            hit("ingest.after_terminal" if batch.terminal else "ingest.after_publish")
            refusal = REFUSALS.get(reply.status)
            if refusal is not None:
                return refusal
            self._settle(batch, reply)

    async def resend_kept(self) -> Verdict:
        """Say again what was acknowledged lately, after the server was away: it may have lost its tail.

        Interrupted, it can be called again; `abandon` ends the matter.
        """
        self._bench.room.moved(self.batcher.resend_kept())
        return await self.run()

    def abandon(self) -> None:
        """Give the bytes back that will not be published any more."""
        self._bench.room.moved(-self.batcher.waiting_bytes)
        self.batcher.restart_at(self.batcher.next_seq)

    async def _publish(self, batch: Batch) -> PublishReply:
        bench = self._bench
        call = publish(
            bench.keys,
            self._turn,
            token=self._token,
            producer=INGEST,
            first_seq=batch.first,
            events_json=batch.events,
            n=batch.n,
            terminal=batch.terminal,
        )
        begun = perf_s()
        reply = await patiently(lambda: bench.scripts.run(call), what="publish", role="ingest", guard=bench.guard)
        metrics.INGEST_PUBLISH.observe(perf_s() - begun)
        metrics.INGEST_BATCH.observe(batch.n)
        return reply

    def _settle(self, batch: Batch, reply: PublishReply) -> None:
        before = self.batcher.acknowledged
        if reply.status is PublishStatus.CONFLICT:  # another history stands at our numbers: ours cannot go on
            self._roll_back(reply.next, batch, reply.status)
        else:
            try:
                self._bench.room.moved(-self.batcher.settle(reply.next, self._bench.clock.boottime_ms()))
            except RolledBackError as error:
                self._roll_back(error.expected, batch, reply.status)
        metrics.INGEST_EVENTS.inc(max(0, self.batcher.acknowledged - before))
        self._gate.update(reply.lag)
        if self.on_acknowledged is not None:
            self.on_acknowledged(self.batcher.acknowledged)
        self._progress.set()
        if reply.cancel and self.on_cancel is not None:
            self.on_cancel()

    def _roll_back(self, expected: int, batch: Batch, status: PublishStatus) -> None:
        """End the turn at the number that the server has: what it knows stays, what is lost is said to be."""
        metrics.SERVER_LOST_DATA.labels(role="ingest").inc()
        self._log.error("log_rolled_back", expected=expected, first=batch.first, status=status.value)
        self.abandon()
        self.batcher.restart_at(expected)
        info = ErrorInfo(
            code="log_rolled_back", message="the server lost a part of this turn that nobody holds any more"
        )
        self.put(TurnFailed(seq=expected, at=self._bench.clock.now_ms(), error=info))
