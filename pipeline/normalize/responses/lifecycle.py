"""Responses and items come and go: created, added, done. Each is told once; a repeat is told as a repeat."""

from typing import Any

from pipeline.events import Wire
from pipeline.normalize.defects import defect, index_of, word_of
from pipeline.normalize.responses.calls import finish_call, start_call
from pipeline.normalize.responses.items import Item
from pipeline.normalize.responses.scribe import Scribe
from pipeline.normalize.responses.tables import PROGRESS
from pipeline.normalize.responses.texts import finish_texts, on_unknown, repeated

Frame = dict[str, Any]
_VOLATILE = {"id", "status"}  # what two words on the same item may differ in


def on_created(scribe: Scribe, kind: str, frame: Frame) -> None:
    """Tell that the upstream started; a second time within one stream begins a round that counts from 0 again."""
    frame.pop("sequence_number", None)
    if scribe.created:
        why = defect("created_repeated", "$.type", "one response.created", kind)
        frame["defects"] = [*frame.get("defects", ()), why]
        if scribe.items.by_index:
            for item in scribe.items.in_order():
                close_item(scribe, item, None, kind)
            scribe.items.new_round()
            scribe.status("round_completed")
    scribe.created = True
    scribe.status("upstream_started", wire=frame)


def on_phase(scribe: Scribe, kind: str, frame: Frame) -> None:
    """Tell that the response is queued or in progress."""
    frame.pop("sequence_number", None)
    scribe.status(kind.removeprefix("response."), wire=frame)


def on_keepalive(scribe: Scribe, kind: str, frame: Frame) -> None:  # noqa: ARG001  every handler takes the event's type
    """Tell that the upstream is alive."""
    frame.pop("sequence_number", None)
    scribe.status("keepalive", wire=frame)


def on_progress(scribe: Scribe, kind: str, frame: Frame) -> None:
    """Tell how far a call of the upstream's own has come."""
    index, item_id = index_of(frame.get("output_index")), word_of(frame.get("item_id"))
    items = scribe.items
    item = items.by_index.get(index) if index is not None else items.by_id.get(item_id)
    if item is None and index is None:
        wanted = kind.split(".")[1]
        item = next((one for one in reversed(items.by_number.values()) if one.kind == wanted and not one.done), None)
    if item is None:
        why = defect("item_unknown", "$.output_index", "an item that was added", frame.get("output_index"))
        frame["defects"] = [*frame.get("defects", ()), why]
        on_unknown(scribe, kind, frame)
        return
    frame.pop("output_index", None)
    frame.pop("sequence_number", None)
    scribe.status(PROGRESS[kind], item.number, wire=frame)


def on_added(scribe: Scribe, kind: str, frame: Frame) -> None:
    """Tell of a new item, unless it is one that is open already."""
    body = frame.get("item")
    if not isinstance(body, dict):
        on_unknown(scribe, kind, frame)
        return
    index, item_id = index_of(frame.get("output_index")), _id_of(body)
    item_kind = word_of(body.get("type"))
    known = scribe.items.by_index.get(index) if index is not None else scribe.items.by_id.get(item_id)
    if known is not None and not known.done and _is_same(known, item_kind, item_id, word_of(body.get("call_id"))):
        if known.announced:
            repeated(scribe, kind)
            return
        item = known
        scribe.items.learn_kind(item, item_kind)
        _learn_id(scribe, item, item_id)
    else:
        item = scribe.open_item(index, item_kind, item_id)
        if known is not None:
            why = defect("index_reused", "$.output_index", "an index that is free", index)
            frame["defects"] = [*frame.get("defects", ()), why]
    frame.pop("output_index", None)
    frame.pop("sequence_number", None)
    tell_start(scribe, item, body, frame)


def on_item_done(scribe: Scribe, kind: str, frame: Frame) -> None:
    """Tell that an item is whole; one that was never added is told as started first."""
    body = frame.get("item")
    if not isinstance(body, dict):
        on_unknown(scribe, kind, frame)
        return
    index, item_id = index_of(frame.get("output_index")), _id_of(body)
    item_kind = word_of(body.get("type"))
    item = _done_item(scribe, index, item_id, item_kind, body)
    if item is not None and item.done:
        _compare(scribe, kind, item, body)
        return
    if item is None:
        item = scribe.open_item(index, item_kind, item_id)
        why = defect("item_unknown", "$.output_index", "an item that was added", index)
        frame["defects"] = [*frame.get("defects", ()), why]
    _learn_id(scribe, item, item_id)
    frame.pop("output_index", None)
    frame.pop("sequence_number", None)
    close_item(scribe, item, body, kind, frame)


def tell_start(scribe: Scribe, item: Item, body: Frame, wire: Wire) -> None:
    """Tell that an item started: a call by its name, anything else by a status."""
    if item.is_call:
        start_call(scribe, item, body, wire)
        return
    item.announced = True
    scribe.status("item_started", item.number, wire=wire)


def close_item(
    scribe: Scribe, item: Item, body: Frame | None, kind: str, wire: Wire = None, *, whole: bool = True
) -> None:
    """End an item with what is known of it; a done one stays as it is."""
    if item.done:
        return
    item.done = True
    item.finished = body
    if wire is None and body is not None:
        wire = {"item": body}
    if item.is_call:
        finish_call(scribe, item, body, wire, whole=whole)
        return
    if not item.announced and body is not None:
        tell_start(scribe, item, body, {"item": body})
    finish_texts(scribe, item, body, kind)
    scribe.status("item_finished", item.number, detail=None if whole else "incomplete", wire=wire)


def _done_item(scribe: Scribe, index: int | None, item_id: str, kind: str, body: Frame) -> Item | None:
    """Find the item that is done: by index, else by id, else the newest open one of its kind."""
    items = scribe.items
    if index is None:
        item = items.by_id.get(item_id)
        if item is None or item.kind != kind:
            item = next((one for one in reversed(items.by_number.values()) if one.kind == kind and not one.done), None)
        return item
    item = items.find(index, item_id, "")
    if item is None or (item.kind == kind and not item.done):
        return item
    named = items.by_id.get(item_id)
    if named is not None and named.kind == kind and not named.done:
        return named
    if item.kind != kind:
        return None
    return None if _is_another(item, body) else item


def _is_another(done: Item, body: Frame) -> bool:
    """Whether a second done at an index tells of another item: a stream without `added` that always says index 0."""
    before = done.finished or {}
    if word_of(before.get("call_id")) != word_of(body.get("call_id")):
        return bool(before.get("call_id") and body.get("call_id"))
    if done.is_call or not before:
        return False
    one, other = _id_of(before), _id_of(body)
    return bool(one and other and one != other and not _equal(before, body))


def _compare(scribe: Scribe, kind: str, item: Item, body: Frame) -> None:
    before = item.finished
    if before is None or _equal(before, body):
        repeated(scribe, kind)
        return
    why = defect("done_conflicts", "$.item", "the item as it was done before", body)
    scribe.mismatch(item.number, None, {"event": kind, "item": body}, why)


def _equal(before: Frame, body: Frame) -> bool:
    """Compare two words on one item; what only one of them says is no difference."""
    return all(before[member] == body[member] for member in before.keys() & body.keys() - _VOLATILE)


def _is_same(known: Item, kind: str, item_id: str, call_id: str) -> bool:
    if known.kind != kind:
        return not known.announced and not known.is_call and kind not in {"message", "reasoning"} and not known.slots
    if known.call_id and call_id and known.announced:
        return known.call_id == call_id
    return not (known.announced and known.id and item_id and known.id != item_id)


def _learn_id(scribe: Scribe, item: Item, item_id: str) -> None:
    if item_id and not item.id:
        item.id = item_id
        scribe.items.by_id.setdefault(item_id, item)


def _id_of(body: Frame) -> str:
    return word_of(body.get("id")) or word_of(body.get("item_id"))
