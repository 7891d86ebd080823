"""What an attempt came to. Pure: no clock, no socket.

An error before anything was written is proof that nothing was sent, whatever the error; after that, only an answer tells, and what each
answer means stands in its channel's table of terms.
"""

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum

import msgspec

from ledger.parts import Verdict

LONGEST_RETRY_AFTER_MS = 24 * 3600 * 1000
"""A day; a receiver that asks for more is asked again after this."""


class Capability(StrEnum):
    """How a channel lets an attempt be repeated."""

    KEY = "key"
    """The receiver leaves out what it has seen under the same key."""
    RECONCILE = "reconcile"
    """It can be asked whether it has taken a message."""
    NONE = "none"
    """It neither deduplicates nor can be asked."""


class Found(StrEnum):
    """What a channel says when it is asked for a message."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"
    """It did not answer, or not in a way that settles anything."""


@dataclass(frozen=True, kw_only=True)
class Hold:
    """Nobody sends for a while: to one chat, or (empty) for the whole account."""

    chat: str = ""
    wait_ms: int | None = None
    """None: as long as the message itself waits for its next attempt."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one attempt came out."""

    verdict: Verdict
    reason: str
    status: int | None = None
    detail: str = ""
    """The receiver's own words, cut short."""
    proven: bool = False
    """Nothing of the attempt can have been taken."""
    retry_after_ms: int | None = None
    holds: tuple[Hold, ...] = ()
    """What the channel limits besides this message."""
    message_id: str = ""
    """What the channel calls the message that it took."""

    def as_receipt(self) -> str:
        """The record of it, as JSON."""
        members = {
            "verdict": self.verdict,
            "reason": self.reason,
            "status": self.status,
            "detail": self.detail,
            "message": self.message_id,
        }
        return msgspec.json.encode({name: value for name, value in members.items() if value not in (None, "")}).decode()


def not_sent(reason: str, detail: str = "") -> Outcome:
    """Proven: nothing was written."""
    return Outcome(verdict=Verdict.RETRY, reason=reason, detail=detail, proven=True)


def dead(reason: str, detail: str = "") -> Outcome:
    """It cannot be sent at all; nothing was written."""
    return Outcome(verdict=Verdict.DEAD, reason=reason, detail=detail, proven=True)


def lost(reason: str, detail: str = "") -> Outcome:
    """Written, and no answer came."""
    return Outcome(verdict=Verdict.UNKNOWN, reason=reason, detail=detail)


def parse_retry_after(text: str | None, *, now_ms: int) -> int | None:
    """Read a Retry-After header, seconds or a date; None when it is absent or makes no sense."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:9]) * 1000, LONGEST_RETRY_AFTER_MS)
    try:
        wait = int(parsedate_to_datetime(text).timestamp() * 1000) - now_ms
    except (ValueError, OverflowError):
        return None
    return min(max(wait, 0), LONGEST_RETRY_AFTER_MS)
