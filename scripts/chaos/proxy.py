"""A TCP proxy between one worker and the server, that can be cut, can stand still, and can lose replies.

The last is the unkind one: the server has done what it was asked, and the worker never hears of it.
"""

import asyncio
from typing import Any


class Proxy:
    """Listens on a port of its own and passes everything on to the server's port, while it is well."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener: asyncio.Server | None = None
        self._pairs: set[_Side] = set()
        self.still = False
        self.loses_replies = False
        self.port = 0

    async def start(self) -> None:
        """Listen on a free port."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: _Client(self), "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Listen no more and cut what is open."""
        if self._listener is not None:
            self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Reset every open connection."""
        for side in list(self._pairs):
            side.abort()

    async def stall(self, seconds: float) -> None:
        """Pass nothing on for a while, in either direction; nothing is lost."""
        self.still = True
        for side in self._pairs:
            side.hold()
        await asyncio.sleep(seconds)
        self.still = False
        for side in self._pairs:
            side.release()

    async def lose_replies(self, seconds: float) -> None:
        """Swallow what the server says for a while, then cut: what was asked is done, and nobody heard."""
        self.loses_replies = True
        await asyncio.sleep(seconds)
        self.loses_replies = False
        self.cut()

    @property
    def server_port(self) -> int:
        """Where the server listens."""
        return self._server_port

    def point_at(self, server_port: int) -> None:
        """Go to another server from here on; what is open is cut."""
        self._server_port = server_port
        self.cut()

    def add(self, side: "_Side") -> None:
        """Know a connection's side."""
        self._pairs.add(side)
        if self.still:
            side.hold()

    def remove(self, side: "_Side") -> None:
        """Forget it."""
        self._pairs.discard(side)


class _Side(asyncio.Protocol):
    """One side of a connection; `peer` is the other."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.transport: Any = None
        self.peer: _Side | None = None
        self.waiting: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.proxy.add(self)

    def data_received(self, data: bytes) -> None:
        if self.peer is None or self.peer.transport is None:
            self.waiting.append(data)
        else:
            self.peer.transport.write(data)

    def pause_writing(self) -> None:
        if self.peer is not None:
            self.peer.hold()

    def resume_writing(self) -> None:
        if self.peer is not None and not self.proxy.still:
            self.peer.release()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        self.proxy.remove(self)
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.close()

    def hold(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def release(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class _Client(_Side):
    """The worker's side: opens the server's when it is there."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._opening = asyncio.ensure_future(self._open())

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        server = _Server(self.proxy)
        server.peer = self
        try:
            await loop.create_connection(lambda: server, "127.0.0.1", self.proxy.server_port)
        except OSError:
            self.abort()
            return
        if self.transport.is_closing():
            server.abort()
            return
        self.peer = server
        for data in self.waiting:
            server.transport.write(data)
        self.waiting.clear()


class _Server(_Side):
    """The server's side: its words may get lost."""

    def data_received(self, data: bytes) -> None:
        if not self.proxy.loses_replies:
            super().data_received(data)
