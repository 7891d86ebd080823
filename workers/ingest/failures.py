"""How a turn fails upstream: the codes, and the pure decision whether a request is made again.

| code | when |
|---|---|
| `upstream_unauthorized` | 401 or 403, or 407 of its proxy |
| `upstream_rate_limited` | 429, after the retries |
| `upstream_server_error` | any 5xx |
| `upstream_bad_request` | any other 4xx: the request itself is refused |
| `upstream_bad_response` | an answer that is neither a stream nor an error: a redirect, a page, an encoding that nobody asked for |
| `upstream_connect_failed` | no connection, after the retries: refused, a proxy that opens none, a certificate that is not trusted |
| `upstream_stalled` | silence for longer than the read time-out |
| `upstream_truncated` | the connection ended before the answer did |
| `upstream_request_unsupported` | the upstream's wire has no form for something in the request |
| `upstream_not_configured` | the turn names an upstream, or the upstream a key, that this process does not have |
| `ingest_lost` | the process that carried the turn died after the upstream may have answered |
| `ingest_error` | a fault of our own |
| `log_rolled_back` | the server lost acknowledged events that nobody holds any more |

The upstream's own words are the error's message, its own code or type is the error's `type`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Self

from pipeline.events import ErrorInfo
from pipeline.normalize.failures import http_error

HOPELESS = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
"""Upstream codes that come with 429 and do not change by waiting."""


BUSY = frozenset({429, 503, 529})
"""An upstream that says so has not begun with the request; 529 is Anthropic's word for it."""

LOST_CONNECTION = frozenset({"upstream_truncated", "upstream_stalled"})
"""What may be the connection's end alone, and not the answer's."""


class Phase(Enum):
    """How far a request had come when it failed."""

    CONNECT = "connect"  # nothing of the request can have been processed
    ANSWER = "answer"  # sent, not answered: it may have been processed
    STATUS = "status"  # answered with an error
    BODY = "body"  # in the stream


class SourceError(Exception):
    """The upstream failed; `error` is what the turn would end with."""

    def __init__(
        self, error: ErrorInfo, phase: Phase, *, status: int | None = None, retry_after_ms: int | None = None
    ) -> None:
        super().__init__(f"{error.code}: {error.message}")
        self.error = error
        self.phase = phase
        self.status = status
        self.retry_after_ms = retry_after_ms

    @classmethod
    def ours(cls, code: str, message: str) -> Self:
        """A failure that no upstream has caused."""
        return cls(ErrorInfo(code=code, message=message), Phase.CONNECT)


@dataclass(frozen=True, kw_only=True)
class RetryRules:
    """What the configuration says about making a request again."""

    retries: int
    base_ms: int
    max_ms: int
    side_effects: bool


def retry_delay_ms(failure: SourceError, attempt: int, rules: RetryRules) -> int | None:
    """Decide when attempt number `attempt` (1 for the first) is followed by another; None: the turn fails.

    Only before any output: refused connections, 429, 503 and 529; and what may have been processed only where the upstream is
    declared free of side effects. A wait that the upstream asks for is kept, or, beyond our bound, the turn fails at once.
    """
    if attempt > rules.retries or not _is_retryable(failure, rules):
        return None
    backoff = min(rules.base_ms << min(attempt - 1, 20), rules.max_ms)
    if failure.retry_after_ms is None:
        return backoff
    if failure.retry_after_ms > rules.max_ms:
        return None
    return max(backoff, failure.retry_after_ms)


def _is_retryable(failure: SourceError, rules: RetryRules) -> bool:
    match failure.phase:
        case Phase.CONNECT:
            return True
        case Phase.ANSWER:
            return not rules.side_effects
        case Phase.STATUS:
            return failure.status in BUSY and failure.error.type not in HOPELESS
        case Phase.BODY:
            return False


def refused(status: int, headers: Mapping[str, str], body: bytes, now_ms: int) -> SourceError:
    """Make the failure of an answer whose status is not 200."""
    said = http_error(status, headers, body)
    own = said.code if said.code and said.code != code_of(status) else None
    error = ErrorInfo(
        code=code_of(status),
        message=said.message or f"the upstream answered with status {status}",
        type=own or said.type,
        param=said.param,
    )
    return SourceError(error, Phase.STATUS, status=status, retry_after_ms=retry_after_ms(headers, now_ms))


def code_of(status: int) -> str:
    """Name the failure that an HTTP status stands for."""
    if status in {401, 403, 407}:
        return "upstream_unauthorized"
    if status == 429:
        return "upstream_rate_limited"
    if status >= 500:
        return "upstream_server_error"
    if status >= 400:
        return "upstream_bad_request"
    return "upstream_bad_response"


def retry_after_ms(headers: Mapping[str, str], now_ms: int) -> int | None:
    """Read how long the upstream asks us to wait: seconds, a date, or OpenAI's milliseconds."""
    try:
        if "retry-after-ms" in headers:
            return max(0, round(float(headers["retry-after-ms"])))
        value = headers.get("Retry-After", "").strip()
        if not value:
            return None
        if value.replace(".", "", 1).isdigit():
            return round(float(value) * 1000)
        date = parsedate_to_datetime(value)
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return max(0, round((date - datetime.fromtimestamp(now_ms / 1000, UTC)).total_seconds() * 1000))
    except (ValueError, OverflowError):
        return None
