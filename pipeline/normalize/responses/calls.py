"""Calls: told as started when their name is known, as finished when their item is; deltas of their input pass verbatim."""

import json
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from pipeline.events import ToolFinished, ToolStarted, Wire
from pipeline.kinds.calls import without_quirk
from pipeline.normalize.defects import defect, word_of
from pipeline.normalize.responses.items import Item
from pipeline.normalize.responses.scribe import Scribe
from pipeline.normalize.responses.tables import CALLS

Frame = dict[str, Any]


def start_call(scribe: Scribe, item: Item, body: Frame, wire: Wire) -> None:
    """Tell that a call started, as soon as its name is known; until then it keeps its place, and its input waits."""
    waited = item.start is not None
    item.start = None
    if not CALLS[item.kind].named or word_of(body.get("name")):
        announce(scribe, item, body, wire)
        return
    item.start = wire
    item.opening = _opening(item, body)
    item.call_id = item.call_id or word_of(body.get("call_id"))
    if not waited:
        scribe.status("unnamed", item.number, detail={"kind": item.kind})


def announce(scribe: Scribe, item: Item, body: Frame, wire: Wire) -> None:
    """Tell that a call started, then give the input that waited for its name."""
    call = CALLS[item.kind]
    item.announced = True
    item.call_id = item.call_id or word_of(body.get("call_id")) or item.id or f"call_{item.number}"
    name = word_of(body.get("name")) or ("" if call.named else item.kind)
    wire, item.start = item.start or wire, None
    seq, at = scribe.stamp.next()
    scribe.out.append(
        ToolStarted(
            seq=seq, at=at, item=item.number, call_id=item.call_id, name=name, kind=call.tool or item.kind, wire=wire
        )
    )
    item.opening = _opening(item, body) or item.opening
    if item.held:
        for content, texts in groupby(item.held, key=itemgetter(0)):
            scribe.delta(item.number, content, "tool_input", "".join(text for _, text in texts))
        item.held.clear()


def _opening(item: Item, body: Frame) -> str:
    """The input that the call begins with."""
    member = CALLS[item.kind].input or CALLS[item.kind].asks
    return input_text(body.get(member)) if member is not None else ""


def finish_call(scribe: Scribe, item: Item, body: Frame | None, wire: Wire, *, whole: bool = True) -> None:
    """Tell that a call is finished: by its item where there is one, else by what was streamed.

    The input is the item's, else its `.done`'s, else the deltas', else the one it was added with. `whole` says whether
    the turn itself came to a good end, for a call that never got its own.
    """
    call = CALLS[item.kind]
    if not item.announced:
        announce(scribe, item, body or {}, {"item": body} if body is not None else None)
    slot = item.slots.get(("tool_input", 0)) if call.input is not None else None
    streamed = "".join(slot.pieces) if slot is not None else ""
    given = _opening(item, body) if body is not None else ""
    text = given or item.input or without_quirk(streamed) or item.opening
    has_input = text != "" or call.tool in {"function", "custom"}
    call_id = word_of(body.get("call_id")) if body is not None else ""
    if call_id and call_id != item.call_id and wire is not None:
        why = defect("call_id_changed", "$.item.call_id", item.call_id, call_id)
        wire["defects"] = [*wire.get("defects", ()), why]
    seq, at = scribe.stamp.next()
    scribe.out.append(
        ToolFinished(
            seq=seq,
            at=at,
            item=item.number,
            call_id=item.call_id,
            status=_status(item, body, text, whole=whole),
            input=text if has_input else None,
            output=_output(body, call.outputs),
            wire=wire,
        )
    )
    if any(told not in {"", text} and not same_json(told, text) for told in (streamed, item.input)):
        detail = {"track": "tool_input", "streamed": len(streamed), "chars": len(text)}
        scribe.mismatch(item.number, 0, detail)
    for one in item.slots.values():
        one.pieces.clear()


def input_text(value: object) -> str:
    """A call's input as text: what is text already stays as it came, an object is written as JSON."""
    if isinstance(value, str):
        return value
    if value is None or value in ({}, []):
        return ""
    return json.dumps(value, ensure_ascii=False)


def same_json(one: str, other: str) -> bool:
    """Whether two texts are the same JSON value."""
    try:
        return bool(msgspec.json.decode(one) == msgspec.json.decode(other))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False


def _status(item: Item, body: Frame | None, text: str, *, whole: bool) -> str:
    if item.kind == "function_call" and not parses(text):
        return "incomplete"
    if body is not None:
        status = word_of(body.get("status"))
        if status and status != "in_progress":
            return status
        return "failed" if body.get("error") is not None else "completed"
    return "completed" if whole and item.kind in {"function_call", "custom_tool_call"} else "incomplete"


def parses(text: str) -> bool:
    """Whether a function's arguments are JSON; no arguments at all are none to parse."""
    if not text:
        return True
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


def _output(body: Frame | None, members: tuple[str, ...]) -> Any:
    for member in members:
        value = body.get(member) if body is not None else None
        if value is not None:
            return value
    return None
