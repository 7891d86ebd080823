import asyncio
import contextlib

import pytest

from tests.support.waiting import turn_of_the_loop
from tests.workers.gateway.stage import Stage, stage
from workers.gateway import inputs, protocol
from workers.gateway.protocol import UNTOLD_BYTES_MAX

HEAD = b"POST /v1/turns HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
SENT_MAX = (
    64 * UNTOLD_BYTES_MAX
)  # what sockets may hold on the way; a parser that holds it all would take as much again


async def flood(on: Stage, opening: bytes) -> tuple[bytes, int]:
    """Send a beginning and then no end; return what was answered, and how much was sent until the connection was closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", on.gateway.port)
    sent = 0
    with contextlib.suppress(ConnectionError):
        writer.write(opening)
        while sent < SENT_MAX and not reader.at_eof():
            writer.write(b"x" * 4096)
            await writer.drain()
            await turn_of_the_loop()
            sent += 4096
    answer = b""
    with contextlib.suppress(ConnectionError):
        answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer, sent


@pytest.mark.parametrize(
    "opening", [b"GET /", b"GET / HTTP/1.1\r\n", HEAD + b"X-Long: "], ids=["path", "name", "value"]
)
async def test_a_head_without_an_end_is_refused_before_it_is_held(redis_url: str, opening: bytes) -> None:
    async with stage(redis_url) as on:
        answer, sent = await flood(on, opening)
        assert sent < SENT_MAX
        assert answer == b"" or b'"code":"headers_too_large"' in answer or b"HTTP/1.1 400" in answer
        assert (await on.get("/v1/turns/x"))[0] == 404


async def test_a_body_whose_trailer_has_no_end_closes_its_connection(redis_url: str) -> None:
    async with stage(redis_url) as on:
        _, sent = await flood(on, HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Trailer: ")
        assert sent < SENT_MAX


async def test_a_slow_head_and_a_large_body_are_no_flood(redis_url: str) -> None:
    async with stage(redis_url) as on:
        reader, writer = await asyncio.open_connection("127.0.0.1", on.gateway.port)
        body = b'{"request":{"input":"' + b"x" * 4 * UNTOLD_BYTES_MAX + b'"}}'
        for _ in range(3):
            head = HEAD + b"Content-Length: %d\r\n\r\n" % len(body)
            for at in range(len(head)):
                writer.write(head[at : at + 1])
                await writer.drain()
            for at in range(0, len(body), 5000):
                writer.write(body[at : at + 5000])
                await writer.drain()
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            assert answer.startswith(b"HTTP/1.1 201 "), answer
            length = int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
        writer.close()


async def said(on: Stage, opening: bytes) -> bytes:
    """What a client is told that sends a beginning and then nothing, until its connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", on.gateway.port)
    writer.write(opening)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


@pytest.mark.parametrize("opening", [b"", HEAD])
async def test_a_client_that_never_ends_its_head_is_let_go(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, opening: bytes
) -> None:
    monkeypatch.setattr(protocol, "HEAD_S", 0.2)
    async with stage(redis_url) as on:
        assert await said(on, opening) == b""


async def test_a_client_that_never_ends_a_later_head_is_let_go(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_S", 0.2)
    async with stage(redis_url) as on:
        answer = await said(on, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + HEAD)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"ok\n")


async def test_a_client_that_never_ends_its_body_is_told_so_and_let_go(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "BODY_S", 0.2)
    monkeypatch.setattr(protocol, "HEAD_S", 10.0)
    async with stage(redis_url) as on:
        answer = await said(on, HEAD + b"Content-Length: 10\r\n\r\n{")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"body_too_slow"' in answer
