"""The OpenAI-compatible surface: `/v1/responses`, as the official SDKs speak it.

A stream is sent as it is stored, frame by frame, numbered 0..N; `starting_after` goes on behind any of them. Everything else is read
off the turn's record and its frames: the object of a finished turn is the one in its last frame, so that a client that polls and a
client that streams are told the same. There is one difference, and it is on purpose: the SDKs know no event for a cancelled turn, so
the stream ends as `response.incomplete`, and the object says `cancelled`.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ledger import turns
from ledger.records import TurnRecord, TurnState
from workers.config import Config
from workers.gateway import errors, inputs, sse
from workers.gateway.auth import Auth
from workers.gateway.errors import HttpError
from workers.gateway.sse import EventStream, StoredFrame
from workers.gateway.store import Store, decoded
from workers.gateway.submit import RESPONSE_PREFIX, Submitted, Submitter, Wanted
from workers.gateway.subscriptions import Subscriptions
from workers.gateway.watch import MESSAGES, End, Watch
from workers.observability import metrics

CANCEL_WAIT_S = 2.0  # how long a cancel waits for the turn's end, so that its answer usually holds it
TURN_HEADER = "X-Foldline-Turn"
MODE_HEADER = "X-Foldline-Mode"
STOPPING = HttpError(
    503,
    "gateway_stopping",
    "this gateway stops; the turn goes on and can be read by its id",
    headers={"Retry-After": "1"},
)


class Extras(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The member `foldline` of a request: what the OpenAI interface has no word for."""

    upstream: str | None = None
    session: str | None = None
    serial: bool = False
    verbatim: bool = False
    """The request is the upstream's own form already."""
    targets: list[str] = []
    idempotency_key: str | None = None


class FrameSource:
    """The bytes of one client's stream: its reader's frames in a surface's form, and the words in which it ends by name."""

    def __init__(
        self, watch: Watch, encode: Callable[[StoredFrame], bytes], error: Callable[[str, str, int], bytes]
    ) -> None:
        self._watch = watch
        self._encode = encode
        self._error = error
        self._over = False

    async def next(self, timeout_s: float) -> bytes | None:
        """Return the next bytes, none at the end, or None when nothing came within the time."""
        if self._over:
            return b""
        match await self._watch.next(timeout_s):
            case None:
                return None
            case End.DONE:
                return b""
            case End() as end:
                self._over = True
                metrics.CLIENTS_ENDED.labels(code=end.value).inc()
                return b"" if end is End.STOPPING else self._error(end.value, MESSAGES[end], self._watch.number)
            case frames:
                metrics.CLIENT_FRAMES.inc(len(frames))
                return b"".join(map(self._encode, frames))

    def close(self) -> None:
        """Leave the hub."""
        self._watch.close()


class Responses:
    """Handlers of `/v1/responses`."""

    def __init__(self, store: Store, auth: Auth, submitter: Submitter, hub: Subscriptions, config: Config) -> None:
        self._store = store
        self._auth = auth
        self._submitter = submitter
        self._hub = hub
        self._config = config

    async def create(self, request: Request) -> Response:
        """`POST /v1/responses`."""
        tenant = await self._auth.tenant(request)
        body = await inputs.read_object(request, self._config.gateway.max_body_bytes)
        for member in ("stream", "background", "store"):
            if not isinstance(body.get(member), bool | None):
                raise HttpError(400, "invalid_value", f"{member} must be true or false", param=member)
        submitted = await self._submitter.submit(_wanted(request, tenant, body))
        headers = {TURN_HEADER: submitted.turn, MODE_HEADER: submitted.mode}
        if body.get("stream"):
            return self._stream(submitted.turn, -1, headers)
        if body.get("background"):
            return _json(await self._current(await self._known(submitted.turn, tenant)), headers=headers)
        return await self._wait(request, submitted, tenant, headers)

    async def retrieve(self, request: Request) -> Response:
        """`GET /v1/responses/{id}`, as an object or, with `stream=true`, as the stream behind `starting_after`."""
        tenant = await self._auth.tenant(request)
        record = await self._of_path(request, tenant)
        after = inputs.number(request, "starting_after")
        if not inputs.flag(request, "stream"):
            return _json(await self._current(record))
        await check_not_expired(self._store, record)
        return self._stream(record.id, -1 if after is None else after, {TURN_HEADER: record.id})

    async def cancel(self, request: Request) -> Response:
        """`POST /v1/responses/{id}/cancel`; cancelling what has ended changes nothing and answers the same object."""
        tenant = await self._auth.tenant(request)
        record = await self._of_path(request, tenant)
        record = await cancel_turn(self._store, self._hub, self._config, record)
        return _json(await self._current(record))

    def _stream(self, turn: str, after: int, headers: dict[str, str]) -> Response:
        watch = self._hub.watch(turn, after=after)
        source = FrameSource(watch, sse.plain, sse.openai_error)
        return EventStream(source, keepalive_ms=self._config.gateway.keepalive_ms, headers=headers)

    async def _wait(self, request: Request, submitted: Submitted, tenant: str, headers: dict[str, str]) -> Response:
        """Wait for the turn's end, or for the client to go."""
        reading = asyncio.ensure_future(read_to_end(self._hub, submitted.turn))
        going = asyncio.ensure_future(sse.gone(request.receive))
        try:
            await asyncio.wait({reading, going}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                return Response(status_code=499)  # nobody reads it; the turn goes on
            end = reading.result()
        finally:
            for task in (reading, going):
                task.cancel()
            await asyncio.gather(reading, going, return_exceptions=True)
        if end is End.STOPPING:
            raise STOPPING
        if end is not End.DONE:
            raise HttpError(500, end.value, MESSAGES[end])
        record = await self._known(submitted.turn, tenant)
        if record.state is TurnState.FAILED:
            raise failure_of(record)
        return _json(await self._current(record), headers=headers)

    async def _known(self, turn: str, tenant: str) -> TurnRecord:
        record = await self._store.turn(turn, tenant)
        if record is None:
            raise HttpError(500, errors.TURN_LOST, MESSAGES[End.LOST])
        return record

    async def _of_path(self, request: Request, tenant: str) -> TurnRecord:
        ident = request.path_params["id"]
        record = None
        if ident.startswith(RESPONSE_PREFIX):
            record = await self._store.turn(ident.removeprefix(RESPONSE_PREFIX), tenant)
        if record is None:
            raise errors.not_found("Response", ident[:100])
        return record

    async def _current(self, record: TurnRecord) -> dict[str, Any]:
        """Return the response object as far as it is known: of the last frame, of the first, or of the request alone."""
        if record.state.is_terminal:
            last = await self._store.last_frame(record)
            if last is None:
                raise expired()
            response: dict[str, Any] = last.data["response"]
            return {**response, "status": record.state.value}
        first = await self._store.first_frame(record.id)
        status = "queued" if record.state is TurnState.QUEUED else "in_progress"
        known = first.data.get("response") if first is not None else None
        return {**skeleton(record), **(known or {}), "status": status}


def _wanted(request: Request, tenant: str, body: dict[str, Any]) -> Wanted:
    extras = inputs.convert(body.get("foldline") or {}, Extras, "foldline.")
    conversation = body.get("conversation")
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    session = inputs.header(request, "x-foldline-session") or extras.session or conversation
    key = inputs.header(request, "idempotency-key") or extras.idempotency_key
    return Wanted(
        tenant=tenant,
        request=body,
        upstream=inputs.header(request, "x-foldline-upstream") or extras.upstream,
        session=None if session is None else inputs.name(session, "session"),
        serial=extras.serial,
        verbatim=extras.verbatim,
        targets=tuple(extras.targets),
        idempotency_key=None if key is None else inputs.name(key, "idempotency_key"),
    )


def skeleton(record: TurnRecord) -> dict[str, Any]:
    """Return the response object of a turn that has no frame yet: what the request said, and nothing made up."""
    said = (decoded(record.started) or {}).get("response") or {}
    return {
        "id": f"{RESPONSE_PREFIX}{record.id}",
        "object": "response",
        "created_at": record.submitted_at // 1000,
        "status": "queued",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "",
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
        **said,
    }


def failure_of(record: TurnRecord) -> HttpError:
    """Return a failed turn as the error of a request that waited for it."""
    error: dict[str, Any] = decoded(record.error) or {}
    status = errors.status_of_failure(error)
    headers = {TURN_HEADER: record.id}
    if status == 429:
        headers["Retry-After"] = "1"
    return HttpError(
        status,
        error.get("code") or "turn_failed",
        error.get("message") or "the turn failed",
        kind=error.get("type"),
        param=error.get("param"),
        headers=headers,
    )


async def read_to_end(hub: Subscriptions, turn: str) -> End:
    """Follow a turn to its end and say how it came; its frames are not kept."""
    watch = hub.watch(turn)
    try:
        while not isinstance(got := await watch.next(60.0), End):
            pass
        return got
    finally:
        watch.close()


async def cancel_turn(store: Store, hub: Subscriptions, config: Config, record: TurnRecord) -> TurnRecord:
    """Ask for a turn's end, wait for it a little, and return its record as it is then."""
    if record.state.is_terminal:
        return record
    await store.run(turns.request_cancel(store.keys, record.id, grace_ms=config.limits.cancel_grace_ms))
    try:
        async with asyncio.timeout(CANCEL_WAIT_S):
            await read_to_end(hub, record.id)
    except TimeoutError:
        pass  # flagged; its ingest process or the fold's owner will end it
    return await store.turn(record.id, record.tenant) or record


async def check_not_expired(store: Store, record: TurnRecord) -> None:
    """Answer 410 for a turn whose frames are no longer kept."""
    if record.state.is_terminal and await store.last_frame(record) is None:
        raise expired()


def expired() -> HttpError:
    """Return the answer for a stream that is no longer kept."""
    return HttpError(410, errors.STREAM_EXPIRED, MESSAGES[End.EXPIRED])


def _json(value: Any, *, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json", headers=headers)
