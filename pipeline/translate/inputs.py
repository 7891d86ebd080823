"""The public events that a call's input streams through."""

from typing import Any

from pipeline.kinds import KINDS, kind_of
from pipeline.kinds.slot import Part

Draft = tuple[str, dict[str, Any]]
_DELTAS = {name: f"response.{row.stem}.delta" for name, row in KINDS.items() if row.stem is not None}


def input_delta(part: Part, text: str, kind: str | None = None) -> Draft | None:
    """The event of one delta of a call's input; None for a kind whose input does not stream."""
    name = kind or part.slot.face or part.slot.kind
    event = _DELTAS.get(name)
    if event is None:
        return None
    row = KINDS[name]
    return event, {"delta": text} if row.position is None else {row.position: part.content, "delta": text}


def input_done(part: Part, text: str, kind: str | None = None) -> Draft | None:
    """The event with the whole of a call's input, or of one of its inputs."""
    row = kind_of(kind or part.slot.kind)
    member = row.final or row.input
    if row.stem is None or member is None:
        return None
    place = {} if row.position is None else {row.position: part.content}
    return f"response.{row.stem}.done", {**place, member: text}
