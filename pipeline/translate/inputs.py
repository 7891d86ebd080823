"""The public events that a call's input streams through."""

from typing import Any

from pipeline.kinds import Kind, kind_of
from pipeline.kinds.slot import Part

Draft = tuple[str, dict[str, Any]]


def input_delta(part: Part, text: str, kind: str | None = None) -> Draft | None:
    """The event of one delta of a call's input; None for a kind whose input does not stream."""
    row = kind_of(kind or part.slot.kind)
    if row.stem is None:
        return None
    return f"response.{row.stem}.delta", {**_number(row, part), "delta": text}


def input_done(part: Part, text: str, kind: str | None = None) -> Draft | None:
    """The event with the whole of a call's input, or of one of its inputs."""
    row = kind_of(kind or part.slot.kind)
    member = row.final or row.input
    if row.stem is None or member is None:
        return None
    return f"response.{row.stem}.done", {**_number(row, part), member: text}


def _number(row: Kind, part: Part) -> dict[str, Any]:
    return {} if row.position is None else {row.position: part.content}
