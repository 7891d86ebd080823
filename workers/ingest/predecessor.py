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
from workers.ingest.takeover import MAX_RESTARTS, may_restart
from workers.streams.patience import patiently


def read_started(record: TurnRecord) -> TurnStarted:
    """Read the turn's frozen first event."""
    try:
        event = decode(record.started, turn=record.id, producer=INGEST)
    except EventRefused as refused:
        raise SourceError.ours("ingest_error", f"the turn's first event was refused: {refused}") from None
    if not isinstance(event, TurnStarted):
        raise SourceError.ours("ingest_error", f"the turn's first event is {type(event).__name__}")
    return event


async def emitted_before(bench: Bench, claimed: Claimed) -> Sequence[Event]:
    """Read what earlier ingest processes published, as far as a restart may follow it; else nothing."""
    if not may_restart(claimed.next_seq):
        return ()
    turn = claimed.record.id
    partition = bench.keys.partition_of_turn(turn)
    listing = entries_of(bench.keys, turn)
    ids = await patiently(lambda: bench.scripts.run(listing), what="entries_of", role="ingest", guard=bench.guard)
    if not ids or len(ids) > 2 * MAX_RESTARTS:
        return ()
    reading = read_entries(bench.keys, partition, ids)
    entries = await patiently(lambda: bench.scripts.run(reading), what="read_entries", role="ingest", guard=bench.guard)
    return [
        event
        for entry in entries
        if entry.producer == INGEST
        for event in decode_batch(entry.events, turn=turn, producer=INGEST)
    ]
