"""Blocks to parts: each new block of a partition is projected once for each of its turn's targets and put into the lanes, in order.

The order of a lane is the order in which blocks were committed, whatever turn they are of. In a session submitted as serial, the parts of
a turn are held in a lane of the turn's own until the turns before it have ended and are planned; then they join the common lane.
A block that cannot be projected costs itself alone: it is recorded as dead, and the partition goes on.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace

import msgspec

from ledger import delivery, planning
from ledger.parts import NewPart, Reply, held_lane
from ledger.planning import BlockEntry
from ledger.records import SHADOW, TurnRecord
from ledger.retention import retire_turn
from ledger.states import State
from ledger.turns import read_turn
from pipeline.events import Target
from pipeline.output import Block
from pipeline.project.parts import Part
from pipeline.project.registry import profile_of, project
from workers.delivery.context import Context
from workers.delivery.pacing import account_of
from workers.observability import logs, metrics
from workers.runtime.failpoints import hit
from workers.streams.serving import PartitionGoneError

KNOWN_TURNS = 1_024
"""Turns whose targets are remembered between blocks."""


@dataclass(frozen=True, kw_only=True)
class _Known:
    session: str
    serial: bool
    is_shadow: bool
    """Another path sends what the turn says: its parts are recorded and go nowhere."""
    targets: tuple[Target, ...]
    submitted_at: int


class Planner:
    """The planning of one partition, under one token."""

    def __init__(self, context: Context, partition: int, token: str) -> None:
        self._context = context
        self._partition = partition
        self._token = token
        self._known: OrderedDict[str, _Known | None] = OrderedDict()
        self._log = logs.bind(partition=partition, token=token)

    async def adopt(self) -> None:
        """Claim what earlier owners took and never planned."""
        context = self._context
        call = planning.adopt_blocks(
            context.keys, self._partition, token=self._token, consumer=context.worker, count=1_000
        )
        claimed = 1
        while claimed:
            reply, claimed = await context.run(call)
            if reply is Reply.STALE:
                raise PartitionGoneError("stale token")

    async def step(self) -> bool:
        """Plan what is new; whether there was anything."""
        context = self._context
        count = context.config.delivery.take_count
        taken = await context.run(
            planning.take_blocks(context.keys, self._partition, token=self._token, consumer=context.worker, count=count)
        )
        if taken.reply is Reply.STALE:
            raise PartitionGoneError("stale token")
        if taken.entries:
            hit("delivery.after_take")
        position = taken.position
        for entry in taken.entries:
            context.news.seen(context.keys.blocks(self._partition), entry.id)
            if not await self._plan(entry, position):
                return True
            position = entry.id
        return bool(taken.entries)

    def submitted_at(self, turn: str) -> int:
        """When a turn was submitted, as far as it is remembered; else 0."""
        known = self._known.get(turn)
        return known.submitted_at if known else 0

    async def _plan(self, entry: BlockEntry, prev: str) -> bool:
        context = self._context
        parts = await self._parts(entry)
        hit("delivery.before_plan")
        retention = context.config.retention
        planned = await context.run(
            planning.plan(
                context.keys,
                self._partition,
                token=self._token,
                prev=prev,
                entry=entry,
                parts=parts,
                ttl_ms=retention.turn_ms,
                index_ttl_ms=retention.turn_ms + context.config.limits.turn_max_ms,
            )
        )
        hit("delivery.after_plan")
        if planned.reply is Reply.STALE:
            raise PartitionGoneError("stale token")
        if planned.reply is Reply.MISMATCH:
            self._log.warning("plan_mismatch", entry=entry.id, expected=prev, found=planned.position)
            return False
        if planned.reply is Reply.OK:
            for part in parts:
                metrics.DELIVERIES.labels(channel=part.channel, state=part.state).inc()
        if planned.may_retire:
            await context.run(retire_turn(context.keys, entry.turn, retention_ms=retention.turn_ms))
        return True

    async def _parts(self, entry: BlockEntry) -> list[NewPart]:
        context = self._context
        known = await self._turn(entry.turn)
        fields = await context.run(planning.read_block(context.keys, entry.turn, entry.block))
        if known is None or not fields:
            self._log.error("block_missing", turn=entry.turn, block=entry.block)
            metrics.SERVER_LOST_DATA.labels(role="delivery").inc()
            return []
        block = Block.from_fields({**fields, "ordinal": str(entry.block)})
        held = known.serial and not known.is_shadow and not await self._may_join(known.session, entry.turn)
        if known.serial and not held:
            await self._merge_held(known, entry.turn)
        parts: list[NewPart] = []
        for target in known.targets:
            parts += self._project(block, target, entry=entry, session=known.session, held=held)
        if known.is_shadow:  # from `suppressed` no way leads to a socket, by whatever hand
            parts = [replace(part, state=State.SUPPRESSED) if part.state is State.PENDING else part for part in parts]
        return parts

    def _project(self, block: Block, target: Target, *, entry: BlockEntry, session: str, held: bool) -> list[NewPart]:
        state = State.PENDING
        config = self._context.config.targets.get(target.name)
        if block.markers.get("suppressed"):
            state, made = State.SUPPRESSED, [Part(ordinal=0, body="", content_type="")]
        else:
            try:
                profile = profile_of(
                    target.channel,
                    name=target.name,
                    turn=entry.turn,
                    session=session,
                    recipient=target.recipient,
                    limit=config.limit if config is not None else None,
                    max_lines=config.max_lines if config is not None else None,
                )
                made = project(block, profile)
            except Exception:  # noqa: BLE001 - one block that cannot be shown costs itself, not the partition
                self._log.exception("block_not_projected", turn=entry.turn, block=entry.block, target=target.name)
                state, made = State.DEAD, [Part(ordinal=0, body="", content_type="")]
        return [
            NewPart(
                turn=entry.turn,
                block=entry.block,
                part=part.ordinal,
                session=session,
                channel=target.channel,
                target=target.name,
                recipient=target.recipient or "",
                body=part.body,
                content_type=part.content_type,
                account=account_of(target.name, config) if config else target.name,
                guarantee=self._context.barrier.guarantee,
                held=held and state is State.PENDING,
                state=state,
            )
            for part in made
        ]

    async def _turn(self, turn: str) -> _Known | None:
        if turn not in self._known:
            record = await self._context.run(read_turn(self._context.keys, turn))
            self._known[turn] = _known(record)
            if len(self._known) > KNOWN_TURNS:
                self._known.popitem(last=False)
        return self._known[turn]

    # serial sessions

    async def _may_join(self, session: str, turn: str) -> bool:
        """Whether every turn before this one in its session has ended and is planned; takes those off that have."""
        context = self._context
        while True:
            first = await context.run(planning.serial_head(context.keys, self._partition, session))
            if first in {"", turn}:
                return True
            record = await context.run(read_turn(context.keys, first))
            if record is not None and not (record.state.is_terminal and record.planned == record.blocks_next):
                return False
            await self._merge_held(_known(record), first)
            await context.run(planning.leave_serial(context.keys, self._partition, session, first))

    async def _merge_held(self, known: _Known | None, turn: str) -> None:
        """Let what was held for a turn join its lanes before anything else does."""
        if known is None:
            return
        for target in known.targets:
            part = NewPart(
                turn=turn,
                block=0,
                part=0,
                session=known.session,
                channel=target.channel,
                target=target.name,
                recipient=target.recipient or "",
                body="",
                content_type="",
                account="",
                held=True,
            )
            await self._merge(part.lane)

    async def join(self, lane: str) -> None:
        """Let the parts of a holding lane join their lane if their time has come."""
        held = held_lane(lane)
        if held is None:
            return
        known = await self._turn(held[1])
        if known is None or await self._may_join(known.session, held[1]):
            await self._merge(lane)

    async def _merge(self, lane: str) -> None:
        context = self._context
        held = held_lane(lane)
        reply = Reply.MISMATCH
        while held is not None and reply is Reply.MISMATCH:
            ids = await context.run(delivery.read_lane(context.keys, self._partition, lane))
            if not ids:
                return
            call = planning.merge_lane(
                context.keys, self._partition, token=self._token, held=lane, lane=held[0], parts=ids
            )
            reply = await context.run(call)
        if reply is Reply.STALE:
            raise PartitionGoneError("stale token")


def _known(record: TurnRecord | None) -> _Known | None:
    if record is None:
        return None
    targets = msgspec.json.decode(record.targets or "[]", type=list[Target])
    return _Known(
        session=record.session,
        serial=record.serial,
        is_shadow=record.mode == SHADOW,
        targets=tuple(targets),
        submitted_at=record.submitted_at,
    )
