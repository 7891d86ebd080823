"""The Chat Completions stream to canonical events, for the servers as they are and not only for the one that made it.

The wire knows no blocks: an item begins whenever the kind of output changes, and a call is an item. `finish_reason` does not
end the stream, since usage and errors follow it; `[DONE]` does, or the end of the body, and one of both must come: a stream
without either was cut. An error, wherever it stands, ends the turn at once; text before it is kept.
"""

from typing import Any

from pipeline.events import ErrorInfo, TextDelta, Track
from pipeline.limits import Limits
from pipeline.normalize.alike import Alike
from pipeline.normalize.chat import ending
from pipeline.normalize.chat.delta import (
    REASONING,
    Delta,
    News,
    choice_defects,
    chunk_defects,
    entry_defects,
    is_chunk,
    is_error,
    read_delta,
    says,
)
from pipeline.normalize.chat.tools import Call, Calls, Piece
from pipeline.normalize.defects import defect, word_of
from pipeline.normalize.failures import UNNAMED, error_in, error_in_text
from pipeline.normalize.framed import FramedAdapter
from pipeline.normalize.slots import Slot, call_status
from pipeline.normalize.stamp import Stamp

Json = dict[str, Any]
_MEMBERS = {"text": "content", "refusal": "refusal"}


class ChatAdapter(FramedAdapter):
    """One turn's Chat Completions stream."""

    def __init__(self, *, stamp: Stamp, limits: Limits | None = None) -> None:
        super().__init__(stamp=stamp, limits=limits)
        self._calls = Calls()
        self._news = News()
        self._open: list[Slot] = []
        self._begun = False
        self._seen = False
        self._told = False
        self._reason = ""
        self._usage: Json | None = None
        self._error: tuple[ErrorInfo, Json] | None = None
        self._copy: Json = {}
        self._copied = 0
        self._whole = False
        self._streamed: list[str] = []

    # frames

    def _frame(self, frame: Json, name: str) -> None:
        if not is_chunk(frame) and not is_error(frame, name):
            event = name or word_of(frame.get("object")) or None
            self._narrator.status("unknown", detail=event, wire={"event": frame})
            return
        if is_chunk(frame):
            self._chunk(frame, whole=False)
        if is_error(frame, name):
            self._fail(frame)
        elif self._error is not None:
            self._finish("an error")

    def _texts_of(self, frame: Json, event: TextDelta) -> list[object]:
        """A piece of a call that has a name is asked about each time, and so is whatever comes behind a reason."""
        if self._reason or self._copy:
            return []
        choices = [one for one in frame["choices"] if isinstance(one, dict)]
        delta: Json = next((one["delta"] for one in choices if isinstance(one.get("delta"), dict)), {})
        if event.track in _MEMBERS:
            return [delta.get(_MEMBERS[event.track])]
        if event.track == "reasoning":  # details are compared with the text each time
            return [] if delta.get("reasoning_details") else [delta[name] for name in REASONING if delta.get(name)]
        pieces = delta.get("tool_calls")
        piece = Piece(pieces[0]) if pieces and len(pieces) == 1 else None
        return [piece.arguments] if piece is not None and not piece.name else []

    def _again(self, like: Alike, text: str) -> None:
        super()._again(like, text)
        if like.event.track == "text":
            self._streamed.append(text)

    def _body(self, value: Any, data: bytes) -> None:
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, dict) and is_chunk(first):
            self._chunk(first, whole=True)
        if isinstance(first, dict) and is_error(first, ""):
            self._fail(first)
        elif (told := error_in_text(data, self._limits)) is not None and not self._seen:
            self._error = (told, first if isinstance(first, dict) else {"body": first})
            self._finish("an error")
        else:
            self._finish("the end of a whole answer")

    def _sentinel(self) -> None:
        self._finish("[DONE]")

    def _chunk(self, frame: Json, *, whole: bool) -> None:
        """Read one chunk: its usage, its choices, then whatever is left of it."""
        narrator = self._narrator
        self._seen = True
        self._whole = whole
        given = frame.get("choices")
        choices = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
        self._usage = ending.usage_in(frame, choices) or self._usage
        rest = self._news.of_chunk(frame)
        if rest:
            narrator.rest["chunk"] = {**narrator.rest.get("chunk", {}), **rest}
        if not whole:
            narrator.blame("chunk", chunk_defects(frame))
        if not self._begun:
            if not (choices or frame.get("id")):
                return  # some servers begin with a chunk that names nothing; the next one does
            self._begin(frame)
        for position, choice in enumerate(choices):
            index = choice.get("index")
            if index is not None and (type(index) is not int or index != 0):
                found = defect("choice_ignored", f"$.choices[{position}].index", "0", index)
                narrator.blame("choice", [found])
                continue
            if not whole:
                narrator.blame("choice", choice_defects(choice, position))
            self._choice(choice)
        narrator.tell_rest()

    def _begin(self, frame: Json) -> None:
        """Tell that the upstream answers, and what it calls itself."""
        self._begun = True
        known = {name: frame[name] for name in ("id", "model") if word_of(frame.get(name))}
        self._narrator.status("upstream_started", wire={"response": known, **self._narrator.take_rest()})

    def _choice(self, choice: Json) -> None:
        narrator = self._narrator
        done = self._reason
        self._reason = self._reason or ending.reason_in(choice)
        error = error_in(choice, self._limits) if choice.get("error") else None
        if error is not None and self._error is None:
            self._error = (error, {"error": choice["error"]})
        body, message = choice.get("delta"), choice.get("message")
        body = body if isinstance(body, dict) else None
        if isinstance(message, dict):
            if body is None and not self._streamed and not self._calls.all:
                body = message
            else:
                self._copy = message  # a copy of all so far, beside the delta; the last one is compared
        delta = read_delta(body or {}, news=self._news)
        rest = self._news.of_choice(choice)
        logprobs = _logprobs(choice.get("logprobs"))
        if logprobs and not (delta.text and set(logprobs) == {"content"}):
            rest["logprobs"] = logprobs
        if delta.annotations and not (delta.text or (self._open and self._open[0].track != "reasoning")):
            delta.rest["annotations"] = delta.annotations  # there is no text that they could be of
            delta.annotations = []
        for name, members in (("choice", rest), ("delta", delta.rest)):
            if members:
                narrator.rest[name] = {**narrator.rest.get(name, {}), **members}
        self._tell(delta, logprobs)
        if done and (delta.text or delta.reasoning or delta.refusal or delta.tools):
            self.unsure = True
        if message is self._copy:
            self._copied = len(self._streamed)

    def _tell(self, delta: Delta, logprobs: Json) -> None:
        """Tell what a delta says, in the order in which a model makes it."""
        if delta.reasoning:
            self._text("reasoning", 0, delta.reasoning, {})
        if delta.text:
            tokens = logprobs.get("content")
            self._streamed.append(delta.text)
            self._text("text", 0, delta.text, {"logprobs": tokens} if isinstance(tokens, list) else {})
        for annotation in delta.annotations if self._open else ():
            self._narrator.status("annotation", self._open[0].item, wire={"annotation": annotation})
        if delta.refusal:
            self._text("refusal", 1, delta.refusal, {})
        for place, entry in enumerate(delta.tools):
            if not self._whole:
                self._narrator.blame("call", entry_defects(entry, place))
            self._call(Piece(entry))

    # texts

    def _text(self, track: Track, content: int, text: str, wire: Json) -> None:
        """Tell of text: it goes on with what is open, or ends that and begins an item."""
        slot = next((one for one in self._open if one.track == track), None)
        if slot is None:
            if self._open and (self._open[0].track == "reasoning" or track == "reasoning"):
                self._close()
            item = self._open[0].item if self._open else self._narrator.new_item()
            slot = Slot(item, content, track)
            self._open.append(slot)
        self._narrator.keep_in(slot, text)
        self._narrator.delta(slot, text, wire)

    def _close(self) -> None:
        """End the open item: its texts, each with its final word."""
        slots, self._open = self._open, []
        for slot in slots:
            self._narrator.final(slot)
        if slots:
            self._narrator.status("item_finished", slots[0].item)

    # calls

    def _call(self, piece: Piece) -> None:
        narrator = self._narrator
        call = self._calls.find(piece)
        if call is None:
            self._close()
            call = self._calls.add(narrator.new_item())
        self._calls.bind(call, piece)
        if piece.name not in {"", call.name}:
            piece.rest["name"] = piece.name
        if piece.rest:
            narrator.rest["call"] = {"item": call.item, **piece.rest}
        if piece.arguments:
            narrator.keep_in(call.slot, piece.arguments)
            if call.started:
                narrator.delta(call.slot, piece.arguments)
                return
            call.held.append(piece.arguments)
            if call.slot.chars > self._limits.held_input_chars and not call.name:
                narrator.exceeded = "held_input_chars"
        if not call.started and call.name and (call.id or call.arguments):
            self._start(call)

    def _start(self, call: Call) -> None:
        """Tell that a call started, then give the arguments that waited for its name."""
        narrator = self._narrator
        call.started = True
        if not call.id or not call.name:
            missing = "name" if call.id else "id"
            narrator.blame(
                "call", [defect("member_missing", f"$.choices[0].delta.tool_calls[0].{missing}", "a word", "")]
            )
        kind = "custom" if call.kind == "custom" else "function"
        narrator.tool_started(call.item, call.call_id, call.name, kind, narrator.take_rest())
        for text in call.held:
            narrator.delta(call.slot, text)
        call.held.clear()

    # the end

    def _drain(self, *, whole: bool) -> None:
        """Finish what is open, in the order of the items. A call ends the text before it, so an open text is the last."""
        narrator = self._narrator
        slots, self._open = self._open, []
        for call in self._calls.all:
            if not call.started:
                self._start(call)
            text = call.slot.text
            narrator.tool_finished(call.item, call.call_id, call_status(text, whole=whole), text)
        for slot in slots:
            narrator.final(slot)

    def _fail(self, frame: Json) -> None:
        """End the turn by an error frame."""
        error = error_in(frame, self._limits) or error_in({"error": frame}, self._limits)
        self._error = (error or ErrorInfo(code=UNNAMED), frame)
        self._finish("an error")

    def _end(self, found: str | None) -> None:
        narrator = self._narrator
        if narrator.rest and not self._begun:
            self._begin({})
        error, wire = self._failure(found)
        self._drain(whole=error is None and self._reason.lower() not in ending.INCOMPLETE)
        self._compare()
        if self._reason:
            wire["finish_reason"] = self._reason
        if self._usage is not None:
            wire["usage"] = self._usage
        copied = {name: value for name, value in self._copy.items() if name not in {"role", "content"} and says(value)}
        if copied:
            wire["message"] = copied
        if found is None:
            narrator.blame("", [defect("terminal_missing", "$", "[DONE]", "the end of the body")])
        usage = ending.public_usage(self._usage)
        if error is not None:
            narrator.fail(error, usage, wire)
            return
        if not self._reason:
            wire["finish_missing"] = True
            narrator.blame("", [defect("finish_missing", "$.choices[0].finish_reason", "a reason", None)])
        reason = ending.INCOMPLETE.get(self._reason.lower())
        narrator.complete("incomplete" if reason else "completed", reason, usage, wire)

    def _failure(self, found: str | None) -> tuple[ErrorInfo | None, Json]:
        """Why the turn failed, if it did: what the upstream said, else what is missing."""
        if self._error is not None:
            error, frame = self._error
            return error, {"error_event": {name: value for name, value in frame.items() if name != "choices"}}
        if self._reason.lower() in ending.FAILED:
            return ending.FAILED[self._reason.lower()], {}
        if self._reason:
            return None, {}
        told = self._told_elsewhere()
        beside = self._beside()
        if told is not None:
            return told, beside
        if not self._seen:
            return ending.EMPTY, beside
        return (ending.TRUNCATED if found is None else None), beside

    def _compare(self) -> None:
        """Tell where the server's own copy of the whole message differs from what it streamed."""
        text, streamed = self._copy.get("content"), "".join(self._streamed[: self._copied])
        if isinstance(text, str) and text not in {"", streamed}:
            detail = {"track": "text", "streamed": len(streamed), "chars": len(text)}
            self._narrator.status("mismatch", detail=detail, wire={"message": self._copy})


def _logprobs(given: Any) -> Json:
    return {name: value for name, value in given.items() if says(value)} if isinstance(given, dict) else {}
