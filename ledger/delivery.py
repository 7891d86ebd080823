"""Deliveries: what is to be sent where, what was tried, and how it came out.

Authority: the owner of a partition in the role `delivery`, by its token, plans blocks, makes intents and lets clocks act. Receipts are
facts: they are taken from anybody whose attempt they are about. An operator's word needs no token.

States: `ledger.states`. Every script is given its row of that table, so none of them knows a transition of its own.

Time: Redis TIME alone. A quarantine counts from the attempt's start and covers the send deadline, a lease and a margin: until it is over
a request may still be on its way, and neither a channel's "not found" nor a person's "not sent" is believed.

Loss: each call may be repeated with the same arguments; a repeat answers ALREADY or names the state that was reached.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from ledger.commands import Call
from ledger.keys import Keyspace
from ledger.parts import PartRecord, Reply, Verdict, body_hash, part_from_hash
from ledger.replies import as_int, as_pairs, as_text, as_texts
from ledger.states import Operation, State, row

ROLE: Final = "delivery"
NO_WINDOW: Final = -1
"""For a step that does not depend on the channel's key."""

_LISTED: Final = {
    State.SENDING: "sending",
    State.RETRY: "due",
    State.UNKNOWN: "unknown",
    State.DEAD: "dead",
    State.ABANDONED: "dead",
}


_RECEIPTS: Final = {
    Verdict.SENT: Operation.RECEIPT_SENT,
    Verdict.RETRY: Operation.RECEIPT_RETRY,
    Verdict.UNKNOWN: Operation.RECEIPT_UNKNOWN,
    Verdict.DEAD: Operation.RECEIPT_DEAD,
}


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What `intent` answered; `at` is the attempt's time (or, for EARLY, the time from which it is allowed)."""

    reply: Reply
    at: int
    number: int


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a receipt or another step answered, and the part's state after it."""

    reply: Reply
    state: State | None
    may_retire: bool
    late: bool = False
    """It was settled by this, and its lane had gone on without it."""


@dataclass(frozen=True, kw_only=True)
class DueLanes:
    """Lanes to look at now (`now` by Redis TIME), and when the next one is (0: none)."""

    now: int
    lanes: list[str]
    later: int


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How many parts of a partition stand where; the oldest by their time in Redis."""

    now: int
    sending: int
    due: int
    unknown: int
    unknown_since: int
    dead: int
    dead_since: int
    lanes: int
    late: int


def _row(operation: Operation) -> str:
    return ",".join(f"{start}={end}" for start, end in row(operation).items())


# lanes


def due_lanes(keys: Keyspace, p: int, *, count: int) -> Call[DueLanes]:
    """The lanes whose head can be acted upon now."""
    return Call(
        "due_lanes",
        (keys.lanes(p),),
        (count,),
        lambda r: DueLanes(now=as_int(r[0]), lanes=as_texts(r[1]), later=as_int(r[2])),
    )


def lane_head(keys: Keyspace, p: int, lane: str) -> Call[str]:
    """The id of the part that is first in its lane; empty when there is none."""
    return Call("LINDEX", (keys.lane(p, lane),), (0,), as_text, script=False)


def read_lane(keys: Keyspace, p: int, lane: str) -> Call[list[str]]:
    """The ids of all parts of a lane, in order."""
    return Call("LRANGE", (keys.lane(p, lane),), (0, -1), as_texts, script=False)


def forget_part(keys: Keyspace, p: int, lane: str, part_id: str) -> Call[int]:
    """Take an id out of its lane whose record the server has lost; there is nothing left to send."""
    return Call("LREM", (keys.lane(p, lane),), (1, part_id), as_int, script=False)


def defer_lane(keys: Keyspace, p: int, *, token: str, lane: str, head: str, wait_ms: int) -> Call[Reply]:
    """Look at the lane again later, unless its head has changed since it was read."""
    return Call(
        "defer_lane",
        (keys.owner(ROLE, p), keys.lanes(p), keys.lane(p, lane)),
        (token, lane, head, max(wait_ms, 0)),
        lambda reply: Reply(as_text(reply)),
    )


# attempts


def intent(
    keys: Keyspace,
    p: int,
    *,
    token: str,
    part: PartRecord,
    attempt: str,
    quarantine_ms: int,
    key_window_ms: int,
    need_ms: int,
) -> Call[Intent]:
    """Write down that the part is about to be sent. A part in `sending` is an older owner's attempt, repeated by key.

    Only after OK or ALREADY may a socket be opened.
    """
    operation = Operation.REATTEMPT if part.state is State.SENDING else Operation.INTENT
    return Call(
        "intent",
        (
            keys.owner(ROLE, p),
            keys.part(part.id),
            keys.lane(p, part.lane),
            keys.sending(p),
            keys.due(p),
            keys.lanes(p),
        ),
        (
            token,
            part.id,
            attempt,
            body_hash(part.body),
            part.lane,
            operation,
            _row(operation),
            quarantine_ms,
            key_window_ms,
            need_ms,
        ),
        lambda r: Intent(reply=Reply(as_text(r[0])), at=as_int(r[1]), number=as_int(r[2])),
    )


def receipt(
    keys: Keyspace,
    p: int,
    *,
    part: PartRecord,
    attempt: str,
    verdict: Verdict,
    wait_ms: int,
    receipt: str,
    ttl_ms: int,
    proven: bool = False,
) -> Call[Step]:
    """Record the outcome of one attempt. `wait_ms` is when the lane is looked at next, for `retry` and `unknown`.

    `proven`: nothing of the attempt can have arrived. Taken whoever owns the partition by now.
    """
    return Call(
        "receipt",
        (
            keys.part(part.id),
            keys.lane(p, part.lane),
            keys.sending(p),
            keys.due(p),
            keys.unknown(p),
            keys.dead(p),
            keys.lanes(p),
            keys.turn(part.turn),
            keys.late(p),
        ),
        (part.id, attempt, verdict, _row(_RECEIPTS[verdict]), wait_ms, receipt, part.lane, ttl_ms, int(proven)),
        _step,
    )


def wait_written(*, timeout_ms: int) -> Call[bool]:
    """Whether everything that this connection wrote is on the server's disk (WAITAOF); for the connection of the intent."""
    return Call("WAITAOF", (), (1, 0, timeout_ms), lambda reply: as_int(reply[0]) >= 1, script=False)


def wait_copied(*, timeout_ms: int) -> Call[bool]:
    """Whether everything that this connection wrote has reached a replica (WAIT); for the connection of the intent."""
    return Call("WAIT", (), (1, timeout_ms), lambda reply: as_int(reply) >= 1, script=False)


# steps without an attempt


def advance(
    keys: Keyspace,
    p: int,
    *,
    part: PartRecord,
    operation: Operation,
    note: str,
    ttl_ms: int,
    token: str = "",
    quarantine_ms: int = 0,
    wait_ms: int = 0,
    since: str = "",
    age_ms: int = 0,
    key_window_ms: int = NO_WINDOW,
    need_ms: int = 0,
) -> Call[Step]:
    """Move a part by one of the operations that are no attempt: the owner's (with its token) or an operator's (without).

    `since` and `age_ms`: refused as EARLY until so long after that time of the record. `note` says why, and by whom.
    """
    return Call(
        "advance",
        (
            keys.owner(ROLE, p),
            keys.part(part.id),
            keys.lane(p, part.lane),
            keys.sending(p),
            keys.due(p),
            keys.unknown(p),
            keys.dead(p),
            keys.lanes(p),
            keys.turn(part.turn),
            keys.late(p),
            keys.entries(part.turn),
            keys.frames(part.turn),
            keys.parts(part.turn),
        ),
        (
            part.id,
            operation,
            _row(operation),
            part.lane,
            token,
            quarantine_ms,
            wait_ms,
            json.dumps({"operation": operation, "note": note}, ensure_ascii=False),
            ttl_ms,
            since,
            age_ms,
            key_window_ms,
            need_ms,
        ),
        _step,
    )


def resolve(keys: Keyspace, part: PartRecord, *, sent: bool, by: str, quarantine_ms: int, ttl_ms: int) -> Call[Step]:
    """A person says whether an unknown part arrived. "Not sent" is refused as EARLY inside the quarantine."""
    return _by_hand(
        keys,
        part,
        Operation.RESOLVE_SENT if sent else Operation.RESOLVE_NOT_SENT,
        by=by,
        quarantine_ms=quarantine_ms,
        ttl_ms=ttl_ms,
    )


def resend(keys: Keyspace, part: PartRecord, *, by: str, quarantine_ms: int, ttl_ms: int) -> Call[Step]:
    """A person has an unknown part sent again without knowing: may duplicate, is counted apart."""
    return _by_hand(keys, part, Operation.RESEND, by=by, quarantine_ms=quarantine_ms, ttl_ms=ttl_ms)


def requeue(keys: Keyspace, part: PartRecord, *, by: str, ttl_ms: int) -> Call[Step]:
    """A person has a dead part tried once more."""
    return _by_hand(keys, part, Operation.REQUEUE, by=by, quarantine_ms=0, ttl_ms=ttl_ms)


def drop(keys: Keyspace, part: PartRecord, *, by: str, quarantine_ms: int, ttl_ms: int) -> Call[Step]:
    """A person gives a part up: an unknown one is abandoned, one that waits is dead."""
    quarantine = quarantine_ms if part.state is State.UNKNOWN else 0
    return _by_hand(keys, part, Operation.DROP, by=by, quarantine_ms=quarantine, ttl_ms=ttl_ms)


def _by_hand(
    keys: Keyspace, part: PartRecord, operation: Operation, *, by: str, quarantine_ms: int = 0, ttl_ms: int
) -> Call[Step]:
    p = keys.partition_of_turn(part.turn)
    return advance(keys, p, part=part, operation=operation, note=f"by {by}", ttl_ms=ttl_ms, quarantine_ms=quarantine_ms)


# reading


def read_part(keys: Keyspace, part_id: str) -> Call[PartRecord | None]:
    """One part's record; None when it is gone."""
    return Call("HGETALL", (keys.part(part_id),), (), lambda r: part_from_hash(part_id, as_pairs(r)), script=False)


def parts_of(keys: Keyspace, turn: str) -> Call[list[str]]:
    """The ids of a turn's parts, in the order in which they were planned."""
    return Call("LRANGE", (keys.parts(turn),), (0, -1), as_texts, script=False)


def list_parts(
    keys: Keyspace, p: int, state: State, *, start: int = 0, count: int = 1000
) -> Call[list[tuple[str, int]]]:
    """Parts of a partition in `sending`, `retry`, `unknown` or given up (`dead` lists `abandoned` too), oldest first."""
    return Call(
        "ZRANGE",
        (getattr(keys, _LISTED[state])(p),),
        (start, start + count - 1, "WITHSCORES"),
        _scored,
        script=False,
    )


def list_late(keys: Keyspace, p: int) -> Call[list[str]]:
    """Parts that were settled after their lane had gone on without them, the oldest first."""
    return Call("ZRANGE", (keys.late(p),), (0, -1), as_texts, script=False)


def list_lanes(keys: Keyspace, p: int) -> Call[list[tuple[str, int]]]:
    """The lanes of a partition with the time at which each is looked at."""
    return Call("ZRANGE", (keys.lanes(p),), (0, -1, "WITHSCORES"), _scored, script=False)


def tally(keys: Keyspace, p: int, *, dead_ms: int) -> Call[Tally]:
    """Count a partition's parts, and forget the dead whose records have expired."""
    return Call(
        "tally_deliveries",
        (keys.sending(p), keys.due(p), keys.unknown(p), keys.dead(p), keys.lanes(p), keys.late(p)),
        (dead_ms,),
        lambda r: Tally(
            now=as_int(r[0]),
            sending=as_int(r[1]),
            due=as_int(r[2]),
            unknown=as_int(r[3]),
            unknown_since=as_int(r[4]),
            dead=as_int(r[5]),
            dead_since=as_int(r[6]),
            lanes=as_int(r[7]),
            late=as_int(r[8]),
        ),
    )


# rate budgets


def budget_take(keys: Keyspace, account: str, *, rate_per_s: float, burst: int) -> Call[int]:
    """Take one send of the account's budget: 0, or the milliseconds to wait before asking again."""
    return Call("budget_take", (keys.budget(account),), (int(rate_per_s * 1000), max(burst, 1)), as_int)


def budget_hold(keys: Keyspace, account: str, *, wait_ms: int) -> Call[int]:
    """Let nobody send for the account for a while, because its channel asked for that."""
    return Call("budget_hold", (keys.budget(account),), (wait_ms,), as_int)


# replies


def _step(reply: Any) -> Step:
    state = as_text(reply[1])
    return Step(
        reply=Reply(as_text(reply[0])),
        state=State(state) if state else None,
        may_retire=as_int(reply[2]) == 1,
        late=as_int(reply[3]) == 1,
    )


def _scored(reply: Any) -> list[tuple[str, int]]:
    if reply and isinstance(reply[0], (list, tuple)):
        return [(as_text(name), int(float(score))) for name, score in reply]
    flat = as_texts(reply)
    return [(name, int(float(score))) for name, score in zip(flat[::2], flat[1::2], strict=True)]
