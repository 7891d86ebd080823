"""A loopback of Discord's HTTP interface, version 10, as far as a bot that posts needs it.

Pages: `MESSAGE` for creating and reading messages, `CHANNEL` for the typing indicator, `LIMITS` for rate limits, `CODES` for error codes.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from scripts.channels.service import Logged, Service, Told

MESSAGE = "https://docs.discord.com/developers/resources/message#create-message"
READING = "https://docs.discord.com/developers/resources/message#get-channel-messages"
MENTIONS = "https://docs.discord.com/developers/resources/message#allowed-mentions-object"
CHANNEL = "https://docs.discord.com/developers/resources/channel#trigger-typing-indicator"
LIMITS = "https://docs.discord.com/developers/topics/rate-limits#header-format"
CODES = "https://docs.discord.com/developers/topics/opcodes-and-status-codes#json"

TOKEN = "bot-token"  # noqa: S105 - of a loopback server
EPOCH_MS = 1_420_070_400_000
LONGEST = 2000
"""MESSAGE: content up to 2,000 characters; counted in UTF-16 here, the narrower reading."""
LONGEST_NONCE = 25
"""MESSAGE: nonce up to 25 characters."""
NONCE_WINDOW_S = 180.0
"""MESSAGE: uniqueness "in the past few minutes"."""
MOST_READ = 100
"""READING: limit 1 to 100, 50 when not given."""
BOT_ID = "900"
BOT = {"id": BOT_ID, "username": "bot", "discriminator": "0000", "avatar": None, "bot": True, "global_name": None}
_PATH = re.compile(r"/api/v10/channels/(\d+)/(messages|typing)$")


@dataclass(kw_only=True)
class Message:
    """A message as it was created."""

    id: int
    channel: str
    content: str
    nonce: str | int | None
    at: float
    payload: dict[str, Any]
    author: str = BOT_ID

    @property
    def pings_everyone(self) -> bool:
        """MENTIONS: without allowed_mentions every mention in the text counts; an empty `parse` suppresses all."""
        allowed = self.payload.get("allowed_mentions")
        may = allowed is None or "everyone" in allowed.get("parse", ())
        return may and any(word in self.content for word in ("@everyone", "@here"))


@dataclass(kw_only=True)
class Discord(Service):
    """One bot's world: channels by id, and what they answer besides."""

    channels: set[str] = field(default_factory=lambda: {"100", "101"})
    refuses: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    """Channels that refuse: status, code and message, as CODES lists them."""
    shows_nonces: bool = False
    """Whether reading shows nonces. The page lists the member; in practice it is not kept, so this is off."""
    messages: list[Message] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)
    _last_id: int = 0

    @property
    def base_url(self) -> str:
        """What clients call the interface."""
        return f"{self.url}/api/v10"

    def texts(self, channel: str) -> list[str]:
        """The contents of a channel, in order."""
        return [message.content for message in self.messages if message.channel == channel]

    def kind_of(self, method: str, path: str) -> str:
        """What a request is about."""
        found = _PATH.match(path.partition("?")[0])
        if found is None:
            return "other"
        return "typing" if found[2] == "typing" else "send" if method == "POST" else "read"

    def answer(self, request: Logged, query: Mapping[str, str]) -> web.Response:
        """Token, rate limit, channel, body, in this order."""
        if request.headers.get("Authorization") != f"Bot {TOKEN}":
            return _error(401, 0, "401: Unauthorized")
        path = request.path.partition("?")[0]
        if path == "/api/v10/users/@me":
            return _json(BOT)
        if path == "/api/v10/oauth2/applications/@me":
            return _json(_APPLICATION)
        found = _PATH.match(path)
        if found is None:
            return _error(404, 0, "404: Not Found")
        route = f"{request.kind}:{found[1]}"
        told = self.over_limit(request, route) if request.kind == "send" else None
        if told is not None:
            return self._limited(told)
        if found[1] not in self.channels:
            return _error(404, 10003, "Unknown Channel")
        if found[1] in self.refuses:
            return _error(*self.refuses[found[1]])
        if request.kind == "typing":
            self.typed.append(found[1])
            return web.Response(status=204)
        answer = self._read(found[1], query) if request.kind == "read" else self._create(found[1], request)
        if request.kind == "send" and self.route_limit is not None:
            answer.headers.update(self._window(route, request.at))
        return answer

    def failed(self) -> web.Response:
        """An outage: a bare 5xx page."""
        return web.Response(status=502, text="<html>502 Bad Gateway</html>", content_type="text/html")

    def _create(self, channel: str, request: Logged) -> web.Response:
        try:
            payload = json.loads(request.body)
        except ValueError:
            return _error(400, 50109, "The request body contains invalid JSON.")
        content, nonce = payload.get("content") or "", payload.get("nonce")
        if not content.strip():
            return _error(400, 50006, "Cannot send an empty message")
        if len(content.encode("utf-16-le")) // 2 > LONGEST:
            return _invalid("content", "BASE_TYPE_MAX_LENGTH", f"Must be {LONGEST} or fewer in length.")
        if isinstance(nonce, str) and len(nonce) > LONGEST_NONCE:
            return _invalid("nonce", "NONCE_TYPE_TOO_LONG", "The nonce is too long.")
        reference = payload.get("message_reference")
        if (
            reference
            and reference.get("fail_if_not_exists", True)
            and not self._has(channel, str(reference["message_id"]))
        ):
            return _invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        if nonce is not None and payload.get("enforce_nonce"):
            for message in reversed(self.messages):
                if request.at - message.at >= NONCE_WINDOW_S:
                    break
                if message.nonce == nonce and message.author == BOT_ID:
                    return _json(self._shown(message, nonce=True))
        created = Message(
            id=self._snowflake(request.at),
            channel=channel,
            content=content.strip(),
            nonce=nonce,
            at=request.at,
            payload=payload,
        )
        self.messages.append(created)
        return _json(self._shown(created, nonce=True))

    def _read(self, channel: str, query: Mapping[str, str]) -> web.Response:
        """READING: newest first; `after` gives those that follow it directly."""
        limit = min(max(int(query.get("limit", "50")), 1), MOST_READ)
        found = [message for message in self.messages if message.channel == channel]
        if "before" in query:
            found = [message for message in found if message.id < int(query["before"])]
        if "after" in query:
            found = [message for message in found if message.id > int(query["after"])][:limit]
        newest = list(reversed(found))[:limit]
        return _json([self._shown(message, nonce=self.shows_nonces) for message in newest])

    def _has(self, channel: str, message: str) -> bool:
        return any(str(known.id) == message and known.channel == channel for known in self.messages)

    def _snowflake(self, at: float) -> int:
        self._last_id = max(self._last_id + 1, (int(at * 1000) - EPOCH_MS) << 22)
        return self._last_id

    def _shown(self, message: Message, *, nonce: bool) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "id": str(message.id),
            "type": 0,
            "channel_id": message.channel,
            "author": BOT if message.author == BOT_ID else {**BOT, "id": message.author, "bot": False},
            "content": message.content,
            "timestamp": "2026-01-01T00:00:00.000000+00:00",
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": message.pings_everyone,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "flags": 0,
            "components": [],
        }
        if nonce and message.nonce is not None:
            shown["nonce"] = message.nonce
        return shown

    # rate limits

    def _window(self, route: str, now: float) -> dict[str, str]:
        window = self.route_limit
        if window is None:
            return {}
        after = window.reset_after(route, now)
        return {
            "X-RateLimit-Limit": str(window.limit),
            "X-RateLimit-Remaining": str(window.remaining(route)),
            "X-RateLimit-Reset": f"{now + after:.3f}",
            "X-RateLimit-Reset-After": f"{after:.3f}",
            "X-RateLimit-Bucket": "f00df00df00df00df00df00df00df00d",
        }

    def _limited(self, told: Told) -> web.Response:
        """LIMITS: the body says it in seconds with a fraction, Retry-After in whole ones; `Via` says who answers."""
        everything = told.key == "*"
        headers = {
            "Retry-After": str(int(told.wait_s) + 1),
            "X-RateLimit-Scope": "global" if everything else "user",
            "Via": "1.1 google",
        }
        headers |= {"X-RateLimit-Global": "true"} if everything else self._window(told.key, told.at)
        body = {
            "message": "You are being rate limited.",
            "retry_after": round(told.wait_s, 3) + 0.001,
            "global": everything,
        }
        return _json(body, status=429, headers=headers)


def _json(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Discord names no charset, and its SDKs look for that very content type."""
    data = json.dumps(body).encode()
    return web.Response(body=data, status=status, headers={**(headers or {}), "Content-Type": "application/json"})


def _error(status: int, code: int, message: str) -> web.Response:
    return _json({"message": message, "code": code}, status=status)


def _invalid(name: str, code: str, message: str) -> web.Response:
    errors = {name: {"_errors": [{"code": code, "message": message}]}}
    return _json({"message": "Invalid Form Body", "code": 50035, "errors": errors}, status=400)


_APPLICATION = {
    "id": "800",
    "name": "app",
    "icon": None,
    "description": "",
    "bot_public": False,
    "bot_require_code_grant": False,
    "verify_key": "",
    "owner": BOT,
    "team": None,
    "flags": 0,
}
