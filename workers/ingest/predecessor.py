"""What stands in the ledger of a turn before this process touches it: its frozen first event, and what others emitted."""

from dataclasses import dataclass, field
from functools import partial

from ledger.commands import SLICE
from ledger.log import INGEST, entries_of, read_entries
from ledger.records import TurnRecord
from ledger.turns import Claimed
from pipeline.codec import decode, decode_batch
from pipeline.errors import EventRefused
from pipeline.events import Event, TurnStarted
from workers.ingest.failures import SourceError
from workers.ingest.publisher import Bench
from workers.ingest.replay import Said
from workers.ingest.takeover import MAX_RESTARTS
from workers.streams.patience import patiently

HEAD_EVENTS = MAX_RESTARTS + 2
"""Events that can be `turn_started`, every `restarted` and the first word of the upstream."""


@dataclass
class Past:
    """What earlier ingest processes published of a turn: its first events, and all that the upstream said, as fingerprints."""

    head: list[Event] = field(default_factory=list)
    said: Said = field(default_factory=Said)

    def add(self, event: Event) -> None:
        """Take the next event of the log."""
        if len(self.head) < HEAD_EVENTS:
            self.head.append(event)
        self.said.note(event)


def read_started(record: TurnRecord) -> TurnStarted:
    """Read the turn's frozen first event."""
    try:
        event = decode(record.started, turn=record.id, producer=INGEST)
    except EventRefused as refused:
        raise SourceError.ours("ingest_error", f"the turn's first event was refused: {refused}") from None
    if not isinstance(event, TurnStarted):
        raise SourceError.ours("ingest_error", f"the turn's first event is {type(event).__name__}")
    return event


async def read_past(bench: Bench, claimed: Claimed) -> Past:
    """Read what earlier ingest processes published, entry by entry; what others added to the log is not theirs."""
    past = Past()
    if claimed.next_seq == 0:
        return past
    turn = claimed.record.id
    listing = entries_of(bench.keys, turn)
    ids = await patiently(lambda: bench.scripts.run(listing), what="entries_of", role="ingest", guard=bench.guard)
    for first in range(0, len(ids), SLICE):
        reading = read_entries(bench.keys, bench.keys.partition_of_turn(turn), ids[first : first + SLICE])
        run = partial(bench.scripts.run, reading)
        entries = await patiently(run, what="read_entries", role="ingest", guard=bench.guard)
        for entry in entries:
            if entry.producer == INGEST:
                for event in decode_batch(entry.events, turn=turn, producer=INGEST):
                    past.add(event)
    return past
