"""The native surface: `/v1/turns`. A turn is submitted, looked at, read as server-sent events and cancelled.

Each event has the id `N-<hash>`: number and digest of the frame. A browser sends the last one back by itself when it reconnects, and
the gateway goes on behind it, or says `stream_rolled_back` when the stream holds other bytes there. A turn that was read to its end
is answered with 204, which tells EventSource not to come again.
"""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ledger.access import unscoped
from ledger.records import TurnRecord
from workers.config import Config
from workers.gateway import errors, inputs, publishing, sse
from workers.gateway.auth import Auth
from workers.gateway.errors import HttpError
from workers.gateway.responses import MODE_HEADER, TURN_HEADER, FrameSource, cancel_turn, check_not_expired
from workers.gateway.sse import EventStream
from workers.gateway.store import Store, decoded
from workers.gateway.submit import RESPONSE_PREFIX, Submitter, Wanted
from workers.gateway.subscriptions import Subscriptions


class TurnRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /v1/turns`."""

    request: dict[str, Any]
    upstream: str | None = None
    session: str | None = None
    serial: bool = False
    verbatim: bool = False
    """The request is the upstream's own form already."""
    targets: list[str] | None = None
    parent: str | None = None
    parent_call: str | None = None
    settings: dict[str, str | int | float] = {}
    idempotency_key: str | None = None


class Turns:
    """Handlers of `/v1/turns`."""

    def __init__(self, store: Store, auth: Auth, submitter: Submitter, hub: Subscriptions, config: Config) -> None:
        self._store = store
        self._auth = auth
        self._submitter = submitter
        self._hub = hub
        self._config = config

    async def create(self, request: Request) -> Response:
        """`POST /v1/turns`: 201 for a new turn, 200 for the one that the idempotency key stands for already."""
        tenant = await self._auth.tenant(request)
        body = await inputs.read_object(request, self._config.gateway.max_body_bytes)
        wanted = _wanted(request, tenant, inputs.convert(body, TurnRequest))
        submitted = await self._submitter.submit(wanted)
        record = await self._store.turn(submitted.turn, tenant)
        if record is None:
            raise HttpError(500, errors.TURN_LOST, "the turn was accepted, and is gone: its server lost its data")
        return Response(
            msgspec.json.encode({**shown(record), **publishing.told(record, submitter=True)}),
            status_code=201 if submitted.is_new else 200,
            media_type="application/json",
            headers={TURN_HEADER: record.id, MODE_HEADER: record.mode, "Location": f"/v1/turns/{record.id}"},
        )

    async def retrieve(self, request: Request) -> Response:
        """`GET /v1/turns/{id}`."""
        record = await self._of_path(request)
        return Response(
            msgspec.json.encode({**shown(record), **publishing.told(record)}), media_type="application/json"
        )

    async def cancel(self, request: Request) -> Response:
        """`POST /v1/turns/{id}/cancel`."""
        record = await cancel_turn(self._store, self._hub, self._config, await self._of_path(request))
        return Response(msgspec.json.encode(shown(record)), media_type="application/json")

    async def events(self, request: Request) -> Response:
        """`GET /v1/turns/{id}/events`."""
        record = await self._of_path(request)
        after, last_hash = inputs.last_event_id(request)
        await check_not_expired(self._store, record)
        if record.state.is_terminal and after == record.frames_next - 1:
            last = await self._store.last_frame(record)
            if last is not None and last_hash in (None, last.digest):
                return Response(status_code=204)
        watch = self._hub.watch(record.id, after=after, last_hash=last_hash)
        source = FrameSource(watch, sse.with_id, sse.native_error)
        headers = {TURN_HEADER: record.id}
        return EventStream(source, keepalive_ms=self._config.gateway.keepalive_ms, headers=headers)

    async def _of_path(self, request: Request) -> TurnRecord:
        tenant = await self._auth.tenant(request)
        ident = request.path_params["id"]
        record = await self._store.turn(ident.removeprefix(RESPONSE_PREFIX), tenant)
        if record is None:
            raise errors.not_found("Turn", ident[:100])
        return record


def _wanted(request: Request, tenant: str, body: TurnRequest) -> Wanted:
    key = inputs.header(request, "idempotency-key") or body.idempotency_key
    session = inputs.header(request, "x-foldline-session") or body.session
    return Wanted(
        tenant=tenant,
        request=body.request,
        upstream=inputs.header(request, "x-foldline-upstream") or body.upstream,
        session=None if session is None else inputs.name(session, "session"),
        serial=body.serial,
        verbatim=body.verbatim,
        targets=_target_names(body),
        parent=body.parent,
        parent_call=None if body.parent_call is None else _call_id(body),
        settings=body.settings,
        idempotency_key=None if key is None else inputs.name(key, "idempotency_key"),
    )


def _target_names(body: TurnRequest) -> tuple[str, ...] | None:
    """Return the targets' names; None for a child that goes where its parent goes."""
    if body.targets is None:
        return None if body.parent is not None else ()
    return tuple(body.targets)


def _call_id(body: TurnRequest) -> str:
    if body.parent is None:
        raise HttpError(400, "invalid_value", "parent_call is of a child's parent", param="parent_call")
    return inputs.name(body.parent_call, "parent_call")


def shown(record: TurnRecord) -> dict[str, Any]:
    """Return a turn as its tenant sees it; times are unix milliseconds, 0 is not yet."""
    return {
        "id": record.id,
        "object": "turn",
        "response_id": f"{RESPONSE_PREFIX}{record.id}",
        "state": record.state.value,
        "session": unscoped(record.tenant, record.session),
        "upstream": record.upstream,
        "runtime": record.runtime,
        "mode": record.mode,
        "parent": record.parent or None,
        "serial": record.serial,
        "targets": [target["name"] for target in decoded(record.targets) or []],
        "frames": record.frames_next,
        "blocks": record.blocks_next,
        "cancel_requested": record.cancel,
        "usage": decoded(record.usage),
        "error": decoded(record.error),
        "upstream_id": record.upstream_id or None,
        "submitted_at": record.submitted_at,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "events": f"/v1/turns/{record.id}/events",
    }
