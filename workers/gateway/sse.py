"""Server-sent events on their way out: splitting stored frames, ids that can tell a rolled-back stream, and the response itself.

A stored entry holds whole frames as text, `event: X` LF `data: {json}` LF LF each; JSON never holds a raw line feed, so an empty line
ends a frame and nothing else. The OpenAI surface sends the frames as they are stored, without ids: clients of that API exist that
take a comment behind an id for an empty event. The native surface puts `id: N-<hash>` before each, so that a resuming client names
the bytes it holds and not just their number.
"""

import asyncio
import hashlib
import re
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from workers.observability import metrics
from workers.runtime import failpoints

KEEPALIVE = b": keepalive\n\n"
OPENING = b": foldline\n\n"  # the head and this leave at once, so that a client knows that it is connected before the first frame
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",  # a proxy that buffers or compresses holds the stream back
    "X-Accel-Buffering": "no",
}
_EVENT_ID = re.compile(r"(\d{1,9})-([0-9a-f]{8})", re.ASCII)
TERMINAL_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})


@dataclass(frozen=True, slots=True)
class StoredFrame:
    """One frame as the stream holds it: its number in the turn and its bytes, the empty line included."""

    number: int
    sse: bytes

    @property
    def event(self) -> str:
        """The name in the frame's `event:` line."""
        line, _, _ = self.sse.partition(b"\n")
        return line.removeprefix(b"event: ").decode()

    @property
    def data(self) -> dict[str, Any]:
        """The frame's JSON."""
        _, _, rest = self.sse.partition(b"\ndata: ")
        decoded: dict[str, Any] = msgspec.json.decode(rest)
        return decoded

    @property
    def is_terminal(self) -> bool:
        """Whether the public stream ends with this frame."""
        return self.event in TERMINAL_EVENTS

    @property
    def digest(self) -> str:
        """Eight hex digits that stand for the frame's bytes."""
        return hashlib.blake2b(self.sse, digest_size=4).hexdigest()

    @property
    def event_id(self) -> str:
        """The id of the native surface."""
        return f"{self.number}-{self.digest}"


def split_frames(first: int, sse: str | bytes) -> list[StoredFrame]:
    """Return the frames of a stored entry, numbered from `first`."""
    raw = sse.encode() if isinstance(sse, str) else sse
    bodies = raw.split(b"\n\n")
    return [StoredFrame(first + at, body + b"\n\n") for at, body in enumerate(bodies) if body]


def parse_event_id(value: str) -> tuple[int, str] | None:
    """Return number and hash of one of our event ids, or None when it is not one."""
    match = _EVENT_ID.fullmatch(value)
    return (int(match[1]), match[2]) if match else None


def plain(frame: StoredFrame) -> bytes:
    """Return a frame as the OpenAI surface sends it."""
    return frame.sse


def with_id(frame: StoredFrame) -> bytes:
    """Return a frame as the native surface sends it."""
    return b"id: " + frame.event_id.encode() + b"\n" + frame.sse


def openai_error(code: str, message: str, number: int) -> bytes:
    """Return the event that ends an OpenAI stream by name: flat as documented, and nested as its clients look for it."""
    body = {
        "type": "error",
        "code": code,
        "message": message,
        "param": None,
        "sequence_number": number,
        "error": {"message": message, "type": "server_error", "param": None, "code": code},
    }
    return b"event: error\ndata: " + msgspec.json.encode(body) + b"\n\n"


def native_error(code: str, message: str, number: int) -> bytes:
    """Return the event that ends a native stream by name. It is not called `error`: EventSource uses that name for its own."""
    body = {"type": "stream_error", "code": code, "message": message, "sequence_number": number}
    return b"event: stream_error\ndata: " + msgspec.json.encode(body) + b"\n\n"


class Source(Protocol):
    """Where the bytes of a response come from."""

    async def next(self, timeout_s: float) -> bytes | None:
        """Return the next bytes, none at the end, or None when nothing came within the time."""
        ...

    def close(self) -> None:
        """Let go of whatever is held; called exactly once."""
        ...


class EventStream(Response):
    """A response that sends chunks as they come, a comment when none came for a while, and stops when the client has gone.

    The client's going away ends this response and nothing else: the turn goes on. A slow client holds up `send`, and with it only
    its own source.
    """

    def __init__(self, source: Source, *, keepalive_ms: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(content=None, status_code=200, headers={**HEADERS, **(headers or {})})
        del self.headers["content-length"]
        self._source = source
        self._keepalive_s = keepalive_ms / 1000

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until it ends or the client goes."""
        metrics.CLIENTS.inc()
        tasks = {asyncio.ensure_future(self._pump(send)), asyncio.ensure_future(gone(receive))}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._source.close()
            metrics.CLIENTS.dec()
        for task in done:
            if (error := task.exception()) is not None and not isinstance(error, OSError):
                raise error

    async def _pump(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": OPENING, "more_body": True})
        while (chunk := await self._source.next(self._keepalive_s)) != b"":
            await send({"type": "http.response.body", "body": KEEPALIVE if chunk is None else chunk, "more_body": True})
            if chunk is not None:
                failpoints.hit("gateway.mid_stream")
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def gone(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
