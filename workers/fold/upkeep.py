"""What an owner does by the clock: ends turns by name, adds idle events, trims. All of it through the log or a fenced script.

No event that a timer makes can follow one that the timer did not know: it is appended only while the turn's last entry is the
one that the timer saw.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from ledger.errors import Full, LedgerError, Unavailable
from ledger.log import PublishStatus, append_if_tail, read_positions
from ledger.retention import trim
from ledger.turns import Due, DueReason, check_deadline, due_deadlines, read_turn
from pipeline.codec import EventRefused, decode, encode_batch
from pipeline.events import ErrorInfo, Event, Status, TurnCancelled, TurnFailed
from workers.fold.context import Context
from workers.fold.live import Live
from workers.fold.partition import Partition
from workers.observability import logs, metrics
from workers.runtime.service import until_set

TICK_MS = 100
"""How exact an idle timer is."""

REASONS = {
    DueReason.NEVER_TAKEN: "No process took this turn in time.",
    DueReason.OVER_AGE: "The turn ran longer than it may.",
    DueReason.OVER_BYTES: "The turn's events are larger than they may be.",
    DueReason.SILENT: "Nothing was heard of this turn for longer than it may be silent.",
    DueReason.TOOL_MISSING: "A tool of this turn never answered.",
}


class Upkeep:
    """The timers of one process, over the partitions that it serves."""

    def __init__(self, context: Context, partitions: Callable[[], Iterable[Partition]]) -> None:
        self._context = context
        self._partitions = partitions
        self._deadlines_at = 0
        self._trim_at = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Look at the clock until stopped."""
        while not await until_set(stop, TICK_MS):
            try:
                await self.tick()
            except Exception:  # noqa: BLE001 - the next tick is another try; a worker without timers would be worse
                logs.bind().exception("upkeep_failed")

    async def tick(self) -> None:
        """Do everything that is due now."""
        now = self._context.clock.boottime_ms()
        await self._each(self._give_out)
        if now >= self._deadlines_at:
            self._deadlines_at = now + self._context.config.fold.deadline_every_ms
            if await self._context.guard.check(self._context.client):
                await self._each(self.end_due)
            await self._each(self._measure)
        if now >= self._trim_at:
            self._trim_at = now + self._context.config.fold.trim_every_ms
            await self._each(self._trim)

    async def _each(self, work: Callable[[Partition], Awaitable[None]]) -> None:
        """Do something for every partition, side by side: one whose node is away holds up none of the others."""

        async def tried(partition: Partition) -> None:
            try:
                await work(partition)
            except (Unavailable, Full) as error:
                logs.bind(partition=partition.number).debug("upkeep_put_off", error=str(error))

        await asyncio.gather(*(tried(partition) for partition in self._partitions() if partition.is_serving))

    async def _give_out(self, partition: Partition) -> None:
        """Add an idle event to each turn whose held text has waited for long enough."""
        now = self._context.clock.boottime_ms()
        for live in [live for live in partition.turns.values() if _is_due(live, now)]:
            await self._idle(partition, live)

    async def end_due(self, partition: Partition) -> None:
        """End the turns of a partition whose time is over."""
        keys, scripts = self._context.keys, self._context.scripts
        calm_ms = self._context.guard.calm_ms()
        for turn in await scripts.run(due_deadlines(keys, partition.number)):
            try:
                due = await scripts.run(check_deadline(keys, turn, token=partition.token, calm_ms=calm_ms))
                if due is not None:
                    await self._end(partition, due)
            except (Unavailable, Full):
                raise
            except LedgerError as error:  # one turn's damaged keys must not keep the others alive for ever
                logs.bind(turn=turn, partition=partition.number).error("deadline_failed", error=str(error))

    async def _end(self, partition: Partition, due: Due) -> None:
        now = self._context.clock.now_ms()
        events: list[Event] = []
        if not due.tail:
            events += await self._started(due.turn)
        seq = due.next_seq + len(events)
        if due.reason is DueReason.CANCELLED:
            events.append(TurnCancelled(seq=seq, at=now, reason="cancelled"))
        else:
            error = ErrorInfo(code=due.reason.value, message=REASONS[due.reason], type="foldline_error")
            events.append(TurnFailed(seq=seq, at=now, error=error))
        call = append_if_tail(
            self._context.keys,
            due.turn,
            token=partition.token,
            tail=due.tail,
            first_seq=due.next_seq,
            events_json=encode_batch(events),
            n=len(events),
            terminal="turn_cancelled" if due.reason is DueReason.CANCELLED else "turn_failed",
        )
        reply = await self._context.scripts.run(call)
        logs.bind(turn=due.turn, partition=partition.number).info(
            "turn_ended_by_name", reason=due.reason.value, status=reply.status.value
        )
        if reply.status is PublishStatus.OK:
            metrics.TURNS_FAILED.labels(code=due.reason.value).inc()

    async def _started(self, turn: str) -> list[Event]:
        """The first event of a turn that nobody took, as it was frozen at submit, so that its stream begins as any other."""
        record = await self._context.scripts.run(read_turn(self._context.keys, turn))
        try:
            return [] if record is None else [decode(record.started, turn=turn)]
        except EventRefused as refused:
            logs.bind(turn=turn).error("started_refused", error=str(refused))
            return []

    async def _idle(self, partition: Partition, live: Live) -> None:
        event = Status(seq=live.fold_seq, at=self._context.clock.now_ms(), name="idle")
        call = append_if_tail(
            self._context.keys,
            live.turn,
            token=partition.token,
            tail=live.tail,
            first_seq=live.fold_seq,
            events_json=encode_batch([event]),
            n=1,
        )
        reply = await self._context.scripts.run(call)
        if reply.status in {PublishStatus.GAP, PublishStatus.OVERLAP, PublishStatus.CONFLICT}:
            live.fold_seq = reply.next
            return
        live.idle_due_ms = None  # what made it due is in the log now, or something newer is

    async def _measure(self, partition: Partition) -> None:
        positions = await self._context.scripts.run(read_positions(self._context.keys, partition.number))
        metrics.FOLD_LAG.labels(partition=partition.number).set(positions.lag)
        metrics.FOLD_INFLIGHT.labels(partition=partition.number).set(len(partition.turns))

    async def _trim(self, partition: Partition) -> None:
        retention = self._context.config.retention
        call = trim(
            self._context.keys,
            partition.number,
            token=partition.token,
            log_ms=retention.log_ms,
            index_ms=retention.turn_ms,
        )
        reply = await self._context.scripts.run(call)
        metrics.LOG_TRIMMED.inc(reply.log_removed)


def _is_due(live: Live, now_ms: int) -> bool:
    return live.machine is not None and live.idle_due_ms is not None and now_ms >= live.idle_due_ms
