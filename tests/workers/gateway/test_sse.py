import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from workers.gateway import sse
from workers.gateway.sse import EventStream, StoredFrame, parse_event_id, split_frames

DELTA = 'event: response.output_text.delta\ndata: {"delta":"a\\n\\nb","sequence_number":3}\n\n'
DONE = 'event: response.completed\ndata: {"response":{"id":"resp_1"},"sequence_number":4}\n\n'


def test_a_stored_entry_is_split_into_its_frames_and_loses_no_byte() -> None:
    frames = split_frames(3, DELTA + DONE)
    assert [frame.number for frame in frames] == [3, 4]
    assert b"".join(frame.sse for frame in frames) == (DELTA + DONE).encode()
    assert [frame.event for frame in frames] == ["response.output_text.delta", "response.completed"]
    assert frames[0].data["delta"] == "a\n\nb"
    assert [frame.is_terminal for frame in frames] == [False, True]


def test_an_empty_entry_has_no_frames() -> None:
    assert split_frames(0, "") == []


def test_an_event_id_names_number_and_bytes() -> None:
    one, other = split_frames(3, DELTA)[0], StoredFrame(3, DONE.encode())
    assert parse_event_id(one.event_id) == (3, one.digest)
    assert one.digest != other.digest
    assert sse.with_id(one) == b"id: " + one.event_id.encode() + b"\n" + DELTA.encode()


def test_what_is_no_event_id_of_ours_is_none() -> None:
    for text in ("", "3", "3-", "-3-00000000", "3-0000000g", "1234567890-00000000", "3-00000000 ", "٣-00000000"):
        assert parse_event_id(text) is None, text


def test_an_ended_stream_is_told_in_each_surfaces_words() -> None:
    openai = sse.openai_error("turn_lost", "it is gone", 7)
    body = msgspec.json.decode(openai.partition(b"data: ")[2])
    assert openai.startswith(b"event: error\n")
    assert (body["type"], body["code"], body["sequence_number"]) == ("error", "turn_lost", 7)
    assert body["error"]["message"] == "it is gone"
    assert sse.native_error("turn_lost", "it is gone", 7).startswith(b"event: stream_error\ndata: ")


class Chunks:
    """A source that gives out what it was given: bytes, or None for a time without any."""

    def __init__(self, *chunks: bytes | None) -> None:
        self.left = list(chunks)
        self.closed = 0

    async def next(self, timeout_s: float) -> bytes | None:
        if self.left:
            return self.left.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    def close(self) -> None:
        self.closed += 1


async def never() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def run_stream(source: Chunks, receive: Callable[[], Any] = never) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await EventStream(source, keepalive_ms=10)({}, receive, send)
    return sent


async def test_a_stream_sends_its_head_its_chunks_and_a_comment_where_there_is_silence() -> None:
    source = Chunks(b"one", None, b"two", b"")
    sent = await run_stream(source)
    head = dict(sent[0]["headers"])
    assert head[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert head[b"x-accel-buffering"] == b"no"
    assert b"no-cache" in head[b"cache-control"]
    assert b"content-length" not in head
    assert [message["body"] for message in sent[1:]] == [sse.OPENING, b"one", sse.KEEPALIVE, b"two", b""]
    assert [message["more_body"] for message in sent[1:]] == [True, True, True, True, False]
    assert source.closed == 1


async def test_a_client_that_goes_ends_the_stream_and_frees_its_source() -> None:
    source = Chunks(b"one")

    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    sent = await run_stream(source, gone)
    assert sent[-1]["more_body"], "the stream is not said to be whole"
    assert source.closed == 1
