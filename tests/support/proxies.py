"""A real HTTP proxy on the loopback interface: it passes requests on by their whole URL, and opens tunnels on CONNECT."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class Proxy:
    """Keeps the heads of the requests that it got. With `refuse` it answers each with that status and opens nothing; with
    `is_dumb` it answers nothing at all.
    """

    def __init__(self, *, refuse: int | None = None, is_dumb: bool = False) -> None:
        self.heads: list[str] = []
        self._refuse = refuse
        self._is_dumb = is_dumb
        self._server: asyncio.Server | None = None
        self._port = 0
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def url(self) -> str:
        """The URL to configure."""
        return f"http://127.0.0.1:{self._port}"

    async def close(self) -> None:
        """Listen no more; what is open is cut."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.heads.append(head)
            method, target, _ = head.split("\r\n", 1)[0].split(" ")
            if self._is_dumb:
                await reader.read()
            elif self._refuse is not None:
                writer.write(f"HTTP/1.1 {self._refuse} Refused\r\nContent-Length: 0\r\n\r\n".encode())
                await writer.drain()
            elif method == "CONNECT":
                host, _, port = target.partition(":")
                await self._pass(reader, writer, host, int(port), b"")
            else:
                url = urlsplit(target)
                lines = [line for line in head.split("\r\n")[1:] if not line.lower().startswith("proxy-")]
                path = f"{url.path}?{url.query}" if url.query else url.path
                begun = "\r\n".join([f"{method} {path} HTTP/1.1", *lines]).encode("latin-1")
                await self._pass(reader, writer, str(url.hostname), int(url.port or 80), begun)
        except asyncio.IncompleteReadError:
            pass  # it was no HTTP, or nothing
        finally:
            self._open.discard(writer)
            writer.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int, begun: bytes
    ) -> None:
        upstream, onward = await asyncio.open_connection(host, port)
        self._open.add(onward)
        try:
            if begun:
                onward.write(begun)
            else:
                writer.write(b"HTTP/1.1 200 Opened\r\n\r\n")
            ways = {asyncio.ensure_future(_pump(reader, onward)), asyncio.ensure_future(_pump(upstream, writer))}
            _, left = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in left:
                way.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await way
        finally:
            self._open.discard(onward)
            onward.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
