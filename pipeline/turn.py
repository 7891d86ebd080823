"""The state machine of one turn: events in, frames and blocks out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pipeline.events import Event
from pipeline.output import Block, Frame, Output, Payload
from pipeline.validate import Validation

__all__ = ["Block", "Decoded", "Frame", "Output", "Payload", "Turn", "Validation", "decode"]


class Turn:
    """One turn, from its `turn_started` to its terminal. Owned by its driver; no state lives outside it."""

    def __init__(self, turn: str, *, validation: Validation = Validation.LENIENT, relay: bool = True) -> None:
        raise NotImplementedError

    def push(self, event: Event) -> Output:
        """Take one event and return what it made. Strict: raises `WireError`; lenient: never, for upstream's faults."""
        raise NotImplementedError

    def finish(self) -> Payload:
        """Consume the turn and return the public response object and the summary for its record."""
        raise NotImplementedError

    @property
    def wants_idle_after_ms(self) -> int | None:
        """How long a silence makes an idle event wanted; None while no text is held."""
        raise NotImplementedError

    @property
    def ended(self) -> bool:
        """Whether the turn's terminal is out."""
        raise NotImplementedError

    @property
    def status(self) -> str:
        """`running`, or the outcome: `completed incomplete failed cancelled`."""
        raise NotImplementedError

    @property
    def upstream_id(self) -> str | None:
        """The upstream's own response id, once known."""
        raise NotImplementedError

    @property
    def usage(self) -> dict[str, Any] | None:
        """Usage as the terminal told it."""
        raise NotImplementedError

    @property
    def error(self) -> dict[str, Any] | None:
        """`code type message param` of a failed turn."""
        raise NotImplementedError


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
    raise NotImplementedError
