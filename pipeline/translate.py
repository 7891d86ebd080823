"""What a client is shown of a call: which public events its input streams through.

Runs after the fold, because it reads what the fold produced. A delta passes the event's own delta, verbatim; the
authoritative input is told once, at the end; nothing is ever compared with what was sent before, so the cost is linear in the
number of deltas. Every call is the client's own for now, and passes as the call that it is.
"""

from typing import Any

from pipeline.fold.kinds import kind_of
from pipeline.fold.slots import Part, Slot

Draft = tuple[str, dict[str, Any]]


def input_delta(part: Part, text: str) -> Draft | None:
    """The event of one delta of a call's input; None for a kind whose input does not stream."""
    stem = kind_of(part.slot.kind).deltas
    return None if stem is None else (f"response.{stem}.delta", {"delta": text})


def input_done(slot: Slot, text: str) -> Draft | None:
    """The event with the whole of a call's input."""
    kind = kind_of(slot.kind)
    if kind.deltas is None or kind.input is None:
        return None
    return f"response.{kind.deltas}.done", {kind.input: text}
