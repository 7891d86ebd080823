"""The operations port: ``/healthz`` (the loop turns), ``/readyz`` (work can be done), ``/metrics``."""

import asyncio
from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from workers.observability import logs
from workers.observability.listening import CannotListenError

REQUEST_LINE_MAX = 4096
"""Bytes; a longer request line is refused."""
READ_TIMEOUT_S = 5.0


class HealthServer:
    """A very small HTTP server, one request a connection."""

    def __init__(self, host: str, port: int, ready: Callable[[], bool]) -> None:
        self._host = host
        self._port = port
        self._ready = ready
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port in use, once started."""
        if self._server is None:
            return self._port
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Listen."""
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=REQUEST_LINE_MAX)
        except OSError as error:
            raise CannotListenError("service", self._host, self._port, error) from None
        logs.bind(host=self._host, port=self.port).info("operations_port")

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readline(), READ_TIMEOUT_S)
            status, kind, body = self._answer(line)
            head = (
                f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode("ascii") + body)
            await asyncio.wait_for(writer.drain(), READ_TIMEOUT_S)
        except (OSError, TimeoutError, ValueError):
            pass  # a client that went away or spoke no HTTP gets no answer
        finally:
            writer.close()

    def _answer(self, line: bytes) -> tuple[str, str, bytes]:
        words = line.split()
        if len(words) != 3 or words[0] not in {b"GET", b"HEAD"}:
            return "405 Method Not Allowed", "text/plain", b"GET only\n"
        match words[1].split(b"?")[0]:
            case b"/healthz":
                return "200 OK", "text/plain", b"ok\n"
            case b"/readyz" if self._ready():
                return "200 OK", "text/plain", b"ready\n"
            case b"/readyz":
                return "503 Service Unavailable", "text/plain", b"not ready\n"
            case b"/metrics":
                return "200 OK", CONTENT_TYPE_LATEST, generate_latest()
            case _:
                return "404 Not Found", "text/plain", b"no such page\n"
