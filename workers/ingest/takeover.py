"""What becomes of a turn whose ingest process died: decided from what stands in its log, never from a guess.

The log knows one thing for sure: whether `turn_started` is there. Without it nobody has opened the upstream, because it is
opened after the acknowledgement. With it, the request may have been sent, and is made again only where the configuration
declares the upstream free of side effects, and only if nothing that the upstream said was published.
"""

from collections.abc import Sequence
from enum import Enum

from pipeline.events import Event, Status, TurnStarted

MAX_RESTARTS = 5
"""A request that kills its process each time must not go round for ever."""


class Plan(Enum):
    """How a claimed turn goes on."""

    START = "start"  # from the beginning; turn_started is not there yet
    RESTART = "restart"  # the request is made again, after a status that says so
    LOST = "lost"  # the turn ends as `ingest_lost`


def is_ours(event: Event) -> bool:
    """Whether the event says nothing of the upstream's: it was emitted before the upstream had answered."""
    return isinstance(event, TurnStarted) or (isinstance(event, Status) and event.name == "restarted")


def may_restart(next_seq: int) -> bool:
    """Whether so few events are there that reading them can show a turn without output."""
    return 0 < next_seq <= 1 + MAX_RESTARTS


def decide(next_seq: int, emitted: Sequence[Event], *, side_effects: bool) -> Plan:
    """Choose how to go on; `emitted` holds the events of the log when `may_restart`, and nothing otherwise."""
    if next_seq == 0:
        return Plan.START
    if side_effects or not may_restart(next_seq) or next_seq > MAX_RESTARTS:
        return Plan.LOST
    if len(emitted) != next_seq or not all(is_ours(event) for event in emitted):
        return Plan.LOST
    return Plan.RESTART
