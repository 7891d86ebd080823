"""The reader of one client, driven with a stream that the test holds in its hands."""

import asyncio
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import Unavailable
from tests.support.waiting import turn_of_the_loop
from workers.gateway.sse import StoredFrame, split_frames
from workers.gateway.watch import End, Progress, Watch

TURN = "0-0123456789abcdef01234567"


def frame(number: int, text: str = "", *, last: bool = False) -> StoredFrame:
    name = "response.completed" if last else "response.output_text.delta"
    return split_frames(number, f'event: {name}\ndata: {{"n":{number},"t":"{text}"}}\n\n')[0]


@dataclass
class Stream:
    """The stored stream: entries of frames, and what the turn's record says."""

    entries: list[list[StoredFrame]] = field(default_factory=list)
    known: bool = True
    ended: bool = False
    away: int = 0
    reads: int = 0
    promised: int | None = None

    async def frames(self, turn: str, after: int, size: int) -> list[StoredFrame]:
        self.reads += 1
        if self.away:
            self.away -= 1
            raise Unavailable("away")
        found: list[list[StoredFrame]] = []
        for entry in self.entries:
            if entry[-1].number > after:
                found.append(entry)
                if len(found) > 1 and sum(len(one.sse) for each in found for one in each) >= size:
                    break
        return [one for entry in found for one in entry]

    async def progress(self, turn: str) -> Progress | None:
        last = self.entries[-1][-1].number + 1 if self.entries else 0
        return Progress(ended=self.ended, frames_next=self.promised or last) if self.known else None

    def add(self, *frames: StoredFrame) -> None:
        self.entries.append(list(frames))


def watch(
    stream: Stream, after: int = -1, last_hash: str | None = None, queue: int = 10_000, poll_ms: int = 10
) -> Watch:
    return Watch(
        TURN, stream, after=after, last_hash=last_hash, queue_bytes=queue, poll_ms=poll_ms, on_close=lambda _: None
    )


async def read_all(reader: Watch) -> tuple[list[StoredFrame], End | None]:
    got: list[StoredFrame] = []
    while True:
        one = await reader.next(0.5)
        if one is None or isinstance(one, End):
            return got, one
        got += one


def offer(reader: Watch, *frames: StoredFrame) -> None:
    reader.offer(list(frames), sum(len(one.sse) for one in frames))


async def test_a_finished_stream_is_read_from_any_frame_to_its_end() -> None:
    stream = Stream(ended=True)
    whole = [frame(number, last=number == 99) for number in range(100)]
    for first in range(0, 100, 5):
        stream.add(*whole[first : first + 5])
    for after in (-1, 0, 3, 4, 42, 98, 99):
        assert await read_all(watch(stream, after)) == (whole[after + 1 :], End.DONE)


async def test_hints_that_continue_the_stream_are_handed_out_without_a_read() -> None:
    stream = Stream()
    stream.add(frame(0))
    reader = watch(stream, poll_ms=60_000)
    assert await reader.next(0.1) == [frame(0)]
    assert await reader.next(0.01) is None
    reads = stream.reads
    offer(reader, frame(1), frame(2))
    offer(reader, frame(2), frame(3))
    assert await reader.next(0.1) == [frame(1), frame(2)]
    assert await reader.next(0.1) == [frame(3)], "the part that was known already is cut off"
    assert stream.reads == reads


async def test_a_gap_in_the_hints_is_filled_from_the_stream() -> None:
    stream = Stream()
    stream.add(frame(0))
    reader = watch(stream, poll_ms=60_000)
    assert await reader.next(0.1) == [frame(0)]
    assert await reader.next(0.01) is None
    stream.add(frame(1))
    stream.add(frame(2, last=True))
    offer(reader, frame(2, last=True))
    assert await read_all(reader) == ([frame(1), frame(2, last=True)], End.DONE)


async def test_lost_hints_are_found_by_the_poll() -> None:
    stream = Stream()
    reader = watch(stream)
    assert await reader.next(0.01) is None
    stream.add(frame(0, last=True))
    assert await read_all(reader) == ([frame(0, last=True)], End.DONE)


async def test_a_slow_clients_queue_never_exceeds_its_bound_and_loses_nothing() -> None:
    stream = Stream()
    reader = watch(stream, queue=300, poll_ms=60_000)
    assert await reader.next(0.01) is None
    whole = [frame(number, "x" * 20, last=number == 199) for number in range(200)]
    for one in whole:
        stream.add(one)
        offer(reader, one)
        assert reader.queued_bytes <= 300
    assert await read_all(reader) == (whole, End.DONE)


async def test_other_bytes_at_the_last_number_that_was_sent_are_a_rolled_back_stream() -> None:
    stream = Stream()
    stream.add(frame(0), frame(1))
    reader = watch(stream)
    assert await reader.next(0.1) == [frame(0), frame(1)]
    stream.entries = [[frame(0), frame(1, "other")]]
    assert await read_all(reader) == ([], End.ROLLED_BACK)


async def test_a_resume_by_number_and_hash_is_checked_before_anything_is_sent() -> None:
    stream = Stream()
    stream.add(frame(0), frame(1, last=True))
    assert await read_all(watch(stream, 0, frame(0).digest)) == ([frame(1, last=True)], End.DONE)
    assert await read_all(watch(stream, 0, frame(0, "other").digest)) == ([], End.ROLLED_BACK)


async def test_a_stream_that_is_shorter_than_what_was_sent_is_rolled_back() -> None:
    stream = Stream()
    stream.add(frame(0), frame(1))
    reader = watch(stream)
    assert await reader.next(0.1) == [frame(0), frame(1)]
    stream.entries = [[frame(0)]]
    assert await read_all(reader) == ([], End.ROLLED_BACK)


async def test_a_hint_that_overlaps_with_other_bytes_makes_the_reader_look() -> None:
    stream = Stream()
    stream.add(frame(0))
    reader = watch(stream, poll_ms=60_000)
    assert await reader.next(0.1) == [frame(0)]
    assert await reader.next(0.01) is None
    stream.entries = [[frame(0, "other"), frame(1)]]
    offer(reader, frame(0, "other"), frame(1))
    assert await read_all(reader) == ([], End.ROLLED_BACK)


async def test_a_turn_that_is_gone_is_lost() -> None:
    stream = Stream()
    stream.add(frame(0))
    reader = watch(stream)
    assert await reader.next(0.1) == [frame(0)]
    stream.entries, stream.known = [], False
    assert await read_all(reader) == ([], End.LOST)


async def test_an_ended_turn_without_its_frames_has_expired() -> None:
    stream = Stream(ended=True, promised=7)
    assert await read_all(watch(stream)) == ([], End.EXPIRED)


async def test_frames_that_the_record_promises_and_the_stream_lacks_are_lost() -> None:
    stream = Stream(promised=7)
    assert await read_all(watch(stream)) == ([], End.LOST)


async def test_an_outage_is_waited_out() -> None:
    stream = Stream(away=3)
    stream.add(frame(0, last=True))
    reader = watch(stream)
    assert await read_all(reader) == ([frame(0, last=True)], End.DONE)


async def test_a_stopping_gateway_ends_its_readers_at_once() -> None:
    reader = watch(Stream(), poll_ms=60_000)
    waiting = asyncio.ensure_future(reader.next(60))
    await turn_of_the_loop()
    reader.stop()
    assert await waiting is End.STOPPING


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_hints_come_or_fail_every_frame_is_handed_out_once_and_in_order(data: st.DataObject) -> None:
    async def play() -> None:
        stream = Stream()
        after = data.draw(st.integers(-1, 5))
        reader = watch(stream, after, queue=data.draw(st.integers(0, 400)), poll_ms=1)
        total = data.draw(st.integers(after + 1, 30))
        whole = [frame(number, last=number == total) for number in range(total + 1)]
        got: list[StoredFrame] = []
        first = 0
        while first <= total:
            size = data.draw(st.integers(1, 4))
            entry = whole[first : first + size]
            first += size
            stream.add(*entry)
            action = data.draw(st.sampled_from(["hint", "hint", "lost", "twice", "distrust", "away"]))
            if action in {"hint", "twice"}:
                offer(reader, *entry)
            if action == "twice":
                offer(reader, *entry)
            if action == "distrust":
                reader.distrust("test")
            if action == "away":
                stream.away = 1
            if first > after and data.draw(st.booleans()):
                one = await reader.next(0.002)
                if isinstance(one, list):
                    got += one
        rest, end = await read_all(reader)
        assert got + rest == whole[after + 1 :]
        assert end is End.DONE

    asyncio.run(play())
