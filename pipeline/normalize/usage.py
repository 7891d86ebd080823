"""What a turn cost, in one form for every wire: the public stream's. The upstream's own numbers travel in `wire` beside."""

from typing import Any

Json = dict[str, Any]


def usage_of(*, read: int, cached: int, written: int, thought: int, total: int | None = None) -> Json:
    """Write usage as the public stream has it; what an upstream does not say is 0."""
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": read + written if total is None else total,
    }


def count(value: Any, *path: str) -> int:
    """Read a number of tokens by its path; whatever else stands there is 0."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if type(value) is int and value >= 0 else 0
