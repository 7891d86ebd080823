"""The webhook: one POST for each attempt, signed the way of Standard Webhooks (https://www.standardwebhooks.com).

`webhook-id` is the delivery's id, the same at every attempt, and stands in `Idempotency-Key` too: a receiver that leaves out ids it has
seen gets each part once. `webhook-timestamp` is the intent's time, so a request that slept in a paused process goes stale at the receiver;
it is not signed again within an attempt. Redirects, retries, proxies and cookies of the HTTP client are off, and no connection is
used twice: a reused one that the receiver has just closed would look like a lost answer.

A target with `reconcile_url` can be asked for a message by its id, with the same headers over an empty body: 200 says that the message was
taken, 404 that it was not. Anything else says nothing.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import socket
import ssl
from urllib.parse import quote

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from ledger.parts import PartRecord
from workers.config import TargetConfig
from workers.delivery.channels.contract import Message
from workers.delivery.gate import Gate, GateClosedError
from workers.delivery.outcomes import Capability, Found, Outcome, from_status, lost, not_sent
from workers.delivery.recovery import key_window_ms

DETAIL_BYTES = 512
"""What is kept of a receiver's answer, for people."""
DETAIL_WAIT_S = 1.0
"""How long to wait for it once the status is known."""
_FOUND = {200: Found.YES, 404: Found.NO}
SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of secrets, not one


class _GatedBody(Payload):
    """A body that asks the gate in the step in which it is written, in one piece; headers leave with it, never before."""

    _value: bytes
    _autoclose = True

    def __init__(self, body: bytes, content_type: str, gate: Gate) -> None:
        super().__init__(body, content_type=content_type)
        self._size = len(body)
        self._gate = gate

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        self._gate.enter(getattr(writer, "transport", None))
        await writer.write(self._value)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if content_length is not None and content_length != len(self._value):
            raise ValueError(f"a body of {len(self._value)} bytes was announced as {content_length}")
        await self.write(writer)


class Webhook:
    """One endpoint with its secret."""

    def __init__(self, config: TargetConfig, secret: str) -> None:
        self._config = config
        self._key = secret_key(secret) if secret else None
        self._session: aiohttp.ClientSession | None = None

    @property
    def capability(self) -> Capability:
        """By key, unless the receiver forgets keys too soon; else by asking, where there is somebody to ask."""
        if key_window_ms(self._config.key_window_ms):
            return Capability.KEY
        return Capability.RECONCILE if self.reconciles else Capability.NONE

    @property
    def reconciles(self) -> bool:
        """Whether there is somebody to ask; after a key's window too."""
        return bool(self._config.reconcile_url)

    async def send(self, message: Message, gate: Gate) -> Outcome:
        """POST the part once."""
        if not gate.is_open:
            return not_sent("lease_too_short")
        loop = asyncio.get_running_loop()
        left_s = gate.left_ms / 1000
        reset = loop.call_later(left_s, gate.reset)
        try:
            async with asyncio.timeout(left_s):
                return await self._post(message, gate)
        except GateClosedError:
            return not_sent("lease_too_short")
        except TimeoutError:
            return lost("deadline") if gate.written else not_sent("connect_timeout")
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
            if isinstance(error.__cause__, GateClosedError):
                return not_sent("lease_too_short")
            if gate.written:
                return lost("deadline" if gate.left_ms == 0 else "connection_lost", repr(error)[:DETAIL_BYTES])
            return not_sent(_reason(error), str(error)[:DETAIL_BYTES])
        finally:
            reset.cancel()

    async def find(self, part: PartRecord, *, at: int, timeout_s: float) -> Found:
        """GET the message by its id."""
        url = self._config.reconcile_url.replace("{id}", quote(part.webhook_id, safe=""))
        headers = self.headers(part, at, b"")
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._client().get(url, headers=headers, allow_redirects=False) as response,
            ):
                return _FOUND.get(response.status, Found.UNCLEAR)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return Found.UNCLEAR

    async def close(self) -> None:
        """Close the connector."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, message: Message, gate: Gate) -> Outcome:
        body = message.part.body.encode()
        async with self._client().post(
            self._config.url,
            data=_GatedBody(body, message.part.content_type, gate),
            headers=self.headers(message.part, message.at, body),
            allow_redirects=False,
        ) as response:
            return from_status(
                response.status,
                capability=self.capability,
                detail=await _detail(response),
                retry_after=response.headers.get("Retry-After"),
                now_ms=message.at,
            )

    def headers(self, part: PartRecord, at: int, body: bytes) -> dict[str, str]:
        """The configured headers, and those of Standard Webhooks over them."""
        message_id, timestamp = part.webhook_id, str(at // 1000)
        headers = {
            **self._config.headers,
            "User-Agent": "foldline",
            "Content-Type": part.content_type,
            "Idempotency-Key": message_id,
            "webhook-id": message_id,
            "webhook-timestamp": timestamp,
        }
        if self._key is not None:
            headers["webhook-signature"] = sign(self._key, message_id, timestamp, body)
        return headers

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


def sign(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """The signature header: version 1, HMAC-SHA256 over id, timestamp and body."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def secret_key(secret: str) -> bytes:
    """The key in a secret; ValueError (without the secret in it) when it is no `whsec_` followed by base64."""
    if not secret.startswith(SECRET_PREFIX):
        raise ValueError("a webhook secret begins with whsec_")
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("after whsec_ a webhook secret is base64") from None


async def _detail(response: aiohttp.ClientResponse) -> str:
    if response.status < 300:
        return ""
    try:
        async with asyncio.timeout(DETAIL_WAIT_S):
            return (await response.content.read(DETAIL_BYTES)).decode("utf-8", "replace")
    except (TimeoutError, aiohttp.ClientError, OSError):
        return ""  # the status was the answer


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
