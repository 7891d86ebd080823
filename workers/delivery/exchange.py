"""One HTTP request and its answer, under the gate: what every channel over HTTP does the same way.

Redirects, retries, proxies, cookies and decompression of the HTTP client are off, and no connection is used twice: a reused one that the
receiver has just closed would look like a lost answer. Whatever fails before the body was let through the gate is proven not sent;
after that, only an answer tells.
"""

import asyncio
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from yarl import URL

from workers.delivery.gate import Gate, GateClosedError
from workers.delivery.outcomes import Outcome, lost, not_sent

DETAIL_BYTES = 512
"""What is kept of a receiver's words, for people."""
ANSWER_BYTES = 256 * 1024
"""Longest answer that is read; a page of a channel's history is far below it."""
READ_RESERVE_S = 0.05
"""What is left of the deadline when an answer that does not end is given up, so that its status still counts."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked; the URL is taken as it stands, already escaped."""

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = "application/json"
    reads_bytes: int = ANSWER_BYTES
    reads_s: float | None = None
    """How long to wait for the answer's body once its status is known; None: as long as the deadline allows."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool
    """False when the body broke off."""

    @property
    def document(self) -> dict[str, Any]:
        """The body as a JSON object; empty when it is none."""
        parsed = self.parsed
        return parsed if isinstance(parsed, dict) else {}

    @property
    def parsed(self) -> Any:
        """The body as JSON; None when it is none, or broke off."""
        if not self.is_whole:
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def words(self) -> str:
        """The answer as a person may read it, cut short."""
        return self.body[:DETAIL_BYTES].decode("utf-8", "replace")


class _GatedBody(Payload):
    """A body that asks the gate in the step in which it is written, in one piece; headers leave with it, never before.

    It counts as consumed once it was written: the client repeats a PUT by itself whose body can be written again.
    """

    _value: bytes
    _autoclose = True

    def __init__(self, body: bytes, content_type: str, gate: Gate) -> None:
        super().__init__(body, content_type=content_type)
        self._size = len(body)
        self._gate = gate
        self.written = False

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        self._gate.enter(getattr(writer, "transport", None))
        self.written = self._consumed = True
        await writer.write(self._value)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if content_length is not None and content_length != len(self._value):
            raise ValueError(f"a body of {len(self._value)} bytes was announced as {content_length}")
        await self.write(writer)


class Exchange:
    """Requests of one target. What is secret in a URL never gets into a record: it is blotted out of every detail."""

    def __init__(self, *, secret: str = "") -> None:
        self._secret = secret
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request, gate: Gate) -> Answer | Outcome:
        """Make the request within the gate's deadline; an Outcome when there is no answer to judge."""
        if not gate.is_open:
            return not_sent("lease_too_short")
        body = _GatedBody(request.body, request.content_type, gate)
        left_s = gate.left_ms / 1000
        reset = asyncio.get_running_loop().call_later(left_s, gate.reset)
        try:
            async with asyncio.timeout(left_s), self._open(request, body) as response:
                left_s = gate.left_ms / 1000 - READ_RESERVE_S
                return await _read(response, request, left_s if request.reads_s is None else request.reads_s)
        except GateClosedError:
            return not_sent("lease_too_short")
        except TimeoutError:
            return lost("deadline") if body.written else not_sent("connect_timeout")
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
            if isinstance(error.__cause__, GateClosedError):
                return not_sent("lease_too_short")
            if body.written:
                return lost("deadline" if gate.left_ms == 0 else "connection_lost", self._detail(repr(error)))
            return not_sent(_reason(error), self._detail(str(error)))
        finally:
            reset.cancel()

    async def look(self, request: Request, *, timeout_s: float) -> Answer | None:
        """Make a request that has no effect that counts; None when it came to nothing."""
        try:
            async with asyncio.timeout(timeout_s), self._open(request, request.body or None) as response:
                return await _read(response, request, timeout_s)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError, asyncio.IncompleteReadError):
            return None

    async def close(self) -> None:
        """Close the connector."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self, request: Request, body: Payload | bytes | None) -> Any:
        headers = {
            "User-Agent": "foldline",
            "Accept-Encoding": "identity",
            **request.headers,
            "Content-Type": request.content_type,
        }
        return self._client().request(
            request.method, URL(request.url, encoded=True), data=body, headers=headers, allow_redirects=False
        )

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True, limit=0, enable_cleanup_closed=False),
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )
        return self._session

    def _detail(self, text: str) -> str:
        return (text.replace(self._secret, "***") if self._secret else text)[:DETAIL_BYTES]


async def _read(response: aiohttp.ClientResponse, request: Request, wait_s: float) -> Answer:
    """The answer's body, as much of it as comes; its status is known already, and is lost with nothing."""
    pieces: list[bytes] = []
    size = 0
    is_whole = False
    try:
        async with asyncio.timeout(max(wait_s, 0.0)):
            async for piece in response.content.iter_any():
                pieces.append(piece)
                size += len(piece)
                if size > request.reads_bytes:
                    break
            else:
                is_whole = True
    except (TimeoutError, aiohttp.ClientError, OSError):
        is_whole = False
    body = b"".join(pieces)[: request.reads_bytes]
    return Answer(status=response.status, headers=response.headers, body=body, is_whole=is_whole)


def _reason(error: BaseException) -> str:
    """Why nothing was sent, in one word for the record."""
    if isinstance(error, (aiohttp.ClientConnectorDNSError, socket.gaierror)):
        return "dns"
    if isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)):
        return "tls"
    if isinstance(error, aiohttp.InvalidURL):
        return "invalid_url"
    cause = getattr(error, "os_error", error)
    if isinstance(cause, ConnectionRefusedError):
        return "refused"
    return "connect_failed"
