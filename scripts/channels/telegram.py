"""A loopback of the Telegram Bot API, as far as a bot that posts needs it.

Pages: `SEND` for sendMessage, `MARKUP` for HTML, `ACTION` for the typing indicator, `SHAPE` for answers and their parameters, `LIMITS`.
A bot cannot read what it has sent, and nothing deduplicates.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email import message_from_bytes
from html import unescape
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from scripts.channels.service import Logged, Service, Told

SEND = "https://core.telegram.org/bots/api#sendmessage"
MARKUP = "https://core.telegram.org/bots/api#html-style"
ACTION = "https://core.telegram.org/bots/api#sendchataction"
SHAPE = "https://core.telegram.org/bots/api#making-requests"
PARAMETERS = "https://core.telegram.org/bots/api#responseparameters"
LIMITS = "https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this"

TOKEN = "42:token"  # noqa: S105 - of a loopback server
LONGEST = 4096
"""SEND: 1 to 4,096 characters after entities parsing; entities count in UTF-16, and so do we."""
TAGS = frozenset(
    [
        "b",
        "strong",
        "i",
        "em",
        "u",
        "ins",
        "s",
        "strike",
        "del",
        "code",
        "pre",
        "a",
        "span",
        "tg-spoiler",
        "tg-emoji",
        "blockquote",
    ]
)
"""MARKUP: everything else is refused."""
ENTITIES = re.compile(r"&(lt|gt|amp|quot|#\d+|#x[0-9a-fA-F]+);")
_TAG = re.compile(r"<(/?)([^\s>]*)([^>]*)>")
_PATH = re.compile(r"/bot([^/]+)/(\w+)$")


@dataclass(kw_only=True)
class Message:
    """A message as it was sent: `text` after parsing, `source` as it was given."""

    id: int
    chat: str
    text: str
    source: str
    parse_mode: str
    thread: int | None
    payload: dict[str, Any]


@dataclass(kw_only=True)
class Telegram(Service):
    """One bot's chats."""

    chats: set[str] = field(default_factory=lambda: {"100", "-100200", "@news"})
    topics: set[int] = field(default_factory=lambda: {7})
    refuses: dict[str, tuple[int, str, dict[str, Any]]] = field(default_factory=dict)
    """Chats that refuse: status, description, parameters."""
    refuses_markup: bool = False
    """Refuse HTML whatever it is, as a parser with other rules would."""
    messages: list[Message] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        """What clients call the interface."""
        return self.url

    def texts(self, chat: str) -> list[str]:
        """The texts of a chat, in order."""
        return [message.text for message in self.messages if message.chat == chat]

    def kind_of(self, method: str, path: str) -> str:  # noqa: ARG002 - the methods stand in the path
        """What a request is about."""
        name = path.partition("?")[0].rpartition("/")[2]
        return {"sendMessage": "send", "sendChatAction": "typing"}.get(name, "other")

    def answer(self, request: Logged, query: Mapping[str, str]) -> web.Response:
        """Token, rate limit, chat, text, in this order."""
        found = _PATH.match(request.path.partition("?")[0])
        if found is None:
            return _error(404, "Not Found")
        if found[1] != TOKEN:
            return _error(401, "Unauthorized")
        if found[2] == "getMe":
            return _result({"id": 42, "is_bot": True, "first_name": "bot", "username": "a_bot"})
        given = {**query, **_arguments(request)}
        chat = str(given.get("chat_id", ""))
        told = self.over_limit(request, chat) if request.kind == "send" else None
        if told is not None:
            return _limited(told)
        if request.kind == "other":
            return _error(404, "Not Found")
        if chat in self.refuses:
            status, description, parameters = self.refuses[chat]
            return _error(status, description, parameters)
        if chat not in self.chats:
            return _error(400, "Bad Request: chat not found")
        if request.kind == "typing":
            self.typed.append(chat)
            return _result(obj=True)
        return self._send(chat, given)

    def failed(self) -> web.Response:
        """SHAPE: an error of theirs has the shape of all errors."""
        return _error(500, "Internal Server Error")

    def _send(self, chat: str, given: Mapping[str, Any]) -> web.Response:
        source, mode = str(given.get("text") or ""), str(given.get("parse_mode") or "")
        thread = int(given["message_thread_id"]) if given.get("message_thread_id") else None
        if thread is not None and thread not in self.topics:
            return _error(400, "Bad Request: message thread not found")
        reply = given.get("reply_parameters")
        reply = json.loads(reply) if isinstance(reply, str) else reply
        known = {message.id for message in self.messages if message.chat == chat}
        if reply and not reply.get("allow_sending_without_reply") and reply["message_id"] not in known:
            return _error(400, "Bad Request: message to be replied not found")
        text = source
        if mode.lower() == "html":
            try:
                text = parsed(source, refuse=self.refuses_markup)
            except ValueError as wrong:
                return _error(400, f"Bad Request: can't parse entities: {wrong}")
        if not text.strip():
            return _error(400, "Bad Request: message text is empty")
        if len(text.encode("utf-16-le")) // 2 > LONGEST:
            return _error(400, "Bad Request: message is too long")
        message = Message(
            id=len(self.messages) + 1,
            chat=chat,
            text=text,
            source=source,
            parse_mode=mode,
            thread=thread,
            payload=dict(given),
        )
        self.messages.append(message)
        shown = {"message_id": message.id, "date": 1_750_000_000, "chat": _chat(chat), "text": text}
        return _result(shown)


def parsed(source: str, *, refuse: bool = False) -> str:
    """The text that HTML stands for; ValueError with Telegram's words when it is not well-formed."""
    if refuse and _TAG.search(source):
        raise ValueError("Unsupported start tag at byte offset 0")
    return "".join(_pieces(source))


def _pieces(source: str) -> Iterator[str]:
    opened: list[str] = []
    position = 0
    for found in _TAG.finditer(source):
        yield _unescaped(source[position : found.start()])
        offset = len(source[: found.start()].encode())
        name = found[2].lower()
        if found[1]:
            if not opened or opened.pop() != name:
                raise ValueError(f"Unexpected end tag at byte offset {offset}")
        elif name not in TAGS or (name == "span" and "tg-spoiler" not in found[3]):
            raise ValueError(f'Unsupported start tag "{found[2]}" at byte offset {offset}')
        else:
            opened.append(name)
        position = found.end()
    rest = source[position:]
    if "<" in rest:
        raise ValueError(f"Unclosed start tag at byte offset {len(source[: source.rindex('<')].encode())}")
    yield _unescaped(rest)
    if opened:
        raise ValueError(f'Can\'t find end tag corresponding to start tag "{opened[-1]}"')


def _unescaped(text: str) -> str:
    return ENTITIES.sub(lambda found: unescape(found[0]), text)


def _arguments(request: Logged) -> dict[str, Any]:
    """SHAPE: JSON, a form, or a form in parts."""
    content = request.headers.get("Content-Type", "")
    if content.startswith("application/json"):
        return dict(json.loads(request.body or b"{}"))
    if content.startswith("multipart/form-data"):
        whole = message_from_bytes(f"Content-Type: {content}\r\n\r\n".encode() + request.body)
        payload: Any = whole.get_payload()
        return {
            part.get_param("name", header="content-disposition"): part.get_payload(decode=True).decode()
            for part in payload
        }
    return dict(parse_qsl(request.body.decode()))


def _chat(chat: str) -> dict[str, Any]:
    if chat.startswith("@"):
        return {"id": -1_000_000_000_001, "type": "channel", "title": chat, "username": chat[1:]}
    kind = "supergroup" if chat.startswith("-") else "private"
    return {"id": int(chat), "type": kind, "title": chat, "first_name": chat}


def _result(obj: Any) -> web.Response:
    return web.json_response({"ok": True, "result": obj})


def _error(status: int, description: str, parameters: Mapping[str, Any] | None = None) -> web.Response:
    body: dict[str, Any] = {"ok": False, "error_code": status, "description": description}
    if parameters:
        body["parameters"] = parameters
    return web.json_response(body, status=status)


def _limited(told: Told) -> web.Response:
    """PARAMETERS: retry_after in whole seconds."""
    wait_s = int(told.wait_s) + 1
    answer = _error(429, f"Too Many Requests: retry after {wait_s}", {"retry_after": wait_s})
    answer.headers["Retry-After"] = str(wait_s)
    return answer
