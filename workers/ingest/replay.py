"""An upstream's response that is read again from its beginning, up to where the log ends. Pure.

What the log has must come again, event by event, the times aside; then the stream goes on, numbered where the log ends. Anything else
is another answer, and two answers are never spliced. Signs of life count on neither side: an upstream sends them by its clock.
"""

import hashlib
from collections.abc import Iterable

import msgspec

from pipeline.codec import encode
from pipeline.events import Event, Status, TurnStarted


class OtherAnswerError(Exception):
    """The second answer is not the first one."""


class Replay:
    """The events that are expected again, and the number of the next new one."""

    def __init__(self, known: Iterable[bytes], *, next_seq: int) -> None:
        self._known = list(known)
        self._at = 0
        self._next = next_seq

    @property
    def is_over(self) -> bool:
        """Whether everything that the log has has come again."""
        return self._at == len(self._known)

    def take(self, event: Event) -> Event | None:
        """Return a new event under its number in the log; None for one that the log has."""
        if self.is_over:
            self._next += 1
            return msgspec.structs.replace(event, seq=self._next - 1)
        if is_sign_of_life(event):
            return None
        if fingerprint(event) != self._known[self._at]:
            raise OtherAnswerError
        self._at += 1
        return None


class Said:
    """What the upstream has said of a turn so far, as fingerprints in order: what must come again when it is read again."""

    def __init__(self) -> None:
        self._prints: list[bytes] = []

    def note(self, event: Event) -> None:
        """Take the next event of the log."""
        if not is_ours(event) and not is_sign_of_life(event):
            self._prints.append(fingerprint(event))

    def again(self, next_seq: int) -> Replay:
        """Expect all of it again, and then events from this number on."""
        return Replay(self._prints, next_seq=next_seq)


def is_ours(event: Event) -> bool:
    """Whether the event says nothing of the upstream's: it was emitted before the upstream had answered."""
    return isinstance(event, TurnStarted) or (isinstance(event, Status) and event.name == "restarted")


def fingerprint(event: Event) -> bytes:
    """What an event says, without its number and time."""
    return hashlib.blake2b(encode(msgspec.structs.replace(event, seq=0, at=0)), digest_size=16).digest()


def is_sign_of_life(event: Event) -> bool:
    """Whether the event says only that the upstream is there."""
    return isinstance(event, Status) and event.name == "keepalive"
