"""`foldline turns` and `foldline turn ID`: what runs and what ran, as the ledger has it."""

import asyncio
from typing import Annotated, Any

import msgspec
import typer

from ledger import delivery, turns
from ledger.records import TurnRecord, TurnState
from workers.commands.output import Json, When, show_record, show_rows, times
from workers.commands.session import Ledger, fail, open_ledger, read_config, run_async

PAGE = 100
COLUMNS = ("turn", "state", "upstream", "session", "frames", "blocks", "submitted", "ended")


def list_turns(
    state: Annotated[TurnState | None, typer.Option(help="Only turns in this state.")] = None,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many, the newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """List turns, the newest first."""
    when = times(as_json=as_json)
    rows = [_row(record, when) for record in run_async(_recent(count, state))]
    show_rows(rows, COLUMNS, as_json=as_json, empty="no turns")


def show_turn(
    turn: Annotated[str, typer.Argument(metavar="TURN", help="The turn's id.")],
    as_json: Json = False,
) -> None:
    """Show one turn: its state, its numbers, its deliveries."""
    record = run_async(_one(turn, times(as_json=as_json)))
    if record is None:
        fail(f"no turn {turn}: it never was, or its retention is over")
    show_record(record, as_json=as_json)


async def _recent(count: int, state: TurnState | None) -> list[TurnRecord]:
    async with open_ledger(read_config()) as ledger:
        found = await asyncio.gather(*(_of_partition(ledger, p, count, state) for p in range(ledger.keys.partitions)))
    chosen = [record for records in found for record in records]
    return sorted(chosen, key=lambda record: record.submitted_at, reverse=True)[:count]


async def _of_partition(ledger: Ledger, partition: int, count: int, state: TurnState | None) -> list[TurnRecord]:
    """The latest turns of a partition in this state, as far back as its index goes."""
    chosen: list[TurnRecord] = []
    start = 0
    while len(chosen) < count:
        names = await ledger.scripts.run(turns.recent_turns(ledger.keys, partition, start=start, count=PAGE))
        records = await asyncio.gather(*(ledger.scripts.run(turns.read_turn(ledger.keys, turn)) for turn in names))
        chosen += [record for record in records if record is not None and state in {None, record.state}]
        if len(names) < PAGE:
            break
        start += PAGE
    return chosen[:count]


async def _one(turn: str, when: When) -> dict[str, Any] | None:
    async with open_ledger(read_config()) as ledger:
        record = await find_turn(ledger, turn)
        if record is None:
            return None
        parts = await ledger.scripts.run(delivery.parts_of(ledger.keys, turn))
    return {
        **_row(record, when),
        "tenant": record.tenant,
        "runtime": record.runtime,
        "mode": record.mode,
        "parent": record.parent,
        "notes": record.notes_next,
        "notes_unheard": record.notes_unheard,
        "last_event": when(record.last_event_at),
        "started": when(record.started_at),
        "terminal": record.ended,
        "cancel": record.cancel,
        "usage": _json(record.usage),
        "error": _json(record.error),
        "upstream_id": record.upstream_id,
        "next": dict(record.next),
        "log_tail": record.tail,
        "digest": record.digest,
        "fold_version": record.fold_version,
        "quarantined": record.quarantined,
        "ingest_worker": record.ingest_worker,
        "claims": record.ingest_epoch,
        "targets": _json(record.targets),
        "planned": record.planned,
        "open_parts": record.open_parts,
        "parts": parts,
    }


async def find_turn(ledger: Ledger, turn: str) -> TurnRecord | None:
    """Read a turn's record; None where there is none. What is no id of ours ends the command."""
    try:
        return await ledger.scripts.run(turns.read_turn(ledger.keys, turn))
    except ValueError as error:
        fail(str(error))


def _row(record: TurnRecord, when: When) -> dict[str, Any]:
    return {
        "turn": record.id,
        "state": record.state.value,
        "upstream": record.upstream,
        "session": record.session,
        "frames": record.frames_next,
        "blocks": record.blocks_next,
        "submitted": when(record.submitted_at),
        "ended": when(record.ended_at),
    }


def _json(text: str) -> Any:
    return msgspec.json.decode(text) if text else None
