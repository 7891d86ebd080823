"""One row of the table of kinds: all that is particular to a kind of output item."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeline.kinds.slot import Json, Part, Slot


def keep(part: Part, text: str) -> None:
    """Keep a delta with the text that it belongs to."""
    part.pieces.append(text)


@dataclass(frozen=True, slots=True)
class Served:
    """How a call that the gateway answers itself is shown: words of progress before and after its input, and at its end."""

    before: tuple[str, ...] = ("in_progress",)
    after: tuple[str, ...] = ()
    completed: str | None = "completed"
    failed: str | None = None
    asked: Callable[[Json, str], Json] | None = None
    """How the call of a function tells what it asks for, where the kind's own calls do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How one kind of item behaves. What a column does not say, is none.

    `from_added` makes the item as its start shows it, `apply_delta` keeps a delta, `apply_done` mends the upstream's finished
    item, and `finalize` makes an item of what was streamed when no finished one ever came.
    """

    name: str
    prefix: str
    from_added: Callable[[Slot, Json], Json]
    apply_done: Callable[[Slot, Json], Json]
    finalize: Callable[[Slot, str], Json]
    apply_delta: Callable[[Part, str], None] = keep
    tracks: frozenset[str] = frozenset()
    """The texts that it may stream."""
    tool: str | None = None
    """What the events call it when it is a call of something."""
    named: bool = False
    """Whether its name says how the call is shown; until that is known, nobody can be told of it."""
    call: bool = False
    """Whether a call id is its identity, so that it has one, and no other of its kind has the same."""
    input: str | None = None
    """The member that holds a call's input as text."""
    asks: str | None = None
    """The member that says what a call wants, where that is no text."""
    stem: str | None = None
    """What the events of its input are called between `response.` and `.delta` or `.done`."""
    final: str | None = None
    """The member of the `.done` event that holds the input, where it is not `input`."""
    position: str | None = None
    """The member that numbers the texts of its input, where there may be several."""
    outputs: tuple[str, ...] = ()
    """The members of a finished call that may hold what came of it; the first that does."""
    progress: tuple[str, ...] = ()
    """The words of its events of progress: `response.<kind>.<word>`."""
    needs: tuple[tuple[str, str], ...] = ()
    """What a finished item must have: member and form, `string object list parts`, with `?` where it may be absent or null."""
    standard: bool = True
    """Whether the official SDK knows it; strict decoding refuses the others by name."""
    blank: Callable[[Slot], Json] = lambda slot: {"name": slot.name} if slot.name else {}
    """What its start holds where a tool was told of without its item."""
    asked: Callable[[Json, str], Json] = lambda item, _input: item
    """What its input asks for, where no member holds that as text."""
    result: Callable[[Json, Any, bool], Json] = lambda item, _output, _failed: item
    """What came of it, where no item tells: the output, and whether that is a failure."""
    served: Served | None = None
    """How it is shown when the gateway answers it."""
