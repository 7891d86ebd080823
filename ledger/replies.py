"""Read raw replies, whatever protocol version and decoding the client was built with: bytes or text, mappings or flat lists."""

from collections.abc import Mapping, Sequence
from typing import Any, cast


def as_text(value: Any) -> str:
    """A reply as text; an absent one is empty."""
    if value is None:
        return ""
    return value.decode() if isinstance(value, bytes) else str(value)


def as_texts(value: Any) -> list[str]:
    """A reply that lists texts."""
    return [item if type(item) is str else as_text(item) for item in value or ()]


def as_int(value: Any) -> int:
    """A reply that is a number; an absent one is 0."""
    return int(value) if value else 0


def as_pairs(value: Any) -> dict[str, str]:
    """A reply of fields and values, as a mapping or a flat list."""
    if isinstance(value, Mapping):
        return {as_text(name): as_text(item) for name, item in value.items()}
    flat = as_texts(value)
    return dict(zip(flat[::2], flat[1::2], strict=True))


def as_entries(value: Any) -> list[tuple[str, dict[str, str]]]:
    """A reply of stream entries, each an id and its fields."""
    return [(as_text(entry[0]), as_pairs(entry[1])) for entry in cast("Sequence[Any]", value or ())]
