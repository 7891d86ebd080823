"""One HTTP connection, with a bound on what is held of a request before anybody is asked about it.

The parser joins a request's line, its headers and a body's trailers without a limit, each further byte at the cost of all that came
before: one client that never ends a header would take the memory, and the loop with it. So bytes are counted that the parser has
taken and told nothing of; beyond the bound the connection is answered, where nothing else is being answered on it, and closed.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from workers.gateway.errors import HttpError
from workers.gateway.inputs import HEADER_BYTES_MAX

HEAD_S = 20.0
"""From connecting, or from a later request's first byte, to the end of its head: a client that stops there holds a socket no longer."""
UNTOLD_BYTES_MAX = 2 * HEADER_BYTES_MAX  # what is between the two is refused with the request's own route and count

_REFUSAL = HttpError(431, "headers_too_large", f"the headers may have {HEADER_BYTES_MAX} bytes in all").response()
_ANSWER = b"\r\n".join(
    (
        b"HTTP/1.1 431 Request Header Fields Too Large",
        *(name + b": " + value for name, value in _REFUSAL.raw_headers),
        b"connection: close",
        b"",
        bytes(_REFUSAL.body),
    )
)


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol over its fast parser, closed when a request's head or trailer does not end."""

    _untold = 0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        """A client came; its first request's head is to end in time."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_S, transport.close)

    def on_message_begin(self) -> None:
        """A request begins; until then a connection that was used is the keep-alive's."""
        super().on_message_begin()
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_S, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._has_spoken()
        super().connection_lost(exc)

    def _has_spoken(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and count what it keeps to itself."""
        self._untold += len(data)
        super().data_received(data)
        if self._untold > UNTOLD_BYTES_MAX and not self.transport.is_closing():
            if getattr(self.cycle, "response_complete", True):  # there is none before the first request
                self.transport.write(_ANSWER)
            self.transport.close()

    def on_headers_complete(self) -> None:
        """The head has ended."""
        self._untold = 0
        self._has_spoken()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body; whoever reads the body bounds it."""
        self._untold = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request has ended; the next one on this connection begins."""
        self._untold = 0
        super().on_message_complete()
