import pytest

from ledger.errors import SchemaMismatch
from ledger.records import (
    BlockRecord,
    FrameEntry,
    OwnerRecord,
    Positions,
    TurnRecord,
    TurnState,
    frame_entries,
    log_entries,
    position_key,
    turn_record,
)

BLOCK = {"v": "1", "opener": "", "text": "hi", "closer": "", "separator": "\n", "markers": "{}"}


def test_a_turn_of_which_nothing_happened_yet_reads_as_zeros() -> None:
    record = TurnRecord.from_hash({"v": "1", "id": "7-a", "state": "queued"})
    assert record.state is TurnState.QUEUED
    assert (record.frames_next, record.ended, record.cancel, dict(record.next)) == (0, "", False, {})


def test_each_producer_has_its_next_number() -> None:
    record = TurnRecord.from_hash({"v": "1", "id": "7-a", "state": "running", "next:ingest": "5", "next:fold": "1"})
    assert dict(record.next) == {"ingest": 5, "fold": 1}


@pytest.mark.parametrize("version", [{}, {"v": "2"}])
def test_a_record_of_another_version_is_refused(version: dict[str, str]) -> None:
    with pytest.raises(SchemaMismatch, match="expected version 1"):
        TurnRecord.from_hash({"id": "7-a", "state": "queued"} | version)
    with pytest.raises(SchemaMismatch):
        BlockRecord.from_hash({name: value for name, value in BLOCK.items() if name != "v"} | version)


def test_no_hash_is_no_turn() -> None:
    assert turn_record({}) is None


def test_a_block_reads_back() -> None:
    assert BlockRecord.from_hash(BLOCK).text == "hi"


def test_an_entry_of_frames_knows_its_last_number() -> None:
    assert FrameEntry.from_fields("5-0", {"first": "3", "n": "2", "sse": "x"}).last == 4


def test_an_untouched_partition_starts_at_nothing() -> None:
    positions = Positions.from_hash({})
    assert (positions.log, positions.taken, positions.lag, positions.full) == ("0-0", "0-0", 0, False)
    assert Positions.from_hash({"published": "7", "folded": "4", "full": "1"}).lag == 3
    assert OwnerRecord.from_hash({}).epoch == 0


def test_terminal_states_are_those_after_running() -> None:
    assert [state for state in TurnState if not state.is_terminal] == [TurnState.QUEUED, TurnState.RUNNING]


def test_positions_are_compared_as_numbers() -> None:
    assert position_key("9-10") < position_key("10-9") < position_key("10-11")
    assert position_key("5") == (5, 0)


def test_entries_read_back_with_their_ids() -> None:
    fields = {"turn": "7-a", "producer": "ingest", "seq": "3", "n": "2", "events": "[]"}
    [entry] = log_entries([("5-0", fields)])
    assert (entry.id, entry.turn, entry.seq, entry.n) == ("5-0", "7-a", 3, 2)
    [frames] = frame_entries([("4-0", {"first": "1", "n": "3", "sse": "x"})])
    assert (frames.id, frames.first, frames.last, frames.sse) == ("4-0", 1, 3, "x")
