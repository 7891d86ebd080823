"""The state machine of one turn: events in, frames and blocks out.

The stages stand in one order, and an event passes each of them once: validate, fold, translate, relay, assemble. The same
events give the same frames and blocks byte for byte, from any start of the process, because no state lies outside the turn
and nothing but events goes in. Authority: the driver owns the turn alone. Loss: there is none here; what is held is in the
log. Failure: a bound that is exceeded ends the turn by that bound's name, and what it produced before stands.
"""

from collections.abc import Callable
from typing import Any, cast

import msgspec

from pipeline.assemble import Answer
from pipeline.errors import Diagnostic, LimitExceeded, MisuseError, WireError
from pipeline.events import (
    BlockFinal,
    ErrorInfo,
    Event,
    Status,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from pipeline.fold.kinds import kind_of
from pipeline.fold.machine import Fold
from pipeline.fold.payload import drain, output_of
from pipeline.fold.slots import Json, Phase, Slot
from pipeline.limits import limits_from
from pipeline.output import Block, Output, Payload
from pipeline.relay import Relay
from pipeline.settings import resolve
from pipeline.translate import input_delta, input_done
from pipeline.validate import Validation, Validator

Terminal = TurnCompleted | TurnFailed | TurnCancelled


class Turn:
    """One turn, from its `turn_started` to its terminal. Owned by its driver; no state lives outside it."""

    def __init__(self, turn: str, *, validation: Validation = Validation.LENIENT, relay: bool = True) -> None:
        self.turn = turn
        self.status = "running"
        self.usage: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self._strict = validation is Validation.STRICT
        self._validator = Validator(turn, validation)
        self._relay = Relay(turn, muted=not relay)
        self._fold = Fold(turn, limits_from({}))
        self._answer = Answer(resolve({}))
        self._blocks: list[Block] = []
        self._response: Json | None = None
        self._finished = False
        self._table: dict[type, Callable[[Any], None]] = {
            TurnStarted: self._started,
            TextDelta: self._delta,
            BlockFinal: self._final,
            ToolStarted: self._tool_started,
            ToolFinished: self._tool_finished,
            Status: self._status,
            TurnCompleted: self._terminal,
            TurnFailed: self._terminal,
            TurnCancelled: self._terminal,
        }
        self._statuses: dict[str, Callable[[Status], None]] = {
            "upstream_started": lambda event: self._relay.created(event.wire),
            "queued": lambda event: self._relay.queued(event.wire),
            "in_progress": self._in_progress,
            "item_started": self._item_started,
            "item_finished": self._item_finished,
            "part_started": self._part_started,
            "part_finished": self._part_finished,
            "input_finished": self._input_finished,
            "annotation": self._annotation,
            "idle": lambda _: self._blocks.extend(self._answer.idle()),
        }

    def push(self, event: Event) -> Output:
        """Take one event and return what it made. Strict: raises `WireError`; lenient: never, for upstream's faults.

        What follows the terminal makes nothing.
        """
        if self._finished:
            raise MisuseError(f"turn {self.turn} was finished; no event may follow")
        if self._strict:
            self._validator.check(event)
        if self.status != "running":
            return Output()
        try:
            self._table[type(event)](event)
        except LimitExceeded as exceeded:
            self._fail(event, exceeded.name, str(exceeded))
        except Exception as fault:
            # A form of upstream data that no rule foresaw ends this turn and no other: the fold worker goes on.
            if self._strict:
                raise WireError(_unforeseen(fault, self.turn, event.seq)) from fault
            self._fail(event, "unreadable_event", f"event {event.seq} could not be read: {type(fault).__name__}")
        blocks, self._blocks = self._blocks, []
        return Output(self._relay.take(), blocks)

    def finish(self) -> Payload:
        """Consume the turn and return the public response object and the summary for its record."""
        if self._finished:
            raise MisuseError(f"turn {self.turn} was finished before")
        self._finished = True
        response = self._response or self._relay.envelope.running(output_of(self._fold))
        return Payload(
            response=response,
            status=self.status,
            upstream_id=self.upstream_id,
            usage=self.usage,
            error=self.error,
            frames=self._relay.frames,
            blocks=self._answer.blocks,
        )

    @property
    def wants_idle_after_ms(self) -> int | None:
        """How long a silence makes an idle event wanted; None while no text is held."""
        return self._answer.wants_idle_after_ms

    @property
    def ended(self) -> bool:
        """Whether the turn's terminal is out."""
        return self.status != "running"

    @property
    def upstream_id(self) -> str | None:
        """The upstream's own response id, once known."""
        return self._relay.envelope.upstream_id

    # -- one method for each type of event

    def _started(self, event: TurnStarted) -> None:
        self._relay.request(event)
        self._fold = Fold(self.turn, limits_from(event.limits))
        self._answer = Answer(resolve(event.settings))

    def _delta(self, event: TextDelta) -> None:
        part = self._fold.delta(event)
        if part is None:
            return
        track = event.track
        if track == "tool_input":
            draft = input_delta(part, event.text)
            if draft is not None and part.slot.index >= 0:
                self._relay.input(part.slot, draft, event.wire)
            return
        self._relay.delta(event, part)
        if track == "text":
            blocks = self._answer.text(event.text, event.item)
            if blocks:
                self._blocks += blocks
        else:
            self._show_aside(event)

    def _final(self, event: BlockFinal) -> None:
        part = self._fold.final(event)
        if part is None:
            return
        if event.track == "tool_input":
            self._tell_input(part.slot, event.text, event.wire)
            return
        self._relay.final(event, part)
        if part.pieces or not event.text:
            return
        if (
            event.track == "text"
        ):  # a text that came as its final word alone is one delta, as it is in the public stream
            self._blocks += self._answer.text(event.text, event.item)
        else:
            self._show_aside(event)

    def _show_aside(self, event: TextDelta | BlockFinal) -> None:
        """Reasoning and refusals are no text of the answer; whether they are shown is a setting."""
        if event.track == "refusal":
            self._blocks += self._answer.refusal(event.text)
        else:
            self._blocks += self._answer.reasoning(event.text, (event.item, event.content))

    def _tool_started(self, event: ToolStarted) -> None:
        self._blocks += self._answer.tool(event)
        self._open(event)

    def _item_started(self, event: Status) -> None:
        self._open(event)

    def _open(self, event: Status | ToolStarted) -> None:
        slot = self._fold.started(event)
        if slot is None:
            return
        self._relay.announce(slot, event.wire)
        for part in slot.texts("tool_input"):  # input that came before its call was named
            for text in part.pieces:
                if (draft := input_delta(part, text)) is not None:
                    self._relay.input(slot, draft)

    def _tool_finished(self, event: ToolFinished) -> None:
        if self._fold.slots.find(event.item) is None and not event.wire:
            return  # what a child tells of its end: it comes at any time, so the text that is on its way is not cut there
        self._blocks += self._answer.tool(event)
        self._close(event)

    def _item_finished(self, event: Status) -> None:
        self._close(event)

    def _close(self, event: Status | ToolFinished) -> None:
        done = self._fold.finished(event)
        if done is not None:
            self._end_item(*done, event.wire)

    def _end_item(self, slot: Slot, item: Json, wire: Json | None = None) -> None:
        """Tell the end of an item; a call's input is told first, if nobody did."""
        member = kind_of(slot.kind).input
        text = item.get(member) if member is not None else None
        if isinstance(text, str) and text and not slot.input_told:
            streamed = bool(slot.input)
            if not streamed and "type" not in (wire or {}) and not slot.public.get(member or ""):
                self._show_input(slot, text)
                streamed = True
            if streamed:
                self._tell_input(slot, text)
        self._relay.finished(slot, item, wire)

    def _show_input(self, slot: Slot, text: str) -> None:
        """A call that came whole is streamed as one delta."""
        part = self._fold.slots.part(slot, "tool_input", 0)
        if (draft := input_delta(part, text)) is not None:
            self._relay.input(slot, draft)

    def _tell_input(self, slot: Slot, text: str, wire: Json | None = None) -> None:
        """The whole input of a call, once."""
        draft = input_done(slot, text)
        if draft is None or slot.input_told or slot.index < 0:
            return
        slot.input_told = True
        self._relay.input(slot, draft, wire)

    def _status(self, event: Status) -> None:
        self._blocks += self._answer.status(event)
        handler = self._statuses.get(event.name)
        if handler is not None:
            handler(event)
        else:
            self._other(event)

    def _other(self, event: Status) -> None:
        self._relay.other(event, None if event.item is None else self._fold.slots.find(event.item))

    def _in_progress(self, event: Status) -> None:
        if event.item is None:
            self._relay.in_progress(event.wire)
        else:
            self._other(event)

    def _part_started(self, event: Status) -> None:
        part = self._fold.part_started(event)
        if part is not None:
            self._relay.part_started(event, part)

    def _part_finished(self, event: Status) -> None:
        part = self._fold.part_finished(event)
        if part is not None:
            self._relay.part_finished(event, part)

    def _annotation(self, event: Status) -> None:
        part = self._fold.annotated(event)
        if part is not None:
            self._relay.annotation(event, part)
        elif event.item is None:
            self._other(event)

    def _input_finished(self, event: Status) -> None:
        slot = None if event.item is None else self._fold.slots.find(event.item)
        if slot is None or slot.phase is Phase.DONE:
            return
        member = kind_of(slot.kind).input
        wire = event.wire or {}
        text = wire.get(member) if member is not None else None
        if not isinstance(text, str):
            text = event.detail if isinstance(event.detail, str) else slot.input
        self._tell_input(slot, text, event.wire)

    def _terminal(self, event: Terminal) -> None:
        self._blocks += self._answer.end(event)
        if isinstance(event, TurnCompleted):
            self.status = event.outcome
        else:
            self.status = "failed" if isinstance(event, TurnFailed) else "cancelled"
        self.usage = event.usage
        if isinstance(event, TurnFailed):
            self.error = cast("dict[str, Any]", msgspec.to_builtins(event.error))
        whole = "completed" if self.status == "completed" else "incomplete"
        for slot, item in drain(self._fold, whole):
            self._end_item(slot, item)
        self._response = self._relay.ended(event, output_of(self._fold))

    # -- shared

    def _fail(self, event: Event, code: str, message: str) -> None:
        """End the turn from within, by name. What was produced stands."""
        self._terminal(TurnFailed(seq=event.seq, at=event.at, error=ErrorInfo(code=code, message=message)))


def _unforeseen(fault: Exception, turn: str, seq: int) -> Diagnostic:
    return Diagnostic(
        code="unreadable_event", expected="a readable event", found=type(fault).__name__, turn=turn, seq=seq
    )
