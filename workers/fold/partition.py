"""One owned partition: rebuild, adopt, then take, fold, commit, tell; until it is released or lost.

Authority: the token; every script refuses another, so a loop that was paused past its lease does no harm when it wakes.
States: raised, rebuilt (what was committed is in memory), adopted (pending entries are ours), serving.
Time: none decides here. Loss: a commit is kept encoded and repeated until it is answered OK or ALREADY; it is never folded again to
make it anew. Killed before the commit: the entries come again and are folded again. Killed after it: they are behind the position.
Failure: an exception while folding a turn fails that turn by name. Where owners die again and again, each entry is marked as suspect
before it is folded, committed alone, and the turn that the mark names at the next take-over is set aside: folded up to there once more
under the same mark, and ended. The mark counts the owners that are lost at it; from the third on the turn is ended without being folded.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from ledger.commands import Call
from ledger.log import CommitReply, CommitStatus, TakeStatus, adopt, commit, read_past, take_log
from ledger.ownership import Raised
from ledger.records import START, LogEntry, TurnRecord, position_key
from ledger.retention import suspect
from ledger.turns import read_turn
from workers.fold.batch import Batch
from workers.fold.context import Context
from workers.fold.hints import Hints
from workers.fold.live import Live
from workers.fold.rebuild import machine_before, rebuild, what_was_told
from workers.observability import logs, metrics
from workers.runtime import entropy, failpoints
from workers.runtime.clock import perf_s
from workers.streams.serving import PartitionGoneError

CAREFUL_FROM = 3
"""Take-overs in a row without a commit, from which on entries are folded one at a time, each marked first."""
REMEMBERED_ENDS = 4_096
"""Ended turns that are remembered, so that a late entry of one costs no look-up."""
READ_AHEAD_TURNS = 8
"""Turns in flight that are read by one call when a partition is taken over, since each answer of the server takes its time."""
READ_AHEAD_BYTES = 256 * 1024
"""Of their events so much comes with it; a turn that has no room there is read slice by slice, when its time has come."""
STEP_EVENTS = 200
"""Events folded in one go, before other partitions of the process get their turn."""


class Partition:
    """One partition under one token."""

    def __init__(
        self,
        context: Context,
        number: int,
        raised: Raised,
        *,
        on_serving: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.number = number
        self.token = raised.token
        self.turns: dict[str, Live] = {}
        self.is_serving = False
        self._context = context
        self._raised = raised
        self._on_serving = on_serving
        self._log_key = context.keys.log(number)
        self._held = raised.log_position
        self._batch = Batch(prev=raised.log_position)
        self._committing: asyncio.Task[None] | None = None
        self._commits = 0
        self._careful_until = START
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._bell = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hints = Hints(context, number)
        self._log: structlog.typing.FilteringBoundLogger = logs.bind(partition=number, token=raised.token)

    def ring(self) -> None:
        """There may be something to take, or to stop for."""
        self._bell.set()

    def stop(self) -> None:
        """End after what is in flight has been committed."""
        self._stopping.set()
        self._bell.set()

    async def serve(self) -> None:
        """Serve until stopped; raises PartitionGoneError when the token or the position is not ours any more."""
        failpoints.hit("fold.after_raise")
        try:
            if not await self._prepare():
                return
            self.is_serving = True
            self._on_serving(self.number)
            while not self._stopping.is_set():
                await self._step()
            await self._settle()
        finally:
            self.is_serving = False
            self._context.news.forget(self._log_key)
            if self._committing is not None:
                self._committing.cancel()
                await asyncio.wait({self._committing})
            await self._hints.close()

    # taking over

    async def _prepare(self) -> bool:
        """Rebuild what is in flight, then adopt what is pending; nothing is taken before. False when it was stopped in between."""
        started, brought = perf_s(), False
        careful = self._raised.idle_raises >= CAREFUL_FROM
        async with self._context.rebuilding():
            # The suspect first: another turn's mark would hide how often it was tried.
            turns = sorted(self._raised.inflight, key=lambda turn: turn != self._raised.suspect)
            step = 1 if careful else READ_AHEAD_TURNS
            for first in range(0, len(turns), step):
                if self._stopping.is_set():
                    break
                await self._bring_back(turns[first : first + step], careful=careful)
                brought = True
        if careful and brought:  # until then the mark is of the owners before, and counts them
            await self._mark("", "")
        if self._stopping.is_set():
            return False
        metrics.FOLD_REBUILD.observe(perf_s() - started)
        failpoints.hit("fold.after_rebuild")
        call = adopt(self._context.keys, self.number, token=self.token, consumer=self._context.worker)
        adopted = await self._context.run(call)
        self._check(adopted.status)
        failpoints.hit("fold.after_adopt")
        if careful:
            self._careful_until = adopted.taken
            self._log.warning("folding_with_care", idle_raises=self._raised.idle_raises, until=adopted.taken)
        self._context.news.watch(self._log_key, self._held)
        return True

    async def _bring_back(self, turns: Sequence[str], *, careful: bool) -> None:
        """Read turns together; then fold one after the other."""
        upto = self._raised.log_position
        call = read_past(self._context.keys, self.number, turns, upto=upto, bytes_max=READ_AHEAD_BYTES)
        past = await self._context.run(call)
        for turn, (record, ahead) in zip(turns, past, strict=True):
            await self._refold(turn, record, ahead, careful=careful)
            await asyncio.sleep(0)

    async def _refold(
        self, turn: str, record: TurnRecord | None, ahead: list[LogEntry] | None, *, careful: bool
    ) -> None:
        if record is None:
            metrics.SERVER_LOST_DATA.labels(role="fold").inc()
            self._log.error("turn_lost", turn=turn)
            return
        if record.state.is_terminal:
            self._remember_end(turn)
            return
        if turn == self._raised.suspect:
            await self._set_aside(record)
            return
        if careful:
            await self._mark(turn, "")
        keys, upto, run = self._context.keys, self._raised.log_position, self._context.run
        rebuilt = await rebuild(keys, record, upto, run, ahead=ahead)
        if rebuilt.code:
            await self._fail_now(rebuilt.live, rebuilt.code, _next_id(self._held))
            return
        self.turns[turn] = rebuilt.live
        self._wind(rebuilt.live)

    async def _set_aside(self, record: TurnRecord) -> None:
        """End the turn that the last owners were lost at, at the entry that they were about to fold, which is not fed again.

        It is folded up to there once more, so that what it holds is given out; as that may be what kills, it counts as well.
        """
        entry, lost = self._raised.suspect_entry, self._raised.suspect_lost
        self._log.error("turn_quarantined", turn=record.id, entry=entry, owners_lost=lost)
        live, code = Live.committed(record), "fold_quarantined"
        if lost < CAREFUL_FROM:
            await self._mark(record.id, entry)
            rebuilt = await rebuild(self._context.keys, record, self._batch.prev, self._context.run)
            live, code = rebuilt.live, rebuilt.code or code
        await self._fail_now(live, code, entry or _next_id(self._held))

    async def _fail_now(self, live: Live, code: str, entry: str) -> None:
        """End a turn between two entries, by a commit that moves no position."""
        await self._end(live, code, entry)
        await self._start_commit()
        await self._settle()

    async def _end(self, live: Live, code: str, entry: str) -> None:
        """End a turn before this entry: by its machine where it has one, else at what its readers were told."""
        effects = self._batch.effects_on(live)
        if not live.end_by_machine(code, entry=entry, effects=effects):
            await self._committed()
            told = await what_was_told(self._context.keys, live.turn, effects, self._context.run)
            live.end_as_told(code, entry=entry, effects=effects, told=told)
            if not told.is_clear:
                self._log.error("held_text_not_found", turn=live.turn, code=code)  # it stands in the frames alone
        metrics.TURNS_FAILED.labels(code=code).inc()

    async def _mark(self, turn: str, entry: str) -> None:
        call = suspect(self._context.keys, self.number, token=self.token, turn=turn, entry=entry)
        if (await self._context.run(call)).value == "STALE":
            raise PartitionGoneError("the token is stale")

    # serving

    async def _step(self) -> None:
        """Take once and fold what came; commit unless a commit is on its way; wait when nothing came."""
        count = self._context.config.fold.take_count
        call = take_log(
            self._context.keys,
            self.number,
            token=self.token,
            consumer=self._context.worker,
            after=self._held,
            count=count,
        )
        self._bell.clear()
        reply = await self._context.run(call)
        self._check(reply.status)
        if reply.entries:
            failpoints.hit("fold.after_take")
            self._context.news.seen(self._log_key, reply.entries[-1].id)
        folded = 0
        for entry in reply.entries:
            await self._fold(entry)
            folded += entry.n
            if folded >= STEP_EVENTS:
                folded = 0
                await asyncio.sleep(0)
        if not self._batch.is_empty and (self._committing is None or self._committing.done()):
            await self._start_commit()
        if len(reply.entries) < count:
            await self._rest()

    async def _fold(self, entry: LogEntry) -> None:
        careful = position_key(entry.id) <= position_key(self._careful_until)
        if careful:
            await self._settle()
            await self._mark(entry.turn, entry.id)
        live = await self._live(entry.turn)
        if live is None or live.machine is None:
            self._batch.add(entry, entry.n)
        else:
            await self._feed(live, entry)
        self._held = entry.id
        config = self._context.config.fold
        if careful or self._batch.size >= config.commit_max_bytes or self._batch.writes >= config.commit_max_writes:
            await self._start_commit()
        if careful:
            await self._settle()

    async def _feed(self, live: Live, entry: LogEntry) -> None:
        effects = self._batch.effects_on(live)
        frames, blocks = live.frames_next, live.blocks_next
        try:
            live.feed(entry, effects=effects)
        except Exception:  # noqa: BLE001 - whatever one turn's events do to the fold costs that turn alone
            self._log.exception("fold_error", turn=entry.turn, entry=entry.id)
            live.machine = await machine_before(self._context.keys, live, entry.id, self._context.run)
            await self._end(live, "fold_error" if live.machine is not None else "fold_diverged", entry.id)
        self._wind(live)
        self._batch.add(entry, entry.n)
        metrics.FOLD_EVENTS.inc(entry.n)
        metrics.FOLD_FRAMES.inc(live.frames_next - frames)
        metrics.FOLD_BLOCKS.inc(live.blocks_next - blocks)

    async def _live(self, turn: str) -> Live | None:
        """The turn in memory; None when its events are of no effect any more."""
        live = self.turns.get(turn)
        if live is not None or turn in self._ended:
            return live
        record = await self._context.run(read_turn(self._context.keys, turn))
        if record is None:
            metrics.SERVER_LOST_DATA.labels(role="fold").inc()
            self._log.error("turn_lost", turn=turn)
        if record is None or record.state.is_terminal:
            self._remember_end(turn)
            return None
        if turn == self._raised.suspect:
            await self._settle()
            await self._set_aside(record)
            return None
        if record.frames_next == 0 and record.digest == "":
            live = Live.fresh(record)
        else:
            await self._settle()
            rebuilt = await rebuild(self._context.keys, record, self._batch.prev, self._context.run)
            if rebuilt.code:
                await self._fail_now(rebuilt.live, rebuilt.code, _next_id(self._held))
                return None
            live = rebuilt.live
        self.turns[turn] = live
        return live

    def _wind(self, live: Live) -> None:
        """Set the turn's idle timer anew."""
        after_ms = live.machine.wants_idle_after_ms if live.machine is not None else None
        live.idle_due_ms = None if after_ms is None else self._context.clock.boottime_ms() + after_ms

    def _remember_end(self, turn: str) -> None:
        self.turns.pop(turn, None)
        self._ended[turn] = None
        if len(self._ended) > REMEMBERED_ENDS:
            self._ended.popitem(last=False)

    async def _rest(self) -> None:
        """Wait for news, for the commit on its way, or for the poll."""
        if self._bell.is_set():
            return
        bell = asyncio.ensure_future(self._bell.wait())
        waits: set[asyncio.Future[Any]] = {bell} if self._committing is None else {bell, self._committing}
        timeout = self._context.config.redis.block_ms / 1000
        try:
            await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            bell.cancel()
        if self._committing is not None and self._committing.done():
            await self._committed()

    # committing

    async def _start_commit(self) -> None:
        """Send the batch, after the one before it; what is folded from here on goes into the next."""
        await self._committed()
        self._commits += 1
        batch, self._batch = self._batch, Batch(prev=self._batch.last)
        call = commit(
            self._context.keys,
            batch.build(
                self.number,
                token=self.token,
                commit_id=f"{self.token}:{self._commits}:{entropy.nonce()}",
                retention_ms=self._context.config.retention.turn_ms,
            ),
        )
        for live, _ in batch.parts.values():
            if live.machine is None:
                self._remember_end(live.turn)
        self._committing = asyncio.create_task(self._commit(batch, call))

    async def _commit(self, batch: Batch, call: Call[CommitReply]) -> None:
        failpoints.hit("fold.before_commit")
        started = perf_s()
        reply = await self._context.run(call)
        if reply.status not in {CommitStatus.OK, CommitStatus.ALREADY}:
            raise PartitionGoneError(f"commit refused: {reply.status.value} {reply.detail}")
        failpoints.hit("fold.after_commit")
        metrics.FOLD_COMMIT.observe(perf_s() - started)
        metrics.FOLD_BATCH.observe(len(batch.entries))
        now = self._context.clock.now_ms()
        for live, effects in batch.parts.values():
            self._hints.put(live, effects)
            if effects.blocks and effects.blocks_next == 0 and live.submitted_at:
                metrics.FIRST_BLOCK.observe(max(0, now - live.submitted_at) / 1000)
            if live.state.is_terminal and live.machine is None:
                metrics.TURNS_ENDED.labels(state=live.state.value).inc()

    async def _committed(self) -> None:
        """Wait for the commit on its way, and raise what it met."""
        task, self._committing = self._committing, None
        if task is not None:
            await task

    async def _settle(self) -> None:
        """Commit everything that is folded."""
        await self._committed()
        if not self._batch.is_empty:
            await self._start_commit()
            await self._committed()

    def _check(self, status: TakeStatus) -> None:
        if status is not TakeStatus.OK:
            raise PartitionGoneError(f"refused: {status.value}")


def _next_id(entry_id: str) -> str:
    """The lowest id that an entry after this one can have."""
    milliseconds, number = position_key(entry_id)
    return f"{milliseconds}-{number + 1}"
