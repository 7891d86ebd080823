"""The grammar of a turn, one for both policies.

Strict refuses the first breach by name; lenient takes what can be taken, and the stages behind it mend the rest. What one
event lacks by itself is the wire adapter's to report (`wire["defects"]`); every rule that needs what came before is here:
the order of the lifecycle, one response id, items that are opened once and ended once under one identity, and a terminal
that agrees with what was streamed.

    start ── created ──▶ created ── in_progress ──▶ running ── an item's event ──▶ running
                          │  ▲                        │
                          │  └ queued                 └─ completed, incomplete, failed ──▶ ended
                          └──── failed ───────────────────────────────────────────────────▶ ended
"""

from enum import Enum
from typing import Any, NoReturn

from pipeline.errors import Diagnostic, WireError, shorten
from pipeline.events import TERMINALS, Event, Status, TurnFailed, TurnStarted
from pipeline.kinds import KINDS, kind_of, unmet


class Validation(Enum):
    """How an upstream's breaches are met: refused by name, or tolerated and mended."""

    STRICT = "strict"
    LENIENT = "lenient"


class _Stage(Enum):
    START = "start"
    CREATED = "created"
    RUNNING = "running"
    ENDED = "ended"


_CREATED = "response.created"
_QUEUED = "response.queued"
_IN_PROGRESS = "response.in_progress"
_ENDS = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}
_OTHER = "*"

GRAMMAR: dict[tuple[_Stage, str], _Stage] = {
    (_Stage.START, _CREATED): _Stage.CREATED,
    (_Stage.CREATED, _QUEUED): _Stage.CREATED,
    (_Stage.CREATED, _IN_PROGRESS): _Stage.RUNNING,
    (_Stage.CREATED, "response.failed"): _Stage.ENDED,
    (_Stage.RUNNING, _OTHER): _Stage.RUNNING,
    **{(_Stage.RUNNING, kind): _Stage.ENDED for kind in _ENDS},
}
_LIFECYCLE = frozenset({_CREATED, _QUEUED, _IN_PROGRESS, *_ENDS})

SUPPORTED = frozenset(name for name, row in KINDS.items() if row.standard)
_CALLS = frozenset(name for name, row in KINDS.items() if row.tool is not None)


class _Seen:
    """What strict validation remembers of an item."""

    __slots__ = ("calls", "done", "id", "kind")

    def __init__(self, kind: str, item_id: str) -> None:
        self.kind = kind
        self.id = item_id
        self.done = False
        self.calls: set[str] = set()


class Validator:
    """The grammar's state for one turn."""

    def __init__(self, turn: str, policy: Validation) -> None:
        self._turn = turn
        self._strict = policy is Validation.STRICT
        self._stage = _Stage.START
        self._responses = True
        self._response_id: str | None = None
        self._items: dict[int, _Seen] = {}
        self._ids: set[str] = set()
        self._seq: int | None = None

    def check(self, event: Event) -> None:
        """Strict: raise WireError at a breach. Lenient: everything may come, in any order, until the turn has ended."""
        if not self._strict:
            return
        self._seq = event.seq
        if isinstance(event, TurnStarted):
            self._responses = event.wire in {"responses", "canonical"}
            return
        wire = event.wire or {}
        if isinstance(event, Status) and event.name == "malformed":
            self._refuse("malformed_frame", "$", "a JSON object", wire.get("data", event.detail))
        defects = wire.get("defects")
        for found in defects if isinstance(defects, list) else ():
            self._refuse_defect(found)
        if self._responses:
            self._responses_rules(event, wire)
        elif isinstance(event, TERMINALS):
            self._stage = _Stage.ENDED

    # -- the rules of the Responses wire

    def _responses_rules(self, event: Event, wire: dict[str, Any]) -> None:
        kind = wire.get("type")
        if isinstance(event, TurnFailed) and (kind is None or kind == "error"):
            if event.error.code == "upstream_truncated" or kind == "error":
                self._refuse("terminal_missing", "$", "a terminal event", kind or event.error.code)
            self._stage = _Stage.ENDED
            return
        if not isinstance(kind, str):
            if isinstance(event, TERMINALS):
                self._stage = _Stage.ENDED
            return
        if self._stage is _Stage.ENDED:
            self._refuse("after_terminal", "$", "nothing after the terminal", kind)
        after = GRAMMAR.get((self._stage, kind if kind in _LIFECYCLE else _OTHER))
        if after is None:
            self._refuse("lifecycle_order", "$.type", f"what may follow {self._stage.value}", kind)
        self._stage = after
        if kind in _LIFECYCLE:
            self._lifecycle(kind, wire)
        elif kind == "response.output_item.added":
            self._added(event, wire)
        elif kind == "response.output_item.done":
            self._done(event, wire)
        elif (item := getattr(event, "item", None)) is not None and getattr(event, "name", None) != "unknown":
            self._item_event(item, kind, wire)

    def _lifecycle(self, kind: str, wire: dict[str, Any]) -> None:
        """One response, under one id, whose terminal agrees with its items."""
        response = wire.get("response")
        if not isinstance(response, dict):
            self._refuse("member_missing", "$.response", "an object", response)
        if kind == _CREATED:
            self._response_id = response.get("id")
        elif response.get("id") != self._response_id:
            self._refuse("response_id_changed", "$.response.id", shorten(self._response_id), response.get("id"))
        if kind in _ENDS:
            self._terminal(kind, response)

    def _added(self, event: Event, wire: dict[str, Any]) -> None:
        """An item is opened once, at an index and under an id of its own."""
        number, item = _item_of(event, wire)
        if number is None or not isinstance(kind := item.get("type"), str):
            return
        if kind not in SUPPORTED:
            self._refuse("kind_unsupported", "$.item.type", "a supported kind of item", kind)
        if number in self._items:
            self._refuse("item_repeated", "$.output_index", "an index that is not taken", number)
        item_id = _id_of(item, wire)
        if item_id in self._ids:
            self._refuse("item_repeated", "$.item.id", "an id that is not taken", item_id)
        self._ids.add(item_id)
        seen = self._items[number] = _Seen(kind, item_id)
        self._call(seen, item)

    def _done(self, event: Event, wire: dict[str, Any]) -> None:
        """An item is ended once, as what it was opened as."""
        number, item = _item_of(event, wire)
        if number is None:
            return
        seen = self._active(number, "response.output_item.done")
        if item.get("type") != seen.kind:
            self._refuse("identity_mismatch", "$.item.type", seen.kind, item.get("type"))
        item_id = _id_of(item, wire)
        if item_id and item_id != seen.id:  # vLLM ends a call with no id at all, which is no other one
            self._refuse("identity_mismatch", "$.item.id", seen.id, item_id)
        self._call(seen, item)
        seen.done = True

    def _item_event(self, number: int, kind: str, wire: dict[str, Any]) -> None:
        """An item's events lie between its start and its end."""
        seen = self._active(number, kind)
        item_id = wire.get("item_id")
        if isinstance(item_id, str) and item_id and item_id != seen.id:
            self._refuse("identity_mismatch", "$.item_id", seen.id, item_id)

    def _active(self, number: int, kind: str) -> _Seen:
        seen = self._items.get(number)
        if seen is None or seen.done:
            self._refuse("no_active_item", "$.output_index", "the index of an open item", f"{number} ({kind})")
        return seen

    def _terminal(self, kind: str, response: dict[str, Any]) -> None:
        """Every item is ended, and the terminal lists each of them in its place."""
        open_items = [number for number, seen in self._items.items() if not seen.done]
        if open_items:
            self._refuse("items_unfinished", "$", "every item done before the terminal", open_items)
        output = response.get("output")
        if output is not None:
            self._terminal_output(output)
        if kind != "response.failed":
            for number, seen in sorted(self._items.items()):
                if len(seen.calls) > 1:
                    found = sorted(seen.calls)
                    self._refuse("call_id_changed", f"$.response.output[{number}].call_id", "one call id", found)

    def _terminal_output(self, output: Any) -> None:
        if not isinstance(output, list):
            self._refuse("terminal_output_invalid", "$.response.output", "an array", output)
        if len(output) != len(self._items) and output:
            self._refuse("terminal_output_mismatch", "$.response.output", f"{len(self._items)} items", len(output))
        ids: set[str] = set()
        for position, item in enumerate(output):
            path = f"$.response.output[{position}]"
            if not isinstance(item, dict) or not isinstance(item.get("type"), str):
                self._refuse("terminal_output_invalid", path, "an item", item)
            if item["type"] not in SUPPORTED:
                self._refuse("kind_unsupported", f"{path}.type", "a supported kind of item", item["type"])
            item_id = item.get("id")
            if isinstance(item_id, str) and item_id in ids:
                self._refuse("item_repeated", f"{path}.id", "an id that is not taken", item_id)
            if isinstance(item_id, str):
                ids.add(item_id)
            seen = self._items.get(position)
            if seen is None or seen.kind != item["type"]:
                self._refuse("terminal_output_mismatch", path, seen.kind if seen else "no item here", item["type"])
            for member, expected, found in unmet(item, kind_of(seen.kind)):
                self._refuse("item_invalid", f"{path}{member}", expected, found)
            self._call(seen, item)

    def _call(self, seen: _Seen, item: dict[str, Any]) -> None:
        call_id = item.get("call_id")
        if seen.kind in _CALLS and isinstance(call_id, str) and call_id:
            seen.calls.add(call_id)

    # -- refusals

    def _refuse_defect(self, found: Any) -> NoReturn:
        found = found if isinstance(found, dict) else {}
        self._refuse(
            str(found.get("code", "defect")),
            str(found.get("path", "$")),
            str(found.get("expected", "a well-formed event")),
            found.get("found", ""),
        )

    def _refuse(self, code: str, path: str, expected: str, found: Any) -> NoReturn:
        raise WireError(
            Diagnostic(
                code=code,
                path=path,
                expected=expected,
                found=found if isinstance(found, str) else shorten(found),
                turn=self._turn,
                seq=self._seq,
            )
        )


def _item_of(event: Event, wire: dict[str, Any]) -> tuple[int | None, dict[str, Any]]:
    """The number and the item of an item's own event."""
    item = wire.get("item")
    number = getattr(event, "item", None)
    return (number, item) if isinstance(item, dict) and isinstance(number, int) else (None, {})


def _id_of(item: dict[str, Any], wire: dict[str, Any]) -> str:
    """An item's id; some tools' items have it beside them."""
    item_id = item.get("id") or item.get("item_id") or wire.get("item_id")
    return item_id if isinstance(item_id, str) else ""
