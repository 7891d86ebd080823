"""Programs outside that carry a turn themselves: they publish its events here, through the same door as ingest.

    POST /v1/turns            with an upstream that is `external`: the answer holds `producer: {token, next}`
    POST /v1/turns/{id}/events   X-Foldline-Producer: the token; a JSON array of events, or an event a line
    POST /v1/turns/{id}/claim    a new token, for a producer that has lost its own; the old one is refused from then on

Events carry `seq` from `next` on, without a gap; number 0 is the turn's first event, which submit has published. A repeat adds nothing,
whatever part of it is stored already. Every answer says `next`: what is below it is kept, so a producer sends again from there and
never doubts. An event that the contract does not know is refused with a diagnostic, and nothing of its request is kept.
"""

from typing import Any, NoReturn

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ledger.external import EXTERNAL, ExternalClaim, ExternalRefused, claim_external
from ledger.log import PublishReply, PublishStatus, read_positions
from ledger.records import TurnRecord
from pipeline import codec
from pipeline.errors import Diagnostic, EventRefused
from pipeline.events import TERMINALS, Event, TurnStarted
from workers.config import Config
from workers.gateway import errors, inputs
from workers.gateway.auth import Auth
from workers.gateway.errors import HttpError
from workers.gateway.publishing import begin, cut, keep_waiting, put
from workers.gateway.store import Store
from workers.gateway.submit import RESPONSE_PREFIX
from workers.observability import metrics
from workers.runtime import entropy, failpoints

PRODUCER_HEADER = "x-foldline-producer"
LINE = b"\n"

# why a publish was refused: code, words, status
REFUSED = {
    PublishStatus.STALE: ("producer_stale", "another producer has claimed this turn; yours is over", 409),
    PublishStatus.ENDED: ("turn_ended", "the turn has its terminal event; nothing is accepted behind it", 409),
    PublishStatus.GAP: ("sequence_gap", "events are missing before these; send again from `next`", 409),
    PublishStatus.CONFLICT: ("sequence_conflict", "other events are stored under these numbers", 409),
}


class Producers:
    """Handlers of what external producers ask for."""

    def __init__(self, store: Store, auth: Auth, config: Config) -> None:
        self._store = store
        self._auth = auth
        self._config = config

    async def publish(self, request: Request) -> Response:
        """`POST /v1/turns/{id}/events`."""
        record = await self._of_path(request)
        token = inputs.header(request, PRODUCER_HEADER)
        if token is None:
            raise HttpError(400, "producer_needed", f"the header {PRODUCER_HEADER} must hold the turn's token")
        body = await inputs.read_body(request, self._config.gateway.max_body_bytes)
        events = read_events(body, record.id)
        await self._check_lag(record.id, token, events)
        reply = await self._publish(record.id, token, events)
        if reply.status not in (PublishStatus.OK, PublishStatus.ALREADY):
            raise _refusal(record.id, reply)
        metrics.EXTERNAL_EVENTS.inc(len(events))
        failpoints.hit("gateway.after_publish")
        return _answer({"next": reply.next, "cancel": reply.cancel, "lag": reply.lag})

    async def claim(self, request: Request) -> Response:
        """`POST /v1/turns/{id}/claim`."""
        record = await self._of_path(request)
        claimed = await self._store.run(claim_external(self._store.keys, record.id, nonce=entropy.nonce()))
        match claimed:
            case ExternalRefused.UNKNOWN_TURN:
                raise errors.not_found("Turn", record.id)
            case ExternalRefused():
                raise HttpError(409, "turn_ended", REFUSED[PublishStatus.ENDED][1])
            case ExternalClaim():
                following = await begin(self._store, record.id)
                return _answer(
                    {"token": claimed.token, "next": max(claimed.next_seq, following), "cancel": claimed.cancel}
                )

    async def _publish(self, turn: str, token: str, events: list[Event]) -> PublishReply:
        """Publish in pieces that a script can hold; what is stored already is left out where a piece overlaps it."""
        limits = self._config.ingest
        while True:
            piece = cut(events, max_events=limits.batch_max_events, max_bytes=limits.batch_max_bytes)
            reply = await self._put(turn, token, piece)
            if reply.status is PublishStatus.OVERLAP:
                events = [event for event in events if event.seq >= reply.next]
                continue
            events = events[len(piece) :]
            if not events or reply.status not in (PublishStatus.OK, PublishStatus.ALREADY):
                return reply

    async def _put(self, turn: str, token: str, piece: list[Event]) -> PublishReply:
        failpoints.hit("gateway.before_publish")
        return await put(self._store, turn, token, piece)

    async def _check_lag(self, turn: str, token: str, events: list[Event]) -> None:
        """A producer waits while the fold is behind, as ingest does; a turn's end frees memory, so it never waits."""
        if isinstance(events[0], TERMINALS):
            return
        positions = await self._store.run(read_positions(self._store.keys, self._store.keys.partition_of_turn(turn)))
        if positions.lag >= self._config.ingest.lag_high:
            words = "the partition has many events that are not folded yet"
            raise await keep_waiting(self._store, turn, token, "partition_behind", words)

    async def _of_path(self, request: Request) -> TurnRecord:
        tenant = await self._auth.tenant(request)
        ident = request.path_params["id"]
        record = await self._store.turn(ident.removeprefix(RESPONSE_PREFIX), tenant)
        if record is None:
            raise errors.not_found("Turn", ident[:100])
        if not record.external_token:
            raise HttpError(409, "turn_not_external", "this turn is carried by an ingest process")
        return record


def read_events(body: bytes, turn: str) -> list[Event]:
    """Read a request's events, and refuse the whole of it for the first that cannot be taken."""
    try:
        if body.lstrip()[:1] == b"[":
            events = codec.decode_batch(body, turn=turn, producer=EXTERNAL)
        else:
            lines = [line for line in body.split(LINE) if line.strip()]
            events = [codec.decode(line, turn=turn, producer=EXTERNAL) for line in lines]
        check_order(events, turn)
    except EventRefused as refused:
        raise refusal(refused.diagnostic) from None
    return events


def check_order(events: list[Event], turn: str) -> None:
    """Refuse what no publish may hold: nothing, a first event, a gap, anything behind a terminal."""

    def refuse(code: str, path: str, *, expected: str, found: str, seq: int | None) -> NoReturn:
        raise EventRefused(
            Diagnostic(code=code, path=path, expected=expected, found=found, turn=turn, producer=EXTERNAL, seq=seq)
        )

    if not events:
        refuse("events_missing", "$", expected="at least one event", found="none", seq=None)
    for index, event in enumerate(events):
        at, seq = f"$[{index}]", event.seq
        wanted = events[0].seq + index
        if isinstance(event, TurnStarted):
            refuse(
                "turn_started_given",
                at,
                expected="an event behind the first, which submit published",
                found="it",
                seq=seq,
            )
        if seq != wanted:
            refuse("sequence_broken", f"{at}.seq", expected=str(wanted), found=str(seq), seq=seq)
        if isinstance(event, TERMINALS) and index < len(events) - 1:
            refuse("after_terminal", f"$[{index + 1}]", expected="nothing", found="an event", seq=events[index + 1].seq)


def refusal(found: Diagnostic) -> HttpError:
    """A diagnostic as the answer to a producer."""
    more = {"diagnostic": msgspec.structs.asdict(found)}
    return HttpError(400, "event_refused", str(found), param=found.path, more=more)


def _refusal(turn: str, reply: PublishReply) -> HttpError:
    if reply.status is PublishStatus.UNKNOWN_TURN:
        return errors.not_found("Turn", turn)
    code, words, status = REFUSED[reply.status]
    return HttpError(status, code, words, kind="conflict_error", more={"next": reply.next, "cancel": reply.cancel})


def _answer(value: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
