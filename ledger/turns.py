"""A turn's life outside the log: submitted once, taken by one ingest process at a time, cancelled by a flag, ended in time.

Authority: the turn's hash. `ingest_token` says who may publish for it; the pending entry in `requests` only mirrors that for those who
look, since a claim of the stream's own would let a sleeper take its entry back.
States: queued, running, and the four terminal ones, which the commit of the terminal's effects writes. `ended` is set earlier, when the
first terminal is accepted into the log; from there on no event is.
Time: the server's. `deadlines` holds when a turn is looked at next; `due_deadlines` says why it is over, or puts the date off.
Loss: submit, claim, renew, release and cancel may all be repeated with the same arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ledger.commands import Call
from ledger.errors import Full, UnexpectedReply
from ledger.keys import Keyspace
from ledger.records import LIVE, RECORD_VERSION, SHADOW, TurnRecord, turn_record
from ledger.replies import as_entries, as_int, as_pairs, as_text, as_texts

SERIAL_MS: Final = 24 * 3600 * 1000
"""A day: how long after its last submit the order of a serial session is kept; far beyond any turn's own end."""

ALWAYS_MS: Final = 10 * 365 * 24 * 3600 * 1000
"""As long as anybody can know."""


class IdempotencyStatus(StrEnum):
    """What the record of an idempotency key says."""

    CREATED = "CREATED"
    SAME = "SAME"
    CONFLICT = "CONFLICT"


@dataclass(frozen=True, kw_only=True)
class Idempotency:
    """The turn and session that an idempotency key stands for."""

    status: IdempotencyStatus
    turn: str
    session: str


@dataclass(frozen=True, kw_only=True)
class TurnLimits:
    """When a turn is ended by name; all in milliseconds, `bytes` in bytes of its events."""

    queue_ms: int
    turn_ms: int
    silence_ms: int
    tool_ms: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class NewTurn:
    """What is submitted; all of it is frozen with the turn. `request`, `started` and `targets` are JSON."""

    turn: str
    tenant: str
    runtime: str
    session: str
    upstream: str
    request: str
    started: str
    targets: str
    limits: TurnLimits
    serial: bool = False
    tools_token: str = ""
    """The token under which the producer `tools` publishes, when the turn has one."""
    external_token: str = ""
    """The token of the external producer that carries the turn; no ingest process is asked to then."""
    parent: str = ""
    """The turn whose child this one is: of the same session and tenant, and begun."""
    parent_call: str = ""
    """The call of the parent that the child's result answers."""
    shadow_ms: int = 0
    """Above 0: nothing of the turn is sent, and it is listed for so long to be compared with what another path sent."""


class SubmitStatus(StrEnum):
    """What became of a submitted turn."""

    OK = "OK"
    ALREADY = "ALREADY"
    TENANT_FULL = "TENANT_FULL"
    PARTITION_FULL = "PARTITION_FULL"
    PARENT_UNKNOWN = "PARENT_UNKNOWN"
    """No such turn, or another tenant's."""
    PARENT_NOT_STARTED = "PARENT_NOT_STARTED"
    """The parent has no event yet; repeat once it has."""


@dataclass(frozen=True, kw_only=True)
class RequestEntry:
    """An entry of `requests` that was handed to this consumer."""

    id: str
    turn: str


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """The turn is ours to ingest under this token."""

    token: str
    next_seq: int
    """The next sequence number of the producer `ingest`; above 0 when a predecessor published."""
    claims: int
    """How often the turn was claimed, this one included."""
    record: TurnRecord


class ClaimRefused(StrEnum):
    """Why a turn cannot be claimed; ENDED and UNKNOWN_TURN have taken its entry away."""

    BUSY = "BUSY"
    ENDED = "ENDED"
    UNKNOWN_TURN = "UNKNOWN_TURN"


class ClaimStatus(StrEnum):
    """What became of a claim at its renewal or release."""

    OK = "OK"
    STALE = "STALE"
    ENDED = "ENDED"
    UNKNOWN_TURN = "UNKNOWN_TURN"


@dataclass(frozen=True, kw_only=True)
class RenewReply:
    """A claim's renewal."""

    status: ClaimStatus
    cancel: bool


class CancelStatus(StrEnum):
    """What became of a cancel."""

    OK = "OK"
    ALREADY = "ALREADY"
    ENDED = "ENDED"
    UNKNOWN_TURN = "UNKNOWN_TURN"


class DueReason(StrEnum):
    """Why a turn is over."""

    NEVER_TAKEN = "never_taken"
    OVER_AGE = "over_age"
    OVER_BYTES = "over_bytes"
    SILENT = "silent"
    TOOL_MISSING = "tool_missing"
    CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Due:
    """A turn that the fold's owner has to end by name, by `append_if_tail` at this tail and this sequence number."""

    turn: str
    reason: DueReason
    tail: str
    next_seq: int
    """The next sequence number of the producer `fold`."""


def claim_idempotency(
    keys: Keyspace, *, tenant: str, key: str, turn: str, session: str, body_hash: str, ttl_ms: int
) -> Call[Idempotency]:
    """Bind an idempotency key to a turn, or say to which turn it is bound; comes before `submit`."""

    def decode(reply: Any) -> Idempotency:
        return Idempotency(
            status=IdempotencyStatus(as_text(reply[0])), turn=as_text(reply[1]), session=as_text(reply[2])
        )

    args = (turn, session, body_hash, ttl_ms, tenant)
    return Call("claim_idempotency", (keys.idem(tenant, key),), args, decode)


def submit(keys: Keyspace, new: NewTurn, *, tenant_limit: int, partition_limit: int) -> Call[SubmitStatus]:
    """Create a turn, its deadline and its request entry unless it exists; Full when memory is short."""
    partition = keys.partition_of_turn(new.turn)
    if new.parent and keys.partition_of_turn(new.parent) != partition:
        msg = f"{new.turn} cannot be a child of {new.parent}: they are of two partitions"
        raise ValueError(msg)

    def decode(reply: Any) -> SubmitStatus:
        if as_text(reply) == "FULL":
            raise Full(f"turn {new.turn} is not accepted: the server's memory is past the producers' share")
        return SubmitStatus(as_text(reply))

    return Call(
        "submit",
        (
            keys.turn(new.turn),
            keys.requests(partition),
            keys.deadlines(partition),
            keys.admitted(partition),
            keys.turns(partition),
            keys.committed(partition),
            keys.serial(partition, new.session),
            keys.turn(new.parent or new.turn),
            keys.shadow(partition),
        ),
        (
            new.turn,
            new.tenant,
            tenant_limit,
            partition_limit,
            min(new.limits.silence_ms if new.external_token else new.limits.queue_ms, new.limits.turn_ms),
            SERIAL_MS if new.serial else 0,
            new.parent,
            new.external_token,
            new.shadow_ms,
            *(item for pair in _fields(new).items() for item in pair),
        ),
        decode,
    )


def _fields(new: NewTurn) -> dict[str, str | int]:
    """The record of a turn that nobody has taken."""
    return {
        "v": RECORD_VERSION,
        "id": new.turn,
        "state": "queued",
        "tenant": new.tenant,
        "runtime": new.runtime,
        "session": new.session,
        "upstream": new.upstream,
        "request": new.request,
        "started": new.started,
        "targets": new.targets,
        "serial": int(new.serial),
        "tools_token": new.tools_token,
        "parent": new.parent,
        "parent_call": new.parent_call,
        "mode": SHADOW if new.shadow_ms else LIVE,
        "queue_ms": new.limits.queue_ms,
        "turn_ms": new.limits.turn_ms,
        "silence_ms": new.limits.silence_ms,
        "tool_ms": new.limits.tool_ms,
        "bytes_max": new.limits.bytes,
        "frames_next": 0,
        "blocks_next": 0,
        "planned": 0,
        "open_parts": 0,
    }


def read_turn(keys: Keyspace, turn: str) -> Call[TurnRecord | None]:
    """The turn's record, None when it never was, has expired, or the server was emptied."""
    return Call("HGETALL", (keys.turn(turn),), (), turn_record, script=False)


def recent_turns(keys: Keyspace, partition: int, *, count: int, start: int = 0) -> Call[list[str]]:
    """The latest submitted turns of a partition, the newest first; their records may have expired."""
    return Call("ZREVRANGE", (keys.turns(partition),), (start, start + count - 1), as_texts, script=False)


def inflight_turns(keys: Keyspace, partition: int) -> Call[list[str]]:
    """Turns with events that are not folded to their end, by their first log entry."""
    return Call("ZRANGE", (keys.inflight(partition),), (0, -1), as_texts, script=False)


def admitted(keys: Keyspace, partition: int) -> Call[Mapping[str, int]]:
    """Unfinished turns per tenant, and in all under `*`."""

    def decode(reply: Any) -> Mapping[str, int]:
        return {tenant: int(count) for tenant, count in as_pairs(reply).items()}

    return Call("HGETALL", (keys.admitted(partition),), (), decode, script=False)


def take_requests(
    keys: Keyspace, partition: int, *, consumer: str, count: int, min_idle_ms: int | None
) -> Call[list[RequestEntry]]:
    """Take abandoned entries (idle for `min_idle_ms`; None takes none), then new ones; each must still be claimed."""

    def decode(reply: Any) -> list[RequestEntry]:
        return [RequestEntry(id=entry, turn=fields["turn"]) for entry, fields in as_entries(reply)]

    idle = -1 if min_idle_ms is None else min_idle_ms
    return Call("take_requests", (keys.requests(partition),), (consumer, count, idle), decode)


def claim_turn(
    keys: Keyspace, turn: str, *, entry: str, worker: str, nonce: str, lease_ms: int
) -> Call[Claimed | ClaimRefused]:
    """Claim a turn for ingest when nobody holds it; after a lost reply repeat with the same nonce.

    `worker` is the name of the consumer that took the entry. A claim that has lapsed and that nobody took is still its holder's.
    """
    partition = keys.partition_of_turn(turn)

    def decode(reply: Any) -> Claimed | ClaimRefused:
        if as_text(reply[0]) != "CLAIMED":
            return ClaimRefused(as_text(reply[0]))
        record = turn_record(reply[2])
        if record is None:
            raise UnexpectedReply("claim_turn", reply)
        return Claimed(
            token=as_text(reply[1]),
            next_seq=record.next.get("ingest", 0),
            claims=record.ingest_epoch,
            record=record,
        )

    return Call(
        "claim_turn",
        (keys.turn(turn), keys.requests(partition), keys.deadlines(partition)),
        (turn, entry, worker, nonce, lease_ms),
        decode,
    )


def renew_turn(keys: Keyspace, turn: str, *, token: str, lease_ms: int, waits: bool = False) -> Call[RenewReply]:
    """Prolong the claim of a turn, and learn whether it was cancelled; `waits`: its upstream is not read on, for reasons of ours."""

    def decode(reply: Any) -> RenewReply:
        return RenewReply(status=ClaimStatus(as_text(reply[0])), cancel=as_int(reply[1]) == 1)

    keys_used = (keys.turn(turn), keys.requests(keys.partition_of_turn(turn)))
    return Call("renew_turn", keys_used, (token, lease_ms, int(waits)), decode)


def release_turn(keys: Keyspace, turn: str, *, token: str) -> Call[ClaimStatus]:
    """Give the claim of a turn up at once, so that another process takes it without waiting for the lease."""
    keys_used = (keys.turn(turn), keys.requests(keys.partition_of_turn(turn)))
    return Call("release_turn", keys_used, (token,), lambda reply: ClaimStatus(as_text(reply)))


def request_cancel(keys: Keyspace, turn: str, *, grace_ms: int) -> Call[CancelStatus]:
    """Flag a turn as cancelled; its ingest process ends it, or the fold's owner does after `grace_ms`."""
    return Call(
        "request_cancel",
        (keys.turn(turn), keys.deadlines(keys.partition_of_turn(turn))),
        (turn, grace_ms),
        lambda reply: CancelStatus(as_text(reply)),
    )


def due_deadlines(keys: Keyspace, partition: int, *, count: int = 100) -> Call[list[str]]:
    """Turns whose deadline has come; ask `check_deadline` about each."""
    return Call("due_deadlines", (keys.deadlines(partition),), (count,), as_texts)


def check_deadline(keys: Keyspace, turn: str, *, token: str, calm_ms: int = ALWAYS_MS) -> Call[Due | None]:
    """Say why a turn is over; None when it is not (its deadline is put off) or when the fold's token is stale.

    Time before the last `calm_ms` counts as nobody's silence: as far as the caller knows, the server may have been away.
    """
    partition = keys.partition_of_turn(turn)

    def decode(reply: Any) -> Due | None:
        if as_text(reply[0]) != "DUE":
            return None
        return Due(turn=turn, reason=DueReason(as_text(reply[1])), tail=as_text(reply[2]), next_seq=as_int(reply[3]))

    return Call(
        "check_deadline",
        (keys.owner("fold", partition), keys.turn(turn), keys.deadlines(partition), keys.committed(partition)),
        (token, turn, calm_ms),
        decode,
    )
