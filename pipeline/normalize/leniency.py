"""Reading one JSON object of an upstream that may have a habit: bad UTF-8, half a surrogate pair, NaN, nesting without end."""

import json
from typing import Any

import msgspec

from pipeline.normalize.defects import Defect, defect

Frame = dict[str, Any]
_BRACKETS = 256  # bytes below which nesting past any sensible bound does not fit
_DECODER = msgspec.json.Decoder()


def read_object(data: bytes, depth: int) -> tuple[Frame | None, Defect | None]:
    """Read one object and say what was wrong with it; None where nothing can be read."""
    why = None
    try:
        value = _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError):
        why = defect("frame_malformed", "$", "JSON", data)
        value = read_leniently(data.decode("utf-8", "replace"))
        if value is None:
            return None, why
    if type(value) is not dict:
        return None, defect("frame_malformed", "$", "an object", data)
    if len(data) > _BRACKETS and is_too_deep(data, value, depth):
        return None, defect("frame_malformed", "$", f"JSON nested at most {depth} deep", data)
    return value, why


def read_leniently(text: str) -> Frame | None:
    """Read an object that is JSON but for a habit; None where it is none."""
    try:
        value = json.loads(text, parse_constant=lambda _: None)
        if not isinstance(value, dict):
            return None
        # half a surrogate pair cannot be written again: it becomes what a bad byte becomes, one for each
        clean = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        frame: Frame = msgspec.json.decode(clean)
    except (ValueError, RecursionError):
        return None
    return frame


def is_too_deep(data: bytes, value: object, bound: int) -> bool:
    """Whether JSON nests deeper than the bound; counted only where there are brackets enough."""
    if data.count(b"[") + data.count(b"{") <= bound:
        return False
    level: list[Any] = [value]
    for _ in range(bound):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True
