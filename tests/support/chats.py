"""One chat channel before its loopback server, whichever it is: what tests of all of them need, spelled once for each."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ledger.parts import PartRecord, part_from_hash
from scripts.channels import discord, matrix, slack, telegram
from scripts.channels.service import Canned, Service
from workers.config import TargetConfig
from workers.delivery.channels.contract import Channel, Message
from workers.delivery.channels.registry import CHANNELS
from workers.delivery.gate import Gate
from workers.delivery.terms import Rule
from workers.runtime.clock import SystemClock

TOKEN_ENV = "CHAT_TOKEN"


@dataclass(frozen=True, kw_only=True)
class Medium:
    """A channel, its server, and how the two spell things."""

    name: str
    service: type[Service]
    token: str
    chat: str
    other_chat: str
    content_type: str
    answer_of: Callable[[Rule], Canned]

    def open(self, server: Any, **settings: Any) -> Any:
        """The channel's adapter, before the server."""
        return CHANNELS[self.name](self.config(server, **settings), self.token)

    def config(self, server: Any, **settings: Any) -> TargetConfig:
        return TargetConfig(**{**self.settings(server), **settings})

    def settings(self, server: Any) -> dict[str, Any]:
        """A target's settings, as they stand in a file."""
        return {
            "channel": self.name,
            "base_url": server.base_url,
            "token_env": TOKEN_ENV,
            "recipient": self.chat,
        }

    def body(self, text: str) -> str:
        """A part's body that says this."""
        if self.name == "matrix":
            return json.dumps({"msgtype": "m.text", "body": text, "m.mentions": {}})
        return text

    def part(self, text: str = "hi", *, ordinal: int = 0, recipient: str = "", **fields: Any) -> PartRecord:
        """A part that is being sent."""
        stored: Mapping[str, str] = {
            "state": "sending",
            "turn": "1-a",
            "block": str(ordinal),
            "part": "0",
            "channel": self.name,
            "recipient": recipient,
            "body": self.body(text),
            "content_type": self.content_type,
            **{name: str(value) for name, value in fields.items()},
        }
        record = part_from_hash(f"1-a/{ordinal}/ff/0", stored)
        assert record is not None
        return record

    def message(self, text: str = "hi", **given: Any) -> Message:
        return Message(part=self.part(text, **given), attempt="a", at=1_700_000_000_123)


def gate(lease: Callable[[], int] = lambda: 60_000, deadline_ms: int = 5_000) -> Gate:
    """A gate that is open, unless told otherwise."""
    return Gate(lease, SystemClock(), send_deadline_ms=deadline_ms, margin_ms=100)


def _status(rule: Rule, otherwise: int) -> int:
    return rule.status[0] if rule.status != (0, 999) else otherwise


def _discord(rule: Rule) -> Canned:
    status = _status(rule, 200 if rule.reason == "garbled" else 429 if rule.fate == "rate limited" else 400)
    if rule.code == "none" or rule.reason in {"garbled", "failed"}:
        return Canned(status=status, body="<html>not the interface</html>")
    body = {"message": "words", "code": int(rule.code or 0)}
    if rule.fate == "rate limited":
        body |= {"retry_after": 1.5, "global": False}
    return Canned(status=status, body=body)


def _slack(rule: Rule) -> Canned:
    if rule.reason == "garbled":
        return Canned(status=200, body="<html>not the interface</html>")
    headers = {"Retry-After": "2"} if rule.fate == "rate limited" else {}
    code = "some_new_error" if rule.code == "*" else rule.code or "some_error"
    return Canned(status=_status(rule, 200), body={"ok": False, "error": code}, headers=headers)


def _telegram(rule: Rule) -> Canned:
    if rule.reason == "garbled":
        return Canned(status=200, body="<html>not the interface</html>")
    status = _status(rule, 400)
    body: dict[str, Any] = {"ok": False, "error_code": status, "description": f"Bad Request: {rule.phrase}"}
    if rule.fate == "rate limited":
        body["parameters"] = {"retry_after": 2}
    return Canned(status=status, body=body)


def _matrix(rule: Rule) -> Canned:
    if rule.reason == "garbled":
        return Canned(status=200, body="<html>not the interface</html>")
    body: dict[str, Any] = {"errcode": rule.code or "M_UNKNOWN", "error": "words"}
    if rule.fate == "rate limited":
        body["retry_after_ms"] = 1500
    return Canned(status=_status(rule, 400), body=body)


MEDIA: dict[str, Medium] = {
    "discord": Medium(
        name="discord",
        service=discord.Discord,
        token=discord.TOKEN,
        chat="100",
        other_chat="101",
        content_type="text/markdown; charset=utf-8",
        answer_of=_discord,
    ),
    "slack": Medium(
        name="slack",
        service=slack.Slack,
        token=slack.TOKEN,
        chat="C100",
        other_chat="C101",
        content_type="text/x-slack-mrkdwn; charset=utf-8",
        answer_of=_slack,
    ),
    "telegram": Medium(
        name="telegram",
        service=telegram.Telegram,
        token=telegram.TOKEN,
        chat="-100200",
        other_chat="100",
        content_type="text/html; charset=utf-8",
        answer_of=_telegram,
    ),
    "matrix": Medium(
        name="matrix",
        service=matrix.Matrix,
        token=matrix.TOKEN,
        chat="!room:loopback",
        other_chat="!other:loopback",
        content_type="application/json",
        answer_of=_matrix,
    ),
}


async def send(channel: Channel, message: Message, **given: Any) -> Any:
    """One attempt within an open gate."""
    return await channel.send(message, gate(**given))
