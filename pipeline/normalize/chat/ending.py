"""How a turn ended, by the reason that its chunks gave, and what it cost."""

from typing import Any

from pipeline.events import ErrorInfo
from pipeline.normalize.defects import word_of
from pipeline.normalize.usage import count, usage_of

Json = dict[str, Any]
MAX_TOKENS = "max_output_tokens"
CONTENT_FILTER = "content_filter"
INCOMPLETE = {
    "length": MAX_TOKENS,
    "max_tokens": MAX_TOKENS,
    "model_length": MAX_TOKENS,
    "content_filter": CONTENT_FILTER,
    "safety": CONTENT_FILTER,
}
"""What cuts an answer short. Any reason that stands in neither table is a good end."""
FAILED = {
    "error": ErrorInfo(
        code="upstream_error", message="the upstream ended with finish_reason error and did not say why"
    ),
    "insufficient_system_resource": ErrorInfo(
        code="upstream_insufficient_system_resource",
        message="the upstream ran out of resources in the middle of its answer",
    ),
}
TRUNCATED = ErrorInfo(
    code="upstream_truncated", message="the upstream's stream ended without a finish_reason and without [DONE]"
)
EMPTY = ErrorInfo(code="empty_stream", message="the upstream answered with a stream in which there was nothing")


def usage_in(frame: Json, choices: list[Json]) -> Json | None:
    """The usage that a chunk tells, wherever the server puts it."""
    groq = frame.get("x_groq")
    places = [frame, *choices, *([groq] if isinstance(groq, dict) else ())]
    return next((place["usage"] for place in places if isinstance(place.get("usage"), dict) and place["usage"]), None)


def public_usage(raw: Json | None) -> Json | None:
    """The usage in the public stream's form."""
    if raw is None:
        return None
    read, written = count(raw, "prompt_tokens"), count(raw, "completion_tokens")
    total = raw.get("total_tokens")
    return usage_of(
        read=read,
        cached=count(raw, "prompt_tokens_details", "cached_tokens") or count(raw, "prompt_cache_hit_tokens"),
        written=written,
        thought=count(raw, "completion_tokens_details", "reasoning_tokens"),
        total=total if type(total) is int else None,
    )


def reason_in(choice: Json) -> str:
    """The finish reason of a choice; an empty one is none."""
    return word_of(choice.get("finish_reason"))
