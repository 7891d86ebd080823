"""What another path tells of the turns that it delivers while foldline shadows them.

    POST /v1/shadow/{turn}   {"messages": [{"n": 0, "target": "hook", "text": "…"}, …], "total": 3}
    GET  /v1/shadow/{turn}   how both sides compare

Messages are numbered from 0 in the order in which they were sent, over all targets; they may come in several requests, and `total` with the
last. A repeat adds nothing; `workers.gateway.reports` takes the same from a Redis stream. A turn that is not shadowed is refused, since foldline delivers it: whoever sends it too sends it twice.
"""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ledger.records import SHADOW, TurnRecord
from ledger.shadow import read_sent
from workers.config import Config
from workers.gateway import errors, inputs
from workers.gateway.auth import Auth
from workers.gateway.errors import HttpError
from workers.gateway.store import Store
from workers.shadow.collection import collect
from workers.shadow.reports import Report, ReportError, keep

STATUSES = {"turn_unknown": 404, "turn_is_live": 409, "report_conflict": 409}


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
        try:
            await keep(self._store.run, self._store.keys, record, report, ttl_ms=self._config.retention.turn_ms)
        except ReportError as refused:
            raise _refusal(refused) from None
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


def _refusal(refused: ReportError) -> HttpError:
    status = STATUSES.get(refused.code, 400)
    kind = "conflict_error" if status == 409 else "invalid_request_error"
    return HttpError(status, refused.code, refused.words, kind=kind, param=refused.param)


def _live(record: TurnRecord) -> HttpError:
    return HttpError(409, "turn_is_live", f"foldline delivers turn {record.id} itself", kind="conflict_error")
