"""The delivery state machine, as data.

Authority: `TRANSITIONS` is the only place that says which operation leads from which state to which. The scripts receive their row of
it as an argument, the diagram in the README is rendered from it, and the conformance test walks every cell on a real server.

States: `pending` waits in its lane; `sending` has an intent and no outcome; `sent`, `dead`, `suppressed` and `abandoned` are settled;
`retry` is proven not to have been delivered and waits for its time; `unknown` may have been delivered, and nobody knows.

Loss: a part never leaves `unknown` by guess. A fact (the attempt's own receipt), the channel's key, the channel's answer when it
is asked, a person, or the clock (`abandon`, which never sends) take it out.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where a part of a block stands with one target."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    RETRY = "retry"
    UNKNOWN = "unknown"
    DEAD = "dead"
    SUPPRESSED = "suppressed"
    ABANDONED = "abandoned"


class Operation(StrEnum):
    """What may be done to a part."""

    INTENT = "intent"
    REATTEMPT = "reattempt"
    RECEIPT_SENT = "receipt_sent"
    RECEIPT_RETRY = "receipt_retry"
    RECEIPT_UNKNOWN = "receipt_unknown"
    RECEIPT_DEAD = "receipt_dead"
    RECOVER = "recover"
    REKEY = "rekey"
    FOUND = "found"
    NOT_FOUND = "not_found"
    LAPSE = "lapse"
    EXPIRE = "expire"
    STEP_ASIDE = "step_aside"
    ABANDON = "abandon"
    RESOLVE_SENT = "resolve_sent"
    RESOLVE_NOT_SENT = "resolve_not_sent"
    RESEND = "resend"
    REQUEUE = "requeue"
    DROP = "drop"


SETTLED: Final = frozenset({State.SENT, State.DEAD, State.SUPPRESSED, State.ABANDONED})
"""States in which a part owes nothing more: it has left its lane and its retention runs."""

INITIAL: Final = frozenset({State.PENDING, State.SUPPRESSED, State.DEAD})
"""What planning a block makes: `suppressed` for text that was discarded on purpose, `dead` for what no channel can show."""

TRANSITIONS: Final[dict[tuple[State, Operation], State]] = {
    # The owner's own steps.
    (State.PENDING, Operation.INTENT): State.SENDING,
    (State.RETRY, Operation.INTENT): State.SENDING,
    (State.SENDING, Operation.REATTEMPT): State.SENDING,  # an older owner's attempt, repeated under the same key
    (State.SENDING, Operation.RECOVER): State.UNKNOWN,  # an older owner's attempt, on a channel that cannot tell
    (State.UNKNOWN, Operation.REKEY): State.RETRY,  # to be sent again under the same key, inside its window
    (State.UNKNOWN, Operation.FOUND): State.SENT,  # the channel was asked after the quarantine, and has it
    (State.UNKNOWN, Operation.NOT_FOUND): State.RETRY,  # the channel was asked after the quarantine, and has it not
    (State.RETRY, Operation.LAPSE): State.UNKNOWN,  # an attempt may have arrived, and the key no longer protects
    (State.PENDING, Operation.EXPIRE): State.DEAD,
    (State.RETRY, Operation.EXPIRE): State.DEAD,
    (State.UNKNOWN, Operation.STEP_ASIDE): State.UNKNOWN,  # it has held its lane long enough: those behind it go on
    (State.UNKNOWN, Operation.ABANDON): State.ABANDONED,
    # Facts about one attempt, from whoever made it.
    (State.SENDING, Operation.RECEIPT_SENT): State.SENT,
    (State.UNKNOWN, Operation.RECEIPT_SENT): State.SENT,
    (State.RETRY, Operation.RECEIPT_SENT): State.SENT,  # a late fact, before the next attempt began: saves a duplicate
    (State.SENDING, Operation.RECEIPT_RETRY): State.RETRY,
    (State.UNKNOWN, Operation.RECEIPT_RETRY): State.RETRY,
    (State.SENDING, Operation.RECEIPT_UNKNOWN): State.UNKNOWN,
    (State.SENDING, Operation.RECEIPT_DEAD): State.DEAD,
    (State.UNKNOWN, Operation.RECEIPT_DEAD): State.DEAD,
    # An operator's word.
    (State.UNKNOWN, Operation.RESOLVE_SENT): State.SENT,
    (State.UNKNOWN, Operation.RESOLVE_NOT_SENT): State.RETRY,
    (State.UNKNOWN, Operation.RESEND): State.RETRY,  # an explicit waiver: may duplicate, counted apart
    (State.DEAD, Operation.REQUEUE): State.RETRY,
    (State.UNKNOWN, Operation.DROP): State.ABANDONED,
    (State.PENDING, Operation.DROP): State.DEAD,
    (State.RETRY, Operation.DROP): State.DEAD,
}


def next_state(state: State, operation: Operation) -> State | None:
    """Where `operation` leads from `state`; None when it is refused there."""
    return TRANSITIONS.get((state, operation))


def row(operation: Operation) -> dict[State, State]:
    """Every state in which `operation` acts, with the state that it leads to."""
    return {start: end for (start, done), end in TRANSITIONS.items() if done is operation}


def is_settled(state: State) -> bool:
    """True when a part in `state` owes nothing more."""
    return state in SETTLED


def mermaid() -> str:
    """The table as a Mermaid state diagram, for the README."""
    edges: dict[tuple[State, State], list[str]] = {}
    for (start, operation), end in TRANSITIONS.items():
        edges.setdefault((start, end), []).append(operation.value)
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state}: plan" for state in State if state in INITIAL]
    lines += [f"    {start} --> {end}: {', '.join(names)}" for (start, end), names in edges.items()]
    lines += [f"    {state} --> [*]" for state in State if state in SETTLED]
    return "\n".join(lines) + "\n"
