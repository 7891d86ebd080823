"""What another path tells of the turns that it delivers while foldline shadows them.

    POST /v1/shadow/{turn}   {"messages": [{"n": 0, "target": "hook", "text": "…"}, …], "total": 3}
    GET  /v1/shadow/{turn}   how both sides compare

Messages are numbered from 0 in the order in which they were sent, over all targets; they may come in several requests, and `total` with the
last. A repeat adds nothing. A turn that is not shadowed is refused, since foldline delivers it: whoever sends it too sends it twice.
"""

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from ledger.records import SHADOW, TurnRecord
from ledger.shadow import ReportStatus, read_sent, report_sent
from pipeline.events import Target
from workers.config import Config
from workers.gateway import errors, inputs
from workers.gateway.auth import Auth
from workers.gateway.errors import HttpError
from workers.gateway.store import Store
from workers.observability import metrics
from workers.shadow.collection import Message, collect

MESSAGES_MAX = 10_000
"""Of one turn: more than any turn's text makes."""
Number = Annotated[int, Meta(ge=0, lt=MESSAGES_MAX)]


class Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message of a report."""

    n: Number
    target: str
    text: str


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /v1/shadow/{turn}`."""

    messages: list[Told] = []
    total: Annotated[int, Meta(ge=0, le=MESSAGES_MAX)] | None = None


class Shadows:
    """Handlers of `/v1/shadow`."""

    def __init__(self, store: Store, auth: Auth, config: Config) -> None:
        self._store = store
        self._auth = auth
        self._config = config

    async def report(self, request: Request) -> Response:
        """`POST /v1/shadow/{turn}`."""
        record = await self._of_path(request)
        body = await inputs.read_object(request, self._config.gateway.max_body_bytes)
        report = inputs.convert(body, Report)
        names = {target.name for target in msgspec.json.decode(record.targets or "[]", type=list[Target])}
        for message in report.messages:
            if message.target not in names:
                raise HttpError(
                    400, "target_unknown", f"the turn has no target {message.target[:80]!r}", param="messages.target"
                )
        told = {m.n: msgspec.json.encode(Message(target=m.target, text=m.text)).decode() for m in report.messages}
        if len(told) < len(report.messages):
            raise HttpError(400, "invalid_value", "two messages have one number", param="messages.n")
        call = report_sent(self._store.keys, record.id, told, total=report.total, ttl_ms=self._config.retention.turn_ms)
        reply = await self._store.run(call)
        match reply.status:
            case ReportStatus.UNKNOWN_TURN:
                raise errors.not_found("Turn", record.id)
            case ReportStatus.NOT_SHADOW:
                raise _live(record)
            case ReportStatus.CONFLICT:
                words = f"something else was told of {reply.where} before"
                raise HttpError(409, "report_conflict", words, kind="conflict_error", param=f"messages.{reply.where}")
            case ReportStatus.OVER:
                raise HttpError(400, "invalid_value", f"there are {reply.where} messages in all", param="messages.n")
        metrics.SHADOW_MESSAGES.labels(runtime=record.runtime).inc(len(told))
        sent = await self._store.run(read_sent(self._store.keys, record.id))
        answer = {"turn": record.id, "messages": len(sent.messages), "total": sent.total, "whole": sent.is_whole}
        return Response(msgspec.json.encode(answer), media_type="application/json")

    async def compare(self, request: Request) -> Response:
        """`GET /v1/shadow/{turn}`."""
        record = await self._of_path(request)
        found = await collect(self._store.run, self._store.keys, record)
        return Response(msgspec.json.encode(found.as_row()), media_type="application/json")

    async def _of_path(self, request: Request) -> TurnRecord:
        tenant = await self._auth.tenant(request)
        ident = request.path_params["id"]
        record = await self._store.turn(ident, tenant)
        if record is None:
            raise errors.not_found("Turn", ident[:100])
        if record.mode != SHADOW:
            raise _live(record)
        return record


def _live(record: TurnRecord) -> HttpError:
    return HttpError(409, "turn_is_live", f"foldline delivers turn {record.id} itself", kind="conflict_error")
