"""Slack: `chat.postMessage`, one POST for each attempt.

No key is documented. Each message carries the delivery's id in its metadata, and a part whose outcome was lost is looked for in the
channel's history, or in its thread. `client_msg_id` is sent as a hint that some servers honour; nothing rests on it.
An answer says `ok: false` with status 200; two of its errors, `internal_error` and `fatal_error`, may come after the message was posted.
"""

import json
import uuid
from typing import Any
from urllib.parse import urlencode

from ledger.parts import PartRecord, Verdict
from workers.config import TargetConfig
from workers.config.channels import base_url_of
from workers.delivery.addresses import address_of, parse
from workers.delivery.channels.contract import Message
from workers.delivery.exchange import Answer, Exchange, Request
from workers.delivery.gate import Gate
from workers.delivery.outcomes import Capability, Found, Outcome, dead
from workers.delivery.readback import PAGES, SKEW_MS, Seen, judge
from workers.delivery.terms import Fate, Rate, Rule, Terms, outcome_of, rule_for, seconds_to_ms

POST = "https://docs.slack.dev/reference/methods/chat.postMessage#errors"
HISTORY = "https://docs.slack.dev/reference/methods/conversations.history"
METADATA = "https://docs.slack.dev/messaging/message-metadata"
LIMITS = "https://docs.slack.dev/apis/web-api/rate-limits"
ANSWERS = "https://docs.slack.dev/apis/web-api/#evaluating-responses"

ACCOUNT_HOLD_MS = 60_000
"""How long a bot whose token or workspace is refused waits."""
EVENT_TYPE = "foldline_delivery"
PAGE = 100
"""HISTORY: fewer than 200 are advised; apps outside the Marketplace get 15."""
ASK_AGAIN_MS = 60_000
"""HISTORY: apps outside the Marketplace may ask once a minute."""


def _refusals(fate: Fate, names: str, *, hold_ms: int = 0) -> tuple[Rule, ...]:
    return tuple(Rule(fate=fate, code=name, reason=name, page=POST, hold_ms=hold_ms) for name in names.split())


TERMS = Terms(
    reads_back="conversations.history or conversations.replies, by the message's metadata",
    reads_back_page=HISTORY,
    chat_rate=Rate(per_s=1, burst=3),
    rate_page=LIMITS,
    rules=(
        Rule(fate=Fate.LIMITED, status=(429, 429), reason="rate_limited", page=LIMITS),
        *_refusals(Fate.LIMITED, "ratelimited rate_limited message_limit_exceeded"),
        *_refusals(
            Fate.RETRY,
            "not_authed invalid_auth token_expired token_revoked account_inactive missing_scope "
            "ekm_access_denied org_login_required team_added_to_org two_factor_setup_required access_denied",
            hold_ms=ACCOUNT_HOLD_MS,
        ),
        *_refusals(Fate.RETRY, "request_timeout"),  # the request came cut off
        *_refusals(
            Fate.PERMANENT,
            "channel_not_found is_archived not_in_channel no_text msg_too_long cannot_reply_to_message "
            "restricted_action restricted_action_read_only_channel restricted_action_thread_only_channel "
            "restricted_action_thread_locked metadata_too_large invalid_metadata_format messages_tab_disabled",
        ),
        *_refusals(
            Fate.AMBIGUOUS,
            "internal_error fatal_error service_unavailable duplicate_message_not_found duplicate_channel_not_found",
        ),
        Rule(fate=Fate.PERMANENT, status=(200, 200), code="*", reason="refused", page=ANSWERS),
        Rule(fate=Fate.PERMANENT, status=(400, 499), reason="refused", page=ANSWERS),
        Rule(fate=Fate.PERMANENT, status=(300, 399), reason="redirect", page=ANSWERS),
        Rule(fate=Fate.AMBIGUOUS, status=(500, 599), reason="failed", page=ANSWERS),
        Rule(fate=Fate.AMBIGUOUS, reason="garbled", page=ANSWERS),
    ),
)


class Slack:
    """One bot and where it posts."""

    terms = TERMS
    capability = Capability.RECONCILE
    reconciles = True

    def __init__(self, config: TargetConfig, token: str) -> None:
        self._config = config
        self._base_url = base_url_of(config)
        self._exchange = Exchange(secret=token)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._ask_from_ms = 0

    def chat_of(self, part: PartRecord) -> str:
        """The channel, which rate limits are counted by."""
        return _chat(part.recipient or self._config.recipient)

    async def send(self, message: Message, gate: Gate) -> Outcome:
        """Post the message once."""
        part = message.part
        chat = self.chat_of(part)
        if not chat:
            return dead("bad_recipient", part.recipient)
        body = json.dumps(self.payload(part), ensure_ascii=False).encode()
        request = Request(
            url=f"{self._base_url}/chat.postMessage",
            headers=self._headers,
            body=body,
            content_type="application/json; charset=utf-8",
        )
        answer = await self._exchange.send(request, gate)
        return answer if isinstance(answer, Outcome) else _judge(answer, chat)

    def payload(self, part: PartRecord) -> dict[str, Any]:
        """What is posted; the same at every attempt."""
        address = address_of(part, self._config)
        payload: dict[str, Any] = {
            "channel": address.chat,
            "text": part.body,
            "metadata": {"event_type": EVENT_TYPE, "event_payload": {"key": part.id}},
            "client_msg_id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"foldline:{part.id}")),
        }
        thread = address.thread or address.reply  # a reply is a thread's first
        if thread:
            payload["thread_ts"] = thread
        return payload

    async def find(self, part: PartRecord, *, at: int, timeout_s: float) -> Found:
        """Read everything from a while before the first attempt on; not sooner again than Slack asked for."""
        if at < self._ask_from_ms:
            return Found.UNCLEAR
        given = {
            "channel": self.chat_of(part),
            "oldest": f"{max(part.exposed_at - SKEW_MS, 0) / 1000:.6f}",
            "inclusive": "true",
            "include_all_metadata": "true",
            "limit": str(PAGE),
        }
        address = address_of(part, self._config)
        thread = address.thread or address.reply
        method = "conversations.replies" if thread else "conversations.history"
        if thread:
            given["ts"] = thread
        seen: list[Seen] = []
        for _ in range(PAGES):
            url = f"{self._base_url}/{method}?{urlencode(given)}"
            answer = await self._exchange.look(
                Request(url=url, method="GET", headers=self._headers), timeout_s=timeout_s
            )
            if answer is None or answer.document.get("ok") is not True:
                if answer is not None and answer.status == 429:
                    self._ask_from_ms = at + (seconds_to_ms(answer.headers.get("Retry-After")) or ASK_AGAIN_MS)
                return Found.UNCLEAR
            seen += [_seen(shown) for shown in answer.document.get("messages") or ()]
            found = judge(seen, mark=part.id, body=part.body)
            cursor = (answer.document.get("response_metadata") or {}).get("next_cursor")
            if found is Found.YES or not cursor:
                return found
            given["cursor"] = str(cursor)
        return Found.UNCLEAR

    async def close(self) -> None:
        """Close connections."""
        await self._exchange.close()


def _judge(answer: Answer, chat: str) -> Outcome:
    document = answer.document
    if answer.status == 200 and document.get("ok") is True:
        return Outcome(verdict=Verdict.SENT, reason="accepted", status=200, message_id=str(document.get("ts", "")))
    code = str(document.get("error", ""))
    rule = rule_for(TERMS.rules, status=answer.status, code=code)
    return outcome_of(
        rule or TERMS.rules[-1],
        status=answer.status,
        detail=answer.words,
        wait_ms=seconds_to_ms(answer.headers.get("Retry-After")),
        chat=chat,
    )


def _chat(recipient: str) -> str:
    try:
        return parse(recipient).chat
    except ValueError:
        return ""


def _seen(shown: dict[str, Any]) -> Seen:
    metadata = shown.get("metadata") or {}
    ours = metadata.get("event_type") == EVENT_TYPE
    return Seen(
        mark=str((metadata.get("event_payload") or {}).get("key", "")) if ours else str(metadata.get("event_type", "")),
        text=str(shown.get("text", "")),
        is_bots=bool(shown.get("bot_id")),
    )
