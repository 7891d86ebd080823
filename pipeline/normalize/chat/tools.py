"""Which call a piece of `tool_calls` belongs to. Servers leave out the index, repeat it, count from 1; send the id late,
empty or never; name the call after its first arguments, or again with each piece. One set of rules reads all of them.

An id or a name that is empty or null is absent. In order:

1. A known id: that call.
2. A new id at an index whose call has neither id nor arguments yet: that call, which gets the id.
3. Any other new id: a new call, also where the index is taken.
4. No id, a known index: that call; but a piece with both a name and arguments, after arguments that are whole, is a new
   call.
5. No id, no index, a name: a new call.
6. Nothing at all: the last call.

Then the index names this call, and so does "last".
"""

import json
import re
from typing import Any

from pipeline.normalize.defects import index_of, word_of
from pipeline.normalize.slots import Slot, is_json

Json = dict[str, Any]
_MARKS = re.compile(r'["\\{}\[\]]')
KNOWN = frozenset({"index", "id", "type", "function"})
KNOWN_FUNCTION = frozenset({"name", "arguments"})


class Call:
    """One call. `started` once it was told; until then its arguments wait in `held`."""

    __slots__ = ("arguments", "held", "id", "kind", "name", "scan", "slot", "started")

    def __init__(self, item: int) -> None:
        self.slot = Slot(item, 0, "tool_input")
        self.id = ""
        self.name = ""
        self.kind = ""
        self.started = False
        self.arguments = False
        self.held: list[str] = []
        self.scan = _Scan()

    @property
    def item(self) -> int:
        """The item's number."""
        return self.slot.item

    @property
    def call_id(self) -> str:
        """The upstream's id, or one made of the item."""
        return self.id or f"call_{self.item}"

    @property
    def is_whole(self) -> bool:
        """Whether the arguments so far are one JSON value."""
        return self.scan.is_whole(self.slot.pieces)


class Piece:
    """One entry of `tool_calls`, read loosely."""

    __slots__ = ("arguments", "id", "index", "kind", "name", "rest")

    def __init__(self, entry: Json) -> None:
        function = entry.get("function")
        body = function if isinstance(function, dict) else {}
        custom = entry.get("custom")
        if not body and isinstance(custom, dict):
            body = {"name": custom.get("name"), "arguments": custom.get("input")}
        self.index = index_of(entry.get("index"))
        self.id = word_of(entry.get("id"))
        self.kind = word_of(entry.get("type"))
        self.name = word_of(body.get("name"))
        self.arguments = _text(body.get("arguments"))
        known = KNOWN | {"custom"} if "custom" in entry else KNOWN
        self.rest = {name: value for name, value in entry.items() if name not in known and value is not None}
        more = {name: value for name, value in body.items() if name not in KNOWN_FUNCTION and value is not None}
        if more:
            self.rest["function"] = more


class Calls:
    """All calls of a turn, in order of appearance."""

    def __init__(self) -> None:
        self.all: list[Call] = []
        self._last: Call | None = None
        self._by_id: dict[str, Call] = {}
        self._by_index: dict[int, Call] = {}

    def find(self, piece: Piece) -> Call | None:
        """The call of a piece, by the rules; None where it begins a new one."""
        at_index = self._by_index.get(piece.index) if piece.index is not None else None
        if piece.id:
            known = self._by_id.get(piece.id)
            if known is None and at_index is not None and not at_index.id and not at_index.arguments:
                return at_index
            return known
        if at_index is not None:
            return None if piece.name and piece.arguments and at_index.is_whole else at_index
        return None if piece.index is not None or piece.name else self._last

    def add(self, item: int) -> Call:
        """Begin a call."""
        call = Call(item)
        self.all.append(call)
        return call

    def bind(self, call: Call, piece: Piece) -> None:
        """Let the piece's names stand for this call, which is the last now."""
        self._last = call
        if piece.id:
            self._by_id.setdefault(piece.id, call)
            call.id = call.id or ("" if call.started else piece.id)
        if piece.index is not None:
            self._by_index[piece.index] = call
        call.name = call.name or piece.name
        call.kind = call.kind or piece.kind
        call.arguments = call.arguments or bool(piece.arguments)


class _Scan:
    """Finds out whether a growing text is one JSON value; each piece is looked at once, however often one asks."""

    __slots__ = ("_depth", "_escaped", "_pieces", "_quoted", "_tried")

    def __init__(self) -> None:
        self._pieces = 0
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self._tried: bool | None = None

    def is_whole(self, pieces: list[str]) -> bool:
        """Whether the pieces together parse; only a text whose brackets are balanced is tried, and that once."""
        if self._pieces < len(pieces):
            for piece in pieces[self._pieces :]:
                self._look(piece)
            self._pieces = len(pieces)
        if not pieces or self._depth or self._quoted or self._tried is False:
            return False
        if self._tried is None:
            self._tried = is_json("".join(pieces))
        return self._tried

    def _look(self, piece: str) -> None:
        if self._depth == 0 and not self._quoted and piece.strip():
            self._tried = None if self._tried is None else False  # more after a whole value is no JSON
        for mark in _MARKS.finditer(piece):
            char, at = mark.group(), mark.start()
            if self._escaped:
                self._escaped = False
                if at == 0 or piece[at - 1] == "\\":
                    continue
            if char == "\\":
                self._escaped = self._quoted
            elif char == '"':
                self._quoted = not self._quoted
            elif not self._quoted:
                self._depth += 1 if char in "{[" else -1


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
