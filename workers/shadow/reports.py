"""Reports of another path, whatever way they came: read, checked against the turn, and kept with it.

A report is `{"messages": [{"n": 0, "target": "hook", "text": "…"}, …], "total": 3}`. A repeat adds nothing; what cannot be kept is refused
as a whole, by a code that says why.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ledger.commands import Call
from ledger.keys import Keyspace
from ledger.records import TurnRecord
from ledger.shadow import ReportReply, ReportStatus, report_sent
from pipeline.events import Target
from workers.observability import metrics
from workers.shadow.collection import Message

Run = Callable[[Call[Any]], Awaitable[Any]]

MESSAGES_MAX = 10_000
"""Of one turn: more than any turn's text makes."""
Number = Annotated[int, Meta(ge=0, lt=MESSAGES_MAX)]


class Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message of a report."""

    n: Number
    target: str
    text: str


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What another path sent of one turn, or a piece of it; `total` says how many messages there are in all."""

    messages: list[Told] = []
    total: Annotated[int, Meta(ge=0, le=MESSAGES_MAX)] | None = None


class ReportError(Exception):
    """A report that cannot be kept; `code` names why, `param` where."""

    def __init__(self, code: str, words: str, param: str | None = None) -> None:
        super().__init__(words)
        self.code = code
        self.words = words
        self.param = param


async def keep(run: Run, keys: Keyspace, record: TurnRecord, report: Report, *, ttl_ms: int, ident: str = "") -> None:
    """Keep a report with its turn; raises ReportError. `ident`: the report's own id, under which nothing else is kept."""
    told = _told(record, report)
    call = report_sent(keys, record.id, told, total=report.total, ttl_ms=ttl_ms, report_id=ident)
    reply: ReportReply = await run(call)
    match reply.status:
        case ReportStatus.UNKNOWN_TURN:
            raise ReportError("turn_unknown", f"there is no turn {record.id}")
        case ReportStatus.NOT_SHADOW:
            raise ReportError("turn_is_live", f"foldline delivers turn {record.id} itself")
        case ReportStatus.CONFLICT:
            words = f"something else was told of {reply.where} before"
            raise ReportError("report_conflict", words, f"messages.{reply.where}")
        case ReportStatus.OVER:
            raise ReportError("invalid_value", f"there are {reply.where} messages in all", "messages.n")
    metrics.SHADOW_MESSAGES.labels(runtime=record.runtime).inc(len(told))


def _told(record: TurnRecord, report: Report) -> dict[int, str]:
    names = {target.name for target in msgspec.json.decode(record.targets or "[]", type=list[Target])}
    for message in report.messages:
        if message.target not in names:
            words = f"the turn has no target {message.target[:80]!r}"
            raise ReportError("target_unknown", words, "messages.target")
    told = {m.n: msgspec.json.encode(Message(target=m.target, text=m.text)).decode() for m in report.messages}
    if len(told) < len(report.messages):
        raise ReportError("invalid_value", "two messages have one number", "messages.n")
    return told
