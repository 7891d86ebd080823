"""Deltas that are like one before them. What the handlers made of that one is made of each that is like it in all but its text, its
number and what goes with the text, without asking anew, until something else is told.

Nearly all events of a stream pass here, so they are read to a struct and not to a dict, and share the members that stay the same.
Whatever is of another form is the handlers'.
"""

from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType
from msgspec.json import Decoder

from pipeline.events import Event, TextDelta
from pipeline.normalize.responses.items import Slot
from pipeline.normalize.responses.scribe import Scribe

MARK = b'.delta"'
"""What the data of every delta holds."""
_MANY = 64  # an upstream that names its items anew with each delta must not be remembered for ever


class Delta(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A delta of text or of a call's input, as nearly all servers write it."""

    type: str
    delta: str
    item_id: str
    output_index: int | UnsetType = UNSET
    content_index: int | UnsetType = UNSET
    summary_index: int | UnsetType = UNSET
    sequence_number: int | UnsetType | None = UNSET
    obfuscation: str | UnsetType = UNSET
    logprobs: Raw = Raw(b"")


class Route(Struct, frozen=True, gc=False):
    """What became of a delta: where its text is kept, and the event that was made of it."""

    like: Delta
    slot: Slot
    event: TextDelta


_delta = Decoder(Delta).decode
_value = Decoder().decode


def read(data: bytes) -> Delta | None:
    """Read a delta of the usual form."""
    try:
        return _delta(data)
    except (DecodeError, RecursionError):
        return None


def follow(scribe: Scribe, delta: Delta) -> bool:
    """Tell of a delta that is like one before; say False, and do nothing, for any other."""
    route = scribe.routes.get(delta.item_id)
    if route is None:
        return False
    like, event = route.like, route.event
    if (
        delta.output_index != like.output_index
        or delta.content_index != like.content_index
        or delta.type != like.type
        or delta.summary_index != like.summary_index
    ):
        return False
    wire = event.wire
    told_anew = delta.logprobs != like.logprobs
    if told_anew or delta.obfuscation != like.obfuscation:
        if not _is_alike(delta, like, scribe.limits.json_depth):
            return False
        wire = dict(wire or {})
        if delta.obfuscation is not UNSET:
            wire["obfuscation"] = delta.obfuscation
        if told_anew and delta.logprobs:
            try:
                wire["logprobs"] = _value(delta.logprobs)
            except DecodeError:  # its strings were not looked at before
                return False
    scribe.again(route.slot, event, delta.delta, wire)
    return True


def learn(scribe: Scribe, delta: Delta, events: list[Event]) -> None:
    """Remember what became of a delta, if it is one event and nothing was wrong."""
    event = events[0] if len(events) == 1 else None
    if not isinstance(event, TextDelta) or event.wire is None or "defects" in event.wire:
        return
    if not delta.item_id or not delta.type:  # what has no type goes by the name that the stream gives it
        return
    if len(scribe.routes) >= _MANY:
        scribe.routes.clear()
    slot = scribe.slot(scribe.items.by_number[event.item], event.track, event.content)
    scribe.routes[delta.item_id] = Route(delta, slot, event)


def _is_alike(delta: Delta, like: Delta, depth: int) -> bool:
    """Whether the same goes with both texts, and is not nested so deep that it has to be looked at."""
    if (delta.obfuscation is UNSET) is not (like.obfuscation is UNSET):
        return False
    if delta.logprobs == like.logprobs:
        return True
    brackets = bytes(delta.logprobs)
    return bool(delta.logprobs) == bool(like.logprobs) and brackets.count(b"[") + brackets.count(b"{") < depth
