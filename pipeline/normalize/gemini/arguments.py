"""A call's arguments, put together from `(JSON path, value)` pieces.

A path is `$.name[0].name` or `$['name'][0]`. Text goes on where its piece said that it would; any other piece sets its place.
"""

import re
from typing import Any

from pipeline.limits import Limits
from pipeline.normalize.defects import Defect, defect

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPED = re.compile(r"\\(.)")
_VALUES = ("stringValue", "numberValue", "boolValue")


class Arguments:
    """The object that grows; `chars` is how much it holds, about."""

    def __init__(self, limits: Limits) -> None:
        self.value: dict[str, Any] = {}
        self.chars = 0
        self._limits = limits
        self._path = ""
        self._steps: list[str | int] = []
        self._text: list[str] = []

    def take(self, piece: object) -> Defect | None:
        """Put one piece where it belongs; say what is wrong with it, if it has no place."""
        path = piece.get("jsonPath") if isinstance(piece, dict) else None
        if not isinstance(piece, dict) or not isinstance(path, str):
            return defect("member_invalid", "$.partialArgs", "a piece with a jsonPath", piece)
        member = next((name for name in _VALUES if name in piece), None)
        if member is None and "nullValue" not in piece:
            return defect("member_missing", "$.partialArgs", "a value", piece)
        value = piece[member] if member is not None else None
        self.chars += len(path) + (len(value) if isinstance(value, str) else 8)
        if isinstance(value, str) and path == self._path:
            self._text.append(value)
            return None if piece.get("willContinue") is True else self.settle()
        why = self.settle()
        steps = self._steps_of(path)
        if steps is None:
            return defect("member_invalid", "$.partialArgs.jsonPath", "a path into the arguments", path)
        if isinstance(value, str) and piece.get("willContinue") is True:
            self._path, self._steps = path, steps
            self._text.append(value)
            return why
        return why if self._put(steps, value) else _misfit(path)

    def settle(self) -> Defect | None:
        """Put the text that was going on."""
        path, self._path = self._path, ""
        text = "".join(self._text)
        self._text.clear()
        return None if not path or self._put(self._steps, text) else _misfit(path)

    def _steps_of(self, path: str) -> list[str | int] | None:
        if not path.startswith("$"):
            return None
        steps: list[str | int] = []
        at = 1
        while at < len(path):
            found = _STEP.match(path, at)
            if found is None or len(steps) >= self._limits.json_depth:
                return None
            name, index, single, double = found.groups()
            if index is not None:
                if int(index) >= self._limits.item_contents:
                    return None
                steps.append(int(index))
            else:
                steps.append(
                    name if name is not None else _ESCAPED.sub(r"\1", single if single is not None else double)
                )
            at = found.end()
        return steps if steps and isinstance(steps[0], str) else None

    def _put(self, steps: list[str | int], value: object) -> bool:
        """Set the place that the steps lead to, making what is missing on the way; False where something else is there."""
        holder: Any = self.value
        *way, last = steps
        for step, following in zip(way, steps[1:], strict=True):
            if not self._makes_room(holder, step):
                return False
            inner = holder[step] if isinstance(step, int) else holder.get(step)
            if inner is None:
                inner = holder[step] = [] if isinstance(following, int) else {}
            holder = inner
        if not self._makes_room(holder, last):
            return False
        holder[last] = value
        return True

    def _makes_room(self, holder: object, step: str | int) -> bool:
        """Whether a step can be taken within what is there; a list is made long enough for it."""
        if not isinstance(step, int):
            return isinstance(holder, dict)
        if not isinstance(holder, list):
            return False
        missing = max(0, step + 1 - len(holder))
        self.chars += missing * 5
        holder.extend([None] * missing)
        return True


def _misfit(path: str) -> Defect:
    return defect("member_invalid", "$.partialArgs.jsonPath", "a path that fits the arguments so far", path)
