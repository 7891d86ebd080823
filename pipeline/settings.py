"""Streaming settings: one resolver for every runtime.

A turn's settings are frozen when it is submitted and stand in its first event; nothing else is asked. Values out of
range are clamped the same way for everybody, so a turn is never lost to its settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_MIN_CHARS = 800  # below this, a message of a chat reads as chatter
DEFAULT_MAX_CHARS = 1200  # about one screen of a phone; below every channel's own limit
DEFAULT_IDLE_MS = 1000  # a silence this long means that the reader waits for what is already there
PREFERENCES = ("paragraph", "newline", "sentence")
KEYS = ("min_chars", "max_chars", "idle_ms", "break")


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How a turn's text becomes blocks; lengths count code points."""

    min_chars: int = DEFAULT_MIN_CHARS
    max_chars: int = DEFAULT_MAX_CHARS
    idle_ms: int = DEFAULT_IDLE_MS
    preference: str = "paragraph"


def resolve(settings: Mapping[str, Any]) -> StreamSettings:
    """Read `min_chars max_chars idle_ms break` of a turn's settings; the rest is somebody else's."""
    min_chars = max(1, _number(settings.get("min_chars"), DEFAULT_MIN_CHARS))
    max_chars = max(min_chars, _number(settings.get("max_chars"), max(min_chars, DEFAULT_MAX_CHARS)))
    preference = settings.get("break")
    return StreamSettings(
        min_chars=min_chars,
        max_chars=max_chars,
        idle_ms=max(0, _number(settings.get("idle_ms"), DEFAULT_IDLE_MS)),
        preference=preference if preference in PREFERENCES else "paragraph",
    )


def _number(value: Any, default: int) -> int:
    """A whole number, or the default for anything else; True is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return default
    return int(min(max(value, -(2**53)), 2**53))
