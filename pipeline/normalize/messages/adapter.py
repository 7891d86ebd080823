"""The Messages stream to canonical events, for the servers as they are and not only for the one that made it.

The JSON's `type` rules, the event's name is only its stand-in. The turn ends at the end of the body, since another message
may follow the first one's stop; it is whole if a `stop_reason` came. An error ends it at once; text before it is kept.
"""

from collections.abc import Callable
from typing import Any

from pipeline.events import ErrorInfo, TextDelta
from pipeline.limits import Limits
from pipeline.normalize.defects import defect, word_of
from pipeline.normalize.failures import UNNAMED, error_in, error_in_text
from pipeline.normalize.framed import FramedAdapter, unnamed
from pipeline.normalize.messages import ending
from pipeline.normalize.messages.blocks import Blocks
from pipeline.normalize.messages.shape import DELTAS, more_than, object_of, shape_defects
from pipeline.normalize.stamp import Stamp

Json = dict[str, Any]


class MessagesAdapter(FramedAdapter):
    """One turn's Messages stream."""

    def __init__(self, *, stamp: Stamp, limits: Limits | None = None) -> None:
        super().__init__(stamp=stamp, limits=limits)
        self._blocks = Blocks(self._narrator)
        self._message: str | None = None
        self._stopped = False
        self._stop_reason = ""
        self._closing: Json = {}
        self._usage: list[Json] = []
        self._error: tuple[ErrorInfo, Json] | None = None
        self._handlers: dict[str, Callable[[Json], None]] = {
            "message_start": self._on_start,
            "content_block_start": self._blocks.start,
            "content_block_delta": self._blocks.delta,
            "content_block_stop": self._blocks.stop,
            "message_delta": self._on_delta,
            "message_stop": self._on_stop,
            "ping": self._on_ping,
            "error": self._on_error,
        }

    def _frame(self, frame: Json, name: str) -> None:
        kind = word_of(frame.get("type"))
        if not kind or (kind not in self._handlers and frame.get("error")):
            kind = "error" if frame.get("error") else name
            self._narrator.blame("", [unnamed(frame.get("type"))])
        handler = self._handlers.get(kind)
        if handler is None:
            self._narrator.status("unknown", detail=kind or None, wire={"event": frame})
            return
        self._narrator.blame(kind, shape_defects(kind, frame))
        if kind.startswith("content_block") and self._message is None:
            self._narrator.blame(kind, [defect("message_start_missing", "$", "message_start first", kind)])
            self._begin({})
        handler(frame)

    def _texts_of(self, frame: Json, event: TextDelta) -> list[object]:
        delta = object_of(frame.get("delta"))
        track, member = DELTAS.get(word_of(delta.get("type")), (None, ""))
        return [delta.get(member)] if track == event.track else []

    def _body(self, value: Any, data: bytes) -> None:
        """Read a whole message, or an error, in place of a stream."""
        whole = value[0] if isinstance(value, list) and value else value
        if isinstance(whole, dict) and isinstance(content := whole.get("content"), list):
            self._on_start({"message": {name: value for name, value in whole.items() if name != "content"}})
            for index, block in enumerate(content):
                self._blocks.start({"index": index, "content_block": block})
                self._blocks.stop({"index": index})
            self._on_delta({"delta": more_than(whole, "content", "usage", "id", "type", "role", "model")})
            self._stopped = True
        else:
            told = error_in_text(data, self._limits)
            if told is not None:
                self._error = (told, whole if isinstance(whole, dict) else {"body": whole})
        self._finish("the end of a whole answer")

    def _sentinel(self) -> None:
        self._narrator.status("unknown", detail="[DONE]")

    # messages

    def _on_start(self, frame: Json) -> None:
        message = object_of(frame.get("message"))
        name = word_of(message.get("id"))
        if self._message is None:
            self._begin(frame)
        elif self._stopped:
            self._next_round(message)
        elif not self._message and name:
            self._narrator.blame("message_start", [defect("message_start_late", "$", "message_start first", name)])
        elif name == self._message:
            self._narrator.blame("message_start", [defect("message_repeated", "$.message.id", "one message", name)])
            self._narrator.status("duplicate", wire={"event": frame})
            return
        else:
            self._error = (ending.SPLICED, frame)
            self._finish("another message")
            return
        self._message = name
        self._usage.append(ending.merge({}, object_of(message.get("usage"))))
        self._stop_reason = word_of(message.get("stop_reason"))

    def _begin(self, frame: Json) -> None:
        """Tell that the upstream answers, and what it calls itself."""
        message = object_of(frame.get("message"))
        self._message = word_of(message.get("id"))
        known = {name: message[name] for name in ("id", "model") if word_of(message.get(name))}
        shown = _shown(message)
        wire = {"response": known} | ({"message": shown} if shown else {})
        if rest := more_than(frame, "type", "message"):
            wire["event"] = rest
        self._narrator.status("upstream_started", wire=wire)

    def _next_round(self, message: Json) -> None:
        """Go on with another message of the same stream."""
        detail = {"stop_reason": self._stop_reason, "usage": self._usage[-1] if self._usage else None}
        self._blocks.drain(whole=True)
        wire = {"message_delta": self._closing} if self._closing else {}
        self._narrator.status("round_completed", detail=detail, wire={**wire, "message": _shown(message)})
        self._blocks.new_message()
        self._stopped = False
        self._closing = {}

    def _on_delta(self, frame: Json) -> None:
        delta = object_of(frame.get("delta"))
        self._stop_reason = word_of(delta.get("stop_reason")) or self._stop_reason
        usage = object_of(frame.get("usage"))
        self._usage[-1:] = [ending.merge(self._usage[-1] if self._usage else {}, usage)]
        told = {**more_than(delta, "stop_reason"), **more_than(frame, "type", "delta", "usage")}
        self._closing = {**self._closing, **told}

    def _on_stop(self, frame: Json) -> None:
        self._stopped = True
        self._closing = {**self._closing, **more_than(frame, "type")}

    def _on_ping(self, frame: Json) -> None:
        rest = more_than(frame, "type")
        self._narrator.status("keepalive", wire={"event": rest} if rest else None)

    def _on_error(self, frame: Json) -> None:
        told = error_in(frame, self._limits) or error_in({"error": frame}, self._limits)
        self._error = (told or ErrorInfo(code=UNNAMED), frame)
        self._finish("an error")

    # the end

    def _drain(self, *, whole: bool) -> None:
        self._blocks.drain(whole=whole)

    def _end(self, found: str | None) -> None:
        narrator = self._narrator
        error, wire = self._failure()
        reason = ending.INCOMPLETE.get(self._stop_reason)
        self._drain(whole=error is None and reason is None)
        wire |= {"message_delta": self._closing} if self._closing else {}
        if self._stop_reason:
            wire["stop_reason"] = self._stop_reason
        if told := [raw for raw in self._usage if raw]:
            wire["usage"] = told[0] if len(told) == 1 else told
        if found is None and not self._stopped:
            narrator.blame("", [defect("terminal_missing", "$", "message_stop", "the end of the body")])
        usage = ending.public_usage(self._usage)
        if error is not None:
            narrator.fail(error, usage, wire)
        else:
            narrator.complete("incomplete" if reason else "completed", reason, usage, wire)

    def _failure(self) -> tuple[ErrorInfo | None, Json]:
        """Why the turn failed, if it did: what the upstream said, else what is missing."""
        if self._error is not None:
            return self._error[0], {"error_event": self._error[1]}
        if self._stop_reason:
            return None, {}
        beside = self._beside()
        if (told := self._told_elsewhere()) is not None:
            return told, beside
        return (ending.EMPTY if self._message is None else ending.TRUNCATED), beside


def _shown(message: Json) -> Json:
    """What a message's start tells beside what has a place of its own."""
    return more_than(message, "usage", "stop_reason", "stop_sequence")
