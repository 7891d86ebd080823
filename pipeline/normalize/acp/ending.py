"""What the end of a prompt means: its stop reason, its error, its tokens in the terms of the public stream."""

from typing import Any, NamedTuple

from pipeline.events import ErrorInfo
from pipeline.normalize import usage
from pipeline.normalize.defects import word_of
from pipeline.normalize.usage import count

Json = dict[str, Any]


class Verdict(NamedTuple):
    """How a prompt ended; `reason` says why it is incomplete."""

    outcome: str
    reason: str | None = None
    known: bool = True


_VERDICTS = {
    "end_turn": Verdict("completed"),
    "max_tokens": Verdict("incomplete", "max_output_tokens"),
    "max_turn_requests": Verdict("incomplete", "max_turn_requests"),
    "refusal": Verdict("incomplete", "content_filter"),
    "cancelled": Verdict("cancelled"),
}
_OTHER = Verdict("incomplete", "other", known=False)


def verdict_of(stop: str) -> Verdict:
    """Read a stop reason."""
    return _VERDICTS.get(stop, _OTHER)


def error_of(error: object, bound: int) -> ErrorInfo:
    """Read a JSON-RPC error; what it is about often stands in its data alone."""
    if not isinstance(error, dict):
        return ErrorInfo(code="upstream_error", message=str(error)[:bound])
    code = error.get("code")
    data = error.get("data")
    words = [word_of(error.get("message"))]
    for more in (data, data.get("message") if isinstance(data, dict) else None):
        if isinstance(more, str) and more and more not in words:
            words.append(more)
    kind = word_of(data.get("type")) if isinstance(data, dict) else ""
    return ErrorInfo(
        code=str(code)
        if isinstance(code, (int, str)) and not isinstance(code, bool) and code != ""
        else "upstream_error",
        message=": ".join(word for word in words if word)[:bound],
        type=kind or None,
    )


def usage_of(told: Json) -> Json | None:
    """The tokens of a prompt, where the agent counts them."""
    counted = told.get("usage")
    if not isinstance(counted, dict):
        return None
    cached, thoughts = count(counted, "cachedReadTokens"), count(counted, "thoughtTokens")
    return usage.usage_of(
        read=count(counted, "inputTokens") + cached + count(counted, "cachedWriteTokens"),
        cached=cached,
        written=count(counted, "outputTokens") + thoughts,
        thought=thoughts,
        total=count(counted, "totalTokens") or None,
    )
