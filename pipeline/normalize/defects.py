"""How an adapter describes what is wrong with one upstream event: reported with the event, never raised."""

from pipeline.errors import shorten

Defect = dict[str, str]
MAX_INDEX = 2**32 - 1


def defect(code: str, path: str, expected: str, found: object) -> Defect:
    """Describe one defect; `found` is shortened."""
    return {"code": code, "path": path, "expected": expected, "found": shorten(found)}


def index_of(value: object) -> int | None:
    """Read an index: a natural number of 32 bits, or None for whatever else stands there."""
    return value if type(value) is int and 0 <= value <= MAX_INDEX else None


def word_of(value: object) -> str:
    """Read a string: anything else is the empty one."""
    return value if isinstance(value, str) else ""
