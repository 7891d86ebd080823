"""The webhook: one POST for each attempt, signed the way of Standard Webhooks (https://www.standardwebhooks.com).

`webhook-id` is the delivery's id, the same at every attempt, and stands in `Idempotency-Key` too: a receiver that leaves out ids it has
seen gets each part once. `webhook-timestamp` is the intent's time, so a request that slept in a paused process goes stale at the receiver;
it is not signed again within an attempt. Redirects, retries, proxies and cookies of the HTTP client are off, and no connection is
used twice: a reused one that the receiver has just closed would look like a lost answer.

A target with `reconcile_url` can be asked for a message by its id, with the same headers over an empty body: 200 says that the message was
taken, 404 that it was not. Anything else says nothing.
"""

import base64
import hashlib
import hmac
from urllib.parse import quote

from ledger.parts import PartRecord, Verdict
from workers.config import TargetConfig
from workers.config.channels import MEDIA, key_window_of
from workers.config.credentials import webhook_key
from workers.delivery.channels.contract import Message
from workers.delivery.exchange import DETAIL_BYTES, Exchange, Request
from workers.delivery.gate import Gate
from workers.delivery.outcomes import Capability, Found, Outcome, parse_retry_after
from workers.delivery.terms import Fate, Rule, Terms, outcome_of, rule_for

STANDARD = "https://www.standardwebhooks.com"
SEMANTICS = "RFC 9110, section 15"
DETAIL_WAIT_S = 1.0
"""How long to wait for the receiver's words once the status is known."""
_FOUND = {200: Found.YES, 404: Found.NO}

TERMS = Terms(
    key="webhook-id and Idempotency-Key",
    key_window_ms=MEDIA["webhook"].key_window_ms,
    key_scope="the receiver's own",
    key_page=STANDARD,
    reads_back="reconcile_url, where it is configured",
    rate_page=STANDARD,
    rules=(
        Rule(fate=Fate.LIMITED, status=(429, 429), reason="rate_limited", page=STANDARD),
        Rule(fate=Fate.RETRY, status=(408, 408), reason="refused", page=SEMANTICS),
        Rule(fate=Fate.RETRY, status=(425, 425), reason="refused", page=SEMANTICS),
        Rule(fate=Fate.PERMANENT, status=(410, 410), reason="gone", page=STANDARD),
        Rule(fate=Fate.PERMANENT, status=(300, 399), reason="redirect", page=STANDARD),
        Rule(fate=Fate.PERMANENT, status=(400, 499), reason="refused", page=SEMANTICS),
        Rule(fate=Fate.AMBIGUOUS, reason="failed", page=SEMANTICS),
    ),
)


class Webhook:
    """One endpoint with its secret."""

    terms = TERMS

    def __init__(self, config: TargetConfig, secret: str) -> None:
        self._config = config
        self._key = webhook_key(secret) if secret else None
        self._exchange = Exchange()

    @property
    def capability(self) -> Capability:
        """By key, unless the receiver forgets keys too soon; else by asking, where there is somebody to ask."""
        if key_window_of(self._config):
            return Capability.KEY
        return Capability.RECONCILE if self.reconciles else Capability.NONE

    @property
    def reconciles(self) -> bool:
        """Whether there is somebody to ask; after a key's window too."""
        return bool(self._config.reconcile_url)

    def chat_of(self, part: PartRecord) -> str:  # noqa: ARG002 - one endpoint
        """There is nothing to tell apart."""
        return ""

    async def send(self, message: Message, gate: Gate) -> Outcome:
        """POST the part once."""
        body = message.part.body.encode()
        request = Request(
            url=self._config.url,
            headers=self.headers(message.part, message.at, body),
            body=body,
            content_type=message.part.content_type,
            reads_bytes=DETAIL_BYTES,
            reads_s=DETAIL_WAIT_S,
        )
        answer = await self._exchange.send(request, gate)
        if isinstance(answer, Outcome):
            return answer
        return judge(
            answer.status,
            is_keyed=self.capability is Capability.KEY,
            detail=answer.words if answer.status >= 300 else "",
            retry_after=answer.headers.get("Retry-After"),
            now_ms=message.at,
        )

    async def find(self, part: PartRecord, *, at: int, timeout_s: float) -> Found:
        """GET the message by its id."""
        url = self._config.reconcile_url.replace("{id}", quote(part.webhook_id, safe=""))
        request = Request(
            url=url, method="GET", headers=self.headers(part, at, b""), content_type=part.content_type, reads_bytes=0
        )
        answer = await self._exchange.look(request, timeout_s=timeout_s)
        return Found.UNCLEAR if answer is None else _FOUND.get(answer.status, Found.UNCLEAR)

    async def close(self) -> None:
        """Close the connector."""
        await self._exchange.close()

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


def judge(status: int, *, is_keyed: bool, detail: str = "", retry_after: str | None = None, now_ms: int = 0) -> Outcome:
    """What a receiver's status says: 2xx took it, and 409 has this key already, or is at work on it."""
    if 200 <= status < 300 or (status == 409 and is_keyed):
        reason = "accepted" if status < 300 else "duplicate"
        return Outcome(verdict=Verdict.SENT, reason=reason, status=status, detail=detail)
    rule = rule_for(TERMS.rules, status=status) or TERMS.rules[-1]
    wait_ms = parse_retry_after(retry_after, now_ms=now_ms)
    return outcome_of(rule, status=status, detail=detail, is_keyed=is_keyed, wait_ms=wait_ms)


def sign(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """The signature header: version 1, HMAC-SHA256 over id, timestamp and body."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
