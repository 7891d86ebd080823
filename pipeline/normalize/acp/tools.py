"""An agent's tools: whatever names one first (a call, an update, a request for permission) starts it; later words on it replace
what was said before, and its end tells all of it.

A tool's id is its name within a turn. A new call under the id of a finished tool is another tool.
"""

from typing import Any

import msgspec

from pipeline.normalize.defects import word_of
from pipeline.normalize.narrator import Narrator, without

Json = dict[str, Any]
_ENDS = frozenset({"completed", "failed"})


class _Tool:
    __slots__ = ("call_id", "item", "known", "status")

    def __init__(self, item: int, call_id: str) -> None:
        self.item = item
        self.call_id = call_id
        self.known: Json = {}
        self.status = ""


class Tools:
    """The tools of one turn, by id; a finished one keeps its last words, to know a repeat."""

    def __init__(self, narrator: Narrator) -> None:
        self._narrator = narrator
        self._open: dict[str, _Tool] = {}
        self._done: dict[str, tuple[int, int]] = {}

    def take(self, kind: str, update: Json) -> int | None:
        """Take a word on a tool; say which item it is, None where it names none."""
        call_id = word_of(update.get("toolCallId"))
        if not call_id:
            return None
        narrator = self._narrator
        tool = self._open.get(call_id)
        if tool is None and (done := self._done.get(call_id)) is not None and not self._begins(kind, update):
            item, said = done
            if _print(update) != said:
                detail = {"event": kind, "call_id": call_id}
                narrator.status("mismatch", item, detail=detail, wire={"update": update})
            return item
        if tool is None:
            narrator.end_text()
            tool = self._open[call_id] = _Tool(narrator.new_item(), call_id)
            tool.known = _told(update)
            name = word_of(update.get("title")) or word_of(update.get("kind")) or "tool"
            rest = without(tool.known, "title", "kind", "status")
            wire = {"update": rest} if rest else None
            narrator.tool_started(tool.item, call_id, name, word_of(update.get("kind")) or "other", wire)
        else:
            tool.known |= _told(update)
        self._progress(tool, update)
        return tool.item

    def end(self, status: str) -> None:
        """The turn is over: finish the tools that are open."""
        for tool in list(self._open.values()):
            self._finish(tool, status)

    def _begins(self, kind: str, update: Json) -> bool:
        return kind == "tool_call" and word_of(update.get("status")) not in _ENDS

    def _progress(self, tool: _Tool, update: Json) -> None:
        status = word_of(update.get("status"))
        if status in _ENDS:
            self._finish(tool, status)
            if len(self._done) < self._narrator.limits.turn_items:
                self._done[tool.call_id] = (tool.item, _print(update))
        elif status == "in_progress" and tool.status != status:
            tool.status = status
            self._narrator.status("in_progress", tool.item)

    def _finish(self, tool: _Tool, status: str) -> None:
        """Tell a tool's end: its last input, its content or else its raw output, and the rest of what was said of it."""
        del self._open[tool.call_id]
        known = tool.known
        content = known.get("content")
        given = known.get("rawInput")
        text = given if isinstance(given, str) else "" if given is None else _json(given)
        self._narrator.keep(len(text), len(text))
        shown = "content" if content else "rawOutput"
        rest = without(known, "rawInput", shown, "status")
        self._narrator.tool_finished(
            tool.item, tool.call_id, status, text, output=known.get(shown), wire={"update": rest} if rest else None
        )


def _told(update: Json) -> Json:
    """What an update says; a null says nothing."""
    known = without(update, "toolCallId", "sessionUpdate")
    return {name: value for name, value in known.items() if value is not None}


def _print(update: Json) -> int:
    """A fingerprint of an update, to know its repeat."""
    return hash(msgspec.json.encode(without(update, "sessionUpdate"), order="deterministic"))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
