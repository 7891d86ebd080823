"""One turn from its claim to its terminal: `turn_started`, its acknowledgement, the upstream, its events, one last word.

Two tasks work on it: one produces (opens, reads, normalizes), one publishes. The producer waits at every bound and is
cancelled when the turn is cancelled or no longer ours. Then what is open is drained and one terminal is put, unless the
upstream has given one. Whatever goes wrong, a turn that is still ours ends by name.

Time: nothing is asked of an upstream unless the claim surely holds, so that a process that slept makes no request in the
name of its successor.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import aiohttp
import msgspec

from ledger.turns import Claimed, ClaimStatus, RenewReply
from pipeline.events import TERMINALS, Event, Status, TextDelta, TurnFailed, TurnStarted
from pipeline.limits import limits_from
from pipeline.normalize.registry import WIRES, Adapter
from pipeline.normalize.stamp import Stamp
from workers.config import IngestConfig, UpstreamConfig
from workers.ingest.bounds import LagGate
from workers.ingest.ending import TRUNCATED, UNEXPLAINED, label, last_word, unfinished
from workers.ingest.failures import LOST_CONNECTION, Phase, RetryRules, SourceError, retry_delay_ms
from workers.ingest.predecessor import read_past, read_started
from workers.ingest.publisher import Bench, Publisher, Verdict
from workers.ingest.replay import OtherAnswerError, Replay, Said
from workers.ingest.requests import RequestError, UpstreamRequest, build, build_cancel, build_reattach
from workers.ingest.sources.agents import Agents
from workers.ingest.sources.contract import Source
from workers.ingest.sources.http_stream import open_source, tell
from workers.ingest.takeover import Plan, decide, response_of, upstream_id_of
from workers.observability import logs, metrics
from workers.runtime import entropy
from workers.runtime.failpoints import hit

TELL_MS = 2_000
"""For an upstream to hear of a cancel; it hears once."""


@dataclass(frozen=True, kw_only=True)
class Outside:
    """What the turns of a process reach upstreams with."""

    upstreams: Mapping[str, UpstreamConfig]
    session: aiohttp.ClientSession
    environ: Mapping[str, str] = field(repr=False)
    agents: Agents = field(default_factory=lambda: Agents(IngestConfig().max_agents))


class Runner:
    """One claimed turn. `holds` says for how many milliseconds the claim surely is ours."""

    def __init__(
        self, bench: Bench, outside: Outside, claimed: Claimed, gate: LagGate, *, holds: Callable[[], int]
    ) -> None:
        self.turn = claimed.record.id
        self._bench = bench
        self._outside = outside
        self._claimed = claimed
        self._gate = gate
        self._holds = holds
        self._log = logs.bind(turn=self.turn, partition=bench.keys.partition_of_turn(self.turn))
        self._stamp = Stamp(at=bench.clock.now_ms(), seq=claimed.next_seq)
        self._started: TurnStarted | None = None
        self._upstream_id: str | None = None
        self._said: Said | None = None
        self._replay: Replay | None = None
        self._ending: list[Event] | None = None
        """How the turn ends if an answer whose connection was lost cannot be read again."""
        self._adapter: Adapter | None = None
        self._source: Source | None = None
        self._waiting: asyncio.TimerHandle | None = None
        self._producing: asyncio.Task[None] | None = None
        self._failure: SourceError | None = None
        self._renewed = asyncio.Event()
        self._cancelled = False
        self._lost = False
        self._paused = False
        self.on_paused: Callable[[], None] | None = None
        """Called when the turn begins to wait for us."""
        self._first_text: int | None = None
        self.publisher = Publisher(bench, self.turn, claimed.token, next_seq=claimed.next_seq, gate=gate)
        self.publisher.on_cancel = self.cancel
        self.publisher.on_acknowledged = self._note_first_text

    @property
    def waits(self) -> bool:
        """Whether the turn is silent for reasons of ours: its upstream is not read on, or what it said is not taken from us yet."""
        return self._paused or self.publisher.waiting_bytes > 0

    async def run(self) -> Verdict:
        """Carry the turn to its end and say how publishing ended; cancelled, it leaves the turn to others."""
        self._start()
        self._producing = asyncio.create_task(self._produce())
        if self._claimed.record.cancel:
            self.cancel()
        publishing = asyncio.create_task(self.publisher.run())
        try:
            await asyncio.wait({self._producing, publishing}, return_when=asyncio.FIRST_COMPLETED)
            if not publishing.done() and not self._lost:
                self._conclude()
                await self._tell_of_cancel()
                await asyncio.wait({publishing})
            return publishing.result() if publishing.done() else Verdict.STALE
        finally:
            if self._waiting is not None:
                self._waiting.cancel()
            for task in (self._producing, publishing):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task
            if not self.publisher.batcher.is_done:
                self.publisher.abandon()

    def cancel(self) -> None:
        """End the turn as cancelled, unless it has its terminal."""
        if self._cancelled or self.publisher.batcher.has_terminal:
            return
        self._cancelled = True
        if self._producing is None:
            return
        wait_ms = self._source.cancel() if self._source is not None else None
        if wait_ms is None:
            self._producing.cancel()
        else:  # it may end the turn by itself
            self._waiting = asyncio.get_running_loop().call_later(wait_ms / 1000, self._producing.cancel)

    def lose(self) -> None:
        """The claim is somebody else's: close the upstream, say nothing more."""
        self._lost = True
        if self._producing is not None:
            self._producing.cancel()

    def on_renewed(self, reply: RenewReply) -> None:
        """Hear what a renewal of the claim says."""
        self._renewed.set()
        if reply.status is ClaimStatus.OK and reply.cancel:
            self.cancel()
        if reply.status is ClaimStatus.ENDED and not self.publisher.batcher.has_terminal:
            self.lose()  # it was ended by name, as one is whose upstream sends nothing but signs of life

    def _start(self) -> None:
        """Put `turn_started` unless a predecessor did: whatever happens next, the turn has a first event."""
        try:
            self._started = read_started(self._claimed.record)
        except SourceError as failure:
            self._failure = failure
            return
        if self._claimed.next_seq == 0:
            seq, now_ms = self._stamp.next()
            # the frozen time stands, so that a second run of the same turn equals its first
            self._put(msgspec.structs.replace(self._started, seq=seq, at=self._started.at or now_ms))

    async def _produce(self) -> None:
        """Let the upstream speak; every failure is remembered for the last word."""
        try:
            if self._started is None:
                return
            upstream = self._find_upstream(self._started)
            await self._answer(upstream, await self._go_on(upstream), self._started)
        except SourceError as failure:
            self._failure = failure
        except RequestError as error:
            self._failure = SourceError.ours(error.code, str(error))
        except Exception:  # noqa: BLE001 - a turn that is still ours ends by name
            self._log.exception("ingest_error")
            self._failure = SourceError.ours("ingest_error", "the turn met a fault of our own; its log entry says more")

    async def _go_on(self, upstream: UpstreamConfig) -> UpstreamRequest:
        """Choose how the turn goes on, and return its request when the server has all that was emitted so far."""
        claimed = self._claimed
        past = await read_past(self._bench, claimed)
        self._said = past.said if upstream.resumable else None
        plan = decide(claimed.next_seq, past.head, side_effects=upstream.side_effects, resumable=upstream.resumable)
        if plan is Plan.LOST:
            self._log.warning("ingest_lost", next=claimed.next_seq, claims=claimed.claims)
            raise SourceError.ours("ingest_lost", "the process that carried this turn died; what it had read is kept")
        ident = response_of(past.head) if plan is Plan.REATTACH else None
        if ident is not None:
            self._upstream_id = ident
            self._replay = past.said.again(claimed.next_seq)
            self._log.info("upstream_reattached", next=claimed.next_seq, claims=claimed.claims)
            return build_reattach(upstream, ident, self._outside.environ)
        if plan is Plan.RESTART:
            seq, at = self._stamp.next()
            self._log.info("request_restarted", claims=claimed.claims)
            self._put(Status(seq=seq, at=at, name="restarted", detail={"claims": claimed.claims}))
        request = build(upstream, claimed.record.request, self._outside.environ)
        await self.publisher.acknowledged(self._stamp.seq)
        return request

    async def _answer(self, upstream: UpstreamConfig, request: UpstreamRequest, started: TurnStarted) -> None:
        """Read the answer; one that the upstream keeps, again when the connection is lost, while that brings something new."""
        batcher = self.publisher.batcher
        fruitless = 0
        while True:
            begun = batcher.next_seq
            failure = await self._attempt(upstream, request, started)
            if batcher.has_terminal:
                return
            fruitless = 1 if batcher.next_seq > begun else fruitless + 1
            ident, is_tried = self._upstream_id, fruitless > upstream.connect_retries
            if self._said is None or ident is None or is_tried or not self._is_cut(failure):
                if failure is not None and self._ending is None:
                    raise failure
                return
            self._replay = self._said.again(batcher.next_seq)
            request = build_reattach(upstream, ident, self._outside.environ)
            config = self._bench.config
            delay_ms = min(config.retry_base_ms << (fruitless - 1), config.retry_max_ms)
            metrics.INGEST_RETRIES.labels(reason=failure.error.code if failure is not None else TRUNCATED).inc()
            self._log.info("upstream_reattached", next=batcher.next_seq, attempt=fruitless, delay_ms=delay_ms)
            await asyncio.sleep(entropy.jitter(delay_ms, delay_ms * 1.25) / 1000)

    async def _attempt(
        self, upstream: UpstreamConfig, request: UpstreamRequest, started: TurnStarted
    ) -> SourceError | None:
        """Open the upstream and read to the end of what it sends; return what went wrong with it."""
        try:
            source = await self._open(upstream, request)
            try:
                hit("ingest.after_open")
                self._source = source
                await self._read(source, started)
            finally:
                self._source = None
                source.close()
        except SourceError as failure:
            return failure
        return None

    def _is_cut(self, failure: SourceError | None) -> bool:
        """Whether the connection was lost and not the answer: then it can be read again. Keeps how the turn ends if it cannot."""
        is_lost = failure is None or (failure.phase is Phase.BODY and failure.error.code in LOST_CONNECTION)
        if self._is_behind:
            return is_lost
        self._ending, self._failure = self._drain(), failure
        last = self._ending[-1] if self._ending else None
        return is_lost and isinstance(last, TurnFailed) and last.error.code in UNEXPLAINED

    @property
    def _is_behind(self) -> bool:
        """Whether an answer that is read again has not come to the log's end."""
        return self._replay is not None and not self._replay.is_over

    async def _open(self, upstream: UpstreamConfig, request: UpstreamRequest) -> Source:
        """Send the request, again where the rules allow it."""
        config = self._bench.config
        rules = RetryRules(
            retries=upstream.connect_retries,
            base_ms=config.retry_base_ms,
            max_ms=config.retry_max_ms,
            side_effects=upstream.side_effects and request.method != "GET",
        )
        attempt = 0
        while True:
            attempt += 1
            hit("ingest.before_open")
            while not self._holds():  # we slept past our lease; a renewal says whether the turn is still ours
                self._renewed.clear()
                await self._renewed.wait()
            try:
                if upstream.wire == "acp":
                    agents, environ = self._outside.agents, self._outside.environ
                    return await agents.open(upstream, request, environ, waiting=self._pause)
                return await open_source(self._outside.session, request, upstream, self._bench.clock)
            except SourceError as failure:
                delay_ms = retry_delay_ms(failure, attempt, rules)
                if delay_ms is None:
                    raise
                metrics.INGEST_RETRIES.labels(reason=failure.error.code).inc()
                self._log.info("upstream_retried", code=failure.error.code, attempt=attempt, delay_ms=delay_ms)
                await asyncio.sleep(entropy.jitter(delay_ms, delay_ms * 1.25) / 1000)

    async def _read(self, source: Source, started: TurnStarted) -> None:
        adapter = WIRES[started.wire](stamp=self._stamp, limits=limits_from(started.limits))
        source.introduce(adapter)
        while not adapter.ended:
            if not self._is_behind:  # its state is the log's end: it can say how the turn ends
                self._adapter, self._ending, self._failure = adapter, None, None
            await self._wait_for_room()
            chunk = await source.read()
            if not chunk:
                return
            metrics.INGEST_BYTES.inc(len(chunk))
            await self._wait_for_room()  # a bound may have filled while the read was waiting
            self._stamp.at = self._bench.clock.now_ms()
            for event in adapter.feed(chunk):
                self._put(self._last_word(event) if self._cancelled and isinstance(event, TERMINALS) else event)
            if not adapter.ended:
                hit("ingest.mid_stream")

    async def _wait_for_room(self) -> None:
        """Do not read on while bytes wait to be published, or while the partition's fold is behind."""
        room, publisher, gate = self._bench.room, self.publisher, self._gate
        if not gate.closed and room.is_free(publisher.waiting_bytes):
            return
        with self._pause(), metrics.INGEST_PAUSED.track_inprogress():
            while gate.closed or not room.is_free(publisher.waiting_bytes):
                await gate.wait()
                await room.wait(lambda: publisher.waiting_bytes)

    @contextmanager
    def _pause(self) -> Iterator[None]:
        """A time in which the upstream is kept waiting by us; no limit on silence counts it."""
        self._paused = True
        if self.on_paused is not None:
            self.on_paused()
        try:
            yield
        finally:
            self._paused = False

    def _conclude(self) -> None:
        """Drain what the upstream left open and put the one terminal, unless it is there."""
        batcher = self.publisher.batcher
        if batcher.has_terminal:
            return
        self._stamp.at = self._bench.clock.now_ms()
        ending = self._ending
        if ending is None and self._is_behind:  # it ended before it reached the log's end
            ending = []
            self._failure = SourceError.ours(
                "ingest_lost", "the upstream could not be read again; what was read is kept"
            )
        ending = self._drain() if ending is None else ending
        self._replay = None
        for event in ending:
            word = self._last_word(event) if isinstance(event, TERMINALS) else event
            self._put(msgspec.structs.replace(word, seq=batcher.next_seq))
        self._stamp.seq = batcher.next_seq
        if not batcher.has_terminal:
            self._put(self._last_word(unfinished(*self._stamp.next())))

    def _drain(self) -> list[Event]:
        if self._adapter is None:
            return []
        try:
            return self._adapter.close()
        except Exception:  # noqa: BLE001 - a fault in draining must not cost the terminal
            self._log.exception("ingest_error")
            self._failure = SourceError.ours("ingest_error", "the turn met a fault of our own; its log entry says more")
            return []

    def _last_word(self, event: Event) -> Event:
        unsure = self._adapter is not None and self._adapter.unsure
        word = last_word(event, failure=self._failure, cancelled=self._cancelled, unsure=unsure)
        if (code := label(word)) is not None:
            metrics.UPSTREAM_FAILURES.labels(code=code).inc()
            self._log.info("turn_failed", code=code, status=self._failure.status if self._failure else None)
        return word

    async def _tell_of_cancel(self) -> None:
        """An upstream whose responses run by themselves does not notice that we left."""
        if not self._cancelled or self._upstream_id is None or self._started is None:
            return
        with suppress(RequestError):  # a key that has gone: the turn ends all the same
            upstream = self._find_upstream(self._started)
            if upstream.resumable:
                request = build_cancel(upstream, self._upstream_id, self._outside.environ)
                await tell(self._outside.session, request, timeout_ms=TELL_MS)

    def _put(self, event: Event) -> None:
        if self._replay is not None:
            try:
                new = self._replay.take(event)
            except OtherAnswerError:
                words = "the upstream's second answer is not the first one; that one is kept"
                raise SourceError.ours("ingest_lost", words) from None
            if new is None:
                return
            event = new
        self._upstream_id = self._upstream_id or upstream_id_of(event)
        if self._first_text is None and isinstance(event, TextDelta) and event.track == "text":
            self._first_text = event.seq
        self.publisher.put(event)
        if self._said is not None:
            self._said.note(event)

    def _note_first_text(self, acknowledged: int) -> None:
        if self._first_text is not None and self._first_text < acknowledged:
            waited_ms = self._bench.clock.now_ms() - self._claimed.record.submitted_at
            metrics.FIRST_TOKEN.observe(max(0, waited_ms) / 1000)
            self.publisher.on_acknowledged = None

    def _find_upstream(self, started: TurnStarted) -> UpstreamConfig:
        name = self._claimed.record.upstream
        upstream = self._outside.upstreams.get(name)
        if upstream is None:
            raise RequestError(f"this process knows no upstream named {name!r}")
        if started.wire not in WIRES:
            raise RequestError(f"this process reads no wire named {started.wire!r}")
        return upstream
