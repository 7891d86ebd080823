"""One turn from its claim to its terminal: `turn_started`, its acknowledgement, the upstream, its events, one last word.

Two tasks work on it: one produces (opens, reads, normalizes), one publishes. The producer waits at every bound and is
cancelled when the turn is cancelled or no longer ours. Then what is open is drained and one terminal is put, unless the
upstream has given one. Whatever goes wrong, a turn that is still ours ends by name.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import aiohttp
import msgspec

from ledger.turns import Claimed, ClaimStatus, RenewReply
from pipeline.events import TERMINALS, ErrorInfo, Event, Status, TextDelta, TurnCancelled, TurnFailed, TurnStarted
from pipeline.limits import limits_from
from pipeline.normalize.registry import WIRES, Adapter
from pipeline.normalize.stamp import Stamp
from workers.config import UpstreamConfig
from workers.ingest.bounds import LagGate
from workers.ingest.failures import RetryRules, SourceError, retry_delay_ms
from workers.ingest.predecessor import emitted_before, read_started
from workers.ingest.publisher import Bench, Publisher, Verdict
from workers.ingest.requests import RequestError, build
from workers.ingest.sources.http import HttpSource, open_source
from workers.ingest.takeover import Plan, decide
from workers.observability import logs, metrics
from workers.runtime import entropy
from workers.runtime.failpoints import hit

TRUNCATED = "upstream_truncated"
"""The adapter's own word for a body that ended early; the connection's failure, where there was one, says more."""


@dataclass(frozen=True, kw_only=True)
class Outside:
    """What the turns of a process reach upstreams with."""

    upstreams: Mapping[str, UpstreamConfig]
    session: aiohttp.ClientSession
    environ: Mapping[str, str] = field(repr=False)


class Runner:
    """One claimed turn."""

    def __init__(self, bench: Bench, outside: Outside, claimed: Claimed, gate: LagGate) -> None:
        self.turn = claimed.record.id
        self._bench = bench
        self._outside = outside
        self._claimed = claimed
        self._gate = gate
        self._log = logs.bind(turn=self.turn, partition=bench.keys.partition_of_turn(self.turn))
        self._stamp = Stamp(at=bench.clock.now_ms(), seq=claimed.next_seq)
        self._started: TurnStarted | None = None
        self._adapter: Adapter | None = None
        self._producing: asyncio.Task[None] | None = None
        self._failure: SourceError | None = None
        self._cancelled = False
        self._lost = False
        self._first_text: int | None = None
        self.publisher = Publisher(bench, self.turn, claimed.token, next_seq=claimed.next_seq, gate=gate)
        self.publisher.on_cancel = self.cancel
        self.publisher.on_acknowledged = self._note_first_text

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
                await asyncio.wait({publishing})
            return publishing.result() if publishing.done() else Verdict.STALE
        finally:
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
        if self._producing is not None:
            self._producing.cancel()

    def lose(self) -> None:
        """The claim is somebody else's: close the upstream, say nothing more."""
        self._lost = True
        if self._producing is not None:
            self._producing.cancel()

    def on_renewed(self, reply: RenewReply) -> None:
        """Hear what a renewal of the claim says."""
        if reply.status is ClaimStatus.OK and reply.cancel:
            self.cancel()

    def _start(self) -> None:
        """Put `turn_started` unless a predecessor did: whatever happens next, the turn has a first event."""
        try:
            self._started = read_started(self._claimed.record)
            if self._claimed.next_seq == 0:
                seq, now_ms = (
                    self._stamp.next()
                )  # the frozen time stands, so that a second run of a turn is equal to its first
                self._put(msgspec.structs.replace(self._started, seq=seq, at=self._started.at or now_ms))
        except SourceError as failure:
            self._failure = failure

    async def _produce(self) -> None:
        """Let the upstream speak; every failure is remembered for the last word."""
        try:
            if self._started is None:
                return
            upstream = self._find_upstream(self._started)
            await self._go_on(upstream)
            source = await self._open(upstream)
            hit("ingest.after_open")
            try:
                await self._read(source, self._started)
            finally:
                source.close()
        except SourceError as failure:
            self._failure = failure
        except RequestError as error:
            self._failure = SourceError.ours("upstream_not_configured", str(error))
        except Exception:  # noqa: BLE001 - a turn that is still ours ends by name
            self._log.exception("ingest_error")
            self._failure = SourceError.ours("ingest_error", "the turn met a fault of our own; its log entry says more")

    async def _go_on(self, upstream: UpstreamConfig) -> None:
        """Choose between the beginning, a restart and the end; return when the server has what was emitted so far."""
        emitted = await emitted_before(self._bench, self._claimed)
        match decide(self._claimed.next_seq, emitted, side_effects=upstream.side_effects):
            case Plan.START:
                pass
            case Plan.RESTART:
                seq, at = self._stamp.next()
                self._log.info("request_restarted", claims=self._claimed.claims)
                self._put(Status(seq=seq, at=at, name="restarted", detail={"claims": self._claimed.claims}))
            case Plan.LOST:
                self._log.warning("ingest_lost", next=self._claimed.next_seq, claims=self._claimed.claims)
                raise SourceError.ours(
                    "ingest_lost", "the process that carried this turn died; what it had read is kept"
                )
        await self.publisher.acknowledged(self._stamp.seq)

    async def _open(self, upstream: UpstreamConfig) -> HttpSource:
        """Send the request, again where the rules allow it."""
        config = self._bench.config
        request = build(upstream, self._claimed.record.request, self._outside.environ)
        rules = RetryRules(
            retries=upstream.connect_retries,
            base_ms=config.retry_base_ms,
            max_ms=config.retry_max_ms,
            side_effects=upstream.side_effects,
        )
        attempt = 0
        while True:
            attempt += 1
            hit("ingest.before_open")
            try:
                return await open_source(self._outside.session, request, upstream, self._bench.clock)
            except SourceError as failure:
                delay_ms = retry_delay_ms(failure, attempt, rules)
                if delay_ms is None:
                    raise
                metrics.INGEST_RETRIES.labels(reason=failure.error.code).inc()
                self._log.info("upstream_retried", code=failure.error.code, attempt=attempt, delay_ms=delay_ms)
                await asyncio.sleep(entropy.jitter(delay_ms, delay_ms * 1.25) / 1000)

    async def _read(self, source: HttpSource, started: TurnStarted) -> None:
        adapter = WIRES[started.wire](stamp=self._stamp, limits=limits_from(started.limits))
        self._adapter = adapter
        while not adapter.ended:
            await self._wait_for_room()
            chunk = await source.read()
            if not chunk:
                return
            metrics.INGEST_BYTES.inc(len(chunk))
            await self._wait_for_room()  # a bound may have filled while the read was waiting
            self._stamp.at = self._bench.clock.now_ms()
            for event in adapter.feed(chunk):
                self._put(event)
            if not adapter.ended:
                hit("ingest.mid_stream")

    async def _wait_for_room(self) -> None:
        """Do not read on while bytes wait to be published, or while the partition's fold is behind."""
        room, publisher, gate = self._bench.room, self.publisher, self._gate
        while gate.closed or not room.is_free(publisher.waiting_bytes):
            with metrics.INGEST_PAUSED.track_inprogress():
                await gate.wait()
                await room.wait(lambda: publisher.waiting_bytes)

    def _conclude(self) -> None:
        """Drain what the upstream left open and put the one terminal, unless it is there."""
        if self.publisher.batcher.has_terminal:
            return
        self._stamp.at = self._bench.clock.now_ms()
        for event in self._drain():
            self._put(self._last_word(event) if isinstance(event, TERMINALS) else event)
        if not self.publisher.batcher.has_terminal:
            seq, at = self._stamp.next()
            message = "the upstream's answer ended before its end"
            self._put(self._last_word(TurnFailed(seq=seq, at=at, error=ErrorInfo(code=TRUNCATED, message=message))))

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
        """Say why the body ended, where we know more than the adapter that saw it end."""
        if not isinstance(event, TurnFailed):
            return event
        if self._cancelled:
            return TurnCancelled(seq=event.seq, at=event.at, reason="cancelled", usage=event.usage, wire=event.wire)
        failure = self._failure
        if failure is None or event.error.code != TRUNCATED:
            metrics.UPSTREAM_FAILURES.labels(code=_label(event.error.code)).inc()
            return event
        metrics.UPSTREAM_FAILURES.labels(code=_label(failure.error.code)).inc()
        self._log.info("upstream_failed", code=failure.error.code, status=failure.status)
        wire = event.wire if failure.status is None else {**(event.wire or {}), "http_status": failure.status}
        return msgspec.structs.replace(event, error=failure.error, wire=wire)

    def _put(self, event: Event) -> None:
        if self._first_text is None and isinstance(event, TextDelta) and event.track == "text":
            self._first_text = event.seq
        self.publisher.put(event)

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


def _label(code: str) -> str:
    """Keep the metric's labels bounded: upstreams invent codes, we do not."""
    return code if code.startswith(("upstream_", "ingest_")) else "upstream_error"
