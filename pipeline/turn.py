"""The state machine of one turn: events in, frames and blocks out.

The stages stand in one order, and an event passes each of them once: validate, fold, translate, relay, assemble. The same
events give the same frames and blocks byte for byte, from any start of the process, because no state lies outside the turn
and nothing but events goes in. Authority: the driver owns the turn alone. Loss: there is none here; what is held is in the
log. Failure: a bound that is exceeded ends the turn by that bound's name, and what it produced before stands.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from pipeline.assemble import Assembler
from pipeline.errors import Diagnostic, LimitExceeded, MisuseError, WireError
from pipeline.events import (
    FOLD_VERSION,
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
from pipeline.normalize.registry import WIRES
from pipeline.normalize.stamp import Stamp
from pipeline.output import Block, Frame, Output, Payload
from pipeline.relay import Relay
from pipeline.settings import resolve
from pipeline.translate import input_delta, input_done
from pipeline.validate import Validation, Validator

__all__ = ["FLUSHING", "Block", "Decoded", "Frame", "Output", "Payload", "Turn", "Validation", "decode"]

# The statuses before which text is given out: another item begins or ends, or somebody else has the word. Marks within
# a text (annotations, the ends of its parts) and signs of life cut nothing.
FLUSHING = frozenset(
    {"item_started", "item_finished", "restarted", "round_completed", "requires_action", "client_request"}
)
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
        self._assembler = Assembler(resolve({}))
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
            "idle": lambda _: self._blocks.extend(self._assembler.idle()),
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
            blocks=self._assembler.blocks,
        )

    @property
    def wants_idle_after_ms(self) -> int | None:
        """How long a silence makes an idle event wanted; None while no text is held."""
        return self._assembler.wants_idle_after_ms

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
        self._assembler = Assembler(resolve(event.settings))

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
            blocks = self._assembler.push(event.text)
            if blocks:
                self._blocks += blocks

    def _final(self, event: BlockFinal) -> None:
        part = self._fold.final(event)
        if part is None:
            return
        if event.track == "tool_input":
            self._tell_input(part.slot, event.text, event.wire)
        else:
            self._relay.final(event, part)

    def _tool_started(self, event: ToolStarted) -> None:
        self._flush()
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
        self._flush()
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
        if event.name in FLUSHING:
            self._flush()
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
        self._flush(final=True)
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

    def _flush(self, *, final: bool = False) -> None:
        self._blocks += self._assembler.flush(final=final)

    def _fail(self, event: Event, code: str, message: str) -> None:
        """End the turn from within, by name. What was produced stands."""
        self._terminal(TurnFailed(seq=event.seq, at=event.at, error=ErrorInfo(code=code, message=message)))


def _unforeseen(fault: Exception, turn: str, seq: int) -> Diagnostic:
    return Diagnostic(
        code="unreadable_event", expected="a readable event", found=type(fault).__name__, turn=turn, seq=seq
    )


@dataclass(frozen=True, slots=True)
class Decoded:
    """Everything that came of one recorded body."""

    events: list[Event]
    frames: list[Frame]
    blocks: list[Block]
    payload: Payload


def decode(
    data: Iterable[bytes],
    wire: str,
    validation: Validation = Validation.LENIENT,
    *,
    turn: str = "0-000000000000000000000000",
) -> Decoded:
    """Decode a recorded body in one go. Strict: raises `WireError` at the first breach."""
    stamp = Stamp()
    adapter = WIRES[wire](stamp=stamp)
    decoded = _Decoding(turn, wire, validation)
    for chunk in data:
        decoded.take(adapter.feed(chunk), late=adapter.late)
    decoded.take(adapter.close(), late=adapter.late)
    return decoded.result()


class _Decoding:
    """A body on its way through a turn. A canonical body brings its own `turn_started`, every other is given one."""

    def __init__(self, turn: str, wire: str, validation: Validation) -> None:
        self._turn = turn
        self._wire = wire
        self._validation = validation
        self._machine: Turn | None = None
        self._events: list[Event] = []
        self._frames: list[Frame] = []
        self._blocks: list[Block] = []

    def take(self, events: list[Event], *, late: int) -> None:
        """Push events; what the adapter left out behind the terminal is a breach of its own."""
        for event in events:
            self._push(event)
        if late and self._validation is Validation.STRICT:
            raise WireError(
                Diagnostic(
                    code="after_terminal",
                    expected="nothing after the terminal",
                    found=f"{late} events",
                    turn=self._turn,
                )
            )

    def result(self) -> Decoded:
        """The whole of it."""
        machine = self._machine or Turn(self._turn, validation=self._validation)
        return Decoded(self._events, self._frames, self._blocks, machine.finish())

    def _push(self, event: Event) -> None:
        if self._machine is None:
            if isinstance(event, TurnStarted):
                self._turn = event.turn
                self._machine = Turn(self._turn, validation=self._validation)
            else:
                self._machine = Turn(self._turn, validation=self._validation)
                self._one(self._machine, self._start(event))
        self._one(self._machine, event)

    def _start(self, event: Event) -> TurnStarted:
        return TurnStarted(
            seq=0,
            at=event.at,
            fold=FOLD_VERSION,
            runtime="main",
            wire=self._wire,
            turn=self._turn,
            session=self._turn,
        )

    def _one(self, machine: Turn, event: Event) -> None:
        self._events.append(event)
        output = machine.push(event)
        self._frames += output.frames
        self._blocks += output.blocks
