"""An ACP agent's lines to canonical events: the updates of one prompt, up to the response that ends it.

Agents number their own requests as they like, also as we number ours: a message with a `method` is the agent's, one without
is a response. Which response is the prompt's, whoever sent the prompt says by `prompt_id`; without it, it is the one with a
`stopReason`, or an error. Version 2 of the protocol answers the prompt at once and ends it with a `state_update`.

What is no message (agents write log lines on their standard output) is told as a status and changes nothing.
"""

from typing import Any, cast

from pipeline.errors import MisuseError
from pipeline.events import ErrorInfo, Event
from pipeline.limits import Limits
from pipeline.normalize.acp.ending import error_of, usage_of, verdict_of
from pipeline.normalize.acp.messages import Messages
from pipeline.normalize.acp.tools import Tools
from pipeline.normalize.defects import Defect, defect, word_of
from pipeline.normalize.jsonl import LineSplitter
from pipeline.normalize.leniency import read_object
from pipeline.normalize.narrator import TRUNCATED, Narrator, without
from pipeline.normalize.stamp import Stamp

Json = dict[str, Any]

# What an agent says beside its output; their names are statuses of their own. Any other name is `unknown`.
BESIDE = frozenset(
    {
        "user_message_chunk",
        "user_message",
        "plan",
        "plan_update",
        "plan_removed",
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
        "state_update",
        "notice",
        "tool_call_content_chunk",
        "terminal_update",
        "terminal_output_chunk",
        "compaction_update",
    }
)
_CANCELLED = -32800


class AcpAdapter:
    """One turn of an agent: `feed` its standard output at any cut, `close` it when the agent has gone."""

    def __init__(self, *, stamp: Stamp, limits: Limits | None = None) -> None:
        self.ended = False
        self.late = 0
        self.unsure = False
        self.prompt_id: int | str | None = None
        self._limits = limits or Limits()
        self._narrator = Narrator(stamp, self._limits)
        self._messages = Messages(self._narrator)
        self._tools = Tools(self._narrator)
        self._lines = LineSplitter(self._limits)
        self._began = False
        self._accepted = False
        self._closed = False

    def feed(self, data: bytes) -> list[Event]:
        """Take bytes; give the events that they complete."""
        if self._closed:
            raise MisuseError("fed after close")
        for line in self._lines.feed(data):
            self._line(line)
        return self._given()

    def close(self) -> list[Event]:
        """The agent has gone: give what is still open, and a terminal if there was none."""
        if self._closed:
            raise MisuseError("closed twice")
        self._closed = True
        for line in self._lines.close():
            self._line(line)
        events = self._given()
        if self.ended:
            return events
        self._drain("unknown")
        why = defect("terminal_missing", "$", "the response to the prompt", "the end of the agent's output")
        self._narrator.blame("", [why])
        self._narrator.fail(ErrorInfo(code=TRUNCATED, message="the agent ended before it answered the prompt"))
        return events + self._narrator.take()

    def _given(self) -> list[Event]:
        limit = self._lines.exceeded or self._narrator.exceeded
        if limit is not None and not self.ended:
            self._drain("unknown")
            self._narrator.fail_by_limit(limit)
        return self._narrator.take()

    def _drain(self, status: str) -> None:
        """Finish what is open, in the order of the items; a tool ends the text before it, so an open text is the last."""
        self.ended = True
        self._tools.end(status)
        self._narrator.end_text()

    def _line(self, line: bytes) -> None:
        if self.ended or self._narrator.exceeded is not None:
            self.late += 1
            return
        narrator = self._narrator
        message, why = read_object(line, self._limits.json_depth)
        if message is None:
            wire = {"line": line.decode("utf-8", "replace"), "defects": [why] if why is not None else []}
            narrator.status("unknown", wire=wire)
            return
        narrator.blame("", [why] if why is not None else [])
        told = len(narrator.out)
        if isinstance(message.get("method"), str):
            self._call(message)
        elif "id" in message and ("result" in message or "error" in message):
            self._response(message)
        else:
            why = defect("message_invalid", "$", "a request, a notification or a response", message)
            narrator.status("unknown", wire={"message": message, "defects": [why]})
        if len(narrator.out) == told:
            narrator.tell_untold()

    # what the agent calls

    def _call(self, message: Json) -> None:
        method = message["method"]
        params = message.get("params")
        if method == "session/update":
            self._update(message, params)
        elif method == "session/request_permission":
            item = None
            if isinstance(params, dict) and isinstance(call := params.get("toolCall"), dict):
                item = self._tools.take("tool_call_update", call)
            self._narrator.status("requires_action", item, wire={"request": message})
        elif "id" in message:
            self._narrator.status("client_request", detail={"method": method}, wire={"request": message})
        else:
            self._narrator.status("unknown", wire={"message": message})

    def _update(self, message: Json, params: object) -> None:
        narrator = self._narrator
        update = params.get("update") if isinstance(params, dict) else None
        kind = word_of(update.get("sessionUpdate")) if isinstance(update, dict) else ""
        if not isinstance(params, dict) or not isinstance(update, dict) or not kind:
            why = defect("member_missing", "$.params.update.sessionUpdate", "the kind of update", message.get("params"))
            narrator.status("unknown", wire={"message": message, "defects": [why]})
            return
        beside = without(params, "sessionId", "update")
        if beside:
            update["params"] = beside
        if self._messages.take(kind, update):
            return
        if kind in {"tool_call", "tool_call_update"}:
            if self._tools.take(kind, update) is None:
                narrator.status("unknown", wire={"update": update, "defects": [self._nameless(update)]})
        elif kind == "state_update" and update.get("state") == "idle" and self._ends(update):
            self._end(word_of(update.get("stopReason")) or "end_turn", update)
        else:
            narrator.status(kind if kind in BESIDE else "unknown", wire={"update": update})

    def _nameless(self, update: Json) -> Defect:
        return defect("member_missing", "$.params.update.toolCallId", "a non-empty string", update.get("toolCallId"))

    def _ends(self, update: Json) -> bool:
        return self._accepted or isinstance(update.get("stopReason"), str)

    # responses to what we called

    def _response(self, message: Json) -> None:
        result, error = message.get("result"), message.get("error")
        is_prompts = self.prompt_id is None or message.get("id") == self.prompt_id
        if not isinstance(result, dict) and error is None:
            error = {"message": "the agent's response has no result"} if is_prompts and self.prompt_id else None
        if error is not None:
            if is_prompts:
                self._fail(error, message)
            return
        if not isinstance(result, dict):
            return
        if is_prompts and isinstance(stop := result.get("stopReason"), str):
            self._end(stop, result)
        elif is_prompts and not result:
            self._accepted = True
        elif word_of(result.get("sessionId")) and not self._began:
            self._began = True
            self._narrator.status("upstream_started", wire={"response": {"id": result["sessionId"]}, "result": result})

    def _end(self, stop: str, told: Json) -> None:
        verdict = verdict_of(stop)
        usage = usage_of(told)
        wire = {"result": told}
        if verdict.outcome == "cancelled":
            self._drain("cancelled")
            self._narrator.cancel(usage, wire)
            return
        self._drain("unknown")
        if not verdict.known:
            self._narrator.blame("", [defect("member_invalid", "$.result.stopReason", "a known reason", stop)])
        outcome = "completed" if verdict.outcome == "completed" else "incomplete"
        self._narrator.complete(cast("Any", outcome), verdict.reason, usage, wire)

    def _fail(self, error: object, message: Json) -> None:
        wire = {"error_event": without(message, "jsonrpc")}
        if isinstance(error, dict) and error.get("code") == _CANCELLED:
            self._drain("cancelled")
            self._narrator.cancel(wire=wire)
            return
        self._drain("unknown")
        self._narrator.fail(error_of(error, self._limits.error_message_chars), wire=wire)
