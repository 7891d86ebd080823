"""Items from their start to their end, and above all calls: what is shown of each, and who answers it.

A call is the client's own and passes as it is, unless the turn's routes say otherwise: a custom tool's call is translated while it
streams, one that the gateway answers is hidden and shown as the tool that answers it.
"""

from typing import Final

from pipeline.errors import Diagnostic, WireError
from pipeline.events import Status, ToolFinished, ToolStarted
from pipeline.fold.machine import Fold
from pipeline.kinds import KINDS, kind_of, kind_of_tool
from pipeline.kinds.slot import INPUT, Json, Part, Phase, Slot
from pipeline.limits import Limits
from pipeline.relay import Relay
from pipeline.relay.served import ServedCall
from pipeline.translate import CustomCall, Routes, face_of, input_delta, input_done, label_of

TOOLS: Final = "tools"
CHILD_PREFIX: Final = "child:"


def answers(producer: str) -> bool:
    """Whether a producer answers calls, and is not the upstream that makes them."""
    return producer == TOOLS or producer.startswith(CHILD_PREFIX)


class Calls:
    """The items of one turn on their way to the public stream."""

    def __init__(self, turn: str, fold: Fold, relay: Relay, routes: Routes, limits: Limits) -> None:
        self.strict = False
        self._turn = turn
        self._fold = fold
        self._relay = relay
        self._routes = routes
        self._limits = limits
        self._known: set[str] = set()
        self._own = 0

    # -- an item's life

    def unnamed(self, event: Status) -> None:
        """A call began and has no name yet: its place is kept, and what comes behind it waits."""
        slot = self._fold.reserved(event)
        if slot is not None:
            self._relay.hold(slot, self._limits)

    def open(self, event: Status | ToolStarted) -> None:
        """An item begins."""
        tool = event if isinstance(event, ToolStarted) else None
        face = face_of(self._routes, tool) if tool is not None else ""
        slot = self._fold.started(event, face)
        if tool is not None:
            self._known.add(tool.call_id)
        if slot is None:
            return
        if slot.face and tool is not None:
            self._translate(slot, tool)
        self._relay.announce(slot, event.wire)
        for part in slot.texts(INPUT):  # input that came before its call was named
            for text in part.pieces:
                self.delta(part, text)
        if not isinstance(slot.translation, ServedCall):
            self._relay.release(slot)

    def close(self, event: Status | ToolFinished) -> None:
        """An item ends."""
        done = self._fold.finished(event)
        if done is None:
            return
        slot, item = done
        if isinstance(event, ToolFinished) and event.input is not None and isinstance(slot.translation, ServedCall):
            slot.translation.input = event.input
        self.end(slot, item, event.wire)

    def end(self, slot: Slot, item: Json, wire: Json | None = None) -> None:
        """Tell the end of an item; a call's input is told first, if nobody did."""
        translation = slot.translation
        if isinstance(translation, ServedCall):
            slot.result = translation.result
            translation.input = translation.input or item.get("arguments")
            self._relay.served.advance()
            return
        self._end_input(slot, item, wire)
        if isinstance(translation, CustomCall):
            item = slot.result = translation.end(slot, item)
        self._relay.finished(slot, item, wire)

    # -- the input of a call

    def delta(self, part: Part, text: str, wire: Json | None = None) -> None:
        """One delta of a call's input."""
        translation = part.slot.translation
        if isinstance(translation, CustomCall):
            text = translation.delta(text)
            if text:
                self._relay.typed(part, text, wire, input_delta)
        elif translation is None and part.slot.id:
            self._relay.typed(part, text, wire, input_delta)

    def input_finished(self, event: Status) -> None:
        """The upstream's word on the whole input."""
        slot = None if event.item is None else self._fold.slots.find(event.item)
        if slot is None or slot.phase is Phase.DONE:
            return
        member, wire = kind_of(slot.kind).input, event.wire or {}
        given = wire.get(member) if member is not None else None
        text = given if isinstance(given, str) and given else event.detail
        if not isinstance(text, str) or not text:
            text = slot.input
        if not text and not isinstance(given, str) and "type" in wire:
            return  # an end that says nothing; the item's own end may
        self.tell_input(slot, text, event.wire)

    def tell_input(self, slot: Slot, text: str, wire: Json | None = None, *, content: int = 0) -> None:
        """The whole input of a call, once."""
        translation = slot.translation
        if not slot.id or isinstance(translation, ServedCall):
            return
        part = self._fold.slots.part(slot, INPUT, content)
        if part.told:
            return
        part.told = True
        streamed = slot.input
        part.final = text  # nothing is added to it any more
        if isinstance(translation, CustomCall):
            more, text = translation.finish(text, streamed)
            if more is None and self.strict:
                raise WireError(self._contradiction(text))
            if more:
                self._relay.typed(part, more, None, input_delta)
        if (draft := input_done(part, text, slot.face)) is not None:
            self._relay.input(slot, draft, wire)

    def _end_input(self, slot: Slot, item: Json, wire: Json | None) -> None:
        """Tell the input of an item that ends, if nobody did; a call that came whole is streamed as one delta."""
        parts = slot.texts(INPUT)
        member = kind_of(slot.kind).input
        if member is None:
            for part in parts:
                if part.text:
                    self.tell_input(slot, part.text, content=part.content)
            return
        text = item.get(member)
        if not isinstance(text, str) or not text or any(part.told for part in parts):
            return
        streamed = bool(slot.input)
        if not streamed and "type" not in (wire or {}) and not slot.public.get(member):
            self.delta(self._fold.slots.part(slot, INPUT, 0), text)
            streamed = True
        if streamed or slot.translation is not None:
            self.tell_input(slot, text)

    def _contradiction(self, text: str) -> Diagnostic:
        return Diagnostic(
            code="input_mismatch", expected="the input that was streamed", found=text[:60], turn=self._turn
        )

    # -- calls that others answer

    def _translate(self, slot: Slot, event: ToolStarted) -> None:
        """Show a call as the tool that it stands for."""
        if slot.face == "custom_tool_call":
            slot.translation = translation = CustomCall()
            slot.public = translation.begin(slot)
            return
        slot.translation = self._relay.served.open(slot, event.call_id, holds=True)
        if slot.face == "mcp_call":
            slot.public["server_label"] = label_of(self._routes, event.name)
        self._relay.hold(slot, self._limits)

    def tool_started(self, event: ToolStarted) -> None:
        """A tool runs: one that the model called, or one that was run without it."""
        served = self._relay.served
        call = served.find(event)
        if call is None and event.call_id not in self._known:
            call = self._without_the_model(event)
        if call is not None:
            served.start(call)

    def waits_for(self, event: ToolFinished) -> bool:
        """Whether this is the answer to a call that the turn does not go on without."""
        return self._relay.served.find(event) is not None

    def tool_finished(self, event: ToolFinished) -> None:
        """A tool has answered."""
        call = self._relay.served.find(event)
        if call is not None:
            self._relay.served.finish(call, event)

    def told(self, event: Status) -> None:
        """Whoever answers calls tells of something else. How far a call has come, its lifecycle tells."""
        call = self._relay.served.of_item(event.item)
        if call is None or event.name not in call.row.progress:
            self._relay.aside(event)

    def _without_the_model(self, event: ToolStarted) -> ServedCall:
        self._known.add(event.call_id)
        kind = event.kind if event.kind in KINDS else kind_of_tool(event.kind)
        if kind_of(kind).served is None:
            kind = "mcp_call"
        self._own += 1
        slots = self._fold.slots
        slot = slots.open(-self._own, kind)  # no upstream has such a number
        slot.name = event.name
        slot.phase = Phase.DONE
        prefix = kind_of(kind).prefix
        slots.place(slot, prefix, f"{prefix}_{self._turn}_tool_{self._own}")
        self._relay.in_progress(None)
        return self._relay.served.open(slot, event.call_id, holds=False)
