"""One upstream answer over HTTP: opened, read chunk by chunk, closed. Every failure comes out as one SourceError.

A body that is compressed all the same is read as it comes, where its encoding is gzip or deflate; another is refused by name.

Redirects are not followed and nothing is repeated by the client itself. The read time-out runs only while we wait for
bytes, be they a comment alone: a turn that waits for room, or for the fold, does not read and cannot stall. Connections are not reused, because a
kept connection that the upstream has dropped fails a request in a way that cannot be told from a processed one.
"""

import asyncio
import contextlib
import functools
import os
import ssl
import zlib

import aiohttp

from pipeline.events import ErrorInfo
from pipeline.normalize.registry import Adapter
from workers.config import UpstreamConfig
from workers.ingest.failures import Phase, SourceError, refused
from workers.ingest.requests import UpstreamRequest
from workers.ingest.sources.unpacking import READABLE, Unpacker
from workers.runtime.clock import Clock

ERROR_BODY_BYTES = 64 * 1024
"""Of an error's body we read no more: enough for any message, bounded for a page without end."""
STOOD_STILL_MS = 500
"""A time-out that is so late shows that the process did not run: frozen, or on a machine that slept."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
HEADER_BYTES = 64 * 1024
"""Of one header of an answer: gateways send long ones."""
READ_BUFFER_BYTES = 32 * 1024
"""The client stops reading the socket at twice this; the rest waits in the kernel and at the upstream."""


def open_session() -> aiohttp.ClientSession:
    """Make the client that all turns of a process share."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        trust_env=False,
        read_bufsize=READ_BUFFER_BYTES,
        max_field_size=HEADER_BYTES,
    )


class HttpSource:
    """The body of a 200 answer."""

    def __init__(self, response: aiohttp.ClientResponse, read_timeout_ms: int, clock: Clock) -> None:
        self._response = response
        self._read_timeout_ms = read_timeout_ms
        self._clock = clock
        self._unpacker = Unpacker(_encoding(response))
        self._has_begun = False
        self._broken: Exception | None = None

    def introduce(self, adapter: Adapter) -> None:
        """Nothing is known here that the body does not say."""

    def cancel(self) -> int | None:
        """Leaving is all that can be done."""
        return None

    async def read(self) -> bytes:
        """Wait for the next bytes, as many as have come; empty at the end of the body."""
        try:
            chunk = await self._unpacked()
        except zlib.error:
            raise SourceError(_encoded("cannot be unpacked"), Phase.BODY) from None
        except TimeoutError:
            raise SourceError(_stalled(self._read_timeout_ms), Phase.BODY) from None
        except (aiohttp.ClientError, OSError) as error:
            raise SourceError(_cut(error, "before its answer ended"), Phase.BODY) from None
        if not self._has_begun and (start := chunk.removeprefix(BYTE_ORDER_MARK).strip()):
            self._has_begun = True
            if start.startswith(b"<"):  # a page of whoever stands between; no line of a stream and no JSON begins so
                page = chunk + await _read_error(self._response, self._read_timeout_ms)
                raise refused(self._response.status, {"Content-Type": "text/html"}, page, 0)
        return chunk

    async def _unpacked(self) -> bytes:
        """Wait for bytes that unpack to some."""
        if chunk := self._unpacker.more():
            return chunk
        while packed := await self._wait():
            if chunk := self._unpacker.take(packed):
                return chunk
        if not self._unpacker.is_whole:
            raise ConnectionResetError
        return b""

    async def _wait(self) -> bytes:
        """Wait for bytes; what had come before the connection broke comes first, then the break."""
        if self._broken is not None:
            raise self._broken
        try:
            return await self._patiently()
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, TimeoutError) or not (rest := self._left_behind()):
                raise
            self._broken = error
            return rest

    def _left_behind(self) -> bytes:
        """The bytes that came while nobody read, and that the client throws away when the connection breaks."""
        content = self._response.content
        content.set_exception(None)  # type: ignore[arg-type]  # else nothing can be read any more
        return content.read_nowait()

    async def _patiently(self) -> bytes:
        """Wait for bytes. A time-out that ran while this process stood still says nothing of the upstream: it is given another."""
        while True:
            began = self._clock.boottime_ms()
            try:
                async with asyncio.timeout(self._read_timeout_ms / 1000):
                    return await self._response.content.readany()
            except TimeoutError:
                if self._clock.boottime_ms() - began < self._read_timeout_ms + STOOD_STILL_MS:
                    raise

    def close(self) -> None:
        """Close the connection, whatever is still on it."""
        self._response.close()


async def open_source(
    session: aiohttp.ClientSession, request: UpstreamRequest, upstream: UpstreamConfig, clock: Clock
) -> HttpSource:
    """Send the request and wait for the status line; raise SourceError unless it is 200."""
    # all of the way: a name to look up, a proxy that opens a tunnel, the handshake of TLS
    limit = aiohttp.ClientTimeout(total=None, connect=upstream.connect_timeout_ms / 1000)
    patience_s = (upstream.connect_timeout_ms + upstream.read_timeout_ms) / 1000
    try:
        async with asyncio.timeout(patience_s):
            response = await _send(session, request, limit)
    except aiohttp.ClientHttpProxyError as error:  # it opened no way to the upstream, which has heard nothing
        message = f"no connection to the upstream: its proxy answered {error.status}"
        raise SourceError(_error("upstream_connect_failed", message), Phase.CONNECT) from None
    except aiohttp.ClientResponseError:
        raise SourceError(
            _error("upstream_bad_response", "what the upstream answered is no HTTP"), Phase.STATUS
        ) from None
    except aiohttp.ConnectionTimeoutError:
        message = f"no connection to the upstream within {upstream.connect_timeout_ms} ms"
        raise SourceError(_error("upstream_connect_failed", message), Phase.CONNECT) from None
    except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
        raise SourceError(_error("upstream_connect_failed", _words(error)), Phase.CONNECT) from None
    except TimeoutError:
        raise SourceError(_stalled(upstream.read_timeout_ms), Phase.ANSWER) from None
    except (aiohttp.ClientError, OSError) as error:
        raise SourceError(_cut(error, "before it answered"), Phase.ANSWER) from None
    if response.status == 200:
        if (encoding := _encoding(response)) not in READABLE:
            response.close()
            raise SourceError(_encoded(f"is encoded as {encoding[:40]}"), Phase.STATUS)
        return HttpSource(response, upstream.read_timeout_ms, clock)
    try:
        body = await _read_error(response, upstream.read_timeout_ms)
        raise refused(response.status, response.headers, body, clock.now_ms())
    finally:
        response.close()


async def _read_error(response: aiohttp.ClientResponse, timeout_ms: int) -> bytes:
    """Read what can be read of an error's body: a body that stalls or breaks changes nothing about the status."""
    body = b""
    if (encoding := _encoding(response)) not in READABLE:
        return body
    unpacker = Unpacker(encoding)
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError, zlib.error):
        async with asyncio.timeout(timeout_ms / 1000):
            while len(body) < ERROR_BODY_BYTES and (chunk := await response.content.readany()):
                body += unpacker.take(chunk)
    return body[:ERROR_BODY_BYTES]


async def _send(
    session: aiohttp.ClientSession, request: UpstreamRequest, limit: aiohttp.ClientTimeout
) -> aiohttp.ClientResponse:
    """Send a request by its way, and wait for the head of the answer."""
    through = dict(request.proxy_headers) if request.proxy else {}
    is_tunnel = request.url.startswith("https://")  # else the request itself goes to the proxy
    return await session.request(
        request.method,
        request.url,
        data=request.body,
        headers=request.headers if is_tunnel else {**request.headers, **through},
        allow_redirects=False,
        timeout=limit,
        proxy=request.proxy or None,
        proxy_headers=through if is_tunnel and through else None,
        ssl=_trust(request.ca_file) if request.ca_file else True,
    )


@functools.cache
def _trust(ca_file: str) -> ssl.SSLContext:
    """Whose certificates an upstream's may go back to; read once."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        why = "it holds no certificate in PEM"
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else type(error).__name__
    raise SourceError(_error("upstream_not_configured", f"the upstream's ca_file cannot be read: {why}"), Phase.STATUS)


def _error(code: str, message: str) -> ErrorInfo:
    return ErrorInfo(code=code, message=message)


def _stalled(timeout_ms: int) -> ErrorInfo:
    return _error("upstream_stalled", f"the upstream sent nothing for {timeout_ms} ms")


def _cut(error: Exception, when: str) -> ErrorInfo:
    return _error("upstream_truncated", f"the upstream closed the connection {when} ({type(error).__name__})")


def _encoded(found: str) -> ErrorInfo:
    message = f"the upstream's answer {found}, though it was asked for no encoding"
    return _error("upstream_bad_response", message)


def _encoding(response: aiohttp.ClientResponse) -> str:
    return response.headers.get("Content-Encoding", "").strip().lower()


def _words(error: Exception) -> str:
    """Say what failed without the address, which is not the client's to know."""
    whom = "the upstream's proxy" if isinstance(error, aiohttp.ClientProxyConnectionError) else "the upstream"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        found = getattr(error.certificate_error, "verify_message", "")  # for a wrong name it tells the name
        why = "it is another host's" if "match" in found else found
        return f"no connection to the upstream: its certificate is not trusted ({why})"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return "no connection to the upstream: it does not speak TLS as we do"
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno is not None:
        return f"no connection to {whom}: {os.strerror(error.os_error.errno)}"
    return f"no connection to {whom}: {type(error).__name__}"


async def tell(session: aiohttp.ClientSession, request: UpstreamRequest, *, timeout_ms: int) -> None:
    """Send a request whose answer changes nothing; failures are not reported."""
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(timeout_ms / 1000):
            response = await _send(session, request, aiohttp.ClientTimeout(total=None))
            response.close()
