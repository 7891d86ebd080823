"""What the gateway answers when it cannot do what was asked: one exception, one JSON shape.

Every error that leaves the gateway has the shape that OpenAI clients read: `{"error": {message, type, param, code}}`. Codes are part
of the interface: they stand in this module and nowhere else. A message says what was expected and what came; it never holds a key,
an upstream's address or a stack trace.
"""

import re
from typing import Any

import msgspec
from starlette.responses import Response

INVALID_REQUEST = "invalid_request_error"
AUTHENTICATION = "authentication_error"
PERMISSION = "permission_error"
NOT_FOUND = "not_found_error"
RATE_LIMIT = "rate_limit_error"
SERVER_ERROR = "server_error"

TURN_LOST = "turn_lost"  # the server no longer knows a turn that a client is reading: it was emptied, or lost its tail
STREAM_ROLLED_BACK = "stream_rolled_back"  # the stream holds other bytes at a number that this client was already sent
STREAM_EXPIRED = "stream_expired"  # the turn ended so long ago that its frames are no longer kept

# HTTP statuses that a failed turn's code stands for; the upstream's own codes come as the error's type.
_STATUS_BY_WORD = {
    "upstream_unauthorized": 401,
    "upstream_rate_limited": 429,
    "upstream_bad_request": 400,
    "upstream_stalled": 504,
    "upstream_not_configured": 500,
    "upstream_request_unsupported": 400,
    "never_taken": 503,
    "silent": 504,
    "over_age": 504,
    "tool_missing": 504,
    "invalid_api_key": 401,
    AUTHENTICATION: 401,
    "insufficient_quota": 429,
    "rate_limit_exceeded": 429,
    RATE_LIMIT: 429,
    PERMISSION: 403,
    "model_not_found": 404,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    INVALID_REQUEST: 400,
    "server_is_overloaded": 503,
    SERVER_ERROR: 500,
    # Anthropic's words, and Google's
    NOT_FOUND: 404,
    "request_too_large": 413,
    "overloaded_error": 503,
    "timeout_error": 504,
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}

_STATUS = re.compile(r"[45]\d\d", re.ASCII)
FULL_RETRY_S = 5  # room comes when turns end and expire, which takes longer than a restart


class HttpError(Exception):
    """An answer other than success, decided while handling one request."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        kind: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
        more: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.kind = kind or kind_of(status)
        self.param = param
        self.headers = headers or {}
        self.more = more or {}

    def response(self) -> Response:
        """Return the answer in OpenAI's error shape."""
        body = error_body(self.code, self.message, kind=self.kind, param=self.param)
        body["error"] |= self.more
        return Response(
            msgspec.json.encode(body),
            status_code=self.status,
            media_type="application/json",
            headers=self.headers,
        )


def error_body(code: str | None, message: str, *, kind: str, param: str | None = None) -> dict[str, Any]:
    """Return OpenAI's error object around one error."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def kind_of(status: int) -> str:
    """Return the error type that OpenAI uses for an HTTP status."""
    if status >= 500:
        return SERVER_ERROR
    return {401: AUTHENTICATION, 403: PERMISSION, 404: NOT_FOUND, 429: RATE_LIMIT}.get(status, INVALID_REQUEST)


def status_of_failure(error: dict[str, Any]) -> int:
    """Return the HTTP status with which a non-stream request reports a failed turn.

    The code decides where it is known, else the type; a code may be a status itself, as Google's is. What remains is the upstream's
    fault and not the client's, so 502.
    """
    words = [word for word in (error.get("code"), error.get("type")) if isinstance(word, str)]
    known = next((_STATUS_BY_WORD[word] for word in words if word in _STATUS_BY_WORD), None)
    return known or next((int(word) for word in words if _STATUS.fullmatch(word)), 502)


def not_found(name: str, ident: str, *, param: str | None = None) -> HttpError:
    """Return the one answer for a thing that does not exist and for a thing of another tenant: they cannot be told apart."""
    return HttpError(404, "not_found", f"{name} '{ident}' was not found", param=param)


def unavailable(retry_after_s: int = 1) -> HttpError:
    """Return the answer while the server of turns cannot be reached: nothing was accepted that could be lost."""
    return HttpError(
        503,
        "unavailable",
        "the turn store cannot be reached at the moment; repeat the request with the same idempotency key",
        headers={"Retry-After": str(retry_after_s)},
    )


def full() -> HttpError:
    """Return the answer while the server of turns has no memory for more: nothing was accepted that could be lost."""
    return HttpError(
        429,
        "memory_full",
        "the turn store has no room; nothing was accepted; repeat the request with the same idempotency key",
        headers={"Retry-After": str(FULL_RETRY_S)},
    )
