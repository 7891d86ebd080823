import pytest

from pipeline.codec import decode_batch
from pipeline.events import ErrorInfo, Event, TextDelta, TurnFailed
from workers.ingest.batcher import Batch, Batcher, RolledBackError

KEEP_MS = 5_000


def delta(seq: int, text: str = "x") -> Event:
    return TextDelta(seq=seq, at=1, item=0, content=0, track="text", text=text)


def failed(seq: int) -> Event:
    return TurnFailed(seq=seq, at=1, error=ErrorInfo(code="upstream_truncated"))


def filled(count: int, *, max_events: int = 100, max_bytes: int = 100_000, keep_bytes: int = 100_000) -> Batcher:
    batcher = Batcher(next_seq=0, max_events=max_events, max_bytes=max_bytes, keep_ms=KEEP_MS, keep_bytes=keep_bytes)
    for seq in range(count):
        batcher.put(delta(seq))
    return batcher


def sealed(batcher: Batcher) -> Batch:
    batch = batcher.seal()
    assert batch is not None
    return batch


def numbers(batch: Batch) -> list[int]:
    found = [event.seq for event in decode_batch(batch.events)]
    assert (batch.first, batch.n) == (found[0], len(found))
    return found


def test_what_gathers_goes_in_one_batch() -> None:
    assert numbers(sealed(filled(5))) == [0, 1, 2, 3, 4]


def test_a_batch_ends_at_the_bound_of_events() -> None:
    assert numbers(sealed(filled(5, max_events=3))) == [0, 1, 2]


def test_a_batch_ends_before_the_bound_of_bytes_but_holds_one_event_at_least() -> None:
    size = sealed(filled(1)).size
    assert numbers(sealed(filled(5, max_bytes=size * 2))) == [0, 1]
    assert numbers(sealed(filled(5, max_bytes=1))) == [0]


def test_sealing_takes_nothing_away() -> None:
    batcher = filled(3)
    assert batcher.seal() == batcher.seal()


def test_an_acknowledged_batch_is_no_longer_waiting() -> None:
    batcher = filled(3)
    waiting = batcher.waiting_bytes
    assert batcher.settle(3, 0) == waiting
    assert (batcher.waiting_bytes, batcher.acknowledged, batcher.seal()) == (0, 3, None)


def test_an_overlap_is_sliced_where_the_server_stands() -> None:
    batcher = filled(5)
    batcher.settle(2, 0)
    assert numbers(sealed(batcher)) == [2, 3, 4]


def test_a_server_that_fell_back_gets_the_kept_events_again() -> None:
    batcher = filled(5)
    batcher.settle(5, 0)
    batcher.put(delta(5))
    batcher.settle(1, 100)
    assert numbers(sealed(batcher)) == [1, 2, 3, 4, 5]
    assert batcher.acknowledged == 1


def test_events_are_not_kept_for_longer_than_agreed() -> None:
    batcher = filled(5)
    batcher.settle(5, 0)
    batcher.put(delta(5))
    batcher.settle(6, KEEP_MS + 1)
    batcher.put(delta(6))
    batcher.settle(5, KEEP_MS + 1)
    assert numbers(sealed(batcher)) == [5, 6]
    with pytest.raises(RolledBackError) as caught:
        batcher.settle(2, KEEP_MS + 1)
    assert caught.value.expected == 2


def test_what_is_kept_is_bounded_in_bytes() -> None:
    batcher = filled(5, keep_bytes=1)
    batcher.settle(5, 0)
    with pytest.raises(RolledBackError):
        batcher.settle(4, 0)


def test_nothing_is_taken_after_a_terminal() -> None:
    batcher = filled(1)
    batcher.put(failed(1))
    assert batcher.put(delta(2)) == 0
    assert sealed(batcher).terminal == "turn_failed"
    assert not batcher.is_done
    batcher.settle(2, 0)
    assert batcher.is_done


def test_a_batch_without_a_terminal_says_so() -> None:
    assert sealed(filled(1)).terminal is None


def test_numbers_have_no_gap() -> None:
    with pytest.raises(ValueError, match="event 2 where 1 is next"):
        filled(1).put(delta(2))


def test_everything_kept_can_be_said_again() -> None:
    batcher = filled(3)
    batcher.put(failed(3))
    batcher.settle(4, 0)
    waiting = batcher.resend_kept()
    assert waiting == batcher.waiting_bytes > 0
    assert numbers(sealed(batcher)) == [0, 1, 2, 3]
    assert batcher.resend_kept() == 0
    assert not batcher.is_done
    batcher.settle(4, 0)
    assert batcher.is_done


def test_a_log_beyond_repair_is_left_behind() -> None:
    batcher = filled(3)
    batcher.put(failed(3))
    batcher.restart_at(1)
    assert (batcher.waiting_bytes, batcher.has_terminal, batcher.next_seq) == (0, False, 1)
    batcher.put(failed(1))
    assert numbers(sealed(batcher)) == [1]
