"""Planning: new blocks become parts in their lanes, in the order in which the fold committed them.

The group of the blocks stream is read inside a fenced script, which never blocks; the position in `committed` is the truth. A lost
reply loses nothing: what was taken is pending for its consumer and comes again before anything new. After a take-over the new owner
adopts what its predecessors took and never planned.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ledger.commands import Call
from ledger.keys import Keyspace
from ledger.parts import NewPart, Reply
from ledger.replies import as_int, as_pairs, as_text
from ledger.states import INITIAL

ROLE: Final = "delivery"
GROUP: Final = "delivery"


@dataclass(frozen=True, kw_only=True)
class BlockEntry:
    """One entry of the blocks stream: which block is new."""

    id: str
    turn: str
    block: int


@dataclass(frozen=True, kw_only=True)
class TakenBlocks:
    """What a take gave; `position` is the last entry planned."""

    reply: Reply
    position: str
    entries: list[BlockEntry]


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What `plan` answered; `may_retire`: the turn has ended and owes no delivery any more."""

    reply: Reply
    position: str
    may_retire: bool


def take_blocks(keys: Keyspace, p: int, *, token: str, consumer: str, count: int) -> Call[TakenBlocks]:
    """Take the next new blocks; what was taken and not planned comes again, before anything new."""
    return Call(
        "take_blocks",
        (keys.owner(ROLE, p), keys.committed(p), keys.blocks(p)),
        (token, GROUP, consumer, count),
        _taken,
    )


def adopt_blocks(keys: Keyspace, p: int, *, token: str, consumer: str, count: int) -> Call[tuple[Reply, int]]:
    """After a take-over: claim what others took and never planned. Repeat until it answers 0."""
    return Call(
        "adopt_blocks",
        (keys.owner(ROLE, p), keys.committed(p), keys.blocks(p)),
        (token, GROUP, consumer, count),
        lambda reply: (Reply(as_text(reply[0])), as_int(reply[1])),
    )


def read_block(keys: Keyspace, turn: str, block: int) -> Call[dict[str, str]]:
    """A block's stored fields; empty when it is gone."""
    return Call("HGETALL", (keys.block(turn, block),), (), as_pairs, script=False)


def plan(
    keys: Keyspace,
    p: int,
    *,
    token: str,
    prev: str,
    entry: BlockEntry,
    parts: Sequence[NewPart],
    ttl_ms: int,
    index_ttl_ms: int,
) -> Call[Planned]:
    """Make the parts of one block, in order, put them into their lanes, and move past the block's entry."""
    names = [
        keys.owner(ROLE, p),
        keys.committed(p),
        keys.blocks(p),
        keys.turn(entry.turn),
        keys.block(entry.turn, entry.block),
        keys.lanes(p),
        keys.parts(entry.turn),
        keys.dead(p),
    ]
    args: list[str | int] = [token, prev, entry.id, GROUP, ttl_ms, len(parts), index_ttl_ms]
    for part in parts:
        if part.state not in INITIAL:
            msg = f"a part begins as one of {sorted(INITIAL)}, not {part.state}"
            raise ValueError(msg)
        names += [keys.part(part.id), keys.lane(p, part.lane)]
        args += [part.id, part.lane, part.state, part.turn, part.block, part.target_hash, part.part, part.session]
        args += [part.channel, part.target, part.recipient, part.body, part.body_hash, part.content_type]
        args += [part.guarantee, part.account]
    return Call(
        "plan",
        tuple(names),
        tuple(args),
        lambda r: Planned(reply=Reply(as_text(r[0])), position=as_text(r[1]), may_retire=as_int(r[2]) == 1),
    )


# serial sessions


def serial_head(keys: Keyspace, p: int, session: str) -> Call[str]:
    """The earliest submitted turn of a serial session that is not known to be planned to its end; empty when there is none."""
    return Call("LINDEX", (keys.serial(p, session),), (0,), as_text, script=False)


def leave_serial(keys: Keyspace, p: int, session: str, turn: str) -> Call[int]:
    """A turn of a serial session has ended and all its blocks are planned: those after it may go on."""
    return Call("LREM", (keys.serial(p, session),), (1, turn), as_int, script=False)


def merge_lane(keys: Keyspace, p: int, *, token: str, held: str, lane: str, parts: Sequence[str]) -> Call[Reply]:
    """Move everything in a holding lane to the end of its lane; MISMATCH when it holds something else by now."""
    return Call(
        "merge_lane",
        (
            keys.owner(ROLE, p),
            keys.lanes(p),
            keys.lane(p, held),
            keys.lane(p, lane),
            *(keys.part(id_) for id_ in parts),
        ),
        (token, held, lane, *parts),
        lambda reply: Reply(as_text(reply)),
    )


def _taken(reply: Any) -> TakenBlocks:
    entries = []
    for entry_id, fields in reply[2]:
        named = as_pairs(fields)
        entries.append(BlockEntry(id=as_text(entry_id), turn=named["turn"], block=int(named["block"])))
    return TakenBlocks(reply=Reply(as_text(reply[0])), position=as_text(reply[1]), entries=entries)
