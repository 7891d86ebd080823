"""The Gemini `streamGenerateContent` stream to canonical events, as server-sent events or as one JSON array.

The wire has no indexes, no marks of beginning or end of a text, and no sentinel: the end of the body ends the turn, and what
it means is what the last `finishReason` said (older servers repeat STOP on every chunk). Errors come as a data frame, as a
body that is JSON, or as bare lines of JSON after the events.

Members of a chunk that no canonical member holds (safety ratings, grounding, citations, signatures, versions) ride with the
chunk's first event as `wire["chunk"]`, each value once.
"""

from typing import Any

from pipeline.errors import MisuseError
from pipeline.events import ErrorInfo, Event
from pipeline.limits import Limits
from pipeline.normalize.defects import defect, word_of
from pipeline.normalize.failures import error_in, error_in_text
from pipeline.normalize.gemini.calls import Calls
from pipeline.normalize.gemini.ending import Verdict, usage_of, verdict_of
from pipeline.normalize.gemini.parts import Parts
from pipeline.normalize.jsonarray import ObjectSplitter
from pipeline.normalize.leniency import read_object
from pipeline.normalize.narrator import TRUNCATED, Narrator, without
from pipeline.normalize.opening import Opening
from pipeline.normalize.sse import DONE, SseSplitter
from pipeline.normalize.stamp import Stamp

Json = dict[str, Any]


class GeminiAdapter:
    """One turn's Gemini answer: `feed` its bytes at any cut, `close` it at the body's end."""

    def __init__(self, *, stamp: Stamp, limits: Limits | None = None) -> None:
        self.ended = False
        self.late = 0
        self.unsure = False
        self._limits = limits or Limits()
        self._narrator = Narrator(stamp, self._limits)
        self._parts = Parts(self._narrator, Calls(self._narrator))
        self._events = SseSplitter(self._limits)
        self._objects: ObjectSplitter | None = None
        self._opening = Opening()
        self._closed = False
        self._began = False
        self._seen: Json = {}
        self._finish = ""
        self._finished: Json = {}
        self._feedback: Json = {}
        self._usage: Json | None = None

    def feed(self, data: bytes) -> list[Event]:
        """Take bytes; give the events that they complete."""
        if self._closed:
            raise MisuseError("fed after close")
        if not self._opening.is_known:
            data = self._opening.feed(data)
            self._objects = ObjectSplitter(self._limits) if self._opening.is_json else None
        self._take(data)
        return self._given()

    def close(self) -> list[Event]:
        """The body has ended: give what is still open, and the terminal that the body's end is."""
        if self._closed:
            raise MisuseError("closed twice")
        self._closed = True
        self._take(self._opening.close())
        for event in self._events.close():
            self._frame(event.data)
        rest = self._objects.rest if self._objects is not None else b""
        if rest and not self.ended:
            self._narrator.blame("", [defect("frame_malformed", "$", "a whole object", rest)])
        if not self._given_limit() and not self.ended:
            self._end(error_in_text(b"\n".join(self._events.leftover), self._limits))
        return self._narrator.take()

    def _given(self) -> list[Event]:
        self._given_limit()
        return self._narrator.take()

    def _given_limit(self) -> bool:
        """End the turn if a bound is exceeded; say whether it was."""
        narrator = self._narrator
        limit = self._events.exceeded or narrator.exceeded
        limit = limit or (self._objects.exceeded if self._objects is not None else None)
        if limit is None or self.ended:
            return False
        self.ended = True
        self._parts.end(whole=False)
        narrator.fail_by_limit(limit)
        return True

    def _take(self, data: bytes) -> None:
        if self._objects is not None:
            for one in self._objects.feed(data):
                self._frame(one)
            return
        for event in self._events.feed(data):
            self._frame(event.data)

    def _frame(self, data: bytes) -> None:
        """Handle one chunk."""
        stripped = data.strip()
        if not stripped or stripped == DONE:  # some gateways add the sentinel of another wire
            return
        if self.ended or self._narrator.exceeded is not None:
            self.late += 1
            return
        frame, why = read_object(data, self._limits.json_depth)
        if why is not None:
            self._narrator.blame("", [why])
        if frame is None:
            self._narrator.tell_untold()
        elif (error := error_in(frame, self._limits)) is not None:
            self._fail(error, frame)
        else:
            self._chunk(frame)

    def _chunk(self, frame: Json) -> None:
        narrator = self._narrator
        told = len(narrator.out)
        if not ({"candidates", "promptFeedback", "usageMetadata", "responseId", "modelVersion"} & frame.keys()):
            narrator.status("unknown", wire={"chunk": frame})
            return
        self._begin(frame)
        usage = frame.get("usageMetadata")
        if isinstance(usage, dict):
            self._usage = {**(self._usage or {}), **usage}
        elif usage is not None:
            narrator.blame("chunk", [defect("member_invalid", "$.usageMetadata", "an object", usage)])
        if isinstance(feedback := frame.get("promptFeedback"), dict):
            self._feedback = feedback
        self._parts.extra = self._news(without(frame, "candidates", "usageMetadata", "promptFeedback"))
        candidates = frame.get("candidates")
        if isinstance(candidates, list):
            for position, candidate in enumerate(candidates):
                self._candidate(candidate, position)
        elif candidates is not None:
            narrator.blame("chunk", [defect("member_invalid", "$.candidates", "a list", candidates)])
        if self._parts.extra:
            if len(narrator.out) == told and self._finish:
                self._finished |= self._parts.extra
            else:
                narrator.status("metadata", wire={"chunk": self._parts.extra})
            self._parts.extra = {}
        if len(narrator.out) == told:
            narrator.tell_untold()

    def _begin(self, frame: Json) -> None:
        """Tell that the upstream started, at the first chunk of all."""
        if self._began:
            return
        self._began = True
        response = {
            ours: frame[theirs]
            for ours, theirs in (("id", "responseId"), ("model", "modelVersion"))
            if word_of(frame.get(theirs))
        }
        self._seen |= {name: frame[name] for name in ("responseId", "modelVersion") if name in frame}
        self._narrator.status("upstream_started", wire={"response": response} if response else None)

    def _candidate(self, candidate: object, position: int) -> None:
        narrator = self._narrator
        path = f"$.candidates[{position}]"
        if not isinstance(candidate, dict):
            narrator.blame("candidate", [defect("member_invalid", path, "an object", candidate)])
            return
        if candidate.get("index", 0) not in (0, None):
            narrator.status("ignored", detail={"event": "candidate"}, wire={"candidate": candidate})
            return
        told, done = len(narrator.out), self._finish
        reason = candidate.get("finishReason")
        if isinstance(reason, str) and reason:
            self._finish = reason
            self._finished = {}
        elif reason is not None:
            narrator.blame("candidate", [defect("member_invalid", f"{path}.finishReason", "a string", reason)])
        content = candidate.get("content")
        extra = self._news(without(candidate, "content", "finishReason", "index"))
        if isinstance(content, dict):
            extra |= self._news(without(content, "parts", "role"))
            self._parts.extra |= extra
            self._parts.take(content.get("parts"), f"{path}.content.parts")
            self.unsure = self.unsure or (bool(done) and len(narrator.out) > told)
            return
        if content is not None:
            narrator.blame("candidate", [defect("member_invalid", f"{path}.content", "an object", content)])
        self._parts.extra |= extra

    def _news(self, members: Json) -> Json:
        """Those of a chunk's members that say something new."""
        news = {name: value for name, value in members.items() if self._seen.get(name) != value}
        self._seen |= news
        return news

    # the end

    def _end(self, told: ErrorInfo | None) -> None:
        self.ended = True
        narrator = self._narrator
        verdict = verdict_of(self._finish, self._feedback, word_of(self._finished.get("finishMessage")))
        if told is not None:
            verdict = Verdict("failed", error=told)
        self._parts.end(whole=verdict.outcome == "completed")
        wire: Json = {"finishReason": self._finish} if self._finish else {}
        wire |= {"chunk": self._finished} if self._finished else {}
        wire |= {"promptFeedback": self._feedback} if self._feedback else {}
        wire |= {"usageMetadata": self._usage} if self._usage else {}
        usage = usage_of(self._usage)
        if verdict.error is None:
            narrator.complete("incomplete" if verdict.reason else "completed", verdict.reason, usage, wire)
            return
        if verdict.error.code == TRUNCATED:
            why = defect("terminal_missing", "$", "a finishReason", "the end of the body")
            narrator.blame("", [why])
        narrator.fail(verdict.error, usage, wire)

    def _fail(self, error: ErrorInfo, frame: Json) -> None:
        """End the turn by an error among the chunks."""
        self.ended = True
        self._parts.end(whole=False)
        self._narrator.fail(error, usage_of(self._usage), {"error_event": frame})
