"""An upstream's own words on why it failed: in an HTTP error answer, in an error event, in a bare line of its body.

Servers disagree on the form: `{"error": {code, type, message, param}}`, `{"error": "text"}`, a flat `{code, message}`,
`{"detail": …}`, a list with one of them, HTML, plain text. Whatever is there is read; nothing is required.
"""

import html
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from pipeline.events import ErrorInfo
from pipeline.limits import Limits

_CODES = {
    400: "invalid_request",
    401: "invalid_api_key",
    402: "insufficient_quota",
    403: "permission_denied",
    404: "not_found",
    408: "request_timeout",
    409: "conflict",
    413: "request_too_large",
    422: "invalid_request",
    429: "rate_limit_exceeded",
    500: "server_error",
    502: "bad_gateway",
    503: "service_unavailable",
    504: "gateway_timeout",
    529: "overloaded",
}
_TAG = re.compile(r"<[^<>]*>")
_HIDDEN = ((b"<script", b"</script"), (b"<style", b"</style"), (b"<!--", b"--"))
_READ_BYTES = 256 * 1024  # of an error page; its words stand at its beginning


def http_error(status: int, headers: Mapping[str, str], body: bytes, limits: Limits | None = None) -> ErrorInfo:
    """Read code, type and message out of an error answer, whatever its body's form."""
    bound = (limits or Limits()).error_message_chars
    content_type = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    fallback = _CODES.get(status, "server_error" if status >= 500 else f"http_{status}")
    told = error_in_text(body[:_READ_BYTES], limits)
    if told is None:
        body = body[:_READ_BYTES]
        is_page = "html" in content_type.lower() or body.lstrip()[:1] == b"<"
        text = _visible(body) if is_page else body.decode("utf-8", "replace")
        message = " ".join(text.split())[:bound]
        return ErrorInfo(code=fallback, message=message or f"the upstream answered HTTP {status}")
    if told.code != UNNAMED:
        return told
    return msgspec.structs.replace(told, code=fallback)


UNNAMED = "upstream_error"


def error_in_text(text: bytes, limits: Limits | None = None) -> ErrorInfo | None:
    """Read an error out of a body or out of its lines that were no events; None where there is none."""
    text = text.strip()
    if text.startswith(b"error:"):
        text = text[6:].strip()
    if not text.startswith((b"{", b"[")):
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        first = text.split(b"\n", 1)[0]
        return error_in_text(first, limits) if first != text else None
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict):
        return None
    return error_in(value, limits) or _flat(value, (limits or Limits()).error_message_chars)


def error_in(value: Mapping[str, Any], limits: Limits | None = None) -> ErrorInfo | None:
    """Read the error of an object that has one, nested or flat."""
    bound = (limits or Limits()).error_message_chars
    error = value.get("error")
    if isinstance(error, dict):
        return _flat(error, bound, named=True)
    if isinstance(error, str) and error:
        message = _text(value.get("message")) or error
        return ErrorInfo(code=_text(value.get("code")) or UNNAMED, message=message[:bound])
    if error or value.get("type") == "error":
        return _flat(value, bound, named=True)
    return None


def _flat(value: Mapping[str, Any], bound: int, *, named: bool = False) -> ErrorInfo | None:
    named_type = _text(value.get("type"))
    kind = None if named_type in {"", "error"} else named_type
    message = _text(value.get("message")) or _text(value.get("detail")) or _text(value.get("error_description"))
    status = _text(value.get("status"))
    code = _text(value.get("code")) or status or kind
    if kind is None and status not in {"", code} and not status.isdigit():
        kind = status  # Google's errors: a number, and its name beside it
    if not message and not named:
        return None
    return ErrorInfo(code=code or UNNAMED, message=message[:bound], type=kind, param=_text(value.get("param")) or None)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, (int, float)):
        return str(value)
    return msgspec.json.encode(value).decode()


def _visible(page: bytes) -> str:
    """The title of a page, else its words. Linear in its length: a page may be hostile."""
    title = _between(page, b"<title", b"</title").partition(b">")[2]
    if title.strip():
        page = title
    else:
        for opener, closer in _HIDDEN:
            page = _without(page, opener, closer)
    return html.unescape(_TAG.sub(" ", page.decode("utf-8", "replace")))


def _between(page: bytes, opener: bytes, closer: bytes) -> bytes:
    lower = page.lower()
    start = lower.find(opener)
    end = lower.find(closer, start)
    return page[start + len(opener) : end] if start >= 0 and end >= 0 else b""


def _without(page: bytes, opener: bytes, closer: bytes) -> bytes:
    lower = page.lower()
    kept, at = [], 0
    while (start := lower.find(opener, at)) >= 0:
        kept.append(page[at:start])
        end = lower.find(closer, start + len(opener))
        at = lower.find(b">", end) + 1 if end >= 0 else 0
        if at == 0:  # it never ends: all the rest is hidden
            return b" ".join(kept)
    return b" ".join([*kept, page[at:]])
