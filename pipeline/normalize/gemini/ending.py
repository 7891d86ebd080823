"""What a Gemini answer's end means: the last finish reason, a blocked prompt, the usage in the terms of the public stream."""

from typing import Any, NamedTuple

from pipeline.events import ErrorInfo
from pipeline.normalize import usage
from pipeline.normalize.defects import word_of
from pipeline.normalize.narrator import TRUNCATED
from pipeline.normalize.usage import count

Json = dict[str, Any]

_INCOMPLETE = {
    "MAX_TOKENS": "max_output_tokens",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
        "content_filter",
    ),
    **dict.fromkeys(("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER"), "content_filter"),
}
_FAILED = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"})


class Verdict(NamedTuple):
    """How a turn ended; `reason` says why it is incomplete."""

    outcome: str
    reason: str | None = None
    error: ErrorInfo | None = None


def verdict_of(finish: str, feedback: Json, message: str) -> Verdict:
    """Read the end of a body: the finish reason where there is one, else the word on the prompt, else it was cut short."""
    if finish == "STOP":
        return Verdict("completed")
    if finish in _FAILED:
        words = message or f"the upstream ended with {finish}"
        return Verdict("failed", error=ErrorInfo(code=finish.lower(), message=words))
    if finish:
        return Verdict("incomplete", _INCOMPLETE.get(finish, "other"))
    if word_of(feedback.get("blockReason")):
        return Verdict("incomplete", "content_filter")
    return Verdict(
        "failed", error=ErrorInfo(code=TRUNCATED, message="the upstream's stream ended without a finish reason")
    )


def usage_of(told: Json | None) -> Json | None:
    """The tokens in the public stream's terms; thoughts are output, what tools put into the prompt is input."""
    if told is None:
        return None
    thoughts = count(told, "thoughtsTokenCount")
    return usage.usage_of(
        read=count(told, "promptTokenCount") + count(told, "toolUsePromptTokenCount"),
        cached=count(told, "cachedContentTokenCount"),
        written=count(told, "candidatesTokenCount") + thoughts,
        thought=thoughts,
        total=count(told, "totalTokenCount") or None,
    )
