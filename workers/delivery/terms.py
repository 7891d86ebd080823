"""What a channel promises and asks for, as its own pages say: keys, reading back, rates, and what each of its answers means.

The tables are data: the adapters judge by them, the documentation is rendered from them, and the tests play every row.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ledger.parts import Verdict
from workers.delivery.outcomes import LONGEST_RETRY_AFTER_MS, Hold, Outcome


class Fate(StrEnum):
    """What an answer means for the message."""

    PERMANENT = "permanent"
    """It is refused, and will be the next time."""
    RETRY = "retry"
    """It was not taken, and may be the next time."""
    LIMITED = "rate limited"
    """It was not taken because there were too many."""
    AMBIGUOUS = "ambiguous"
    """It may have been taken."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One row: answers with this status and code (or a phrase in the channel's words), and what they mean."""

    fate: Fate
    reason: str
    page: str
    status: tuple[int, int] = (0, 999)
    """First and last status that it is about."""
    code: str = ""
    """The channel's own code; empty: any answer, `*`: any that has a code."""
    phrase: str = ""
    """What its words contain, in lower case; empty: anything."""
    hold_ms: int = 0
    """How long the whole account waits: what is wrong is not this message."""

    def matches(self, status: int, code: str, words: str) -> bool:
        """Whether an answer is of this row."""
        return (
            self.status[0] <= status <= self.status[1]
            and (self.code in {"", code} or (self.code == "*" and code != ""))
            and (not self.phrase or self.phrase in words.lower())
        )


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Sends per second, and how many at once."""

    per_s: float
    burst: int


@dataclass(frozen=True, kw_only=True)
class Terms:
    """One channel's terms. An empty text says that there is none."""

    key: str = ""
    """The parameter that carries a key by which the channel leaves out repeats."""
    key_window_ms: int = 0
    """For how long that can be relied on at most."""
    key_scope: str = ""
    key_page: str = ""
    reads_back: str = ""
    """How it is asked whether it has a message."""
    reads_back_page: str = ""
    account_rate: Rate | None = None
    chat_rate: Rate | None = None
    rate_page: str = ""
    typing_ms: int = 0
    """How often a typing indicator is to be renewed; 0: there is none."""
    typing_page: str = ""
    rules: tuple[Rule, ...] = ()


def rule_for(rules: Iterable[Rule], *, status: int, code: str = "", words: str = "") -> Rule | None:
    """The first row that an answer is of."""
    return next((rule for rule in rules if rule.matches(status, code, words)), None)


def outcome_of(
    rule: Rule,
    *,
    status: int,
    detail: str,
    is_keyed: bool = False,
    wait_ms: int | None = None,
    chat: str = "",
) -> Outcome:
    """The outcome that a row stands for. `chat`: what a rate limit is about; empty: the whole account.

    What is ambiguous is tried again at once where a key makes that harmless.
    """
    if rule.fate is Fate.PERMANENT:
        return Outcome(verdict=Verdict.DEAD, reason=rule.reason, status=status, detail=detail)
    if rule.fate is Fate.AMBIGUOUS:
        verdict = Verdict.RETRY if is_keyed else Verdict.UNKNOWN
        return Outcome(verdict=verdict, reason=rule.reason, status=status, detail=detail, retry_after_ms=wait_ms)
    holds: tuple[Hold, ...] = ()
    if rule.fate is Fate.LIMITED:
        holds = (Hold(chat=chat, wait_ms=wait_ms),)
    elif rule.hold_ms:
        wait_ms = max(wait_ms or 0, rule.hold_ms)
        holds = (Hold(wait_ms=wait_ms),)
    return Outcome(
        verdict=Verdict.RETRY,
        reason=rule.reason,
        status=status,
        detail=detail,
        proven=True,
        retry_after_ms=wait_ms,
        holds=holds,
    )


def seconds_to_ms(seconds: object) -> int | None:
    """A wait that a channel gave in seconds, whole or not, as a number or a text; None when it makes no sense."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float, str)):
        return None
    try:
        value = float(seconds)
    except ValueError:
        return None
    if not math.isfinite(value) or value < 0:
        return None
    return min(math.ceil(value * 1000), LONGEST_RETRY_AFTER_MS)
