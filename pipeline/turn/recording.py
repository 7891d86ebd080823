"""A recorded body, or events at hand, in one go: the synchronous drivers of a turn. The live one is the fold worker."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from pipeline.errors import Diagnostic, WireError
from pipeline.events import FOLD_VERSION, Event, Status, TurnStarted
from pipeline.normalize.registry import WIRES
from pipeline.normalize.stamp import Stamp
from pipeline.output import Block, Frame, Payload
from pipeline.turn.machine import Turn
from pipeline.validate import Validation


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
    settings: Mapping[str, Any] | None = None,
    idle: bool = False,
) -> Decoded:
    """Decode a recorded body in one go. Strict: raises `WireError` at the first breach.

    `settings` stand over those of the turn's first event. `idle` puts an idle event into every gap between two events' times that is
    as long as the turn waits, as the fold's own timer does in a live turn.
    """
    stamp = Stamp()
    adapter = WIRES[wire](stamp=stamp)
    decoded = _Decoding(turn, wire, validation, settings or {}, idle=idle)
    for chunk in data:
        decoded.take(adapter.feed(chunk), late=adapter.late)
    decoded.take(adapter.close(), late=adapter.late)
    return decoded.result()


def collect(events: Iterable[Event], validation: Validation = Validation.LENIENT, *, turn: str = "") -> Decoded:
    """Take a turn's events that are at hand, and give everything that comes of them."""
    decoded = _Decoding(turn, "canonical", validation, {}, idle=False)
    decoded.take(list(events), late=0)
    return decoded.result()


class _Decoding:
    """A body on its way through a turn. A canonical body brings its own `turn_started`, every other is given one."""

    def __init__(
        self, turn: str, wire: str, validation: Validation, settings: Mapping[str, Any], *, idle: bool
    ) -> None:
        self._turn = turn
        self._wire = wire
        self._validation = validation
        self._settings = settings
        self._idle = idle
        self._at: int | None = None
        self._machine: Turn | None = None
        self._events: list[Event] = []
        self._frames: list[Frame] = []
        self._blocks: list[Block] = []

    def take(self, events: list[Event], *, late: int) -> None:
        """Push events; what the adapter left out behind the terminal is a breach of its own."""
        machine = self._machine
        if machine is None and events:
            events = self._begin(events)
            machine = self._machine = Turn(self._turn, validation=self._validation)
        if machine is not None:
            self._push(machine, self._with_silences(machine, events) if self._idle else events)
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

    def _begin(self, events: list[Event]) -> list[Event]:
        """The first events of the body, of which the very first says that the turn started."""
        first = events[0]
        if not isinstance(first, TurnStarted):
            return [self._start(first), *events]
        self._turn = first.turn
        if not self._settings:
            return events
        return [structs.replace(first, settings={**first.settings, **self._settings}), *events[1:]]

    def _start(self, event: Event) -> TurnStarted:
        return TurnStarted(
            seq=0,
            at=event.at,
            fold=FOLD_VERSION,
            runtime="main",
            wire=self._wire,
            turn=self._turn,
            session=self._turn,
            settings=dict(self._settings),
        )

    def _with_silences(self, machine: Turn, events: list[Event]) -> Iterator[Event]:
        """The events, and before each the idle event that a live turn would have had; asked for one by one."""
        for event in events:
            before, self._at, wait = self._at, event.at, machine.wants_idle_after_ms
            if wait is not None and before is not None and event.at - before >= wait:
                yield Status(seq=event.seq, at=before + wait, name="idle")
            yield event

    def _push(self, machine: Turn, events: Iterable[Event]) -> None:
        taken, feed = self._events, machine.feed
        for event in events:
            taken.append(event)
            feed(event)
        output = machine.take()
        self._frames += output.frames
        self._blocks += output.blocks
