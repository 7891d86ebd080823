"""A loopback of Matrix's client-server interface, as far as a bot that posts needs it.

Pages: `SEND` for sending, `TRANSACTIONS` for transaction ids, `LIMITS` for rate limits, `ERRORS` for error codes, `TYPING`, `SIZES`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from scripts.channels.service import Logged, Service, Told

SEND = "https://spec.matrix.org/latest/client-server-api/#put_matrixclientv3roomsroomidsendeventtypetxnid"
TRANSACTIONS = "https://spec.matrix.org/latest/client-server-api/#transaction-identifiers"
LIMITS = "https://spec.matrix.org/latest/client-server-api/#rate-limiting"
ERRORS = "https://spec.matrix.org/latest/client-server-api/#standard-error-response"
TYPING = "https://spec.matrix.org/latest/client-server-api/#put_matrixclientv3roomsroomidtypinguserid"
SIZES = "https://spec.matrix.org/latest/client-server-api/#size-limits"

TOKEN = "syt_token"  # noqa: S105 - of a loopback server
USER = "@bot:loopback"
LARGEST = 65_536
"""SIZES: a whole event; its own fields besides the content are counted as 1,000 bytes here."""
WINDOW_S = 24 * 3600.0
"""TRANSACTIONS names none; a widely used server keeps its table of them for a day."""
_SEND = re.compile(r"/_matrix/client/v3/rooms/([^/]+)/send/([^/]+)/([^/]+)$")
_TYPING = re.compile(r"/_matrix/client/v3/rooms/([^/]+)/typing/([^/]+)$")


@dataclass(kw_only=True)
class Event:
    """A message event as it was sent."""

    id: str
    room: str
    txn: str
    at: float
    content: dict[str, Any]


@dataclass(kw_only=True)
class Matrix(Service):
    """One home server, one device."""

    rooms: set[str] = field(default_factory=lambda: {"!room:loopback", "!other:loopback"})
    refuses: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    """Rooms that refuse: status, error code, words."""
    events: list[Event] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        """What clients call the interface."""
        return self.url

    def texts(self, room: str) -> list[str]:
        """The plain bodies of a room, in order."""
        return [str(event.content["body"]) for event in self.events if event.room == room]

    def kind_of(self, method: str, path: str) -> str:  # noqa: ARG002 - the path says it
        """What a request is about."""
        return "send" if _SEND.match(path) else "typing" if _TYPING.match(path) else "other"

    def answer(self, request: Logged, query: Mapping[str, str]) -> web.Response:  # noqa: ARG002 - no query is used
        """Token, rate limit, room, content, in this order."""
        authorization = request.headers.get("Authorization")
        if authorization is None:
            return _error(401, "M_MISSING_TOKEN", "Missing access token")
        if authorization != f"Bearer {TOKEN}":
            return _error(401, "M_UNKNOWN_TOKEN", "Invalid access token passed.")
        if request.path == "/_matrix/client/v3/account/whoami":
            return web.json_response({"user_id": USER, "device_id": "DEVICE"})
        found = _SEND.match(request.path) or _TYPING.match(request.path)
        if found is None:
            return _error(404, "M_UNRECOGNIZED", "Unrecognized request")
        room = unquote(found[1])
        told = self.over_limit(request, room) if request.kind == "send" else None
        if told is not None:
            return _limited(told)
        if room in self.refuses:
            return _error(*self.refuses[room])
        if room not in self.rooms:
            return _error(403, "M_FORBIDDEN", f"User {USER} not in room {room}")
        try:
            content = json.loads(request.body)
        except ValueError:
            return _error(400, "M_NOT_JSON", "Content not JSON.")
        if request.kind == "typing":
            self.typed.append(room)
            return web.json_response({})
        return self._send(room, unquote(found[3]), content, request)

    def failed(self) -> web.Response:
        """ERRORS: M_UNKNOWN."""
        return _error(500, "M_UNKNOWN", "Internal server error")

    def _send(self, room: str, txn: str, content: dict[str, Any], request: Logged) -> web.Response:
        for event in self.events:
            if event.txn == txn and event.room == room and request.at - event.at < WINDOW_S:
                return web.json_response({"event_id": event.id})
        if len(request.body) + 1000 > LARGEST:
            return _error(413, "M_TOO_LARGE", "event too large")
        if not isinstance(content.get("body"), str) or not isinstance(content.get("msgtype"), str):
            return _error(400, "M_BAD_JSON", "'body' or 'msgtype' not in content")
        event = Event(id=f"$event{len(self.events)}", room=room, txn=txn, at=request.at, content=content)
        self.events.append(event)
        return web.json_response({"event_id": event.id})


def _error(status: int, code: str, words: str) -> web.Response:
    return web.json_response({"errcode": code, "error": words}, status=status)


def _limited(told: Told) -> web.Response:
    """LIMITS: Retry-After in whole seconds, and `retry_after_ms`, which is deprecated and still sent."""
    body = {"errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests", "retry_after_ms": int(told.wait_s * 1000) + 1}
    return web.json_response(body, status=429, headers={"Retry-After": str(int(told.wait_s) + 1)})
