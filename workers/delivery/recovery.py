"""What to do next with the part that is first in its lane: one pure decision, from its record, the time and the target's policy.

The scripts check the same conditions by their own clock; a decision that is too early is refused there, never obeyed.

- `sending` under our own token is our own attempt; under an older token it is recovered once the quarantine from the attempt's start
  is over: repeated by the receiver's key where its window has room for one more attempt, else `unknown`.
- `unknown` waits for the quarantine too. Then the key, if it still protects; else the channel is asked, where it can be. What no
  answer settles goes by the target's policy: `drop` gives it up, `resend` is the operator's explicit waiver, `hold` waits for a person,
  holds its lane for a while, and is abandoned in the end, never sent again.
- `pending` and `retry` are sent when their time has come, and given up when they are too old.
"""

from dataclasses import dataclass
from typing import Final

from ledger.parts import PartRecord
from ledger.states import Operation, State

OWN_ATTEMPT_MS: Final = 1_000
"""How soon to look again at an attempt of our own whose receipt is being written."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What is configured for a target, in milliseconds."""

    quarantine_ms: int
    key_window_ms: int
    """0 where the channel takes no key."""
    need_ms: int
    """Send deadline and margin."""
    age_limit_ms: int
    max_attempts: int
    unknown_hold_ms: int
    unknown_max_ms: int
    on_unknown: str = "hold"
    reconciles: bool = False
    """The channel can be asked whether it has a message."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What this process has asked a channel about a part's last attempt, in vain: since when, and when again; 0 for never."""

    since: int = 0
    again_at: int = 0


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Nothing can be done for so long."""

    ms: int


@dataclass(frozen=True, kw_only=True)
class Send:
    """Make an attempt; for a part in `sending` it repeats an older owner's by its key."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Ask the channel whether it has the part."""


@dataclass(frozen=True, kw_only=True)
class Advance:
    """Move the part by this operation."""

    operation: Operation
    note: str
    since: str = ""
    age_ms: int = 0
    quarantine_ms: int = 0
    asks_window: bool = False


Action = Wait | Send | Ask | Advance


def decide(
    part: PartRecord, *, now_ms: int, token: str, policy: Policy, may_age: bool, asked: Asked | None = None
) -> Action:
    """What to do with the part now. `may_age`: age limits may act (not within a lease after the server was away)."""
    if part.state in {State.PENDING, State.RETRY}:
        return _waiting(part, now_ms, policy, may_age=may_age)
    if part.state is State.SENDING:
        return _sending(part, now_ms, token, policy)
    if part.state is State.UNKNOWN:
        return _unknown(part, now_ms, policy, may_age=may_age, asked=asked or Asked())
    return Wait(ms=OWN_ATTEMPT_MS)


def _key_protects(part: PartRecord, now_ms: int, policy: Policy) -> bool:
    return not part.exposed_at or now_ms + policy.need_ms < part.exposed_at + policy.key_window_ms


def _waiting(part: PartRecord, now_ms: int, policy: Policy, *, may_age: bool) -> Action:
    if not _key_protects(part, now_ms, policy):
        return Advance(operation=Operation.LAPSE, note="key window is over", asks_window=True)
    if may_age:
        if not part.content_type:
            return Advance(operation=Operation.EXPIRE, note="cannot be projected")
        if now_ms - part.age_from >= policy.age_limit_ms:
            return Advance(operation=Operation.EXPIRE, note="age limit", since="age_from", age_ms=policy.age_limit_ms)
        if part.failures >= policy.max_attempts:
            return Advance(operation=Operation.EXPIRE, note="attempts used up")
    if part.state is State.RETRY and now_ms < part.due_at:
        return Wait(ms=part.due_at - now_ms)
    return Send()


def _sending(part: PartRecord, now_ms: int, token: str, policy: Policy) -> Action:
    if part.token == token:
        return Wait(ms=OWN_ATTEMPT_MS)
    over_at = part.attempt_at + policy.quarantine_ms
    if now_ms < over_at:
        return Wait(ms=over_at - now_ms)
    if policy.key_window_ms and _key_protects(part, now_ms, policy):
        return Send()
    return Advance(operation=Operation.RECOVER, note="its sender is gone", quarantine_ms=policy.quarantine_ms)


def _unknown(part: PartRecord, now_ms: int, policy: Policy, *, may_age: bool, asked: Asked) -> Action:
    quarantine = policy.quarantine_ms
    over_at = part.attempt_at + quarantine
    if now_ms < over_at:
        return Wait(ms=over_at - now_ms)
    if policy.key_window_ms and _key_protects(part, now_ms, policy):
        return Advance(operation=Operation.REKEY, note="again by key", quarantine_ms=quarantine, asks_window=True)
    if policy.reconciles:
        if now_ms >= asked.again_at:
            return Ask()
        # Whoever took over late asks for a while: what turns out not to be there would come behind what overtook it.
        held_until = max(part.unknown_at + policy.unknown_hold_ms, asked.since + quarantine)
        if part.in_lane and now_ms < held_until:
            return Wait(ms=min(asked.again_at, held_until) - now_ms)
    if policy.on_unknown == "drop":
        return Advance(operation=Operation.DROP, note="policy drop", quarantine_ms=quarantine)
    if policy.on_unknown == "resend" and now_ms - part.created_at < policy.age_limit_ms:
        return Advance(operation=Operation.RESEND, note="policy resend", quarantine_ms=quarantine)
    if may_age and now_ms - part.unknown_at >= policy.unknown_max_ms:
        return Advance(
            operation=Operation.ABANDON, note="nobody knew", since="unknown_at", age_ms=policy.unknown_max_ms
        )
    if part.in_lane:
        held_until = part.unknown_at + policy.unknown_hold_ms
        if now_ms < held_until:
            return Wait(ms=held_until - now_ms)
        return Advance(
            operation=Operation.STEP_ASIDE, note="held long enough", since="unknown_at", age_ms=policy.unknown_hold_ms
        )
    return Wait(ms=max(policy.unknown_max_ms - (now_ms - part.unknown_at), OWN_ATTEMPT_MS))
