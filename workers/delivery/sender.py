"""One attempt: budget, intent, gate, socket, receipt, in this order and no other.

Killed before the intent: nothing happened. After it, before the socket: the part stands in `sending`, and the next owner recovers it after
the quarantine. After the answer, before the receipt: the same; a key or a person settles it. After the receipt: nothing is owed.
The receipt is repeated until the server has it, also when the partition is no longer ours: it is a fact.
"""

import asyncio
from collections.abc import Callable

from ledger import delivery
from ledger.backoff import Backoff
from ledger.delivery import Intent, Step
from ledger.parts import PartRecord, Reply, Verdict
from ledger.retention import retire_turn
from ledger.states import State
from workers.config import TargetConfig
from workers.config.channels import key_window_of
from workers.delivery.channels.contract import Channel, Message, reconciling
from workers.delivery.context import ROLE, Context
from workers.delivery.gate import Gate
from workers.delivery.outcomes import Outcome, lost, not_sent
from workers.delivery.recall import Recalled
from workers.delivery.recovery import Policy
from workers.observability import logs, metrics
from workers.runtime import entropy
from workers.runtime.clock import perf_s
from workers.runtime.failpoints import hit
from workers.streams.patience import patiently
from workers.streams.serving import PartitionGoneError

NOT_CONFIGURED_MS = 30_000
"""How soon to look again at a target that this process's configuration does not name; another's may."""
LEASE_SHORT_MS = 100
"""How soon to try again when the lease does not cover an attempt: a renewal is due before that."""
REFUSED_MS = 50
"""How soon to look again at a part that was not as the decision had it."""


class Sender:
    """The attempts of one partition, under one token."""

    def __init__(
        self,
        context: Context,
        partition: int,
        token: str,
        *,
        lease_left_ms: Callable[[], int],
        submitted_at: Callable[[str], int],
    ) -> None:
        self._context = context
        self._partition = partition
        self._token = token
        self._lease_left_ms = lease_left_ms
        self._submitted_at = submitted_at
        config = context.config.delivery
        self._backoff = Backoff(first_ms=config.backoff_base_ms, cap_ms=config.backoff_max_ms)

    def policy(self, part: PartRecord) -> Policy:
        """What is configured for a part's target."""
        config = self._context.config.delivery
        target = self._context.config.targets.get(part.target)
        channel = self._context.channels.get(part.target)
        return Policy(
            quarantine_ms=config.quarantine_ms,
            key_window_ms=key_window_of(target) if target is not None and channel is not None else 0,
            need_ms=config.send_deadline_ms + config.margin_ms,
            age_limit_ms=config.age_limit_ms,
            max_attempts=config.max_attempts,
            unknown_hold_ms=config.unknown_hold_ms,
            unknown_max_ms=config.unknown_max_ms,
            on_unknown=target.policy if target is not None else "hold",
            reconciles=reconciling(channel) is not None,
        )

    async def attempt(self, part: PartRecord) -> int:
        """Make one attempt, unless something has to be waited for: then how long, in milliseconds."""
        context = self._context
        target, channel = context.config.targets.get(part.target), context.channels.get(part.target)
        if target is None or channel is None or target.channel != part.channel:
            return NOT_CONFIGURED_MS
        wait_ms = await patiently(
            lambda: context.pace.wait_ms(part.target, target, channel.terms, channel.chat_of(part)),
            what="budget_take",
            role=ROLE,
            guard=context.guard,
        )
        if wait_ms:
            return wait_ms
        if not self._gate().is_open:
            return LEASE_SHORT_MS
        hit("delivery.before_intent")
        attempt = entropy.nonce()
        intent = await self._intent(part, attempt)
        if intent.reply is Reply.STALE:
            raise PartitionGoneError("stale token")
        if intent.reply not in {Reply.OK, Reply.ALREADY}:
            return REFUSED_MS
        context.recall.begin(part, attempt)
        outcome = await self._send(part, attempt, intent, channel)
        context.recall.end(part.id, attempt, outcome)
        await self._record(part, attempt, intent, outcome, target)
        return 0

    async def say_again(self, part: PartRecord, made: Recalled) -> int:
        """Write an attempt of ours and its outcome into a record that has lost them; nothing is sent."""
        context = self._context
        target = context.config.targets.get(part.target)
        if target is None:
            return NOT_CONFIGURED_MS
        intent = await self._intent(part, made.attempt)
        if intent.reply is Reply.STALE:
            raise PartitionGoneError("stale token")
        if intent.reply is Reply.EARLY:
            return REFUSED_MS
        if intent.reply not in {Reply.OK, Reply.ALREADY}:
            context.recall.forget(
                part.id
            )  # the record's own way leads where nothing is sent, or somebody else is at work
            return REFUSED_MS
        metrics.SERVER_LOST_DATA.labels(role=ROLE).inc()
        log = logs.bind(partition=self._partition, turn=part.turn, delivery=part.id)
        log.error(
            "delivery_rolled_back",
            found=part.state,
            verdict=made.fact.verdict,
            same_body=made.body_hash == part.body_hash,
        )
        await self._record(part, made.attempt, intent, made.fact, target)
        return 0

    def _gate(self) -> Gate:
        config = self._context.config.delivery
        return Gate(
            self._lease_left_ms,
            self._context.clock,
            send_deadline_ms=config.send_deadline_ms,
            margin_ms=config.margin_ms,
        )

    async def _intent(self, part: PartRecord, attempt: str) -> Intent:
        context = self._context
        policy = self.policy(part)
        call = delivery.intent(
            context.keys,
            self._partition,
            token=self._token,
            part=part,
            attempt=attempt,
            quarantine_ms=policy.quarantine_ms,
            key_window_ms=policy.key_window_ms,
            need_ms=policy.need_ms,
        )
        return await patiently(lambda: context.barrier.intent(call), what="intent", role=ROLE, guard=context.guard)

    async def _send(self, part: PartRecord, attempt: str, intent: Intent, channel: Channel) -> Outcome:
        if not await self._context.barrier.is_durable(intent):
            return not_sent("not_durable")
        gate = self._gate()  # the attempt's own deadline begins here
        hit("delivery.after_intent")
        began = perf_s()
        try:
            outcome = await channel.send(Message(part=part, attempt=attempt, at=intent.at), gate)
        except asyncio.CancelledError:
            gate.reset()
            raise
        except Exception as error:  # noqa: BLE001 - whatever a channel runs into, the part gets its outcome
            logs.bind(delivery=part.id).exception("channel_failed")
            outcome = lost("channel_failed", repr(error)) if gate.written else not_sent("channel_failed", repr(error))
        hit("delivery.after_answer")
        metrics.SEND.labels(channel=part.channel).observe(perf_s() - began)
        metrics.ATTEMPTS.labels(channel=part.channel, outcome=outcome.verdict).inc()
        return outcome

    async def _record(
        self, part: PartRecord, attempt: str, intent: Intent, outcome: Outcome, target: TargetConfig
    ) -> None:
        context = self._context
        if outcome.verdict is Verdict.UNKNOWN:
            wait_ms = context.config.delivery.quarantine_ms
        else:
            wait_ms = self._backoff.wait_ms(
                part.failures + 1, chance=entropy.jitter(0, 1), retry_after_ms=outcome.retry_after_ms
            )
        call = delivery.receipt(
            context.keys,
            self._partition,
            part=part,
            attempt=attempt,
            verdict=outcome.verdict,
            wait_ms=wait_ms,
            receipt=outcome.as_receipt(),
            ttl_ms=context.config.retention.part_ms,
            proven=outcome.proven,
        )
        step = await context.run(call)
        hit("delivery.after_receipt")
        self._observe(part, intent, outcome, step)
        for hold in outcome.holds:
            await self._hold(part.target, target, wait_ms if hold.wait_ms is None else hold.wait_ms, hold.chat)
        if step.may_retire:
            await context.run(retire_turn(context.keys, part.turn, retention_ms=context.config.retention.turn_ms))

    async def _hold(self, name: str, target: TargetConfig, wait_ms: int, chat: str) -> None:
        """Let nobody send for the account for a while; said again until the server has it, as the receipt was."""
        pace, guard = self._context.pace, self._context.guard
        await patiently(lambda: pace.hold(name, target, wait_ms, chat), what="budget_hold", role=ROLE, guard=guard)

    def _observe(self, part: PartRecord, intent: Intent, outcome: Outcome, step: Step) -> None:
        log = logs.bind(partition=self._partition, turn=part.turn, delivery=part.id, attempt=intent.number)
        if step.reply is Reply.DUPLICATE:
            metrics.DUPLICATES.labels(channel=part.channel).inc()
            log.error("duplicate_detected", state=step.state)
        elif step.reply not in {Reply.OK, Reply.ALREADY}:
            log.warning("receipt_not_taken", reply=step.reply, verdict=outcome.verdict, late=step.late)
            return
        if step.late:
            log.warning("settled_late", state=step.state)
        if step.state is not None:
            metrics.DELIVERIES.labels(channel=part.channel, state=step.state).inc()
        if outcome.verdict is Verdict.SENT:
            log.debug("sent")
            submitted_at = self._submitted_at(part.turn)
            if part.block == 0 and part.part == 0 and submitted_at:
                metrics.FIRST_MESSAGE.observe(max(0, self._context.clock.now_ms() - submitted_at) / 1000)
        else:
            level = log.error if step.state in {State.DEAD, State.UNKNOWN} else log.info
            level("not_sent", state=step.state, reason=outcome.reason, status=outcome.status)
