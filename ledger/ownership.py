"""Leases: who works, who owns a partition, and who must stop.

Authority: `owner:<role>` of a partition. Its token, `<epoch>:<nonce>`, is what every script of an owner is checked against, whole; a
number alone could be reached twice. The key never expires, since with it the epochs would start again.
States: free (released, or the lease has run out) and held. `raise_owner` leads from free to held under a new token, `renew_owner`
prolongs, `release_owner` frees at once.
Time: the server's. A lapsed lease that nobody has taken is renewed by its holder under the same token.
Loss: a repeated `raise_owner` with the same nonce answers as the first one did; a repeated release is ALREADY.
Failure: `idle_raises` counts the take-overs with turns in flight after which nothing was committed before the lease ran out again. Where it
grows, some turn kills its owners; the new owner then writes down what it is about to fold (`retention.suspect`), and its successor finds it here.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.commands import Call
from ledger.errors import UnexpectedReply
from ledger.keys import Keyspace
from ledger.records import OwnerRecord
from ledger.replies import as_int, as_pairs, as_text, as_texts


@dataclass(frozen=True, kw_only=True)
class Raised:
    """The partition is ours under this token."""

    token: str
    log_position: str
    blocks_position: str
    inflight: tuple[str, ...]
    """Turns with events that are not folded to their end, by their first log entry."""
    idle_raises: int
    """Take-overs in a row, this one included, before which an owner's lease ran out with turns in flight and nothing committed."""
    suspect: str
    """The turn that the last owner was folding with care when it was lost; "" when there was none."""
    suspect_entry: str
    """The log entry it was about to fold; "" while it was rebuilding."""
    suspect_lost: int
    """How many owners in a row were lost under that mark."""


@dataclass(frozen=True, kw_only=True)
class NotFree:
    """Somebody holds the partition."""

    worker: str
    remaining_ms: int


class RenewStatus(StrEnum):
    """What became of a lease."""

    OK = "OK"
    STALE = "STALE"


class ReleaseStatus(StrEnum):
    """What became of a release."""

    OK = "OK"
    ALREADY = "ALREADY"
    STALE = "STALE"


def heartbeat(keys: Keyspace, *, role: str, worker: str, ttl_ms: int) -> Call[list[str]]:
    """Say that a worker lives for `ttl_ms` more; returns the role's live workers, sorted."""
    return Call("heartbeat", (keys.workers(role),), (worker, ttl_ms), lambda reply: sorted(as_texts(reply)))


def live_workers(keys: Keyspace, *, role: str) -> Call[list[str]]:
    """The role's live workers, sorted."""
    return Call("live_workers", (keys.workers(role),), (), lambda reply: sorted(as_texts(reply)))


def leave(keys: Keyspace, *, role: str, worker: str) -> Call[None]:
    """Take a worker that stops out of its role's list at once."""
    return Call("ZREM", (keys.workers(role),), (worker,), lambda _: None, script=False)


def raise_owner(
    keys: Keyspace, *, role: str, partition: int, worker: str, nonce: str, lease_ms: int
) -> Call[Raised | NotFree]:
    """Take a free partition under a new token; after a lost reply repeat with the same nonce.

    An owner that finds `idle_raises` at 3 or more commits one entry at a time, each marked as suspect first.
    """
    return Call(
        "raise",
        (keys.owner(role, partition), keys.committed(partition), keys.inflight(partition)),
        (worker, nonce, lease_ms, "blocks" if role == "delivery" else "log"),
        _decode_raise,
    )


def _decode_raise(reply: Any) -> Raised | NotFree:
    match as_text(reply[0]):
        case "RAISED":
            return Raised(
                token=as_text(reply[1]),
                log_position=as_text(reply[2]),
                blocks_position=as_text(reply[3]),
                idle_raises=as_int(reply[4]),
                suspect=as_text(reply[5]),
                suspect_entry=as_text(reply[6]),
                suspect_lost=as_int(reply[7]),
                inflight=tuple(as_texts(reply[8])),
            )
        case "NOT_FREE":
            return NotFree(worker=as_text(reply[1]), remaining_ms=as_int(reply[2]))
        case _:
            raise UnexpectedReply("raise", reply)


def renew_owner(keys: Keyspace, *, role: str, partition: int, token: str, lease_ms: int) -> Call[RenewStatus]:
    """Prolong a lease; also measures whether the server's memory is past the share that producers may use."""
    return Call(
        "renew",
        (keys.owner(role, partition), keys.committed(partition)),
        (token, lease_ms),
        lambda reply: RenewStatus(as_text(reply)),
    )


def release_owner(keys: Keyspace, *, role: str, partition: int, token: str) -> Call[ReleaseStatus]:
    """Give a partition up at once; its token is dead from here on."""
    return Call("release", (keys.owner(role, partition),), (token,), lambda reply: ReleaseStatus(as_text(reply)))


class Notice(StrEnum):
    """What a role's workers tell each other about a partition."""

    FREED = "freed"
    """It was given up."""
    SERVED = "served"
    """Its new owner has what it needs, and serves it."""


def notify(keys: Keyspace, *, role: str, notice: Notice, partition: int, sharded: bool = False) -> Call[int]:
    """Tell the role's workers, best effort: whoever misses it finds out a heartbeat later."""
    payload = json.dumps({notice.value: partition})
    return Call("SPUBLISH" if sharded else "PUBLISH", (keys.freed(role),), (payload,), as_int, script=False)


def read_notice(payload: str | bytes) -> tuple[Notice, int] | None:
    """Read what was told; None for what no worker of this version says, of which no more is known than that something changed."""
    try:
        ((word, partition),) = json.loads(payload).items()
        return Notice(word), int(partition)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def read_owner(keys: Keyspace, *, role: str, partition: int) -> Call[OwnerRecord]:
    """Who owns a partition."""
    return Call(
        "HGETALL",
        (keys.owner(role, partition),),
        (),
        lambda reply: OwnerRecord.from_hash(as_pairs(reply)),
        script=False,
    )
