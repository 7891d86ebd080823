"""Calls that the gateway answers: what the client is shown of them, made from what the producer `tools` tells.

A call that the model made holds its place in the output until it is answered (see `window`). Starts come out as soon as nothing
before them waits, so that calls side by side are shown side by side; ends come out in the order of the output. A tool that was
run without any call of the model is shown where it stands.
"""

from typing import Any

from pipeline.events import ToolFinished, ToolStarted
from pipeline.kinds import Kind, Served, kind_of
from pipeline.kinds.slot import Json, Slot
from pipeline.relay.funnel import Funnel

_FAILED = "failed"
_DONE = "completed"


class ServedCall:
    """One such call: what is known of it, and how much of that was told."""

    def __init__(self, slot: Slot, call_id: str, row: Kind, *, holds: bool) -> None:
        self.slot = slot
        self.call_id = call_id
        self.row = row
        self.holds = holds
        self.input: str | None = None
        self.started = False
        self.ending: ToolFinished | None = None
        self.status: str | None = None
        """How it ends where nobody answered."""
        self.told = 0  # 0 nothing, 1 its start, 2 its input as well
        self.done = False
        self.result: Json | None = None

    @property
    def shape(self) -> Served:
        """How its kind is shown."""
        return self.row.served or Served()

    @property
    def answered(self) -> bool:
        """Whether its end is known."""
        return self.ending is not None or self.status is not None


class ServedCalls:
    """All such calls of a turn, by output index."""

    def __init__(self, funnel: Funnel) -> None:
        self._funnel = funnel
        self._by_index: dict[int, ServedCall] = {}
        self._by_id: dict[str, list[ServedCall]] = {}

    @property
    def waiting(self) -> bool:
        """Whether a call that the model made has no answer yet."""
        return any(call.holds and not call.answered for call in self._by_index.values())

    def open(self, slot: Slot, call_id: str, *, holds: bool) -> ServedCall:
        """Take up a call; its start is told when `tools` says that it runs."""
        row = kind_of(slot.face or slot.kind)
        call = ServedCall(slot, call_id, row, holds=holds)
        slot.public = {"type": row.name, "status": "in_progress", **row.blank(slot), "id": slot.id}
        slot.announced = True  # by us, not by what the upstream says of it
        self._by_index[slot.index] = call
        self._by_id.setdefault(call_id, []).append(call)
        return call

    def find(self, event: ToolStarted | ToolFinished) -> ServedCall | None:
        """The call that an event of `tools` is about: by its call id, and by its item where calls share one."""
        calls = [call for call in self._by_id.get(event.call_id, ()) if not call.answered]
        return next((call for call in calls if call.slot.item == event.item), calls[0] if calls else None)

    def of_item(self, item: int | None) -> ServedCall | None:
        """The call at an item, if it is still open."""
        calls = (call for call in self._by_index.values() if call.slot.item == item and not call.answered)
        return next(calls, None)

    def start(self, call: ServedCall) -> None:
        """The tool runs."""
        call.started = True
        self.advance()

    def finish(self, call: ServedCall, event: ToolFinished) -> None:
        """The tool has answered."""
        call.started = True
        call.ending = event
        call.input = event.input if event.input is not None else call.input
        self.advance()

    def settle(self, status: str) -> None:
        """The turn is over: what nobody answered ends as this."""
        for call in self._by_index.values():
            if not call.answered:
                call.status = status
        self.advance()

    def advance(self) -> None:
        """Tell whatever can be told, in the order of the output."""
        for index in sorted(index for index, call in self._by_index.items() if not call.done):
            call = self._by_index[index]
            window = self._funnel.window
            if not call.holds or window is None:
                self._show(call)
            elif window.first == index:
                self._show(call)
                if call.done:
                    self._funnel.release(index)
            elif self._begun(index - 1):
                self._begin(call)

    def _begun(self, index: int) -> bool:
        """Whether the call right before this one was told of, and is still open."""
        call = self._by_index.get(index)
        return call is not None and call.holds and call.told > 0 and not call.done

    def _show(self, call: ServedCall) -> None:
        """Tell of a call all that there is to tell."""
        self._begin(call)
        if not call.answered:
            return
        self._input(call)
        self._end(call)

    def _begin(self, call: ServedCall) -> None:
        if call.told == 0 and (call.started or call.answered):
            call.told = 1
            self._emit(call, "response.output_item.added", item=call.slot.public)
            for word in call.shape.before:
                self._word(call, word)
        if call.told == 1 and call.started and call.input is not None:
            self._input(call)

    def _input(self, call: ServedCall) -> None:
        """What the call asks for, and that it is being done."""
        if call.told != 1:
            return
        call.told = 2
        row, item = call.row, self._asking(call)
        text = item.get(row.input) if row.input is not None else None
        if row.stem is not None and row.input is not None and isinstance(text, str) and text:
            self._emit(call, f"response.{row.stem}.delta", item_id=call.slot.id, delta=text)
            self._emit(call, f"response.{row.stem}.done", item_id=call.slot.id, **{row.input: text})
        if call.started:
            for word in call.shape.after:
                self._word(call, word)

    def _asking(self, call: ServedCall) -> Json:
        """The item with what the call asks for."""
        item, text = call.slot.public, call.input or ""
        if call.shape.asked is not None:
            return call.shape.asked(item, text)
        if call.row.input is not None:
            return {**item, call.row.input: text}
        return call.row.asked(item, text)

    def _end(self, call: ServedCall) -> None:
        ending, shape = call.ending, call.shape
        status = ending.status if ending is not None else call.status or _FAILED
        failed = status == _FAILED
        item = self._asking(call)
        if ending is not None:
            item = call.row.result(item, ending.output, failed)
        word = shape.completed if status == _DONE else shape.failed if failed else None
        if word is not None and call.started:
            self._word(call, word)
        call.result = call.slot.result = {**item, "status": status if status in {_DONE, _FAILED} else "incomplete"}
        call.done = True
        self._emit(call, "response.output_item.done", item=call.result)

    def _word(self, call: ServedCall, word: str) -> None:
        self._emit(call, f"response.{call.row.name}.{word}", item_id=call.slot.id)

    def _emit(self, call: ServedCall, kind: str, **members: Any) -> None:
        self._funnel.emit_local({"type": kind, "output_index": call.slot.index, **members}, at_once=call.holds)
