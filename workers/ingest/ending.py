"""The last word on a turn: which terminal says why it ended. Pure.

The adapter that saw the body end says `upstream_truncated` when the upstream gave no terminal of its own; whoever read the
connection, or heard of a cancel, knows better. What the upstream itself said about its failure is never replaced, nor its word that
it was done, wherever its connection broke after that; unless it had gone on after such a word before, as some say it with every chunk.
"""

import msgspec

from pipeline.events import ErrorInfo, Event, TurnCancelled, TurnCompleted, TurnFailed
from workers.ingest.failures import Phase, SourceError

TRUNCATED = "upstream_truncated"
UNEXPLAINED = frozenset({TRUNCATED, "empty_stream"})
"""What an adapter says of a body that just ended."""


def unfinished(seq: int, at: int) -> TurnFailed:
    """The terminal of an answer that ended before its end."""
    return TurnFailed(
        seq=seq, at=at, error=ErrorInfo(code=TRUNCATED, message="the upstream's answer ended before its end")
    )


def last_word(event: Event, *, failure: SourceError | None, cancelled: bool, unsure: bool = False) -> Event:
    """Say why the turn ended, where we know more than the adapter that saw its body end."""
    if isinstance(event, TurnCompleted) and unsure and failure is not None and failure.phase is Phase.BODY:
        return TurnFailed(seq=event.seq, at=event.at, error=failure.error, usage=event.usage, wire=event.wire)
    if not isinstance(event, TurnFailed):
        return event
    if cancelled:
        return TurnCancelled(seq=event.seq, at=event.at, reason="cancelled", usage=event.usage, wire=event.wire)
    if failure is None or event.error.code not in UNEXPLAINED:
        return event
    wire = event.wire if failure.status is None else {**(event.wire or {}), "http_status": failure.status}
    return msgspec.structs.replace(event, error=failure.error, wire=wire)


def label(event: Event) -> str | None:
    """A failure's code for metrics, whose labels are bounded: upstreams invent codes, we do not. None: no failure."""
    if not isinstance(event, TurnFailed):
        return None
    return event.error.code if event.error.code.startswith(("upstream_", "ingest_", "log_")) else "upstream_error"
