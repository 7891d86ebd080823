"""The OpenAI Responses stream to canonical events, for streams as they are and not only as they should be.

Identity is the output index (see `items`); the JSON's `type` rules and the event's name is only its stand-in; each slot is
finished once; there is one terminal. What is malformed is told in `wire["defects"]` or in a status `malformed`, never
raised. A body that is one JSON object in place of a stream is read as the whole turn.

`[DONE]` ends the stream. After the terminal nothing is told; `late` counts what still came.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from pipeline.errors import MisuseError
from pipeline.events import Event
from pipeline.limits import Limits
from pipeline.normalize.defects import Defect, defect
from pipeline.normalize.failures import error_in, error_in_text
from pipeline.normalize.leniency import is_too_deep, read_object
from pipeline.normalize.opening import Opening
from pipeline.normalize.responses import ending, lifecycle, routes, tables, texts
from pipeline.normalize.responses.scribe import Scribe
from pipeline.normalize.responses.shape import shape_defects
from pipeline.normalize.sse import BOM, DONE, SseEvent, SseSplitter
from pipeline.normalize.stamp import Stamp

Frame = dict[str, Any]
Handler = Callable[[Scribe, str, Frame], None]

HANDLERS: dict[str, Handler] = {
    "response.created": lifecycle.on_created,
    "response.queued": lifecycle.on_phase,
    "response.in_progress": lifecycle.on_phase,
    "response.output_item.added": lifecycle.on_added,
    "response.output_item.done": lifecycle.on_item_done,
    "response.output_text.annotation.added": texts.on_annotation,
    "error": ending.on_error,
    **dict.fromkeys(tables.DELTAS, texts.on_delta),
    **dict.fromkeys(tables.DONES, texts.on_done),
    **dict.fromkeys(tables.INPUT_DELTAS, texts.on_input_delta),
    **dict.fromkeys(tables.INPUT_DONES, texts.on_input_done),
    **dict.fromkeys(tables.INPUT_STARTS, texts.on_input_start),
    **dict.fromkeys(tables.PARTS_ADDED, texts.on_part_added),
    **dict.fromkeys(tables.PARTS_DONE, texts.on_part_done),
    **dict.fromkeys(tables.PROGRESS, lifecycle.on_progress),
    **dict.fromkeys(tables.KEEPALIVES, lifecycle.on_keepalive),
    **dict.fromkeys(tables.TERMINALS, ending.on_terminal),
}
_decode = msgspec.json.Decoder().decode
_OF_DELTAS = (texts.on_delta, texts.on_input_delta)


class ResponsesAdapter:
    """One turn's Responses stream: `feed` its bytes at any cut, `close` it at the body's end."""

    def __init__(self, *, stamp: Stamp, limits: Limits | None = None) -> None:
        self.ended = False
        self.late = 0
        self.unsure = False
        self._limits = limits or Limits()
        self._scribe = Scribe(stamp, self._limits)
        self._splitter = SseSplitter(self._limits)
        self._body: list[bytes] | None = None
        self._body_bytes = 0
        self._opening = Opening()
        self._sentinel = False
        self._closed = False

    def feed(self, data: bytes) -> list[Event]:
        """Take bytes; give the events that they complete."""
        if self._closed:
            raise MisuseError("fed after close")
        if not self._opening.is_known:
            data = self._opening.feed(data)
            self._body = [] if self._opening.is_json else None
        if self._body is not None:
            self._collect(data)
        else:
            self._take(self._splitter.feed(data))
        return self._given()

    def close(self) -> list[Event]:
        """The body has ended: give what is still open, and a terminal if there was none."""
        if self._closed:
            raise MisuseError("closed twice")
        self._closed = True
        if self._body is not None:
            self._whole_body(b"".join(self._body))
        self._take(self._splitter.feed(self._opening.close()) + self._splitter.close())
        if not self.ended:
            self.ended = True
            told = error_in_text(b"\n".join(self._splitter.leftover), self._limits)
            ending.end_without_terminal(self._scribe, "the end of the body", told)
        return self._given()

    def _given(self) -> list[Event]:
        if not self.ended and (limit := self._splitter.exceeded or self._scribe.exceeded) is not None:
            self.ended = True
            ending.end_by_limit(self._scribe, limit)
        events = self._scribe.out
        self._scribe.out = []
        return events

    def _collect(self, data: bytes) -> None:
        if self._body is None or self.ended:
            return
        self._body.append(data)
        self._body_bytes += len(data)
        if self._body_bytes > self._limits.json_body_bytes:
            self._body.clear()
            self._scribe.exceeded = "json_body_bytes"

    def _take(self, events: list[SseEvent]) -> None:
        for event in events:
            data = event.data
            if self._sentinel:
                return
            if data[:1] == b"{" and not self.ended and self._scribe.exceeded is None:
                self._frame(data, event.event)
            elif data == DONE:
                self._sentinel = True
                if not self.ended:
                    self.ended = True
                    told = error_in_text(b"\n".join(self._splitter.left_before_done), self._limits)
                    ending.end_without_terminal(self._scribe, "[DONE]", told)
            elif not data or not (stripped := data.strip()) or stripped == DONE:
                continue
            elif self.ended or self._scribe.exceeded is not None:
                self.late += 1
            else:
                self._frame(data, event.event)

    def _frame(self, data: bytes, name: str) -> None:
        """Handle one data frame."""
        delta = routes.read(data) if routes.MARK in data else None
        if delta is not None and routes.follow(self._scribe, delta):
            return
        frame, why = read_object(data, self._limits.json_depth)
        if frame is None:
            self._malformed(why)
            return
        told = len(self._scribe.out)
        self._dispatch(frame, name, why)
        if delta is not None and why is None:
            routes.learn(self._scribe, delta, self._scribe.out[told:])

    def _dispatch(self, frame: Frame, name: str, why: Defect | None) -> None:
        kind = frame.get("type")
        if type(kind) is not str or not kind:
            found = kind
            kind = "error" if frame.get("error") else name
            why = why or defect("type_missing", "$.type", "the event's type", found)
        if "defects" in frame:
            frame["upstream_defects"] = frame.pop("defects")
        scribe = self._scribe
        handler = HANDLERS.get(kind, texts.on_unknown)
        if why is not None and handler is not texts.on_unknown:
            frame["type"] = kind
        found = shape_defects(kind, frame)
        if why is not None:
            found.insert(0, why)
        defects = scribe.news(kind if kind in HANDLERS else "", found) if found or scribe.untold else found
        if defects:
            frame["defects"] = defects
        if handler not in _OF_DELTAS:
            scribe.routes.clear()
        told = len(scribe.out)
        handler(scribe, kind, frame)
        if defects and not any(_tells(event, frame, defects[0]) for event in scribe.out[told:]):
            scribe.untold[:0] = defects  # the event said nothing that is told: the next one carries them
            scribe.routes.clear()
        if handler is ending.on_terminal:
            self.ended = True

    def _malformed(self, why: Defect | None) -> None:
        self._scribe.status("malformed", detail=why, wire={"defects": [why]})

    def _whole_body(self, body: bytes) -> None:
        """Read a body that is JSON: a response is a whole turn, an error its failure, anything else a stream after all."""
        self._body = None
        if self.ended:
            return
        try:
            whole = _decode(body.removeprefix(BOM))
        except (msgspec.DecodeError, RecursionError):
            self._take(self._splitter.feed(body))
            return
        first = whole[0] if isinstance(whole, list) and whole else whole
        why = defect("not_a_stream", "$", "server-sent events", body)
        status = first.get("status") if isinstance(first, dict) else None
        if isinstance(first, dict) and not is_too_deep(body, first, self._limits.json_depth):
            if isinstance(first.get("output"), list) and f"response.{status}" in tables.TERMINALS:
                created = {**first, "status": "in_progress", "output": []}
                self._dispatch({"type": "response.created", "response": created}, "", why)
                self._dispatch({"type": f"response.{status}", "response": first}, "", None)
                return
            if error_in(first) is not None:
                self._scribe.error = first
                return
        self._malformed(defect("frame_malformed", "$", "server-sent events or a response", body))


def _tells(event: Event, frame: Frame, why: Defect) -> bool:
    """Whether an event carries the frame, or what was wrong with it."""
    wire = getattr(event, "wire", None)
    return wire is frame or (wire is not None and why in wire.get("defects", ()))
