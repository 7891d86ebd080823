"""A real upstream on the loopback interface, scripted and gated by the test.

    async with Upstream() as upstream:
        upstream.then(text("Hello, world.", pieces=4))
        upstream.pause_before(5)
        ...                                   # start a turn at upstream.base_url
        await upstream.reached(5)             # the server has written events 0..4 and stands before event 5
        upstream.release()

Answers are queued with `then`, one for each request; the last one stays for all that follow. Ids in the answers derive
from the request, so that the same request is answered byte for byte alike.
"""

import asyncio
import socket
import ssl
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import msgspec
from aiohttp import web

from scripts.responses_stream import FunctionCall, Item, Text, compose, cut, sse, whole

COMMENT_S = 0.02
HEADERS = -1
"""`pause_before(HEADERS)` holds the status line back: the upstream has the request and has not answered."""

Ending = Literal["close", "cut", "reset", "stall", "comments"]
PACKERS = {
    "gzip": 16 + zlib.MAX_WBITS,
    "x-gzip": 16 + zlib.MAX_WBITS,
    "deflate": zlib.MAX_WBITS,
    "raw deflate": -zlib.MAX_WBITS,
}


@dataclass(kw_only=True)
class Received:
    """One request as it came, and what became of it."""

    number: int
    headers: Mapping[str, str]
    body: dict[str, Any]
    path: str = "/v1/responses"
    written: int = 0
    left: bool = False
    finished: bool = False


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the server does with one request: chunks written one by one, then an ending.

    `close` ends the body as HTTP asks, `cut` closes the connection in its middle, `reset` sends RST, `stall` stays
    open and says nothing until the client leaves, `comments` keeps the connection with comments until then.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/event-stream"})
    chunks: Sequence[bytes] = ()
    ending: Ending = "close"


Answerer = Callable[[Received], Answer]


def items(*output: Item, keep: int | None = None, ending: Ending = "close") -> Answerer:
    """Answer with a whole stream of these items, or with its first `keep` events only."""

    def answer(received: Received) -> Answer:
        if not received.body.get("stream"):
            return json_body(whole(received.body, output))(received)
        events = [sse(event) for event in compose(received.body, output)]
        return Answer(chunks=events[:keep], ending=ending)

    return answer


def text(words: str, *, pieces: int = 4, keep: int | None = None, ending: Ending = "close") -> Answerer:
    """Answer with one message of this text in so many deltas (delta k is event 4 + k)."""
    return items(Text(pieces=cut(words, pieces)), keep=keep, ending=ending)


def call(name: str, arguments: str, *, pieces: int = 3) -> Answerer:
    """Answer with one function call."""
    return items(FunctionCall(name=name, pieces=cut(arguments, pieces)))


def conversation(name: str, arguments: str, words: str) -> Answerer:
    """Call a function when tools are given, and answer in words once its output is there."""

    def answer(received: Received) -> Answer:
        given = received.body.get("input")
        answered = isinstance(given, list) and any(item.get("type") == "function_call_output" for item in given)
        if received.body.get("tools") and not answered:
            return call(name, arguments)(received)
        return text(words)(received)

    return answer


def raw(*chunks: bytes, ending: Ending = "close", content_type: str = "text/event-stream") -> Answerer:
    """Answer with these bytes."""
    return lambda _received: Answer(chunks=chunks, ending=ending, headers={"Content-Type": content_type})


def packed(answerer: Answerer, encoding: str) -> Answerer:
    """The same answer, compressed as proxies do; what was one chunk can be read as one."""

    def answer(received: Received) -> Answer:
        made = answerer(received)
        packer = zlib.compressobj(wbits=PACKERS[encoding])
        chunks = [packer.compress(chunk) + packer.flush(zlib.Z_SYNC_FLUSH) for chunk in made.chunks]
        headers = {**made.headers, "Content-Encoding": encoding.rpartition(" ")[2]}
        return replace(made, chunks=[*chunks, packer.flush()], headers=headers)

    return answer


def in_bytes(answerer: Answerer) -> Answerer:
    """The same answer, byte by byte."""

    def answer(received: Received) -> Answer:
        made = answerer(received)
        return replace(made, chunks=[bytes([byte]) for chunk in made.chunks for byte in chunk])

    return answer


def json_body(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answerer:
    """Answer with one JSON body."""
    body = msgspec.json.encode(value)
    head = {"Content-Type": "application/json", **(headers or {})}
    return lambda _received: Answer(status=status, headers=head, chunks=[body])


def error(status: int, code: str, message: str, *, retry_after: str | None = None) -> Answerer:
    """Answer with an error in OpenAI's shape."""
    value = {"error": {"message": message, "type": "test_error", "param": None, "code": code}}
    return json_body(value, status=status, headers={"Retry-After": retry_after} if retry_after else None)


def html(status: int, words: str) -> Answerer:
    """Answer with a page, as proxies do."""
    body = f"<html><head><title>{words}</title></head><body><h1>{words}</h1></body></html>".encode()
    return lambda _received: Answer(status=status, headers={"Content-Type": "text/html"}, chunks=[body])


def reset() -> Answerer:
    """Reset the connection before any answer."""
    return lambda _received: Answer(status=0, ending="reset")


class Upstream:
    """The server. Leaving the context closes it; `close` and `open` between make connections be refused."""

    def __init__(self, *answers: Answerer, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.received: list[Received] = []
        self._answers = list(answers)
        self._allowed: int | None = None
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self._port = 0
        self._background: set[asyncio.Future[None]] = set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    @property
    def base_url(self) -> str:
        """The URL to configure; the path is `/responses`."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self._port}/v1"

    @property
    def port(self) -> int:
        """The port, kept over `close` and `open`."""
        return self._port

    async def open(self) -> None:
        """Listen, on the same port as before."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        for path in ("/v1/responses", "/v1/chat/completions", "/v1/messages"):
            app.router.add_post(path, self._respond)
        app.router.add_post("/v1/models/{model}", self._respond)
        app.router.add_post("/v1/responses/{response}/cancel", self._respond)
        app.router.add_get("/v1/responses/{response}", self._respond)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True, ssl_context=self._tls)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening and cut what is open; connections are refused from here on."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def then(self, *answers: Answerer) -> Self:
        """Queue answers, one for each request to come; the last one stays."""
        self._answers.extend(answers)
        return self

    def pause_before(self, number: int) -> None:
        """Let every answer write its chunks below this number and wait there."""
        self._allowed = number

    def release(self, up_to: int | None = None) -> None:
        """Let the answers go on: to another number, or to their ends."""
        self._allowed = up_to
        self._tell()

    async def reached(self, number: int, *, request: int = -1, timeout_s: float = 20) -> Received:
        """Wait until the answer to a request (the last one unless said) stands before this chunk."""
        return await self._until(lambda r: number == HEADERS or r.written >= number, request, timeout_s)

    async def left(self, *, request: int = -1, timeout_s: float = 20) -> Received:
        """Wait until the client of a request has closed its connection before the answer's end."""
        return await self._until(lambda r: r.left, request, timeout_s)

    async def asked(self, count: int, *, timeout_s: float = 20) -> None:
        """Wait until so many requests have come."""
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(lambda: len(self.received) >= count)

    async def _until(self, holds: Callable[[Received], bool], request: int, timeout_s: float) -> Received:
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(lambda: self._has(request) and holds(self.received[request]))
            return self.received[request]

    def _has(self, request: int) -> bool:
        return bool(self.received) if request < 0 else len(self.received) > request

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        received = Received(
            number=len(self.received),
            headers=dict(request.headers),
            body=msgspec.json.decode(body, type=dict[str, Any]) if body else {},
            path=request.path,
        )
        self.received.append(received)
        answerer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        await self._note()
        try:
            return await self._play(request, received, answerer(received))
        except (asyncio.CancelledError, ConnectionError):
            received.left = True
            raise
        finally:
            self._tell()

    async def _play(self, request: web.Request, received: Received, answer: Answer) -> web.StreamResponse:
        await self._gate(HEADERS)
        response = web.StreamResponse(status=answer.status or 200, headers=answer.headers)
        if answer.status:
            await response.prepare(request)
        for number, chunk in enumerate(answer.chunks):
            await self._gate(number)
            await response.write(chunk)
            received.written = number + 1
            await self._note()
        await self._gate(len(answer.chunks))
        received.finished = True
        if answer.ending == "stall":
            await asyncio.Event().wait()
        while answer.ending == "comments":
            await response.write(b": keep-alive\n\n")
            await asyncio.sleep(COMMENT_S)  # the pace at which this upstream speaks; no test waits for it
        if answer.ending == "close":
            await response.write_eof()
            return response
        if request.transport is not None:
            if answer.ending == "reset":
                peer = request.transport.get_extra_info("socket")
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                request.transport.abort()
            else:
                request.transport.close()
        return response

    async def _gate(self, number: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._allowed is None or number < self._allowed)

    async def _note(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _tell(self) -> None:
        """Wake the waiters from where nothing can be awaited."""
        task = asyncio.ensure_future(self._note())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
