"""A loopback of Slack's Web API, as far as a bot that posts needs it.

Pages: `POST` for posting, `HISTORY` and `REPLIES` for reading back, `METADATA`, `LIMITS` for rate limits, `ERRORS` for the shape of errors.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from scripts.channels.service import Logged, Service, Told, Window

POST = "https://docs.slack.dev/reference/methods/chat.postMessage"
HISTORY = "https://docs.slack.dev/reference/methods/conversations.history"
REPLIES = "https://docs.slack.dev/reference/methods/conversations.replies"
METADATA = "https://docs.slack.dev/messaging/message-metadata"
LIMITS = "https://docs.slack.dev/apis/web-api/rate-limits"
ERRORS = "https://docs.slack.dev/apis/web-api/#evaluating-responses"

TOKEN = "xoxb-token"  # noqa: S105 - of a loopback server
LONGEST = 40_000
"""POST: longer text is cut off by Slack; refused here, so that a test sees it."""
MOST_READ = 999
"""HISTORY: limit at most 999, 100 when not given; 15 for apps outside the Marketplace."""
MOST_READ_OUTSIDE = 15
_READS = {"conversations.history", "conversations.replies"}


@dataclass(kw_only=True)
class Message:
    """A message as it was posted."""

    ts: str
    channel: str
    text: str
    thread: str | None
    metadata: dict[str, Any] | None
    payload: dict[str, Any]


@dataclass(kw_only=True)
class Slack(Service):
    """One workspace."""

    channels: set[str] = field(default_factory=lambda: {"C100", "C101"})
    refuses: dict[str, str] = field(default_factory=dict)
    """Channels that refuse, with the error's name."""
    is_outside: bool = False
    """LIMITS: an app that is not in the Marketplace reads 15 messages once a minute."""
    messages: list[Message] = field(default_factory=list)
    _last: float = 0.0
    _reads: Window = field(default_factory=lambda: Window(1, 60.0))

    @property
    def base_url(self) -> str:
        """What clients call the interface."""
        return f"{self.url}/api"

    def texts(self, channel: str) -> list[str]:
        """The texts of a channel, its threads included, in order."""
        return [message.text for message in self.messages if message.channel == channel]

    def kind_of(self, method: str, path: str) -> str:  # noqa: ARG002 - Slack's methods stand in the path
        """What a request is about."""
        name = path.partition("?")[0].removeprefix("/api/")
        return "send" if name == "chat.postMessage" else "read" if name in _READS else "other"

    def answer(self, request: Logged, query: Mapping[str, str]) -> web.Response:
        """Rate limit, token, channel, arguments, in this order; a refusal is `ok: false` with status 200 (ERRORS)."""
        given = _arguments(request, query)
        name = request.path.partition("?")[0].removeprefix("/api/")
        channel = str(given.get("channel", ""))
        told = self._told(request, channel)
        if told is not None:
            headers = {"Retry-After": str(int(told.wait_s) + 1)}
            return web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers=headers)
        authorization = request.headers.get("Authorization")
        if authorization is None and "token" not in given:
            return _error("not_authed")
        if authorization != f"Bearer {TOKEN}" and given.get("token") != TOKEN:
            return _error("invalid_auth")
        if name == "auth.test":
            return web.json_response({"ok": True, "user_id": "U1", "bot_id": "B1", "team_id": "T1"})
        if request.kind == "other":
            return _error("unknown_method")
        if channel not in self.channels:
            return _error("channel_not_found")
        if channel in self.refuses:
            return _error(self.refuses[channel])
        return self._post(channel, given, request.at) if request.kind == "send" else self._read(name, channel, given)

    def failed(self) -> web.Response:
        """ERRORS: 5xx, now and then with a JSON body."""
        return web.json_response({"ok": False, "error": "internal_error"}, status=500)

    def _told(self, request: Logged, channel: str) -> Told | None:
        if request.kind == "send":
            return self.over_limit(request, channel)
        if request.kind == "read" and self.is_outside:
            wait_s = self._reads.take(request.path.partition("?")[0], request.at)
            if wait_s:
                return Told(at=request.at, key="read", wait_s=wait_s)
        return None

    def _post(self, channel: str, given: Mapping[str, Any], now: float) -> web.Response:
        text = str(given.get("text") or "")
        metadata = given.get("metadata")
        if isinstance(metadata, str):
            metadata = json.loads(metadata)
        if not text.strip():
            return _error("no_text")
        if len(text) > LONGEST:
            return _error("msg_too_long")
        if metadata is not None and not _is_metadata(metadata):
            return _error("invalid_metadata_format")
        self._last = max(self._last + 0.000001, now)
        message = Message(
            ts=f"{self._last:.6f}",
            channel=channel,
            text=text,
            thread=given.get("thread_ts"),
            metadata=metadata,
            payload=dict(given),
        )
        self.messages.append(message)
        return web.json_response({"ok": True, "channel": channel, "ts": message.ts, "message": _shown(message, {})})

    def _read(self, name: str, channel: str, given: Mapping[str, Any]) -> web.Response:
        """HISTORY: newest first, no replies. REPLIES: the thread, oldest first. `oldest` and `latest` leave their own moment out."""
        found = [message for message in self.messages if message.channel == channel]
        if name == "conversations.replies":
            root = given.get("ts")
            found = [message for message in found if root in {message.ts, message.thread}]
            if not found:
                return _error("thread_not_found")
        else:
            found = [message for message in reversed(found) if message.thread is None]
        oldest, latest = float(given.get("oldest") or 0), float(given.get("latest") or "inf")
        edges = str(given.get("inclusive", "")).lower() in {"1", "true"}
        found = [
            message
            for message in found
            if oldest < float(message.ts) < latest or (edges and float(message.ts) in {oldest, latest})
        ]
        most = MOST_READ_OUTSIDE if self.is_outside else MOST_READ
        limit, start = min(int(given.get("limit") or 100), most), int(given.get("cursor") or 0)
        page = found[start : start + limit]
        more = start + limit < len(found)
        cursor = {"next_cursor": str(start + limit)} if more else {"next_cursor": ""}
        shown = [_shown(message, given) for message in page]
        return web.json_response({"ok": True, "messages": shown, "has_more": more, "response_metadata": cursor})


def _arguments(request: Logged, query: Mapping[str, str]) -> dict[str, Any]:
    """A call's arguments: of the query, a form or a JSON body."""
    given: dict[str, Any] = dict(query)
    content = request.headers.get("Content-Type", "")
    if content.startswith("application/json") and request.body:
        given |= json.loads(request.body)
    elif content.startswith("application/x-www-form-urlencoded"):
        given |= dict(parse_qsl(request.body.decode()))
    return given


def _is_metadata(metadata: Any) -> bool:
    """METADATA: an event type and a payload."""
    return isinstance(metadata, dict) and bool(metadata.get("event_type")) and "event_payload" in metadata


def _shown(message: Message, given: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "type": "message",
        "user": "U1",
        "bot_id": "B1",
        "ts": message.ts,
        "text": message.text,
    }
    if message.thread:
        shown["thread_ts"] = message.thread
    if message.metadata and str(given.get("include_all_metadata", "")).lower() in {"1", "true"}:
        shown["metadata"] = message.metadata
    return shown


def _error(name: str) -> web.Response:
    return web.json_response({"ok": False, "error": name})
