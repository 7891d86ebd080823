"""What an attempt came to, judged from a status or an error. Pure: no clock, no socket.

An error before anything was written is proof that nothing was sent, whatever the error; after that, only an answer tells. An answer of
the receiver is the receiver's word: 2xx took it, 410 and most of 4xx never will, 408 425 429 did not look at it, 5xx may have taken it
before it failed, which only a key makes harmless.
"""

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum

import msgspec

from ledger.parts import Verdict

LONGEST_RETRY_AFTER_MS = 24 * 3600 * 1000
"""A day; a receiver that asks for more is asked again after this."""
_NOT_LOOKED_AT = frozenset({408, 425, 429})


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
    hold_account: bool = False
    """The receiver limits the whole account, not this message."""

    def as_receipt(self) -> str:
        """The record of it, as JSON."""
        members = {"verdict": self.verdict, "reason": self.reason, "status": self.status, "detail": self.detail}
        return msgspec.json.encode({name: value for name, value in members.items() if value not in (None, "")}).decode()


def not_sent(reason: str, detail: str = "") -> Outcome:
    """Proven: nothing was written."""
    return Outcome(verdict=Verdict.RETRY, reason=reason, detail=detail, proven=True)


def lost(reason: str, detail: str = "") -> Outcome:
    """Written, and no answer came."""
    return Outcome(verdict=Verdict.UNKNOWN, reason=reason, detail=detail)


def from_status(
    status: int, *, capability: Capability, detail: str = "", retry_after: str | None = None, now_ms: int = 0
) -> Outcome:
    """Judge a receiver's HTTP answer."""
    wait = parse_retry_after(retry_after, now_ms=now_ms)

    def outcome(verdict: Verdict, reason: str, *, proven: bool = False, hold: bool = False) -> Outcome:
        return Outcome(
            verdict=verdict,
            reason=reason,
            status=status,
            detail=detail,
            proven=proven,
            retry_after_ms=wait if verdict is Verdict.RETRY else None,
            hold_account=hold,
        )

    if 200 <= status < 300:
        return outcome(Verdict.SENT, "accepted")
    if status == 409 and capability is Capability.KEY:
        return outcome(Verdict.SENT, "duplicate")  # it has this key already, or is at work on it
    if status in _NOT_LOOKED_AT:
        return outcome(Verdict.RETRY, "rate_limited" if status == 429 else "refused", proven=True, hold=status == 429)
    if status == 410:
        return outcome(Verdict.DEAD, "gone")
    if status < 500:
        return outcome(Verdict.DEAD, "redirect" if status < 400 else "refused")
    if capability is Capability.KEY:
        return outcome(Verdict.RETRY, "failed")
    return outcome(Verdict.UNKNOWN, "failed")


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
