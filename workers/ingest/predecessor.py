"""What stands in the ledger of a turn before this process touches it: its frozen first event, and what others emitted."""

from collections.abc import Sequence

from ledger.log import INGEST, entries_of, read_entries
from ledger.records import TurnRecord
from ledger.turns import Claimed
from pipeline.codec import decode, decode_batch
from pipeline.errors import EventRefused
from pipeline.events import Event, TurnStarted
from workers.ingest.failures import SourceError
from workers.ingest.publisher import Bench
from workers.ingest.takeover import MAX_RESTARTS
from workers.streams.patience import patiently

HEAD_ENTRIES = MAX_RESTARTS + 2
"""Log entries that can hold `turn_started`, every `restarted` and the first word of the upstream."""


def read_started(record: TurnRecord) -> TurnStarted:
    """Read the turn's frozen first event."""
    try:
        event = decode(record.started, turn=record.id, producer=INGEST)
    except EventRefused as refused:
        raise SourceError.ours("ingest_error", f"the turn's first event was refused: {refused}") from None
    if not isinstance(event, TurnStarted):
        raise SourceError.ours("ingest_error", f"the turn's first event is {type(event).__name__}")
    return event


async def read_head(bench: Bench, claimed: Claimed) -> list[Event]:
    """Read the first events that earlier ingest processes published: all of them when there are few."""
    if claimed.next_seq == 0:
        return []
    listing = entries_of(bench.keys, claimed.record.id)
    ids = await patiently(lambda: bench.scripts.run(listing), what="entries_of", role="ingest", guard=bench.guard)
    return await _read(bench, claimed.record.id, ids[:HEAD_ENTRIES])


async def read_last(bench: Bench, record: TurnRecord) -> Event | None:
    """Read the last event of a turn's log, if it is ingest's."""
    events = await _read(bench, record.id, [record.tail])
    return events[-1] if events else None


async def _read(bench: Bench, turn: str, ids: Sequence[str]) -> list[Event]:
    if not ids:
        return []
    reading = read_entries(bench.keys, bench.keys.partition_of_turn(turn), ids)
    entries = await patiently(lambda: bench.scripts.run(reading), what="read_entries", role="ingest", guard=bench.guard)
    return [
        event
        for entry in entries
        if entry.producer == INGEST
        for event in decode_batch(entry.events, turn=turn, producer=INGEST)
    ]
