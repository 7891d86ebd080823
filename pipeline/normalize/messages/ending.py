"""How a message ended, by its stop reason, and what it cost."""

from typing import Any

from pipeline.events import ErrorInfo
from pipeline.normalize.usage import count, usage_of

Json = dict[str, Any]
INCOMPLETE = {
    "max_tokens": "max_output_tokens",
    "model_context_window_exceeded": "max_output_tokens",
    "refusal": "content_filter",
    "pause_turn": "pause_turn",
}
"""What cuts an answer short. Any reason that does not stand here is a good end."""
TRUNCATED = ErrorInfo(code="upstream_truncated", message="the upstream's stream ended without a stop_reason")
EMPTY = ErrorInfo(code="empty_stream", message="the upstream answered with a stream in which there was nothing")
SPLICED = ErrorInfo(code="spliced_stream", message="another message began before the first one had stopped")


def merge(known: Json, told: Json) -> Json:
    """Add what is told to what is known: numbers are cumulative, and a null says nothing."""
    return {**known, **{name: value for name, value in told.items() if value is not None}}


def public_usage(messages: list[Json]) -> Json | None:
    """The usage of all messages of a turn, in the public stream's form: there, what was cached counts as read."""
    told = [raw for raw in messages if raw]
    if not told:
        return None
    cached = sum(count(raw, "cache_read_input_tokens") for raw in told)
    made = sum(count(raw, "cache_creation_input_tokens") for raw in told)
    return usage_of(
        read=sum(count(raw, "input_tokens") for raw in told) + cached + made,
        cached=cached,
        written=sum(count(raw, "output_tokens") for raw in told),
        thought=sum(count(raw, "output_tokens_details", "thinking_tokens") for raw in told),
    )
