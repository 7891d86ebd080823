"""The parts of a chunk: text, thoughts, calls, code that the upstream ran, and whatever else one may hold."""

from typing import Any

from pipeline.normalize.defects import defect, word_of
from pipeline.normalize.gemini.calls import Calls
from pipeline.normalize.narrator import Narrator, without

Json = dict[str, Any]
_SERVED = (("executableCode", "codeExecutionResult"), ("toolCall", "toolResponse"))


class Parts:
    """Tells the parts of a turn's chunks; `extra` is what rides with the next event."""

    def __init__(self, narrator: Narrator, calls: Calls) -> None:
        self.extra: Json = {}
        self._narrator = narrator
        self._calls = calls

    def take(self, parts: object, path: str) -> None:
        """Tell the parts of one content; none at all is nothing."""
        if parts is None:
            return
        if not isinstance(parts, list):
            self._narrator.blame("content", [defect("member_invalid", path, "a list", parts)])
            return
        for position, part in enumerate(parts):
            if self._narrator.exceeded is not None:
                return
            if isinstance(part, dict):
                self._part(part)
            else:
                self._narrator.blame("part", [defect("member_invalid", f"{path}[{position}]", "an object", part)])

    def end(self, *, whole: bool) -> None:
        """The turn is over: finish what is open."""
        self._narrator.end_text()
        self._calls.end(whole=whole)

    def _part(self, part: Json) -> None:
        text = part.get("text")
        if isinstance(text, str):
            self._text(part, text)
        elif text is not None:
            self._narrator.blame("part", [defect("member_invalid", "$.text", "a string", text)])
        call = part.get("functionCall")
        if isinstance(call, dict):
            self._calls.function(call, self._wire(without(part, "functionCall")))
        for asked, answered in _SERVED:
            if isinstance(told := part.get(asked), dict):
                self._calls.served(asked, told, self._wire(without(part, asked)))
            if isinstance(told := part.get(answered), dict):
                self._calls.answered(answered, told, self._wire(without(part, answered)))
        known = ("text", "functionCall", *(name for pair in _SERVED for name in pair))
        if not any(isinstance(part.get(name), (dict, str)) for name in known):
            self._other(part)

    def _text(self, part: Json, text: str) -> None:
        thought = part.get("thought") is True
        rest = without(part, "text", "thought") if thought else without(part, "text")
        if text:
            self._narrator.text("reasoning" if thought else "text", text, self._wire(rest))
        elif rest:  # an empty text carries a signature of what came before it
            run = self._narrator.run
            if run is not None:
                run.wire = {**run.wire, "part": {**run.wire.get("part", {}), **rest}}
            else:
                self._narrator.status("signature", wire=self._wire(rest))

    def _other(self, part: Json) -> None:
        """Anything else is told whole; media are output of their own and end a text."""
        media = next((name for name in ("inlineData", "fileData") if name in part), None)
        if media is not None:
            self._narrator.end_text()
        name = "item" if media is not None else "unknown"
        kind = word_of(part[media].get("mimeType")) if media and isinstance(part[media], dict) else None
        self._narrator.status(name, detail={"media": kind} if kind else None, wire=self._wire(part))

    def _wire(self, rest: Json) -> Json:
        """What rides with the event of a part: the rest of the part, and what its chunk said for the first time."""
        wire: Json = {"part": rest} if rest else {}
        if self.extra:
            wire["chunk"] = self.extra
            self.extra = {}
        return wire
