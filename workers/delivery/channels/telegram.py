"""Telegram: the Bot API's `sendMessage`, one POST for each attempt.

There is no key, and a bot cannot read what it has sent: what is lost stays unknown. Messages are HTML; where the server refuses the
markup, the same attempt sends the plain text, because a refusal proves that nothing was sent.
The token stands in the URL, so no URL gets into a record.
"""

import json
from typing import Any

from ledger.parts import PartRecord, Verdict
from pipeline.project.telegram import plain_of
from workers.config import TargetConfig
from workers.config.channels import base_url_of
from workers.delivery.addresses import Address, address_of, parse
from workers.delivery.channels.contract import Message
from workers.delivery.exchange import Answer, Exchange, Request
from workers.delivery.gate import Gate
from workers.delivery.outcomes import Capability, Outcome, dead
from workers.delivery.terms import Fate, Rate, Rule, Terms, outcome_of, rule_for, seconds_to_ms

SEND = "https://core.telegram.org/bots/api#sendmessage"
REQUESTS = "https://core.telegram.org/bots/api#making-requests"
PARAMETERS = "https://core.telegram.org/bots/api#responseparameters"
MARKUP = "https://core.telegram.org/bots/api#html-style"
TYPING = "https://core.telegram.org/bots/api#sendchataction"
LIMITS = "https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this"

ACCOUNT_HOLD_MS = 60_000
"""How long a bot whose token is refused waits."""
MARKUP_REFUSED = "can't parse entities"
"""The words of the one refusal that is answered within the attempt (MARKUP)."""

TERMS = Terms(
    account_rate=Rate(per_s=30, burst=30),
    chat_rate=Rate(per_s=1, burst=3),
    rate_page=LIMITS,
    typing_ms=4_000,  # it goes out by itself after five seconds
    typing_page=TYPING,
    rules=(
        Rule(fate=Fate.LIMITED, status=(429, 429), reason="rate_limited", page=PARAMETERS),
        Rule(fate=Fate.RETRY, status=(401, 401), reason="unauthorized", page=REQUESTS, hold_ms=ACCOUNT_HOLD_MS),
        Rule(fate=Fate.RETRY, status=(404, 404), reason="unknown_token", page=REQUESTS, hold_ms=ACCOUNT_HOLD_MS),
        Rule(fate=Fate.PERMANENT, phrase="chat not found", reason="chat_not_found", page=SEND),
        Rule(fate=Fate.PERMANENT, phrase="upgraded to a supergroup", reason="chat_moved", page=PARAMETERS),
        Rule(fate=Fate.PERMANENT, phrase="message thread not found", reason="thread_not_found", page=SEND),
        Rule(fate=Fate.PERMANENT, phrase="message is too long", reason="too_long", page=SEND),
        Rule(fate=Fate.PERMANENT, phrase="text is empty", reason="empty_message", page=SEND),
        Rule(fate=Fate.PERMANENT, phrase=MARKUP_REFUSED, reason="markup_refused", page=MARKUP),
        Rule(fate=Fate.PERMANENT, phrase="bot was blocked", reason="blocked", page=REQUESTS),
        Rule(fate=Fate.PERMANENT, phrase="bot was kicked", reason="kicked", page=REQUESTS),
        Rule(fate=Fate.PERMANENT, status=(400, 499), reason="refused", page=REQUESTS),
        Rule(fate=Fate.PERMANENT, status=(300, 399), reason="redirect", page=REQUESTS),
        Rule(fate=Fate.AMBIGUOUS, status=(500, 599), reason="failed", page=REQUESTS),
        Rule(fate=Fate.AMBIGUOUS, reason="garbled", page=REQUESTS),
    ),
)


class Telegram:
    """One bot and where it posts."""

    terms = TERMS
    capability = Capability.NONE

    def __init__(self, config: TargetConfig, token: str) -> None:
        self._config = config
        self._bot_url = f"{base_url_of(config)}/bot{token}"
        self._exchange = Exchange(secret=token)

    def chat_of(self, part: PartRecord) -> str:
        """The chat, which rate limits are counted by."""
        return _chat(part.recipient or self._config.recipient)

    async def send(self, message: Message, gate: Gate) -> Outcome:
        """Send the message once; a second time without markup, when the markup was refused."""
        part = message.part
        chat = self.chat_of(part)
        if not chat:
            return dead("bad_recipient", part.recipient)
        answer = await self._exchange.send(self._request("sendMessage", self.payload(part)), gate)
        if isinstance(answer, Answer) and is_markup_refused(answer):
            answer = await self._exchange.send(self._request("sendMessage", self.payload(part, plain=True)), gate)
        return answer if isinstance(answer, Outcome) else _judge(answer, chat)

    def payload(self, part: PartRecord, *, plain: bool = False) -> dict[str, Any]:
        """What is posted; the same at every attempt."""
        address = address_of(part, self._config)
        payload: dict[str, Any] = {"chat_id": _id(address.chat), **_thread(address)}
        payload |= {"text": plain_of(part.body)} if plain else {"text": part.body, "parse_mode": "HTML"}
        if address.reply:
            payload["reply_parameters"] = {"message_id": _id(address.reply), "allow_sending_without_reply": True}
        return payload

    async def show_typing(self, recipient: str, *, timeout_s: float) -> int:
        """Show it; it goes out by itself."""
        address = parse(recipient or self._config.recipient)
        payload = {"chat_id": _id(address.chat), **_thread(address), "action": "typing"}
        answer = await self._exchange.look(self._request("sendChatAction", payload), timeout_s=timeout_s)
        return (_wait_ms(answer) or 0) if answer is not None and answer.status == 429 else 0

    async def close(self) -> None:
        """Close connections."""
        await self._exchange.close()

    def _request(self, method: str, payload: dict[str, Any]) -> Request:
        return Request(url=f"{self._bot_url}/{method}", body=json.dumps(payload, ensure_ascii=False).encode())


def is_markup_refused(answer: Answer) -> bool:
    """Whether the server took nothing because it could not read the markup."""
    description = str(answer.document.get("description", "")).lower()
    return answer.status == 400 and answer.document.get("ok") is False and MARKUP_REFUSED in description


def _judge(answer: Answer, chat: str) -> Outcome:
    document = answer.document
    if answer.status == 200 and document.get("ok") is True:
        sent = document.get("result") or {}
        return Outcome(verdict=Verdict.SENT, reason="accepted", status=200, message_id=str(sent.get("message_id", "")))
    words = str(document.get("description", ""))
    rule = rule_for(TERMS.rules, status=answer.status, words=words) or TERMS.rules[-1]
    return outcome_of(rule, status=answer.status, detail=answer.words, wait_ms=_wait_ms(answer), chat=chat)


def _wait_ms(answer: Answer) -> int | None:
    told = seconds_to_ms((answer.document.get("parameters") or {}).get("retry_after"))
    return seconds_to_ms(answer.headers.get("Retry-After")) if told is None else told


def _chat(recipient: str) -> str:
    try:
        return parse(recipient).chat
    except ValueError:
        return ""


def _id(text: str) -> int | str:
    """Ids are numbers, names of public channels are texts."""
    return int(text) if text.lstrip("-").isdecimal() and text.isascii() else text


def _thread(address: Address) -> dict[str, Any]:
    return {"message_thread_id": _id(address.thread)} if address.thread else {}
