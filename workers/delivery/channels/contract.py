"""What a channel adapter is: it makes one attempt and says how it came out. It never retries, never redirects, never sleeps."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ledger.parts import PartRecord
from workers.delivery.gate import Gate
from workers.delivery.outcomes import Capability, Found, Outcome
from workers.delivery.terms import Terms


@dataclass(frozen=True, kw_only=True)
class Message:
    """One attempt of one part; `at` is the intent's time and is signed with it."""

    part: PartRecord
    attempt: str
    at: int


class Channel(Protocol):
    """An open way to one target."""

    @property
    def terms(self) -> Terms:
        """What the channel promises and asks for, whatever the target."""
        ...

    @property
    def capability(self) -> Capability:
        """How an attempt may be repeated after its outcome was lost."""
        ...

    def chat_of(self, part: PartRecord) -> str:
        """What of its account the part is sent to, as far as rate limits go; empty where there is nothing to tell apart."""
        ...

    async def send(self, message: Message, gate: Gate) -> Outcome:
        """Make the attempt within the gate's deadline; anything raised after the gate was passed counts as unknown."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


@runtime_checkable
class Reconciling(Protocol):
    """A channel that may be asked afterwards. Asking has no effect, so it needs no intent and no gate."""

    @property
    def reconciles(self) -> bool:
        """Whether this target can be asked, as it is configured."""
        ...

    async def find(self, part: PartRecord, *, at: int, timeout_s: float) -> Found:
        """Ask whether the part was taken; `at` is signed. Whatever is no clear word is UNCLEAR, never raised."""
        ...


@runtime_checkable
class Typing(Protocol):
    """A channel that can show that something is being written. Best effort: never a delivery, never retried."""

    async def show_typing(self, recipient: str, *, timeout_s: float) -> int:
        """Show it once; how many milliseconds to leave the chat alone with it when the channel asks for that, else 0."""
        ...


def reconciling(channel: object) -> Reconciling | None:
    """The channel as one that may be asked; None when it cannot be, or not as it is configured."""
    return channel if isinstance(channel, Reconciling) and channel.reconciles else None
