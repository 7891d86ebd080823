"""Calls of a Gemini answer: functions, whole or argument by argument, and tools that the upstream runs itself.

Arguments come as JSON values and not as text, so there is nothing verbatim to pass: a call's input is its compact JSON, told
in one piece when the call is whole.
"""

from typing import Any

import msgspec

from pipeline.normalize.defects import defect, word_of
from pipeline.normalize.gemini.arguments import Arguments
from pipeline.normalize.narrator import Narrator

Json = dict[str, Any]


class _Call:
    """A call that was told as started and not yet as finished."""

    __slots__ = ("call_id", "item", "kind", "name", "signature", "text")

    def __init__(self, item: int, call_id: str, name: str, kind: str) -> None:
        self.item = item
        self.call_id = call_id
        self.name = name
        self.kind = kind
        self.text = ""
        self.signature = ""


class Calls:
    """The calls of one turn; at most one function streams its arguments at a time."""

    def __init__(self, narrator: Narrator) -> None:
        self._narrator = narrator
        self._streaming: tuple[_Call, Arguments] | None = None
        self._served: dict[str, _Call] = {}

    def function(self, call: Json, wire: Json) -> None:
        """A function is called, or its arguments go on."""
        name = word_of(call.get("name"))
        more = call.get("willContinue") is True
        pieces = call.get("partialArgs")
        if name:
            self._end_streaming(whole=True)
            begun = self._start(name, word_of(call.get("id")), "function", "call", wire)
            begun.signature = word_of(wire.get("part", {}).get("thoughtSignature"))
            self._streaming = (begun, Arguments(self._narrator.limits))
        elif self._streaming is not None and wire:
            self._narrator.status("metadata", self._streaming[0].item, wire=wire)
        if self._streaming is None:
            why = defect("item_unknown", "$.functionCall.name", "a call that goes on", call)
            self._narrator.status("ignored", detail={"event": "functionCall"}, wire={"call": call, "defects": [why]})
            return
        _, arguments = self._streaming
        if (args := call.get("args")) is not None:
            self._take_args(arguments, args)
        if isinstance(pieces, list):
            for piece in pieces:
                if (why_not := arguments.take(piece)) is not None:
                    self._narrator.blame("partialArgs", [why_not])
        self._narrator.keep(0, arguments.chars)
        if not more:
            self._end_streaming(whole=True)

    def served(self, kind: str, call: Json, wire: Json) -> None:
        """The upstream runs code, or a tool of its own."""
        if kind == "executableCode":
            begun = self._start(
                "code_execution", word_of(call.get("id")), "code_interpreter", "code", wire | _rest(call)
            )
            begun.text = word_of(call.get("code"))
        else:
            name = word_of(call.get("toolType")) or word_of(call.get("name")) or "tool"
            begun = self._start(name, word_of(call.get("id")), "server", "call", wire)
            args = call.get("args")
            begun.text = _json(args) if args is not None else ""
        self._narrator.keep(len(begun.text), len(begun.text))
        if begun.text:
            self._narrator.tool_input(begun.item, begun.text)
        self._served[begun.call_id] = begun

    def answered(self, kind: str, answer: Json, wire: Json) -> None:
        """What ran upstream has come to its end."""
        call = self._find(word_of(answer.get("id")), "code_interpreter" if kind == "codeExecutionResult" else "server")
        if call is None:
            why = defect("item_unknown", f"$.{kind}", "the result of something that was started", answer)
            self._narrator.status("unknown", wire={**wire, kind: answer, "defects": [why]})
            return
        del self._served[call.call_id]
        outcome = word_of(answer.get("outcome"))
        failed = outcome not in {"", "OUTCOME_OK"} or answer.get("error") is not None
        output = answer.get("output") if kind == "codeExecutionResult" else answer.get("response", answer.get("error"))
        rest = {name: value for name, value in answer.items() if name not in {"id", "output", "response"}}
        status = "failed" if failed else "completed"
        self._narrator.tool_finished(
            call.item, call.call_id, status, call.text, output=output, wire={**wire, **_named(kind, rest)}
        )

    def end(self, *, whole: bool) -> None:
        """The turn is over: finish the calls that are open."""
        self._end_streaming(whole=whole)
        for call in self._served.values():
            self._narrator.tool_finished(call.item, call.call_id, "incomplete", call.text)
        self._served.clear()

    def _start(self, name: str, told_id: str, kind: str, prefix: str, wire: Json) -> _Call:
        self._narrator.end_text()
        item = self._narrator.new_item()
        call_id = told_id or f"{prefix}_{item}"
        if call_id in self._served:
            call_id = f"{prefix}_{item}"
        self._narrator.tool_started(item, call_id, name, kind, wire)
        return _Call(item, call_id, name, kind)

    def _find(self, told_id: str, kind: str) -> _Call | None:
        if told_id in self._served:
            return self._served[told_id]
        return next((call for call in self._served.values() if call.kind == kind), None)

    def _take_args(self, arguments: Arguments, args: object) -> None:
        if isinstance(args, dict):
            arguments.value |= args
            arguments.chars += len(msgspec.json.encode(args))
        else:
            self._narrator.blame("call", [defect("member_invalid", "$.functionCall.args", "an object", args)])

    def _end_streaming(self, *, whole: bool) -> None:
        streaming, self._streaming = self._streaming, None
        if streaming is None:
            return
        call, arguments = streaming
        if (why := arguments.settle()) is not None:
            self._narrator.blame("partialArgs", [why])
        text = _json(arguments.value)
        self._narrator.keep(len(text), len(text))
        self._narrator.tool_input(call.item, text)
        status = "completed" if whole else "incomplete"
        wire = {"item": _signed(call, status, text)} if call.signature else None
        self._narrator.tool_finished(call.item, call.call_id, status, text, wire=wire)


def _signed(call: _Call, status: str, text: str) -> Json:
    """A call as its client must be able to send it back: with the signature that the upstream wants to see again."""
    told = {"status": status, "call_id": call.call_id, "name": call.name, "arguments": text}
    return {"type": "function_call", **told, "thought_signature": call.signature}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _rest(code: Json) -> Json:
    """What the canonical members do not hold of a piece of code."""
    return _named("executableCode", {name: value for name, value in code.items() if name not in {"code", "id"}})


def _named(name: str, members: Json) -> Json:
    return {name: members} if members else {}
