"""Serving one partition: plan its new blocks, then for each lane that can be acted upon read, decide, record, act.

Lanes are independent: each is served by a task of its own while it has something to do, and within a lane one part at a time. What waits
(for a time, a budget, a person) waits in Redis; nothing is remembered here that a successor would miss.
When the partition is lost, nothing new is begun, and attempts that are out may still write their receipts.
"""

import asyncio
from typing import assert_never

from ledger import delivery
from ledger.delivery import Step
from ledger.errors import LedgerError
from ledger.parts import PartRecord, Reply, held_lane
from ledger.retention import retire_turn
from ledger.states import Operation, State
from workers.delivery.asking import Asking
from workers.delivery.context import Context
from workers.delivery.planner import Planner
from workers.delivery.recovery import Action, Advance, Ask, Send, Wait, decide
from workers.delivery.sender import REFUSED_MS, Sender
from workers.observability import logs, metrics
from workers.streams.ownership_loop import Partitions
from workers.streams.serving import PartitionGoneError

POLL_MS = 1_000
"""Longest rest: a wake-up that was lost, or a word of an operator, costs at most this."""
HELD_MS = 250
"""How soon to look again at parts that wait for an earlier turn of their session."""
SWEEP_COUNT = 1_000
"""Unknown parts looked at in one sweep, the oldest first."""
FAULT_MS = 1_000
"""How long a lane rests after a fault of ours."""


class Partition:
    """One partition under one token."""

    def __init__(self, context: Context, number: int, token: str, ownership: Partitions) -> None:
        self.number = number
        self.token = token
        self._context = context
        self._planner = Planner(context, number, token)
        self._sender = Sender(
            context,
            number,
            token,
            lease_left_ms=lambda: 0 if self._closing else ownership.holds(number),
            submitted_at=self._planner.submitted_at,
        )
        self._asking = Asking(context)
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._bell = asyncio.Event()
        self._closing = False
        self._gone = False
        self._skew_ms = 0
        self._swept_at_ms = 0
        self._log = logs.bind(partition=number, token=token)

    def ring(self) -> None:
        """Something is new."""
        self._bell.set()

    def stop(self) -> None:
        """Begin nothing new; `serve` returns when the attempts that are out have their receipts."""
        self._closing = True
        self._bell.set()

    async def serve(self) -> None:
        """Serve until stopped; raises PartitionGoneError when another owner is at work."""
        try:
            await self._planner.adopt()
            while not self._closing:
                self._bell.clear()
                planned = await self._planner.step()
                later_ms = await self._start_lanes()
                await self._sweep()
                if not planned and not self._closing:
                    await self._rest(later_ms)
        finally:
            self._closing = True
            if self._busy:
                await asyncio.wait(self._busy.values())
        if self._gone:
            raise PartitionGoneError("stale token")

    async def abandon(self) -> None:
        """Drop everything at once, without receipts: what is out is left in `sending` for the next owner."""
        self._closing = True
        tasks = list(self._busy.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _rest(self, later_ms: int) -> None:
        wait_ms = min(POLL_MS, later_ms) if later_ms else POLL_MS
        try:
            async with asyncio.timeout(max(wait_ms, 1) / 1000):
                await self._bell.wait()
        except TimeoutError:
            return

    # lanes

    async def _start_lanes(self) -> int:
        """Start a task for each lane that can be acted upon; milliseconds until the next one can, 0 when none waits."""
        context = self._context
        if context.pace.free <= 0:
            context.pace.ring_when_free(self._bell)
            return 0
        due = await context.run(
            delivery.due_lanes(context.keys, self.number, count=context.pace.free + len(self._busy))
        )
        self._skew_ms = due.now - context.clock.boottime_ms()
        for lane in due.lanes:
            if lane in self._busy:
                continue
            if not context.pace.take_place():
                context.pace.ring_when_free(self._bell)
                break
            self._busy[lane] = asyncio.create_task(self._serve_lane(lane))
        return max(1, due.later - due.now) if due.later else 0

    def _now_ms(self) -> int:
        return self._context.clock.boottime_ms() + self._skew_ms

    async def _serve_lane(self, lane: str) -> None:
        try:
            while not self._closing and await self._step(lane):
                pass
        except PartitionGoneError:
            self._gone = True
            self.stop()
        except Exception:  # noqa: BLE001 - one lane's fault must not stop the others
            self._log.exception("lane_failed", lane=lane)
            await self._defer_after_fault(lane)
        finally:
            del self._busy[lane]
            self._context.pace.give_place()
            self._bell.set()

    async def _defer_after_fault(self, lane: str) -> None:
        try:
            context = self._context
            head = await context.scripts.run(delivery.lane_head(context.keys, self.number, lane))
            await self._defer(lane, head, FAULT_MS)
        except (LedgerError, PartitionGoneError):
            await asyncio.sleep(FAULT_MS / 1000)

    async def _defer(self, lane: str, head: str, wait_ms: int) -> bool:
        context = self._context
        reply = await context.run(
            delivery.defer_lane(context.keys, self.number, token=self.token, lane=lane, head=head, wait_ms=wait_ms)
        )
        if reply is Reply.STALE:
            raise PartitionGoneError("stale token")
        return reply is Reply.MISMATCH  # the head has changed meanwhile: look again now

    async def _step(self, lane: str) -> bool:
        """One step of a lane; whether to go on with it now."""
        context = self._context
        held = held_lane(lane) is not None
        if held:
            await self._planner.join(lane)
        head = await context.run(delivery.lane_head(context.keys, self.number, lane))
        if held or not head:
            return await self._defer(lane, head, HELD_MS)
        part = await context.run(delivery.read_part(context.keys, head))
        if part is None:
            self._log.error("delivery_record_missing", delivery=head)
            metrics.SERVER_LOST_DATA.labels(role="delivery").inc()
            await context.run(delivery.forget_part(context.keys, self.number, lane, head))
            return True
        made = context.recall.missing_in(part, self.token)
        if made is not None:
            wait_ms = await self._sender.say_again(part, made)
            return await self._defer(lane, head, wait_ms) if wait_ms else True
        if (
            part.state is State.SENDING and part.token == self.token
        ):  # what a lane sends, its own task sends: nobody is at it
            raise PartitionGoneError("an attempt of this owner has no receipt, and nobody remembers it")
        action = self._decide(part)
        match action:
            case Wait():
                return await self._defer(lane, head, action.ms)
            case Send():
                wait_ms = await self._sender.attempt(part)
            case Ask():
                found = await self._asking.ask(part, now_ms=self._now_ms())
                if found is None:
                    return True  # the next decision knows that it was asked
                wait_ms = 0 if (await self._advance(part, found)).reply is Reply.OK else REFUSED_MS
            case Advance():
                wait_ms = 0 if (await self._advance(part, action)).reply is Reply.OK else REFUSED_MS
            case _:
                assert_never(action)
        return await self._defer(lane, head, wait_ms) if wait_ms else True

    def _decide(self, part: PartRecord) -> Action:
        return decide(
            part,
            now_ms=self._now_ms(),
            token=self.token,
            policy=self._sender.policy(part),
            may_age=self._context.guard.may_take_over(),
            asked=self._asking.so_far(part),
        )

    async def _advance(self, part: PartRecord, action: Advance) -> Step:
        context, policy = self._context, self._sender.policy(part)
        step = await context.run(
            delivery.advance(
                context.keys,
                self.number,
                part=part,
                operation=action.operation,
                note=action.note,
                ttl_ms=context.config.retention.part_ms,
                token=self.token,
                quarantine_ms=action.quarantine_ms,
                wait_ms=policy.unknown_hold_ms
                if action.operation is Operation.RECOVER and not policy.reconciles
                else 0,
                since=action.since,
                age_ms=action.age_ms,
                key_window_ms=policy.key_window_ms if action.asks_window else delivery.NO_WINDOW,
                need_ms=policy.need_ms,
            )
        )
        if step.reply is Reply.STALE:
            raise PartitionGoneError("stale token")
        if step.reply is Reply.OK and step.state is not None:
            if step.state is not part.state:
                metrics.DELIVERIES.labels(channel=part.channel, state=step.state).inc()
            if action.operation is Operation.RESEND:
                metrics.RESENT.labels(channel=part.channel).inc()
            self._log.warning(
                "delivery_moved",
                turn=part.turn,
                delivery=part.id,
                operation=action.operation,
                state=step.state,
                note=action.note,
                late=step.late,
            )
        if step.may_retire:
            await context.run(retire_turn(context.keys, part.turn, retention_ms=context.config.retention.turn_ms))
        return step

    # once a second

    async def _sweep(self) -> None:
        """Count what stands where, and let the clock act on unknown parts that have stepped aside from their lanes."""
        context = self._context
        now_ms = context.clock.boottime_ms()
        if now_ms - self._swept_at_ms < POLL_MS:
            return
        self._swept_at_ms = now_ms
        tally = await context.run(delivery.tally(context.keys, self.number, dead_ms=context.config.retention.part_ms))
        label = str(self.number)
        metrics.UNKNOWN_COUNT.labels(partition=label).set(tally.unknown)
        metrics.UNKNOWN_AGE.labels(partition=label).set(_age_s(tally.now, tally.unknown_since))
        metrics.DEAD_COUNT.labels(partition=label).set(tally.dead)
        metrics.DEAD_AGE.labels(partition=label).set(_age_s(tally.now, tally.dead_since))
        metrics.LATE_COUNT.labels(partition=label).set(tally.late)
        metrics.LANES_WAITING.labels(partition=label).set(tally.lanes)
        if not tally.unknown:
            return
        listed = await context.run(delivery.list_parts(context.keys, self.number, State.UNKNOWN, count=SWEEP_COUNT))
        for part_id, _ in listed:
            part = await context.run(delivery.read_part(context.keys, part_id))
            if part is None or part.in_lane or self._closing:
                continue
            action: Action | None = self._decide(part)
            if isinstance(action, Ask):
                action = await self._asking.ask(part, now_ms=self._now_ms())
            if isinstance(action, Advance):
                await self._advance(part, action)


def _age_s(now_ms: int, since_ms: int) -> float:
    return max(0, now_ms - since_ms) / 1000 if since_ms else 0.0
