"""The state machine of one turn: events in, frames and blocks out.

The stages stand in one order, and an event passes each of them once: validate, fold, translate, relay, assemble. The same
events give the same frames and blocks byte for byte, from any start of the process, because no state lies outside the turn
and nothing but events goes in. Authority: the driver owns the turn alone. Loss: there is none here; what is held is in the
log. Failure: a bound that is exceeded ends the turn by that bound's name, and what it produced before stands.
"""

from collections.abc import Callable
from typing import Any, ClassVar, cast

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
from pipeline.fold.machine import Fold
from pipeline.fold.payload import drain, output_of
from pipeline.kinds.slot import INPUT, Json
from pipeline.limits import Limits, limits_from
from pipeline.output import Block, Output, Payload
from pipeline.relay import Relay
from pipeline.relay.served import ServedCall
from pipeline.settings import resolve
from pipeline.translate import Declarations, Routes
from pipeline.turn.calls import Calls, answers
from pipeline.validate import Validation, Validator

INGEST = "ingest"
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
        self._funnel = self._relay.funnel
        self._limits = Limits()
        self._settings = resolve({})
        self._answer = Answer(self._settings)
        self._begin({})
        self._blocks: list[Block] = []
        self._response: Json | None = None
        self._finished = False
        self._started_once = False

    def push(self, event: Event, producer: str = INGEST) -> Output:
        """Feed one event and take what it made."""
        self.feed(event, producer)
        return self.take()

    def feed(self, event: Event, producer: str = INGEST) -> None:
        """Take one event in. Strict: raises `WireError`; lenient: never, for upstream's faults.

        `producer` says whose it is: events of whoever answers calls are no part of the upstream's stream. What follows the
        terminal makes nothing.
        """
        if self._finished:
            raise MisuseError(f"turn {self.turn} was finished; no event may follow")
        handle: Callable[[Turn, Any], None] = self._HANDLERS[type(event)]
        if producer != INGEST and answers(producer):
            handle = Turn._aside
        elif self._strict:
            self._validator.check(event)
        if self.status != "running":
            return
        try:
            handle(self, event)
        except LimitExceeded as exceeded:
            self._fail(event, exceeded.name, str(exceeded))
        except WireError:
            raise
        except Exception as fault:
            # A form of upstream data that no rule foresaw ends this turn and no other: the fold worker goes on.
            if self._strict:
                raise WireError(_unforeseen(fault, self.turn, event.seq)) from fault
            self._fail(event, "unreadable_event", f"event {event.seq} could not be read: {type(fault).__name__}")
        if (bound := self._funnel.exceeded) is not None and self.status == "running":
            self._fail(event, bound, str(LimitExceeded(bound, getattr(self._limits, bound))))

    def take(self) -> Output:
        """Give what was made since the last take."""
        frames, self._funnel.out = self._funnel.out, []
        blocks, self._blocks = self._blocks, []
        return Output(frames, blocks)

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
    def waits_for_tools(self) -> bool:
        """Whether a call that the gateway answers is open."""
        return self._relay.served.waiting

    @property
    def ended(self) -> bool:
        """Whether the turn's terminal is out."""
        return self.status != "running"

    @property
    def upstream_id(self) -> str | None:
        """The upstream's own response id, once known."""
        return self._relay.envelope.upstream_id

    # -- one method for each type of event

    def _begin(self, routes: Routes) -> None:
        self._fold = Fold(self.turn, self._limits)
        self._calls = Calls(self.turn, self._fold, self._relay, routes, self._limits)
        self._calls.strict = self._strict

    def _started(self, event: TurnStarted) -> None:
        if self._started_once or self._relay.begun:
            return
        self._started_once = True  # what is frozen for a turn is frozen in its first event
        self._relay.request(event)
        self._relay.envelope.restore = Declarations(event.tools, event.response).restore
        if event.tools or event.limits:
            self._limits = limits_from(event.limits)
            self._begin(event.tools)
        settings = resolve(event.settings)
        if settings != self._settings:
            self._settings, self._answer = settings, Answer(settings)

    def _delta(self, event: TextDelta) -> None:
        part = self._fold.delta(event)
        if part is None:
            return
        track = event.track
        if track == INPUT:
            self._calls.delta(part, event.text, event.wire)
            return
        self._relay.delta(event, part)
        if track == "text":
            self._blocks += self._answer.text(event.text, event.item)
        else:
            self._show_aside(event)

    def _final(self, event: BlockFinal) -> None:
        part = self._fold.final(event)
        if part is None:
            return
        if event.track == INPUT:
            self._calls.tell_input(part.slot, event.text, event.wire, content=part.content)
            return
        self._relay.final(event, part)
        if part.pieces or not event.text:
            return
        # A text that came as its final word alone is one delta, as it is in the public stream.
        if event.track == "text":
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
        self._calls.open(event)

    def _tool_finished(self, event: ToolFinished) -> None:
        self._blocks += self._answer.tool(event)
        self._calls.close(event)

    def _aside(self, event: Event) -> None:
        """An event of whoever answers calls."""
        match event:
            case ToolStarted():
                self._blocks += self._answer.tool(event)
                self._calls.tool_started(event)
            case ToolFinished():
                if self._calls.waits_for(
                    event
                ):  # any other result comes at its own time: the text on its way is not cut there
                    self._blocks += self._answer.tool(event)
                self._calls.tool_finished(event)
            case Status():
                self._blocks += self._answer.status(event)
                self._calls.told(event)
            case TurnCompleted() | TurnFailed() | TurnCancelled():
                self._terminal(event)
            case _:  # the text of a turn is its upstream's alone
                return

    def _status(self, event: Status) -> None:
        self._blocks += self._answer.status(event)
        self._STATUSES.get(event.name, Turn._other)(self, event)

    def _other(self, event: Status) -> None:
        slot = None if event.item is None else self._fold.slots.find(event.item)
        if slot is not None and isinstance(slot.translation, ServedCall):
            return  # what the upstream says of such a call is hidden
        self._relay.other(event, slot)

    def _upstream_started(self, event: Status) -> None:
        self._relay.created(event.wire)

    def _queued(self, event: Status) -> None:
        self._relay.queued(event.wire)

    def _idle(self, _: Status) -> None:
        self._blocks += self._answer.idle()

    def _in_progress(self, event: Status) -> None:
        if event.item is None:
            self._relay.in_progress(event.wire)
        else:
            self._other(event)

    def _item_started(self, event: Status) -> None:
        self._calls.open(event)

    def _item_finished(self, event: Status) -> None:
        self._calls.close(event)

    def _unnamed(self, event: Status) -> None:
        self._calls.unnamed(event)

    def _input_finished(self, event: Status) -> None:
        self._calls.input_finished(event)

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
            self._calls.end(slot, item)
        self._relay.settle("failed" if self.status == "failed" else "incomplete")
        self._response = self._relay.ended(event, output_of(self._fold))

    _HANDLERS: ClassVar[dict[type, Callable[["Turn", Any], None]]] = {
        TurnStarted: _started,
        TextDelta: _delta,
        BlockFinal: _final,
        ToolStarted: _tool_started,
        ToolFinished: _tool_finished,
        Status: _status,
        TurnCompleted: _terminal,
        TurnFailed: _terminal,
        TurnCancelled: _terminal,
    }
    _STATUSES: ClassVar[dict[str, Callable[["Turn", Status], None]]] = {
        "upstream_started": _upstream_started,
        "queued": _queued,
        "in_progress": _in_progress,
        "item_started": _item_started,
        "item_finished": _item_finished,
        "unnamed": _unnamed,
        "part_started": _part_started,
        "part_finished": _part_finished,
        "input_finished": _input_finished,
        "annotation": _annotation,
        "idle": _idle,
    }

    # -- shared

    def _fail(self, event: Event, code: str, message: str) -> None:
        """End the turn from within, by name. What was produced stands."""
        self._terminal(TurnFailed(seq=event.seq, at=event.at, error=ErrorInfo(code=code, message=message)))


def _unforeseen(fault: Exception, turn: str, seq: int) -> Diagnostic:
    return Diagnostic(
        code="unreadable_event", expected="a readable event", found=type(fault).__name__, turn=turn, seq=seq
    )
