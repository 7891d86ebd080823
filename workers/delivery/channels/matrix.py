"""Matrix: one PUT for each attempt, with the delivery's id as transaction id.

The home server answers a transaction id that it has seen with the event that is there. The specification names no end of that; widely
used servers keep their table for a day. The part's body is the content of an `m.room.message` event already; here it gets its thread
or what it replies to.
"""

import json
from typing import Any
from urllib.parse import quote

from ledger.parts import PartRecord, Verdict
from workers.config import TargetConfig
from workers.config.channels import MEDIA, base_url_of, key_window_of
from workers.delivery.addresses import Address, address_of, parse
from workers.delivery.channels.contract import Message
from workers.delivery.exchange import Answer, Exchange, Request
from workers.delivery.gate import Gate
from workers.delivery.outcomes import Capability, Outcome, dead
from workers.delivery.terms import Fate, Rule, Terms, outcome_of, rule_for, seconds_to_ms

SEND = "https://spec.matrix.org/latest/client-server-api/#put_matrixclientv3roomsroomidsendeventtypetxnid"
TRANSACTIONS = "https://spec.matrix.org/latest/client-server-api/#transaction-identifiers"
LIMITS = "https://spec.matrix.org/latest/client-server-api/#rate-limiting"
ERRORS = "https://spec.matrix.org/latest/client-server-api/#standard-error-response"
SIZES = "https://spec.matrix.org/latest/client-server-api/#size-limits"
TYPING = "https://spec.matrix.org/latest/client-server-api/#put_matrixclientv3roomsroomidtypinguserid"

ACCOUNT_HOLD_MS = 60_000
"""How long an account whose token is refused waits."""
TYPING_MS = 30_000

TERMS = Terms(
    key="txnId, in the path",
    key_window_ms=MEDIA["matrix"].key_window_ms,
    key_scope="the events of one device in one room",
    key_page=TRANSACTIONS,
    rate_page=LIMITS,
    typing_ms=TYPING_MS * 2 // 3,
    typing_page=TYPING,
    rules=(
        Rule(fate=Fate.LIMITED, status=(429, 429), reason="rate_limited", page=LIMITS),
        Rule(fate=Fate.LIMITED, code="M_LIMIT_EXCEEDED", reason="rate_limited", page=LIMITS),
        Rule(fate=Fate.RETRY, status=(401, 401), reason="unauthorized", page=ERRORS, hold_ms=ACCOUNT_HOLD_MS),
        Rule(
            fate=Fate.RETRY,
            code="M_RESOURCE_LIMIT_EXCEEDED",
            reason="server_over_limit",
            page=ERRORS,
            hold_ms=ACCOUNT_HOLD_MS,
        ),
        Rule(fate=Fate.PERMANENT, code="M_FORBIDDEN", reason="forbidden", page=ERRORS),
        Rule(fate=Fate.PERMANENT, code="M_TOO_LARGE", reason="too_large", page=SIZES),
        Rule(fate=Fate.PERMANENT, code="M_BAD_JSON", reason="bad_content", page=ERRORS),
        Rule(fate=Fate.PERMANENT, code="M_NOT_JSON", reason="not_json", page=ERRORS),
        Rule(fate=Fate.PERMANENT, code="M_NOT_FOUND", reason="not_found", page=ERRORS),
        Rule(fate=Fate.PERMANENT, code="M_UNRECOGNIZED", reason="unrecognized", page=ERRORS),
        Rule(fate=Fate.PERMANENT, status=(400, 499), reason="refused", page=ERRORS),
        Rule(fate=Fate.PERMANENT, status=(300, 399), reason="redirect", page=ERRORS),
        Rule(fate=Fate.AMBIGUOUS, status=(500, 599), reason="failed", page=ERRORS),
        Rule(fate=Fate.AMBIGUOUS, reason="garbled", page=ERRORS),
    ),
)


class Matrix:
    """One account and where it posts."""

    terms = TERMS

    def __init__(self, config: TargetConfig, token: str) -> None:
        self._config = config
        self._rooms_url = f"{base_url_of(config)}/_matrix/client/v3/rooms"
        self._account_url = f"{base_url_of(config)}/_matrix/client/v3/account/whoami"
        self._exchange = Exchange(secret=token)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._user = ""

    @property
    def capability(self) -> Capability:
        """By key, unless the configuration trusts none."""
        return Capability.KEY if key_window_of(self._config) else Capability.NONE

    def chat_of(self, part: PartRecord) -> str:
        """The room."""
        return _chat(part.recipient or self._config.recipient)

    async def send(self, message: Message, gate: Gate) -> Outcome:
        """Put the event once."""
        part = message.part
        chat = self.chat_of(part)
        if not chat:
            return dead("bad_recipient", part.recipient)
        try:
            body = json.dumps(self.content(part), ensure_ascii=False).encode()
        except ValueError as error:
            return dead("bad_content", str(error))
        request = Request(
            url=f"{self._rooms_url}/{quote(chat, safe='')}/send/m.room.message/{quote(part.webhook_id, safe='')}",
            method="PUT",
            headers=self._headers,
            body=body,
        )
        answer = await self._exchange.send(request, gate)
        return answer if isinstance(answer, Outcome) else self._judge(answer, chat)

    def content(self, part: PartRecord) -> dict[str, Any]:
        """The event's content; the same at every attempt."""
        return {**json.loads(part.body), **_relation(address_of(part, self._config))}

    async def show_typing(self, recipient: str, *, timeout_s: float) -> int:
        """Show it for half a minute."""
        user = await self._whoami(timeout_s)
        if not user:
            return 0
        room = _chat(recipient or self._config.recipient)
        request = Request(
            url=f"{self._rooms_url}/{quote(room, safe='')}/typing/{quote(user, safe='')}",
            method="PUT",
            headers=self._headers,
            body=json.dumps({"typing": True, "timeout": TYPING_MS}).encode(),
        )
        answer = await self._exchange.look(request, timeout_s=timeout_s)
        return (_wait_ms(answer) or 0) if answer is not None and answer.status == 429 else 0

    async def close(self) -> None:
        """Close connections."""
        await self._exchange.close()

    async def _whoami(self, timeout_s: float) -> str:
        if not self._user:
            request = Request(url=self._account_url, method="GET", headers=self._headers)
            answer = await self._exchange.look(request, timeout_s=timeout_s)
            self._user = str(answer.document.get("user_id", "")) if answer is not None else ""
        return self._user

    def _judge(self, answer: Answer, chat: str) -> Outcome:
        document = answer.document
        if answer.status == 200 and document.get("event_id"):
            return Outcome(verdict=Verdict.SENT, reason="accepted", status=200, message_id=str(document["event_id"]))
        code = str(document.get("errcode", ""))
        rule = rule_for(TERMS.rules, status=answer.status, code=code) or TERMS.rules[-1]
        return outcome_of(
            rule,
            status=answer.status,
            detail=answer.words,
            is_keyed=self.capability is Capability.KEY,
            wait_ms=_wait_ms(answer),
            chat=chat,
        )


def _relation(address: Address) -> dict[str, Any]:
    """A thread's message names its root, and what it answers; outside of threads a reply names that alone."""
    answers = {"m.in_reply_to": {"event_id": address.reply or address.thread}}
    if address.thread:
        thread = {"rel_type": "m.thread", "event_id": address.thread, "is_falling_back": not address.reply}
        return {"m.relates_to": {**thread, **answers}}
    return {"m.relates_to": answers} if address.reply else {}


def _wait_ms(answer: Answer) -> int | None:
    """`retry_after_ms` is exact, where it is still sent; the header counts whole seconds."""
    exact = answer.document.get("retry_after_ms")
    if isinstance(exact, (int, float)) and not isinstance(exact, bool):
        return seconds_to_ms(exact / 1000)
    return seconds_to_ms(answer.headers.get("Retry-After"))


def _chat(recipient: str) -> str:
    try:
        return parse(recipient).chat
    except ValueError:
        return ""
