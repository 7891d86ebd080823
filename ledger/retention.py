"""What leaves the ledger and when, and which turn is to blame for dead owners.

Authority: the fold's owner. The low-water mark of a partition is the lower of its committed position and the first entry of the oldest
turn in flight; what lies before it is kept until it is `log_ms` old, so that a finished turn can be folded again.
Time: a turn's keys get their time to live when it has ended and owes no delivery any more; nothing is scanned for.
Loss: every call may be repeated.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.commands import Call
from ledger.keys import Keyspace
from ledger.replies import as_int, as_text


class TrimStatus(StrEnum):
    """What became of a trim."""

    OK = "OK"
    STALE = "STALE"


@dataclass(frozen=True, kw_only=True)
class TrimReply:
    """How much a trim removed, and the mark that no entry at or after was touched."""

    status: TrimStatus
    log_removed: int
    blocks_removed: int
    low_water: str


class RetireStatus(StrEnum):
    """Whether a turn's keys have their time to live."""

    OK = "OK"
    ALREADY = "ALREADY"
    OPEN = "OPEN"
    """The turn has not ended, or a delivery of it is not settled."""
    UNKNOWN_TURN = "UNKNOWN_TURN"


class SuspectStatus(StrEnum):
    """What became of a mark of suspicion."""

    OK = "OK"
    STALE = "STALE"


def trim(keys: Keyspace, partition: int, *, token: str, log_ms: int, index_ms: int) -> Call[TrimReply]:
    """Trim the log before the low-water mark by age, the block stream behind delivery's position, the index of turns by age."""

    def decode(reply: Any) -> TrimReply:
        return TrimReply(
            status=TrimStatus(as_text(reply[0])),
            log_removed=as_int(reply[1]),
            blocks_removed=as_int(reply[2]),
            low_water=as_text(reply[3]),
        )

    return Call(
        "trim",
        (
            keys.owner("fold", partition),
            keys.committed(partition),
            keys.log(partition),
            keys.inflight(partition),
            keys.blocks(partition),
            keys.turns(partition),
        ),
        (token, log_ms, index_ms),
        decode,
    )


def retire_turn(keys: Keyspace, turn: str, *, retention_ms: int) -> Call[RetireStatus]:
    """Give a turn's keys their time to live when it has ended and its last delivery is settled."""
    return Call(
        "retire_turn",
        (keys.turn(turn), keys.entries(turn), keys.frames(turn), keys.parts(turn)),
        (retention_ms,),
        lambda reply: RetireStatus(as_text(reply)),
    )


def suspect(keys: Keyspace, partition: int, *, token: str, turn: str, entry: str = "") -> Call[SuspectStatus]:
    """Write down which turn is about to be folded (at `entry`) or rebuilt (""); the next commit, or turn "", takes it off."""
    return Call(
        "suspect",
        (keys.owner("fold", partition), keys.committed(partition)),
        (token, turn, entry),
        lambda reply: SuspectStatus(as_text(reply)),
    )
