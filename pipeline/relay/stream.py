"""The public stream of a turn, as the OpenAI Responses dialect has it and its official SDK reads it.

From a conforming upstream every frame is the upstream's own, save the documented rewrites: the response id, the numbers,
the terminal's output, ids that cannot stand, and dense indexes. Where an upstream leaves something out, the frames that
are missing are made here, so that what a client reads is always whole:

- `created`, then `in_progress`, once each and before everything else; a failure may come right after `created`.
- every item: added, its parts, their texts and ends, done. Every part of a message: added before its text, done after it.
- one terminal, with all items that were ever shown, each of them done.
"""

from collections.abc import Callable
from typing import Any

from pipeline.events import BlockFinal, Status, TextDelta, TurnFailed, TurnStarted
from pipeline.kinds import KINDS
from pipeline.kinds.slot import SUMMARY, Json, Part, Phase, Slot
from pipeline.kinds.texts import content_of
from pipeline.limits import Limits
from pipeline.relay.envelope import Envelope, Terminal
from pipeline.relay.funnel import Form, Funnel, form_of
from pipeline.relay.served import ServedCalls

_DELTAS = {
    "text": "response.output_text.delta",
    "refusal": "response.refusal.delta",
    "reasoning": "response.reasoning_text.delta",
    "summary": "response.reasoning_summary_text.delta",
}
_DONES = {
    "text": ("response.output_text.done", "text"),
    "refusal": ("response.refusal.done", "refusal"),
    "reasoning": ("response.reasoning_text.done", "text"),
    "summary": ("response.reasoning_summary_text.done", "text"),
}
_EMPTY_PARTS: dict[str, Json] = {
    "text": {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    "refusal": {"type": "refusal", "refusal": ""},
    "reasoning": {"type": "reasoning_text", "text": ""},
    "summary": {"type": "summary_text", "text": ""},
}
# Parts whose start and end every client needs. A reasoning's own texts have such events on some upstreams only.
_FAMILIES = {
    "text": "response.content_part",
    "refusal": "response.content_part",
    "summary": "response.reasoning_summary_part",
}
_PART_FAMILIES = ("response.content_part", "response.reasoning_part", "response.reasoning_summary_part")
_INPUT_STEMS = tuple(kind.stem for kind in KINDS.values() if kind.stem is not None)
# What carries the structure of the stream has a method of its own here; where one of these reaches `other`, its form is
# broken, and a client could not read it.
_STRUCTURE = frozenset(
    {
        "error",
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.completed",
        "response.incomplete",
        "response.failed",
        "response.cancelled",
        "response.done",
        "response.output_item.added",
        "response.output_item.done",
        *_DELTAS.values(),
        *(kind for kind, _ in _DONES.values()),
        *(f"{family}.{end}" for family in _PART_FAMILIES for end in ("added", "done")),
        *(f"response.{stem}.{end}" for stem in _INPUT_STEMS for end in ("delta", "done")),
    }
)
_REPLACED = frozenset({"type", "arguments", "name"})
_ANNOTATION = "response.output_text.annotation.added"
Draft = tuple[str, dict[str, Any]]


class Relay:
    """Emits the frames of one turn into its funnel."""

    def __init__(self, turn: str, *, muted: bool = False) -> None:
        self.envelope = Envelope(turn)
        self.funnel = Funnel(muted=muted)
        self.served = ServedCalls(self.funnel)
        self._created = False
        self._running = False

    @property
    def frames(self) -> int:
        """How many frames were emitted."""
        return self.funnel.number

    @property
    def begun(self) -> bool:
        """Whether anything was told."""
        return self._created

    # -- the response

    def request(self, event: TurnStarted) -> None:
        """Take what the request said."""
        self.envelope.request(event)

    def created(self, wire: Json | None) -> None:
        """The response exists; told once."""
        if self._created:
            return
        self._created = True
        response = self.envelope.opening(wire, "created")
        self.funnel.emit_upstream(_own(wire), {"type": "response.created", "response": response})

    def queued(self, wire: Json | None) -> None:
        """The response waits; told only where it is true."""
        if self._running:
            return
        self.created(None)
        response = self.envelope.opening(wire, "queued")
        self.funnel.emit_upstream(_own(wire), {"type": "response.queued", "response": response})

    def in_progress(self, wire: Json | None) -> None:
        """The response is being made; told once."""
        if self._running:
            return
        self.created(None)
        self._running = True
        response = self.envelope.opening(wire, "in_progress")
        self.funnel.emit_upstream(_own(wire), {"type": "response.in_progress", "response": response})

    def ended(self, event: Terminal, output: list[Json]) -> Json:
        """The terminal, with the output of the fold; returns the response object as it is now."""
        if isinstance(event, TurnFailed):
            self.created(None)
        elif not self._running:
            self.in_progress(None)
        kind, response = self.envelope.closing(event, output)
        wire = event.wire or {}
        upstream = wire if str(wire.get("type", "")).startswith("response.") else {}
        self.funnel.emit_upstream(upstream, {"type": kind, "response": response})
        return response

    def other(self, event: Status, slot: Slot | None) -> None:
        """Any other event of the upstream, with its names mended."""
        wire = event.wire
        kind = wire.get("type") if wire is not None else None
        if wire is None or not isinstance(kind, str) or not kind or kind in _STRUCTURE:
            return
        if event.item is not None and event.name != "unknown" and (slot is None or slot.phase is not Phase.ACTIVE):
            return  # progress of an item that is not there, or not any more
        if event.item is None and _is_progress(kind):
            return
        if (slot is None or not slot.id) and "output_index" in wire:
            wire = _off_output(wire)  # it names no item of ours
        self.in_progress(None)
        restored: dict[str, Any] = {}
        if slot is not None and slot.id:
            restored["output_index"] = slot.index
            if "item_id" in wire or _is_progress(kind):
                restored["item_id"] = slot.id
        if event.content is not None:
            summary = kind.startswith("response.reasoning_summary")
            restored["summary_index" if summary else "content_index"] = event.content
        self.funnel.emit_upstream(wire, restored | self._renamed(wire))

    def aside(self, event: Status) -> None:
        """What another producer than the upstream tells of; it is no part of the output and waits for none of it."""
        own = _own(event.wire)
        kind = own.get("type")
        if not kind or kind in _STRUCTURE or _is_progress(kind):
            return  # the output is the upstream's to tell
        self.in_progress(None)
        self.funnel.emit_upstream(_off_output(own), self._renamed(own), at_once=True)

    def _renamed(self, wire: Json) -> Json:
        """The response object that an event holds, if it holds one, under our id: a client knows no other."""
        response = wire.get("response")
        return {"response": self.envelope.rename(response)} if isinstance(response, dict) else {}

    # -- the defer window

    def hold(self, slot: Slot, limits: Limits) -> None:
        """Let what comes behind an item wait until the item can be told of."""
        self.in_progress(None)
        self.funnel.hold(slot.index, limits)

    def release(self, slot: Slot) -> None:
        """Let it wait for this item no more."""
        self.funnel.release(slot.index)

    def settle(self, status: str) -> None:
        """The turn is over: calls that nobody answered end as this, and nothing waits any more."""
        self.served.settle(status)
        for index in self.funnel.window.held if self.funnel.window is not None else ():
            self.funnel.release(index)

    # -- items

    def announce(self, slot: Slot, wire: Json | None = None) -> None:
        """The start of an item; told once."""
        if slot.announced:
            return
        self.in_progress(None)
        slot.announced = True
        self.funnel.emit_upstream(
            _own(wire), {"type": "response.output_item.added", "output_index": slot.index, "item": slot.public}
        )

    def finished(self, slot: Slot, item: Json, wire: Json | None = None) -> None:
        """The end of an item, behind the ends of its parts."""
        self.announce(slot)
        for part in sorted(slot.parts.values(), key=lambda part: part.index):
            self._close(part)
        self.funnel.emit_upstream(
            _own(wire), {"type": "response.output_item.done", "output_index": slot.index, "item": item}
        )

    # -- the texts of an item

    def delta(self, event: TextDelta, part: Part) -> None:
        """One delta, verbatim."""
        if not part.opened:
            self._open(part)
        wire, form = event.wire, part.form
        if form is None or (wire is not form.wire and not form.fits(wire)):
            form = part.form = self._form(part, wire)
        self.funnel.emit_delta(form, event.text, wire)

    def _form(self, part: Part, wire: Json | None) -> Form:
        """What the deltas of a text have in common."""
        if own := _own(wire, _DELTAS[part.track]):
            slot = part.slot
            place = "summary_index" if part.track == SUMMARY else "content_index"
            return form_of(
                wire, {**own, "item_id": slot.id, "output_index": slot.index, place: part.index, "delta": ""}
            )
        members: dict[str, Any] = {"type": _DELTAS[part.track], **self._place(part), "delta": ""}
        if part.track == "text":
            given = wire.get("logprobs") if wire is not None else None
            members["logprobs"] = given if isinstance(given, list) else []
        return form_of(wire, members)

    def final(self, event: BlockFinal, part: Part) -> None:
        """The final word on a text."""
        if not part.opened:
            self._open(part)
        if event.text and not part.pieces and not part.told and part.track in _DELTAS:
            self._whole(part, event.text)
        self._tell(part, event.text, event.wire)

    def _whole(self, part: Part, text: str) -> None:
        """A text that came as its final word alone is one delta before it."""
        members: dict[str, Any] = {"type": _DELTAS[part.track], **self._place(part), "delta": text}
        self.funnel.emit_local({**members, "logprobs": []} if part.track == "text" else members)

    def part_started(self, event: Status, part: Part) -> None:
        """The upstream's own start of a part."""
        if part.opened:
            return
        wire = _own(event.wire, *(f"{family}.added" for family in _PART_FAMILIES))
        self._open(part, wire if isinstance(wire.get("part"), dict) else None)

    def part_finished(self, event: Status, part: Part) -> None:
        """The upstream's own end of a part, behind its text's final word."""
        if part.closed:
            return
        if part.track in _DONES and part.final is None:
            self.announce(part.slot)  # an end before its text's; the item's own end makes up for it
            return
        if not part.opened:
            own = _own(event.wire, *(f"{family}.done" for family in _PART_FAMILIES))
            self._open(part, family=own["type"].removesuffix(".done") if own else None)
        self._close(part, event.wire)

    def annotation(self, event: Status, part: Part) -> None:
        """A mark on a text."""
        if not part.opened:
            self._open(part)
        if own := _own(event.wire, _ANNOTATION):
            self.funnel.emit_upstream(own, self._place(part))
        elif (annotation := (event.wire or {}).get("annotation")) is not None:
            place = {**self._place(part), "annotation_index": len(part.annotations) - 1}
            self.funnel.emit_local({"type": _ANNOTATION, **place, "annotation": annotation})

    def _open(self, part: Part, wire: Json | None = None, *, family: str | None = None) -> None:
        """The start of a part; made where the upstream left it out and clients need it."""
        slot = part.slot
        if not slot.announced:
            self.announce(slot)
        part.opened = True
        if wire is not None:
            part.family = str(wire["type"]).removesuffix(".added")
            shown = wire["part"]
            empty = _EMPTY_PARTS.get(part.track)
            if empty is not None and not (shown.get("type") and _has_forms(shown, empty, _DONES[part.track][1])):
                shown = {**shown, **empty}
        elif (family := family or _FAMILIES.get(part.track)) is not None:
            part.family = family
            shown = dict(_EMPTY_PARTS.get(part.track) or part.raw or {})
        else:
            return
        self._part_event(part, ".added", shown, wire)

    def _tell(self, part: Part, text: str, wire: Json | None = None) -> None:
        """The final word on a text, once."""
        if part.told or part.track not in _DONES:
            return
        part.told = True
        kind, member = _DONES[part.track]
        restored: dict[str, Any] = {**self._place(part), member: text}
        own = _own(wire, kind)
        if part.track == "text" and not own:
            restored["logprobs"] = []
        self.funnel.emit_upstream(own, {**restored, "type": kind})

    def _close(self, part: Part, wire: Json | None = None) -> None:
        """The end of a part, once, behind its final word."""
        if part.closed or not part.opened:
            return
        if part.pieces or part.final is not None or part.family is not None:
            self._tell(part, part.text)
        part.closed = True
        if part.family is not None:
            self._part_event(part, ".done", content_of(part), wire)

    def _part_event(self, part: Part, suffix: str, shown: Json, wire: Json | None) -> None:
        kind = f"{part.family}{suffix}"
        self.funnel.emit_upstream(_own(wire, kind), {"type": kind, **self._place(part), "part": shown})

    def _place(self, part: Part) -> dict[str, Any]:
        slot = part.slot
        return {
            "item_id": slot.id,
            "output_index": slot.index,
            "summary_index" if part.track == SUMMARY else "content_index": part.index,
        }

    # -- the input of a call

    def typed(self, part: Part, text: str, wire: Json | None, shape: Callable[[Part, str], Draft | None]) -> None:
        """One delta of a call's input, in the shape that its kind has; there are kinds whose input does not stream."""
        form = part.form
        if form is None or (wire is not form.wire and not form.fits(wire)):
            draft = shape(part, text)
            if draft is None:
                return
            self.announce(part.slot)
            form = part.form = form_of(wire, self._input_members(part.slot, draft, wire))
        self.funnel.emit_delta(form, text, wire)

    def input(self, slot: Slot, draft: Draft, wire: Json | None = None) -> None:
        """Any other event of a call's input."""
        self.announce(slot)
        self.funnel.emit_mended(self._input_members(slot, draft, wire))

    def _input_members(self, slot: Slot, draft: Draft, wire: Json | None) -> Json:
        kind, members = draft
        own = _own(wire) if slot.face else _own(wire, kind)
        if slot.face:  # it was a call of another kind
            own = {name: value for name, value in own.items() if name not in _REPLACED}
        return {**own, "type": kind, "item_id": slot.id, "output_index": slot.index, **members}


def _own(wire: Json | None, *kinds: str) -> Json:
    """The members of the upstream's event, if the wire is one, and of one of these types; else nothing is passed on."""
    kind = wire.get("type") if wire is not None else None
    return wire if wire is not None and isinstance(kind, str) and (not kinds or kind in kinds) else {}


def _off_output(wire: Json) -> Json:
    """The members of an event that is about no item."""
    return {name: value for name, value in wire.items() if name != "output_index"}


def _is_progress(kind: str) -> bool:
    """Whether a type tells of an item's progress, which is nothing without its item."""
    stem = kind.split(".")[1:2]
    return bool(stem) and (stem[0] in KINDS or stem[0].endswith(("_call", "_list_tools")))


def _has_forms(shown: Json, empty: Json, member: str) -> bool:
    """Whether a part has its type and its text in the form that readers take for granted."""
    return all(isinstance(shown.get(name), type(empty[name])) for name in ("type", member))
