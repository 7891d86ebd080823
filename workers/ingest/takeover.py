"""What becomes of a turn whose ingest process died: decided from what stands in its log, never from a guess.

The log knows one thing for sure: whether `turn_started` is there. Without it nobody has opened the upstream, because it is
opened after the acknowledgement. With it, the request may have been sent, and is made again only where the configuration
declares the upstream free of side effects, and only if nothing that the upstream said was published. An upstream that is
declared resumable is asked for the same response again, and its stream goes on where the log ends.
"""

from collections.abc import Sequence
from enum import Enum

from pipeline.events import Event, Status
from workers.ingest.replay import is_ours, is_sign_of_life

MAX_RESTARTS = 5
"""A request that kills its process each time must not go round for ever."""


class Plan(Enum):
    """How a claimed turn goes on."""

    START = "start"  # from the beginning; turn_started is not there yet
    RESTART = "restart"  # the request is made again, after a status that says so
    REATTACH = "reattach"  # the upstream's response is read again, and goes on where the log ends
    LOST = "lost"  # the turn ends as `ingest_lost`


def upstream_id_of(event: Event) -> str | None:
    """The upstream's own id of the response, if this is the event that tells it."""
    if not isinstance(event, Status) or event.name != "upstream_started":
        return None
    response = (event.wire or {}).get("response")
    found = response.get("id") if isinstance(response, dict) else None
    return found if isinstance(found, str) and found else None


def response_of(head: Sequence[Event]) -> str | None:
    """Find which of the upstream's responses a log is of: its first word tells, or nothing does."""
    said = (event for event in head if not is_ours(event) and not is_sign_of_life(event))
    first = next(said, None)
    return None if first is None else upstream_id_of(first)


def decide(next_seq: int, head: Sequence[Event], *, side_effects: bool, resumable: bool = False) -> Plan:
    """Choose how to go on; `head` holds the first events of the log, all of them when they are few."""
    if next_seq == 0:
        return Plan.START
    if len(head) == next_seq and all(is_ours(event) for event in head):
        return Plan.LOST if side_effects or next_seq > MAX_RESTARTS else Plan.RESTART
    if resumable and response_of(head) is not None:
        return Plan.REATTACH
    return Plan.LOST
