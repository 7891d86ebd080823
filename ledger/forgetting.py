"""What leaves the ledger by an operator's word: settled parts (purge), and everything of a session or a tenant (forget).

Authority: nobody's token; each script refuses what is still owed or under way. A turn must be over and planned, an attempt past its
quarantine; whoever calls cancels and waits. Log entries go only where the fold has passed them, so that its lag stays true.
Loss: every call may be repeated. A turn's record goes last, so that an interrupted forgetting is found again and finished.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ledger.commands import SLICE, Call
from ledger.keys import Keyspace
from ledger.parts import PartRecord, Reply
from ledger.replies import as_int, as_text, as_texts
from ledger.states import SETTLED, State


class ForgetStatus(StrEnum):
    """What became of a step of forgetting."""

    OK = "OK"
    MORE = "MORE"
    """Call it again."""
    RUNNING = "RUNNING"
    """The turn is not over, or the fold has not passed its last entry."""
    PLANNING = "PLANNING"
    """Blocks of it wait for the delivery role to plan them."""
    SENDING = "SENDING"
    """An attempt may be on its way."""
    PARTS = "PARTS"
    """Its parts are forgotten first."""
    MISMATCH = "MISMATCH"
    """A part has changed its lane; read it again."""


@dataclass(frozen=True, kw_only=True)
class Purged:
    """What became of a purge; the state that the part had."""

    reply: Reply
    state: State | None


@dataclass(frozen=True, kw_only=True)
class Whose:
    """Whose a turn or an idempotency record is."""

    tenant: str
    session: str
    turn: str
    state: str


REPORTS_GROUP: Final = "gateway"
_SETTLED: Final = "," + ",".join(sorted(SETTLED)) + ","


def purge_part(keys: Keyspace, part: PartRecord, *, age_ms: int = 0) -> Call[Purged]:
    """Remove the record of a part that is settled, since so long at least; one that is in a lane is refused as STATE."""
    p = keys.partition_of_turn(part.turn)

    def decode(reply: Any) -> Purged:
        state = as_text(reply[1])
        return Purged(reply=Reply(as_text(reply[0])), state=State(state) if state else None)

    return Call(
        "purge_part",
        (keys.part(part.id), keys.parts(part.turn), keys.dead(p), keys.late(p)),
        (part.id, _SETTLED, age_ms),
        decode,
    )


def forget_parts(
    keys: Keyspace, turn: str, parts: Mapping[str, str], *, quarantine_ms: int
) -> Call[tuple[ForgetStatus, str]]:
    """Remove parts of a turn (by id, with the lane of each); at most `commands.SLICE` at once. With the status the part in the way."""
    p = keys.partition_of_turn(turn)
    names = [
        keys.turn(turn),
        keys.parts(turn),
        keys.sending(p),
        keys.due(p),
        keys.unknown(p),
        keys.dead(p),
        keys.late(p),
        keys.lanes(p),
    ]
    args: list[str | int] = [quarantine_ms]
    for part, lane in parts.items():
        names += [keys.part(part), keys.lane(p, lane)]
        args += [part, lane]
    return Call(
        "forget_parts",
        tuple(names),
        tuple(args),
        lambda reply: (ForgetStatus(as_text(reply[0])), as_text(reply[1])),
    )


def forget_turn(
    keys: Keyspace, turn: str, *, session: str, blocks: Sequence[int], is_last: bool, count: int = SLICE
) -> Call[ForgetStatus]:
    """Remove blocks of a turn and up to `count` of its log entries; with the last blocks, and no entry left, all that there is."""
    p = keys.partition_of_turn(turn)
    return Call(
        "forget_turn",
        (
            keys.turn(turn),
            keys.entries(turn),
            keys.frames(turn),
            keys.parts(turn),
            keys.legacy(turn),
            keys.log(p),
            keys.committed(p),
            keys.inflight(p),
            keys.deadlines(p),
            keys.turns(p),
            keys.shadow(p),
            keys.serial(p, session),
            keys.blocks(p),
            *(keys.block(turn, block) for block in blocks),
        ),
        (turn, count, int(is_last)),
        lambda reply: ForgetStatus(as_text(reply)),
    )


def turns_of_reports(stream: str, *, after: str, count: int = SLICE) -> Call[list[tuple[str, str]]]:
    """The entries of a stream of reports (of another path, or of those set aside) after one, each with the turn that it is about."""
    return Call(
        "turns_of_reports",
        (stream,),
        (after, count),
        lambda reply: [(as_text(entry), as_text(turn)) for entry, turn in reply or ()],
    )


def forget_reports(stream: str, entries: Sequence[str]) -> Call[int]:
    """Remove reports; how many there were."""
    return Call("forget_reports", (stream,), (REPORTS_GROUP, *entries), as_int)


def read_whose(key: str) -> Call[Whose]:
    """Whose the turn, the part or the idempotency record under a key is."""

    def decode(reply: Any) -> Whose:
        tenant, session, turn, state = as_texts(reply)
        return Whose(tenant=tenant, session=session, turn=turn, state=state)

    return Call("HMGET", (key,), ("tenant", "session", "turn", "state"), decode, script=False)


def forget_idempotency(key: str) -> Call[bool]:
    """Remove the record of an idempotency key; False when it was gone."""
    return Call("UNLINK", (key,), (), lambda reply: as_int(reply) == 1, script=False)
