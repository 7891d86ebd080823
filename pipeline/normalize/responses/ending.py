"""The end of a turn: open items are drained in order, then exactly one terminal is told, whatever the upstream said twice.

A top-level `error` waits for `response.failed`, another terminal or the end of the body; with it the turn has failed.
Items that stand in the terminal's output alone are told first.
"""

from typing import Any

from pipeline.events import ErrorInfo, Outcome, TurnCancelled, TurnCompleted, TurnFailed, Wire
from pipeline.normalize.defects import defect, word_of
from pipeline.normalize.failures import error_in
from pipeline.normalize.responses.items import Item
from pipeline.normalize.responses.lifecycle import close_item
from pipeline.normalize.responses.scribe import Scribe
from pipeline.normalize.responses.tables import TERMINALS

Frame = dict[str, Any]
TRUNCATED = "upstream_truncated"


def on_error(scribe: Scribe, kind: str, frame: Frame) -> None:  # noqa: ARG001  every handler takes the event's type
    """Keep an error until the turn's end; the first one says why."""
    frame.pop("sequence_number", None)
    if scribe.error is None:
        scribe.error = frame


def on_terminal(scribe: Scribe, kind: str, frame: Frame) -> None:
    """End the turn by the upstream's word."""
    frame.pop("sequence_number", None)
    response = frame.get("response")
    response = response if isinstance(response, dict) else {}
    status = word_of(response.get("status"))
    kind = TERMINALS[kind]
    if kind == "response.completed" and status == "incomplete":
        kind = "response.incomplete"  # vLLM says completed of a response that is not
    frame["type"] = kind
    failed = kind == "response.failed" or (kind == "response.completed" and status == "failed")
    failed = failed or scribe.error is not None
    cancelled = not failed and (status == "cancelled" or kind == "response.cancelled")
    _absorb(scribe, response.get("output"), kind)
    drain(scribe, kind, whole=kind == "response.completed" and not failed and not cancelled)
    usage = response.get("usage")
    usage = usage if isinstance(usage, dict) else None
    if failed:
        error = error_in({"error": response.get("error")}) if response.get("error") else None
        fail(scribe, _merge(error, scribe.error), usage, frame)
    elif cancelled:
        seq, at = scribe.stamp.next()
        scribe.out.append(TurnCancelled(seq=seq, at=at, reason="upstream", usage=usage, wire=frame))
    else:
        details = response.get("incomplete_details")
        outcome: Outcome = "incomplete" if kind == "response.incomplete" else "completed"
        seq, at = scribe.stamp.next()
        scribe.out.append(
            TurnCompleted(
                seq=seq,
                at=at,
                outcome=outcome,
                usage=usage,
                incomplete_details=details if isinstance(details, dict) else None,
                wire=frame,
            )
        )


def end_without_terminal(scribe: Scribe, found: str, leftover: ErrorInfo | None) -> None:
    """End the turn at the body's end: by the error that waited, by what the body said beside its events, or as cut short."""
    drain(scribe, found, whole=False)
    why = defect("terminal_missing", "$", "a terminal event", found)
    wire = {"defects": scribe.news("", [why])}
    if scribe.error is not None:
        fail(scribe, _merge(None, scribe.error), None, wire)
        return
    message = "the upstream's stream ended without a terminal event"
    fail(scribe, leftover or ErrorInfo(code=TRUNCATED, message=message), None, wire)


def end_by_limit(scribe: Scribe, limit: str) -> None:
    """End the turn because a bound was exceeded; its name is the code."""
    drain(scribe, limit, whole=False)
    bound = getattr(scribe.limits, limit)
    fail(scribe, ErrorInfo(code=limit, message=f"the upstream exceeded {limit} ({bound})"), None, None)


def fail(scribe: Scribe, error: ErrorInfo, usage: dict[str, Any] | None, wire: Wire) -> None:
    """Tell that the turn failed; the error event that waited travels beside."""
    if scribe.error is not None:
        wire = {**(wire or {}), "error_event": scribe.error}
    seq, at = scribe.stamp.next()
    scribe.out.append(TurnFailed(seq=seq, at=at, error=error, usage=usage, wire=wire))


def drain(scribe: Scribe, kind: str, *, whole: bool) -> None:
    """Finish what is open, in the order of the items."""
    for item in scribe.items.in_order():
        close_item(scribe, item, None, kind, whole=whole)


def _merge(error: ErrorInfo | None, event: Frame | None) -> ErrorInfo:
    """One error out of the response's and the event's: the response's word first."""
    held = error_in(event) if event is not None else None
    if error is None:
        return held or ErrorInfo(code="upstream_error", message="the upstream failed and did not say why")
    if held is None:
        return error
    return ErrorInfo(
        code=error.code,
        message=error.message or held.message,
        type=error.type or held.type,
        param=error.param or held.param,
    )


def _absorb(scribe: Scribe, output: object, kind: str) -> None:
    """Take from the terminal's output what the stream did not say: items of their own, and the end of open ones."""
    if not isinstance(output, list):
        return
    bodies = {position: body for position, body in enumerate(output) if isinstance(body, dict)}
    matched = _match(scribe, bodies)
    for position, body in bodies.items():
        item = matched.get(position)
        if item is None:
            free = position not in scribe.items.by_number
            item = scribe.open_item(None, word_of(body.get("type")), word_of(body.get("id")))
            if free and item.number != position:
                scribe.items.renumber(item, position)
        close_item(scribe, item, body, kind)


def _match(scribe: Scribe, bodies: dict[int, Frame]) -> dict[int, Item]:
    """Find the streamed items that the members of the output are: by id or call id, then by place, then by kind.

    Ids alone do not do: some servers make new ones for the terminal.
    """
    items = scribe.items.in_order()
    free = {item.number: item for item in items}
    matched: dict[int, Item] = {}

    def by_name(_: int, body: Frame) -> Item | None:
        item_id, call_id = word_of(body.get("id")), word_of(body.get("call_id"))
        named = scribe.items.by_id.get(item_id)
        if named is not None and named.number in free:
            return named
        wanted = [
            one for one in free.values() if (call_id and one.call_id == call_id) or (item_id and one.id == item_id)
        ]
        return wanted[0] if wanted else None

    def by_place(position: int, _: Frame) -> Item | None:
        return items[position] if position < len(items) else None

    def by_kind(_: int, body: Frame) -> Item | None:
        return next((one for one in free.values() if one.kind == body.get("type")), None)

    for find in (by_name, by_place, by_kind):
        if len(matched) == len(bodies):
            break
        for position, body in bodies.items():
            item = find(position, body) if position not in matched else None
            if item is not None and item.number in free and item.kind == word_of(body.get("type")):
                matched[position] = free.pop(item.number)
    return matched
