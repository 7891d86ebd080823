"""Takes the reports that another path writes into a Redis stream, instead of posting them.

    XADD fl:{reports}:sent MAXLEN ~ 100000 * turn TURN report '{"messages": [{"n": 0, "target": "hook", "text": "…"}], "total": 1}' id MINE

Authority: a consumer of the group `gateway`, one for each process; what one leaves another takes over. Loss: a report is settled when its turn
has it, and a repeat adds nothing, by its numbers and by its `id`. Failure: an entry that cannot be kept is put aside with the reason, as it
came, and holds up nothing. Wait: while the server is away, nothing is taken.
"""

import asyncio
import contextlib

import msgspec

from ledger.errors import LedgerError
from ledger.records import SHADOW
from ledger.reports import ReportEntry, settle_report, take_reports
from ledger.turns import read_turn
from workers.config import Config
from workers.gateway.store import Store
from workers.observability import logs, metrics
from workers.shadow.reports import Report, ReportError, keep

AT_ONCE = 64
ABANDONED_MS = 5_000
"""A report that its reader has not settled in this time is taken by another."""
FIELDS = frozenset({"turn", "report", "id"})
IDENT_CHARS_MAX = 256


class Reports:
    """The reader of one process; a service."""

    def __init__(self, store: Store, config: Config, *, consumer: str) -> None:
        self._store = store
        self._config = config
        self._consumer = consumer
        self._task: asyncio.Task[None] | None = None
        self._log = logs.bind(part="reports", worker=consumer)

    async def start(self) -> None:
        """Read from now on."""
        self._task = asyncio.create_task(self._read())

    async def stop(self) -> None:
        """Stop where it stands: what is not settled is taken by others."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _read(self) -> None:
        while True:
            try:
                taken = await self.take()
            except LedgerError as error:
                taken = 0
                self._log.debug("reports_unanswered", error=str(error))
            except Exception:  # noqa: BLE001 - the next look is another try
                taken = 0
                self._log.exception("reports_failed")
            if not taken:
                await asyncio.sleep(self._config.gateway.poll_ms / 1000)

    async def take(self) -> int:
        """Take once, settle all that came, and say how many there were."""
        call = take_reports(
            self._store.keys,
            consumer=self._consumer,
            count=AT_ONCE,
            min_idle_ms=ABANDONED_MS,
            aside_ms=self._config.retention.turn_ms,
        )
        taken = await self._store.once(call)
        for entry in taken.aside:
            self._tell(entry, ReportError("not_text", "a field is no UTF-8"))
        for report in taken.entries:
            await self._settle(report)
        return len(taken.entries) + len(taken.aside)

    async def _settle(self, entry: ReportEntry) -> None:
        why = ""
        try:
            await self._keep(entry)
        except ReportError as refused:
            why = f"{refused.code}: {refused.words}"
            self._tell(entry.id, refused)
        call = settle_report(self._store.keys, entry.id, why=why, aside_ms=self._config.retention.turn_ms)
        await self._store.run(call)

    async def _keep(self, entry: ReportEntry) -> None:
        fields = entry.fields
        if missing := {"turn", "report"} - fields.keys():
            raise ReportError("field_missing", f"an entry holds turn and report; there is no {min(missing)}")
        if unknown := fields.keys() - FIELDS:
            raise ReportError("field_unknown", f"an entry holds turn, report and id, not {min(unknown)[:80]!r}")
        if len(fields.get("id", "")) > IDENT_CHARS_MAX:
            raise ReportError("invalid_value", f"an id has {IDENT_CHARS_MAX} characters at most")
        if len(fields["report"]) > self._config.gateway.max_body_bytes:
            raise ReportError(
                "report_too_large", f"a report has {self._config.gateway.max_body_bytes} characters at most"
            )
        try:
            report = msgspec.json.decode(fields["report"], type=Report)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ReportError("invalid_value", str(error)[:500]) from None
        turn = fields["turn"]
        record = await self._store.run(read_turn(self._store.keys, turn)) if self._store.is_ours(turn) else None
        if record is None:
            raise ReportError("turn_unknown", f"there is no turn {turn[:80]!r}")
        if record.mode != SHADOW:
            raise ReportError("turn_is_live", f"foldline delivers turn {turn} itself")
        ttl_ms = self._config.retention.turn_ms
        await keep(self._store.run, self._store.keys, record, report, ttl_ms=ttl_ms, ident=fields.get("id", ""))

    def _tell(self, entry: str, refused: ReportError) -> None:
        metrics.SHADOW_ASIDE.labels(code=refused.code).inc()
        self._log.warning("report_put_aside", entry=entry, code=refused.code, why=refused.words)
