"""The output of a turn: its items in public order, each once."""

from pipeline.fold.machine import Fold
from pipeline.kinds.slot import Json, Phase, Slot


def drain(fold: Fold, status: str) -> list[tuple[Slot, Json]]:
    """End every item that is still open and return those, in public order."""
    return [(slot, fold.end(slot, status)) for slot in fold.slots.in_order() if slot.phase is not Phase.DONE]


def output_of(fold: Fold) -> list[Json]:
    """The items so far; one that is still open stands as its start showed it, one that has no name yet not at all."""
    return [slot.result if slot.result is not None else slot.public for slot in fold.slots.in_order() if slot.id]
