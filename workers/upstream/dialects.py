"""The wires that a request can be put to, by name: the path, the headers of the key, the form of the body."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workers.upstream import acp, chat, gemini, messages
from workers.upstream.reading import Members

Json = dict[str, Any]
ANTHROPIC_VERSION = "2023-06-01"


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _x_goog_api_key(key: str) -> dict[str, str]:
    return {"x-goog-api-key": key}


def _x_api_key(key: str) -> dict[str, str]:
    return {"x-api-key": key}


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How one wire is asked. Without `translate` the body is the client's own: this wire is the shape of all requests.

    A path may have a place for the model; then the body names none, and says nothing of streaming, which is the path's.
    """

    path: str
    key_headers: Callable[[str], dict[str, str]] = _bearer
    headers: Mapping[str, str] = field(default_factory=dict)
    translate: Callable[[Members], Json] | None = None


DIALECTS: dict[str, Dialect] = {
    "acp": Dialect(path="", translate=acp.translate),
    "responses": Dialect(path="/responses"),
    "chat": Dialect(path="/chat/completions", translate=chat.translate),
    "gemini": Dialect(
        path="/models/{model}:streamGenerateContent?alt=sse",
        key_headers=_x_goog_api_key,
        translate=gemini.translate,
    ),
    "messages": Dialect(
        path="/messages",
        key_headers=_x_api_key,
        headers={"anthropic-version": ANTHROPIC_VERSION},
        translate=messages.translate,
    ),
}


def translate(wire: str, request: Mapping[str, Any]) -> Json:
    """Write a request of the Responses shape in a wire's own form; raise UnsupportedError for what it has no form for."""
    dialect = DIALECTS.get(wire)
    if dialect is None or dialect.translate is None:
        return dict(request)
    return dialect.translate(Members(dict(request), "", wire))
