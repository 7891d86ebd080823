"""Bringing a turn back into memory after a change of owner: its log entries up to the committed position, effects off.

The result must be what was committed: the same number of frames and blocks, the same digest, the same version of the fold.
A turn for which it is not is failed by name; its output is never spliced together from two different folds.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from ledger.commands import SLICE, Call
from ledger.keys import Keyspace
from ledger.log import entries_of, read_block, read_entries, read_frames
from ledger.records import LogEntry, TurnRecord, position_key
from ledger.turns import read_turn
from pipeline.events import FOLD_VERSION
from pipeline.turn import Turn
from workers.fold.live import Effects, Live
from workers.fold.remainder import Told
from workers.observability import logs

T = TypeVar("T")


class Runner(Protocol):
    """How a ledger call is run; it waits while the server is away."""

    async def __call__(self, call: Call[T], /) -> T:
        """Run the call until it is answered."""
        ...


@dataclass(frozen=True)
class Rebuilt:
    """A turn as far as it is committed; ``code`` says why it cannot go on."""

    live: Live
    code: str = ""


async def rebuild(
    keys: Keyspace, record: TurnRecord, upto: str, run: Runner, *, ahead: list[LogEntry] | None = None
) -> Rebuilt:
    """Fold the turn's entries up to the position and compare; `ahead`: all of them, where they are read already."""
    live = Live.fresh(record)
    ids = await _ids(keys, record, upto, run) if ahead is None else []
    try:
        _feed(live, ahead or [])
        for first in range(0, len(ids), SLICE):
            wanted = ids[first : first + SLICE]
            entries = await run(read_entries(keys, keys.partition_of_turn(record.id), wanted))
            if len(entries) != len(wanted):
                return Rebuilt(Live.committed(record), "log_trimmed")
            _feed(live, entries)
    except Exception:  # noqa: BLE001 - whatever one turn's events do to the fold costs that turn alone
        logs.bind(turn=record.id).exception("rebuild_raised")
        return Rebuilt(Live.committed(record), "fold_diverged")
    if _differs(live, record):
        logs.bind(turn=record.id).error(
            "fold_diverged",
            frames=live.frames_next,
            blocks=live.blocks_next,
            committed_frames=record.frames_next,
            committed_blocks=record.blocks_next,
            committed_version=record.fold_version,
            version=FOLD_VERSION,
        )
        return Rebuilt(Live.committed(record), "fold_diverged")
    return Rebuilt(live)


async def machine_before(keys: Keyspace, live: Live, entry: str, run: Runner) -> Turn | None:
    """Fold a turn again up to an entry that could not be folded, since its machine may have taken half of it; None if that differs."""
    record = await run(read_turn(keys, live.turn))
    if record is None:
        return None
    ids = [name for name in await run(entries_of(keys, live.turn)) if position_key(name) < position_key(entry)]
    again = Live.fresh(record)
    try:
        for first in range(0, len(ids), SLICE):
            _feed(again, await run(read_entries(keys, keys.partition_of_turn(live.turn), ids[first : first + SLICE])))
    except Exception:  # noqa: BLE001 - as above
        logs.bind(turn=live.turn).exception("rebuild_raised")
        return None
    is_same = (again.frames_next, again.blocks_next, again.digest) == (live.frames_next, live.blocks_next, live.digest)
    return again.machine if is_same else None


async def what_was_told(keys: Keyspace, turn: str, effects: Effects, run: Runner) -> Told:
    """What is committed of a turn, and on top of it these effects; the commit before them must have been answered."""
    told, after = Told(), -1
    while entries := await run(read_frames(keys, turn, after=after, count=SLICE)):
        for entry in entries:
            told.frames(entry.sse)
        after = entries[-1].last
    for ordinal in range(effects.blocks_next):
        told.block(await run(read_block(keys, turn, ordinal)))
    told.frames("".join(effects.sse))
    for block in effects.records:
        told.block(block)
    return told


async def _ids(keys: Keyspace, record: TurnRecord, upto: str, run: Runner) -> list[str]:
    return [entry for entry in await run(entries_of(keys, record.id)) if position_key(entry) <= position_key(upto)]


def _feed(live: Live, entries: list[LogEntry]) -> None:
    for entry in entries:
        live.feed(entry, effects=None)


def _differs(live: Live, record: TurnRecord) -> bool:
    if record.digest == "" and live.frames_next == 0 and live.blocks_next == 0:
        return False  # nothing of it was ever committed
    notes = live.child.notes_next if live.child is not None else 0
    mine = (live.frames_next, live.blocks_next, notes, live.digest, FOLD_VERSION)
    return mine != (record.frames_next, record.blocks_next, record.notes_next, record.digest, record.fold_version)
