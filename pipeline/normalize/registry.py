"""The wires that we read, by name."""

from typing import Protocol

from pipeline.events import Event
from pipeline.limits import Limits
from pipeline.normalize.acp import AcpAdapter
from pipeline.normalize.canonical import CanonicalAdapter
from pipeline.normalize.chat import ChatAdapter
from pipeline.normalize.gemini import GeminiAdapter
from pipeline.normalize.messages import MessagesAdapter
from pipeline.normalize.responses import ResponsesAdapter
from pipeline.normalize.stamp import Stamp


class Adapter(Protocol):
    """What turns one upstream's bytes into events: fed at any cut, closed once at the end of the body.

    An adapter never raises for an upstream's fault; it reports it in `wire["defects"]`, or ends the turn. It emits no
    `turn_started`, which is the runtime's, and nothing after the terminal. `late` counts what came after it. `unsure` says that
    the upstream went on after it had said that it was done, so that its word proves nothing where the body was cut.
    """

    ended: bool
    late: int
    unsure: bool

    def __init__(self, *, stamp: Stamp, limits: Limits | None = None) -> None: ...

    def feed(self, data: bytes) -> list[Event]:
        """Take bytes; give the events that they complete."""
        ...

    def close(self) -> list[Event]:
        """The body has ended: give what is still open, and a terminal if there was none."""
        ...


WIRES: dict[str, type[Adapter]] = {
    "acp": AcpAdapter,
    "canonical": CanonicalAdapter,
    "gemini": GeminiAdapter,
    "responses": ResponsesAdapter,
    "chat": ChatAdapter,
    "messages": MessagesAdapter,
}
