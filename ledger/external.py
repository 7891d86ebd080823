"""Turns that a program outside carries: it publishes their events itself, as ingest does for the others.

Authority: the token in the turn's hash, made at submit or by a claim; the latest one alone may publish. There is no lease: a producer
that is silent for too long, or over its age, has its turn ended by name like any other; while it is told to wait it is not silent.
Loss: a claim repeated with the same nonce answers the same token.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ledger.commands import Call
from ledger.keys import Keyspace
from ledger.replies import as_int, as_text

EXTERNAL: Final = "external"
"""The producer that carries such a turn."""


class ExternalRefused(StrEnum):
    """Why nobody can carry a turn from outside."""

    ENDED = "ENDED"
    UNKNOWN_TURN = "UNKNOWN_TURN"
    NOT_EXTERNAL = "NOT_EXTERNAL"


class WaitStatus(StrEnum):
    """What became of a note that a producer waits."""

    OK = "OK"
    STALE = "STALE"
    ENDED = "ENDED"
    UNKNOWN_TURN = "UNKNOWN_TURN"


@dataclass(frozen=True, kw_only=True)
class ExternalClaim:
    """The turn is the claimant's to carry under this token."""

    token: str
    next_seq: int
    cancel: bool


def first_token(nonce: str) -> str:
    """The token that a turn is submitted with."""
    return f"1:{nonce}"


def is_first(token: str) -> bool:
    """Whether nobody has claimed the turn since it was submitted."""
    return token.startswith("1:")


def claim_external(keys: Keyspace, turn: str, *, nonce: str) -> Call[ExternalClaim | ExternalRefused]:
    """Take a turn over from whoever carries it; after a lost reply repeat with the same nonce."""

    def decode(reply: Any) -> ExternalClaim | ExternalRefused:
        if as_text(reply[0]) != "CLAIMED":
            return ExternalRefused(as_text(reply[0]))
        return ExternalClaim(token=as_text(reply[1]), next_seq=as_int(reply[2]), cancel=as_int(reply[3]) == 1)

    return Call("claim_external", (keys.turn(turn),), (nonce,), decode)


def note_wait(keys: Keyspace, turn: str, *, token: str) -> Call[WaitStatus]:
    """Note that a turn's producer was told to come again later, so that it is not taken for silent."""
    return Call("note_wait", (keys.turn(turn),), (token,), lambda reply: WaitStatus(as_text(reply)))
