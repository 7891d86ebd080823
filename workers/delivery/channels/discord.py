"""Discord: a bot's messages, one POST for each attempt.

The key is `nonce` with `enforce_nonce`: within a few minutes a repeat returns the message that is there. After that the channel is read
back; a nonce that is shown proves the message. Discord does not keep nonces as a rule, so a message of a bot's with our letters and no
nonce leaves the question open, and only the absence of any such message says "not taken".
Nobody is mentioned (`allowed_mentions` parses nothing). A thread is a channel of its own; a reply to a message that is gone is sent all the same.
"""

import hashlib
import json
from base64 import urlsafe_b64encode
from typing import Any
from urllib.parse import quote

from ledger.parts import PartRecord, Verdict
from workers.config import TargetConfig
from workers.config.channels import MEDIA, base_url_of, key_window_of
from workers.delivery.addresses import address_of, parse
from workers.delivery.channels.contract import Message
from workers.delivery.exchange import Answer, Exchange, Request
from workers.delivery.gate import Gate
from workers.delivery.outcomes import Capability, Found, Hold, Outcome, dead
from workers.delivery.readback import PAGES, SKEW_MS, Seen, judge
from workers.delivery.terms import Fate, Rate, Rule, Terms, outcome_of, rule_for, seconds_to_ms

MESSAGES = "https://docs.discord.com/developers/resources/message#create-message"
READING = "https://docs.discord.com/developers/resources/message#get-channel-messages"
TYPING = "https://docs.discord.com/developers/resources/channel#trigger-typing-indicator"
LIMITS = "https://docs.discord.com/developers/topics/rate-limits"
STATUS = "https://docs.discord.com/developers/topics/opcodes-and-status-codes#http"
CODES = "https://docs.discord.com/developers/topics/opcodes-and-status-codes#json"

ACCOUNT_HOLD_MS = 60_000
"""How long a bot whose token is refused waits: 10,000 refused requests in ten minutes shut its address out (LIMITS)."""
EPOCH_MS = 1_420_070_400_000
"""Ids begin with the milliseconds since then, shifted by 22 bits."""
PAGE = 100
"""READING: most messages of one request."""
NONCE_BYTES = 18
"""MESSAGES: a nonce has at most 25 characters; 18 bytes are 24 of them."""

TERMS = Terms(
    key="nonce, with enforce_nonce",
    key_window_ms=MEDIA["discord"].key_window_ms,
    key_scope="the messages of one bot",
    key_page=MESSAGES,
    reads_back="the channel's messages, by nonce",
    reads_back_page=READING,
    account_rate=Rate(per_s=50, burst=50),
    rate_page=LIMITS,
    typing_ms=8_000,  # it goes out by itself after ten seconds
    typing_page=TYPING,
    rules=(
        Rule(fate=Fate.LIMITED, code="20016", reason="slow_mode", page=CODES),
        Rule(fate=Fate.LIMITED, code="20028", reason="channel_write_limit", page=CODES),
        Rule(fate=Fate.LIMITED, status=(429, 429), reason="rate_limited", page=LIMITS),
        Rule(fate=Fate.RETRY, status=(401, 401), reason="unauthorized", page=STATUS, hold_ms=ACCOUNT_HOLD_MS),
        Rule(fate=Fate.PERMANENT, code="10003", reason="unknown_channel", page=CODES),
        Rule(fate=Fate.PERMANENT, code="50001", reason="missing_access", page=CODES),
        Rule(fate=Fate.PERMANENT, code="50006", reason="empty_message", page=CODES),
        Rule(fate=Fate.PERMANENT, code="50007", reason="cannot_message_user", page=CODES),
        Rule(fate=Fate.PERMANENT, code="50013", reason="missing_permissions", page=CODES),
        Rule(fate=Fate.PERMANENT, code="50035", reason="invalid_form", page=CODES),
        Rule(fate=Fate.PERMANENT, code="50083", reason="thread_archived", page=CODES),
        Rule(fate=Fate.PERMANENT, code="160005", reason="thread_locked", page=CODES),
        Rule(fate=Fate.PERMANENT, code="200000", reason="blocked_by_moderation", page=CODES),
        # A refusal without a code is not the interface's own: its front shut this address out for a while.
        Rule(fate=Fate.RETRY, status=(403, 403), code="none", reason="shut_out", page=LIMITS, hold_ms=ACCOUNT_HOLD_MS),
        Rule(fate=Fate.PERMANENT, status=(400, 499), reason="refused", page=STATUS),
        Rule(fate=Fate.PERMANENT, status=(300, 399), reason="redirect", page=STATUS),
        Rule(fate=Fate.AMBIGUOUS, status=(500, 599), reason="failed", page=STATUS),
        Rule(fate=Fate.AMBIGUOUS, reason="garbled", page=STATUS),
    ),
)


class Discord:
    """One bot and where it posts."""

    terms = TERMS

    def __init__(self, config: TargetConfig, token: str) -> None:
        self._config = config
        self._base_url = base_url_of(config)
        self._exchange = Exchange(secret=token)
        self._headers = {"Authorization": f"Bot {token}", "User-Agent": "DiscordBot (foldline, 0.1)"}

    @property
    def capability(self) -> Capability:
        """By key; by reading back where the configuration trusts no key."""
        return Capability.KEY if key_window_of(self._config) else Capability.RECONCILE

    @property
    def reconciles(self) -> bool:
        """A channel can always be read."""
        return True

    def chat_of(self, part: PartRecord) -> str:
        """The channel or thread, which rate limits are counted by."""
        return channel_of(part.recipient or self._config.recipient)

    async def send(self, message: Message, gate: Gate) -> Outcome:
        """Create the message once."""
        part = message.part
        chat = self.chat_of(part)
        if not chat:
            return dead("bad_recipient", part.recipient)
        body = json.dumps(self.payload(part), ensure_ascii=False).encode()
        answer = await self._exchange.send(self._request("POST", f"{chat}/messages", body), gate)
        return answer if isinstance(answer, Outcome) else self._judge(answer, chat)

    def payload(self, part: PartRecord) -> dict[str, Any]:
        """What is posted; the same at every attempt."""
        reply = address_of(part, self._config).reply
        payload: dict[str, Any] = {
            "content": part.body,
            "nonce": nonce_of(part),
            "enforce_nonce": True,
            "allowed_mentions": {"parse": [], "replied_user": False},
        }
        if reply:
            payload["message_reference"] = {"message_id": reply, "fail_if_not_exists": False}
        return payload

    async def find(self, part: PartRecord, *, at: int, timeout_s: float) -> Found:  # noqa: ARG002 - nothing is signed
        """Read everything from a while before the first attempt on."""
        chat = self.chat_of(part)
        after = snowflake(part.exposed_at - SKEW_MS)
        seen: list[Seen] = []
        for _ in range(PAGES):
            request = self._request("GET", f"{chat}/messages?limit={PAGE}&after={after}")
            answer = await self._exchange.look(request, timeout_s=timeout_s)
            page = answer.parsed if answer is not None and answer.status == 200 else None
            if not isinstance(page, list):
                return Found.UNCLEAR
            seen += [_seen(shown) for shown in page]
            if len(page) < PAGE:
                return judge(seen, mark=nonce_of(part), body=part.body)
            after = max(int(shown["id"]) for shown in page)
        return Found.YES if judge(seen, mark=nonce_of(part), body=part.body) is Found.YES else Found.UNCLEAR

    async def show_typing(self, recipient: str, *, timeout_s: float) -> int:
        """Show it; it goes out by itself."""
        chat = channel_of(recipient or self._config.recipient)
        answer = await self._exchange.look(self._request("POST", f"{chat}/typing"), timeout_s=timeout_s)
        return (_wait_ms(answer) or 0) if answer is not None and answer.status == 429 else 0

    async def close(self) -> None:
        """Close connections."""
        await self._exchange.close()

    def _request(self, method: str, path: str, body: bytes = b"") -> Request:
        return Request(url=f"{self._base_url}/channels/{path}", method=method, headers=self._headers, body=body)

    def _judge(self, answer: Answer, chat: str) -> Outcome:
        document = answer.document
        if 200 <= answer.status < 300 and document.get("id"):
            holds: tuple[Hold, ...] = ()
            if answer.headers.get("X-RateLimit-Remaining") == "0":
                holds = (Hold(chat=chat, wait_ms=seconds_to_ms(answer.headers.get("X-RateLimit-Reset-After")) or 0),)
            return Outcome(
                verdict=Verdict.SENT,
                reason="accepted",
                status=answer.status,
                message_id=str(document["id"]),
                holds=holds,
            )
        code = str(document.get("code", "none" if not document else ""))
        rule = rule_for(TERMS.rules, status=answer.status, code=code, words=answer.words) or TERMS.rules[-1]
        return outcome_of(
            rule,
            status=answer.status,
            detail=answer.words,
            is_keyed=self.capability is Capability.KEY,
            wait_ms=_wait_ms(answer),
            chat="" if _is_global(answer) else chat,
        )


def nonce_of(part: PartRecord) -> str:
    """The part's nonce, the same at every attempt."""
    return urlsafe_b64encode(hashlib.sha256(part.id.encode()).digest()[:NONCE_BYTES]).decode()


def snowflake(at_ms: int) -> int:
    """The smallest id of a message of that time."""
    return max(at_ms - EPOCH_MS, 0) << 22


def channel_of(recipient: str) -> str:
    """The channel that is posted to, escaped for a path: the thread where one is named; empty when the recipient is none."""
    try:
        address = parse(recipient)
    except ValueError:
        return ""
    return quote(address.thread or address.chat, safe="")


def _seen(shown: dict[str, Any]) -> Seen:
    return Seen(
        mark=str(shown.get("nonce") or ""),
        text=str(shown.get("content", "")),
        is_bots=bool((shown.get("author") or {}).get("bot")),
    )


def _wait_ms(answer: Answer) -> int | None:
    """The body's word is exact, the header's is rounded up."""
    exact = seconds_to_ms(answer.document.get("retry_after"))
    return seconds_to_ms(answer.headers.get("Retry-After")) if exact is None else exact


def _is_global(answer: Answer) -> bool:
    document = answer.document
    return not document or bool(document.get("global")) or answer.headers.get("X-RateLimit-Scope") == "global"
