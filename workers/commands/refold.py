"""`foldline refold TURN`: folds a turn's log again and holds the result against what was committed. It writes nothing.

The fold is a pure function of the log, so frames, blocks and digest must be the same to the byte. A turn that still runs is folded up to the
committed position. Once the log is trimmed there is nothing to fold: `log_trimmed`.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import typer

from ledger import log
from ledger.commands import SLICE
from ledger.records import BlockRecord, FrameEntry, LogEntry, TurnRecord, position_key
from pipeline.events import FOLD_VERSION
from workers.commands.output import Json, show_record
from workers.commands.session import EXIT_FAILED, Ledger, fail, open_ledger, read_config, run_async
from workers.commands.turns import find_turn
from workers.fold import failing
from workers.fold.live import Live
from workers.fold.remainder import Told

TRIMMED = "log_trimmed"
SAME = "same"
DIFFERENT = "different"


@dataclass(kw_only=True)
class Refolded:
    """The comparison of one turn; `differences` names what is not the same."""

    turn: str
    result: str
    state: str
    entries: int
    frames: int = 0
    blocks: int = 0
    digest: str = ""
    fold_version: int = FOLD_VERSION
    committed_fold_version: int = 0
    differences: list[str] = field(default_factory=list)


def refold(
    turn: Annotated[str, typer.Argument(metavar="TURN", help="The turn's id.")],
    as_json: Json = False,
) -> None:
    """Fold a turn again from its log and say whether frames, blocks or digest differ."""
    found = run_async(_refold(turn))
    show_record(msgspec.to_builtins(found), as_json=as_json)
    raise SystemExit(0 if found.result == SAME else EXIT_FAILED)


async def _refold(turn: str) -> Refolded:
    async with open_ledger(read_config()) as ledger:
        record = await find_turn(ledger, turn)
        if record is None:
            fail(f"no turn {turn}: it never was, or its retention is over")
        run, keys = ledger.scripts.run, ledger.keys
        positions = await run(log.read_positions(keys, keys.partition_of_turn(turn)))
        upto = position_key(positions.log)
        ids = [name for name in await run(log.entries_of(keys, turn)) if position_key(name) <= upto]
        found = Refolded(
            turn=turn,
            result=TRIMMED,
            state=record.state.value,
            entries=len(ids),
            committed_fold_version=record.fold_version,
        )
        entries = await _entries(ledger, turn, ids)
        if len(entries) < len(ids) or (not ids and record.frames_next):
            return found
        stored = "".join([entry.sse for entry in await _frames(ledger, turn)])
        blocks = [await run(log.read_block(keys, turn, number)) for number in range(record.blocks_next)]
    return compare(found, record, fold(record, entries), stored, blocks)


@dataclass(kw_only=True)
class Folded:
    """What came of the log this time."""

    live: Live
    sse: str
    blocks: list[BlockRecord]


def fold(record: TurnRecord, entries: list[LogEntry]) -> Folded:
    """Fold the entries; a turn that was ended by its owner is ended by that name at the same position, from which nothing is fed.

    Whether its owner had a machine to end it by is not written down: the digest, which covers all of the output, tells.
    """
    error: dict[str, Any] = msgspec.json.decode(record.error) if record.error else {}
    code = str(error.get("code"))
    if code not in failing.MESSAGES:  # a bound of the core ends a turn in the fold itself
        return _fold(record, entries, "", by_machine=False)
    by_machine = _fold(record, entries, code, by_machine=True)
    if by_machine.live.digest == record.digest:
        return by_machine
    as_told = _fold(record, entries, code, by_machine=False)
    return as_told if as_told.live.digest == record.digest or code not in failing.BY_MACHINE else by_machine


def _fold(record: TurnRecord, entries: list[LogEntry], code: str, *, by_machine: bool) -> Folded:
    live = Live.fresh(record)
    effects = live.begin()
    for entry in entries:
        if code and record.quarantined and position_key(entry.id) >= position_key(record.quarantined):
            break
        live.feed(entry, effects=effects)
    at, is_over = record.quarantined, live.machine is None or not code
    if by_machine and not is_over:
        is_over = live.end_by_machine(code, entry=at, effects=effects)
    if not is_over:
        told = Told()
        told.frames("".join(effects.sse))
        for block in effects.records:
            told.block(block)
        live.end_as_told(code, entry=at, effects=effects, told=told)
    return Folded(live=live, sse="".join(effects.sse), blocks=effects.records)


def compare(
    found: Refolded, record: TurnRecord, folded: Folded, stored: str, blocks: list[BlockRecord | None]
) -> Refolded:
    """Say what is not the same."""
    live = folded.live
    found.frames, found.blocks, found.digest = live.frames_next, live.blocks_next, live.digest
    checks = {
        "number of frames": live.frames_next == record.frames_next,
        "frames": folded.sse == stored,
        "number of blocks": live.blocks_next == record.blocks_next,
        # A block's record expires by itself; the digest speaks for it then.
        "blocks": all(theirs in (None, mine) for mine, theirs in zip(folded.blocks, blocks, strict=False)),
        "digest": live.digest == record.digest,
        "state": live.state is record.state or not record.state.is_terminal,
        "fold version": record.fold_version in (FOLD_VERSION, 0),
    }
    found.differences = [name for name, holds in checks.items() if not holds]
    found.result = DIFFERENT if found.differences else SAME
    return found


async def _entries(ledger: Ledger, turn: str, ids: list[str]) -> list[LogEntry]:
    partition = ledger.keys.partition_of_turn(turn)
    entries: list[LogEntry] = []
    for first in range(0, len(ids), SLICE):
        read = await ledger.scripts.run(log.read_entries(ledger.keys, partition, ids[first : first + SLICE]))
        entries.extend(read)
    return entries


async def _frames(ledger: Ledger, turn: str) -> list[FrameEntry]:
    frames: list[FrameEntry] = []
    after = -1
    while True:
        read = await ledger.scripts.run(log.read_frames(ledger.keys, turn, after=after, count=SLICE))
        if not read:
            return frames
        frames += read
        after = read[-1].last
