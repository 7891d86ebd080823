"""Applies events to the slot map. Says what an event meant; a None means that it changed nothing and is not passed on."""

from typing import Any

from pipeline.events import BlockFinal, Status, TextDelta, ToolFinished, ToolStarted
from pipeline.fold.slots import SlotMap
from pipeline.kinds import KINDS, Kind, kind_of, kind_of_tool, kind_of_track, takes
from pipeline.kinds.slot import INPUT, OTHER_PART, Json, Part, Phase, Slot
from pipeline.limits import Limits

_PART_TRACKS = {
    "output_text": "text",
    "text": "text",
    "refusal": "refusal",
    "reasoning_text": "reasoning",
    "summary_text": "summary",
}


class Fold:
    """The items of one turn, from their starts to their ends."""

    def __init__(self, turn: str, limits: Limits) -> None:
        self.slots = SlotMap(turn, limits)
        self._guests: dict[int, Slot] = {}

    def delta(self, event: TextDelta) -> Part | None:
        """Add a delta to its text. Late ones, and those of another kind of item, are ignored."""
        slot = self.slots.find(event.item)
        if slot is None:
            slot = self.slots.open(event.item, kind_of_track(event.track))
        elif slot.phase is Phase.DONE:
            return None
        part = slot.parts.get((event.track, event.content)) or self._part(slot, event, event.track)
        if part is None or part.final is not None:
            return None
        self.slots.keep(part, event.text)
        return part

    def final(self, event: BlockFinal) -> Part | None:
        """Take the final word on a text; a second one is ignored."""
        slot = self.slots.find(event.item)
        if slot is None:
            slot = self.slots.open(event.item, kind_of_track(event.track))
        elif slot.phase is Phase.DONE:
            return None
        part = self._part(slot, event, event.track)
        if part is None or part.final is not None:
            return None
        part.final = event.text
        return part

    def reserved(self, event: Status) -> Slot | None:
        """Keep the place of a call that has no name yet."""
        if event.item is None or self.slots.find(event.item) is not None:
            return None
        detail = event.detail if isinstance(event.detail, dict) else {}
        kind = detail.get("kind")
        slot = self.slots.open(event.item, kind if isinstance(kind, str) and kind else "function_call")
        self.slots.reserve(slot)
        return slot

    def started(self, event: Status | ToolStarted, face: str = "") -> Slot | None:
        """Open an item, which the public knows as a `face` if that is given. A second start of the same item is ignored,
        unless the first was only guessed from its texts.
        """
        if event.item is None:
            return None
        item = item_of(event.wire)
        tool = event if isinstance(event, ToolStarted) else None
        kind = item.get("type")
        if not isinstance(kind, str) or not kind:
            kind = kind_of_tool(tool.kind) if tool is not None else "message"
        slot = self.slots.find(event.item) or self.slots.open(event.item, kind)
        if slot.phase is not Phase.PENDING or (slot.announced and slot.kind != kind):
            return None
        slot.kind = kind
        if tool is not None:
            slot.name = tool.name
        slot.face = face if not slot.id else ""
        slot.added = item
        slot.phase = Phase.ACTIVE
        if item and "type" not in (event.wire or {}):  # read from the item's end
            item = _start_of(slot, item)
        self.place(slot, item, tool.call_id if tool is not None else None)
        return slot

    def place(self, slot: Slot, item: Json, call_id: object = None, *, hint: object = None) -> None:
        """Name a slot in public and make the item as its start shows it; done once, at the first need."""
        if slot.id:
            return
        kind, face = kind_of(slot.kind), kind_of(slot.face or slot.kind)
        name = item.get("id") or hint
        if slot.face and isinstance(name, str) and name:
            name = f"{face.prefix}_{name.removeprefix(kind.prefix + '_')}"
        self.slots.place(slot, face.prefix, name)
        if face.call:
            item = {**item, "call_id": self.slots.bind_call(slot, item.get("call_id") or call_id)}
        elif not isinstance(item.get("call_id"), str | None):
            item = {**item, "call_id": None}
        slot.public = {**kind.from_added(slot, item), "id": slot.id, "type": slot.kind}

    def finished(self, event: Status | ToolFinished) -> tuple[Slot, Json] | None:
        """End an item with the upstream's finished one, or with what was streamed; a repeated end is ignored."""
        if event.item is None:
            return None
        item = item_of(event.wire)
        slot = self.slots.find(event.item)
        kind = item.get("type")
        if slot is None or (slot.phase is Phase.PENDING and not slot.kind):
            if not isinstance(kind, str) or not kind:
                return None
            slot = slot or self.slots.open(event.item, kind)
            slot.kind = kind
        if slot.phase is Phase.DONE or (isinstance(kind, str) and kind != slot.kind):
            return None
        if not slot.id:
            self.place(slot, _start_of(slot, item), item.get("call_id"))
        row = kind_of(slot.kind)
        if isinstance(event, ToolFinished):
            if not item:
                return slot, self._close(slot, _told(row, slot, event))
            item = _with_input(row, item, event)
        cut_short = isinstance(event, Status) and event.detail == "incomplete"
        made = row.apply_done(slot, item) if item else row.finalize(slot, "incomplete" if cut_short else "completed")
        return slot, self._close(slot, made)

    def end(self, slot: Slot, status: str) -> Json:
        """End an item that never got its own end."""
        self.place(slot, {})
        return self._close(slot, kind_of(slot.kind).finalize(slot, status))

    def part_started(self, event: Status) -> Part | None:
        """A part of an item begins; of one that nobody knows, its start is all there is until its end."""
        part = self._event_part(event)
        if part is not None and part.raw is None and part.track.startswith(OTHER_PART):
            part.raw = (event.wire or {}).get("part")
        return part

    def part_finished(self, event: Status) -> Part | None:
        """A part of an item ends; its own form is kept."""
        part = self._event_part(event)
        raw = (event.wire or {}).get("part")
        if part is None or part.closed or not isinstance(raw, dict):
            return part
        if part.track.startswith(OTHER_PART) or (part.raw is None and str(raw.get("type")) in _PART_TRACKS):
            part.raw = raw
        return part

    def annotated(self, event: Status) -> Part | None:
        """An annotation belongs to a message's text."""
        if event.item is None or (slot := self.slots.find(event.item)) is None or slot.phase is Phase.DONE:
            return None
        part = self._part(slot, event, "text")
        if part is not None and (annotation := (event.wire or {}).get("annotation")) is not None:
            part.annotations.append(annotation)
        return part

    def _event_part(self, event: Status) -> Part | None:
        """The part that a part's own event is about."""
        if event.item is None:
            return None
        wire = event.wire or {}
        raw = wire.get("part")
        kind = raw.get("type") if isinstance(raw, dict) else None
        summary = str(wire.get("type", "")).startswith("response.reasoning_summary")
        slot = self.slots.find(event.item)
        if slot is None:
            slot = self.slots.open(event.item, "reasoning" if summary or kind == "reasoning_text" else "message")
        elif slot.phase is Phase.DONE:
            return None
        track = "summary" if summary else _PART_TRACKS.get(str(kind), "")
        if not track and slot.kind == "message" and isinstance(kind, str) and kind:
            told = next((known for known in ("text", "refusal") if (known, event.content or 0) in slot.parts), None)
            track = told or OTHER_PART + kind  # a part that nobody knows has a place of its own, and no text
        elif not track:
            track = "reasoning" if slot.kind == "reasoning" else "text"
        return self._part(slot, event, track)

    def _part(self, slot: Slot, event: TextDelta | BlockFinal | Status, track: str) -> Part | None:
        """Find or make a text of a slot, if its kind streams such text; an item first seen here gets its place.

        A message's text on an item of a kind that nobody knows is kept in a message of its own: readers of the public
        stream look for it nowhere else.
        """
        content = event.content or 0
        if not slot.kind and track != INPUT:
            return None  # only a call's input was seen of it
        if track == INPUT and kind_of(slot.kind).position is None:
            content = 0  # such a call has one input, whatever number is put on it
        if (track, content) not in slot.parts and slot.kind and not takes(slot.kind, track):
            if slot.kind in KINDS or kind_of_track(track) != "message":
                return None
            slot = self._guests.get(slot.item) or self._guest(slot.item)
        if not slot.id and slot.kind:
            self.place(slot, {}, hint=(event.wire or {}).get("item_id"))
        if (track, content) not in slot.parts and not isinstance(event, Status):
            _adopt(slot, track, content)
        return self.slots.part(slot, track, content)

    def _guest(self, item: int) -> Slot:
        guest = self._guests[item] = Slot(item, "message")
        return guest

    def _close(self, slot: Slot, item: Json) -> Json:
        """Make the item final, under the identity that its start was shown with."""
        item = {**item, "id": slot.id, "type": slot.kind}
        if "call_id" in slot.public:
            item["call_id"] = slot.public["call_id"]
        else:
            item.pop("call_id", None)
        slot.result = item
        slot.phase = Phase.DONE
        for part in slot.parts.values():
            part.final = part.text
            part.pieces.clear()
        return item


def _adopt(slot: Slot, track: str, content: int) -> None:
    """Text at an index that was not announced belongs to the one part that was announced and has none."""
    empty = [key for key, part in slot.parts.items() if part.track == track and not part.pieces and part.final is None]
    if len(empty) == 1:
        slot.parts[track, content] = slot.parts.pop(empty[0])


def item_of(wire: dict[str, Any] | None) -> Json:
    """The item that an event's wire holds, or an empty one."""
    item = wire.get("item") if wire is not None else None
    return item if isinstance(item, dict) else {}


def _start_of(slot: Slot, item: Json) -> Json:
    """What the start of an item would have shown, read from its end."""
    kept = {"id": item.get("id"), "type": slot.kind, "status": "in_progress"}
    row = kind_of(slot.kind)
    if row.stem is None and slot.kind not in {"message", "reasoning"}:
        return {**item, "status": "in_progress"} if "status" in item else dict(item)
    for member in ("role", "phase", "name", "namespace", "call_id", "server_label", "container_id"):
        if member in item:
            kept[member] = item[member]
    if slot.kind == "reasoning" and "status" not in item:
        del kept["status"]
    if row.input is not None:
        kept[row.input] = ""
    return kept


def _with_input(row: Kind, item: Json, event: ToolFinished) -> Json:
    """The finished call with its authoritative input, where the item itself lacks it."""
    if row.stem is None or row.input is None or not event.input or not item:
        return item
    given = item.get(row.input)
    return item if isinstance(given, str) and given else {**item, row.input: event.input}


def _told(row: Kind, slot: Slot, event: ToolFinished) -> Json:
    """The finished tool of an upstream that does not speak of items."""
    failed = event.status == "failed"
    status = event.status if event.status == "completed" or (failed and not row.call) else "incomplete"
    item = row.finalize(slot, status)
    if row.input is not None and event.input:
        item = {**item, row.input: event.input}
    item = row.asked(item, event.input or "")
    return row.result(item, event.output, failed) if failed or event.output is not None else item
