"""Reading one chunk: its texts, and what is left of it.

A member that stays the same from chunk to chunk is told once: what `wire` does not repeat is as it was before. Members that
are null or an empty text say nothing.
"""

from typing import Any

import msgspec

from pipeline.events import Track
from pipeline.normalize.defects import Defect, defect, index_of, word_of

Json = dict[str, Any]
REASONING = ("reasoning_content", "reasoning")
"""The members that servers call it by; some write both."""
_DETAIL_TEXTS = ("text", "summary")
_PARTS: dict[str, tuple[Track, str]] = {
    "text": ("text", "text"),
    "output_text": ("text", "text"),
    "refusal": ("refusal", "refusal"),
    "thinking": ("reasoning", "thinking"),
}
_CAN_BE_EMPTY = frozenset({str, list, dict})
_COMPLETION = "chat.completion"
_OF_CHUNK = frozenset({"choices", "usage", "error"})
_OF_CHOICE = frozenset({"index", "delta", "message", "finish_reason", "usage", "logprobs", "error"})
_OF_DELTA = frozenset(
    {"annotations", "content", "refusal", "tool_calls", "function_call", "reasoning_details", "role", *REASONING}
)


def says(value: object) -> bool:
    """Whether a member says anything: nulls and empty values fill the place of members that are not there."""
    return value is not None and (bool(value) or type(value) not in _CAN_BE_EMPTY)


class Delta(msgspec.Struct):
    """What one choice's delta says."""

    reasoning: str = ""
    text: str = ""
    refusal: str = ""
    tools: list[Json] = []
    annotations: list[Json] = []
    rest: Json = {}


class News:
    """Tells of members that differ from what was told of them before."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Any] = {}

    def of(self, place: str, members: Json, without: frozenset[str]) -> Json:
        """The members that are new or changed."""
        known = self._known
        fresh: Json = {}
        for name, value in members.items():
            if name in without or not says(value):
                continue
            key = (place, name)
            if key not in known or known[key] != value:
                known[key] = fresh[name] = value
        return fresh

    def of_chunk(self, frame: Json) -> Json:
        """What is new beside the choices."""
        return self.of("chunk", frame, _OF_CHUNK)

    def of_choice(self, choice: Json) -> Json:
        """What is new beside the delta."""
        return self.of("choice", choice, _OF_CHOICE)

    def of_role(self, delta: Json) -> Json:
        """The role, where it is not the assistant's or not known yet."""
        role = delta.get("role")
        return self.of("delta", {"role": role}, frozenset()) if role != "assistant" else {}


def is_chunk(frame: Json) -> bool:
    """Whether a frame is a chunk at all, or whatever a gateway sends beside."""
    return "choices" in frame or "usage" in frame or word_of(frame.get("object")).startswith(_COMPLETION)


def is_error(frame: Json, name: str) -> bool:
    """Whether a frame tells of a failure."""
    return bool(frame.get("error")) or frame.get("object") == "error" or frame.get("type") == "error" or name == "error"


def read_delta(delta: Json, *, news: News) -> Delta:
    """Read a delta, or a message in its place."""
    made = Delta(rest={name: value for name, value in delta.items() if name not in _OF_DELTA and says(value)})
    made.rest |= news.of_role(delta)
    _read_content(made, delta.get("content"))
    _read_reasoning(made, delta, news)
    refusal = delta.get("refusal")
    if isinstance(refusal, str):
        made.refusal = refusal or made.refusal
    elif refusal is not None:
        made.rest["refusal"] = refusal
    annotations = delta.get("annotations")
    if isinstance(annotations, list) and all(isinstance(one, dict) and word_of(one.get("type")) for one in annotations):
        made.annotations = [_annotation(one) for one in annotations]
    elif says(annotations):
        made.rest["annotations"] = annotations
    tools = delta.get("tool_calls")
    if isinstance(tools, list):
        made.tools = [entry for entry in tools if isinstance(entry, dict)]
    elif tools is not None:
        made.rest["tool_calls"] = tools
    if isinstance(call := delta.get("function_call"), dict):  # the form before `tool_calls`: one call, without an id
        made.tools = [*made.tools, {"index": 0, "function": call}]
    return made


def _annotation(given: Json) -> Json:
    """An annotation as the public stream has it: this wire nests what that one has flat."""
    kind = word_of(given.get("type"))
    nested = given.get(kind)
    return (
        {"type": kind, **{n: v for n, v in given.items() if n not in {"type", kind}}, **nested}
        if isinstance(nested, dict)
        else given
    )


def _read_content(made: Delta, content: object) -> None:
    """Text as it is, or the typed parts of it that some servers send."""
    if isinstance(content, str):
        made.text = content
        return
    if not isinstance(content, list):
        if content is not None:
            made.rest["content"] = content
        return
    others = []
    for part in content:
        track, text, rest = _part_of(part)
        if track == "reasoning":
            made.reasoning += text
        elif track == "refusal":
            made.refusal += text
        elif track == "text":
            made.text += text
        if rest:
            others.append(rest)
    if others:
        made.rest["content"] = others


def _part_of(part: Any) -> tuple[Track | None, str, Any]:
    """The text of a typed part, and what the part holds beside it."""
    if isinstance(part, str):
        return "text", part, None
    kind = word_of(part.get("type")) if isinstance(part, dict) else ""
    track, member = _PARTS.get(kind, (None, ""))
    if track is None:
        return None, "", part
    inner = part.get(member)
    rest = {name: value for name, value in part.items() if name not in {"type", member} and says(value)}
    if isinstance(inner, list):
        text = "".join(word_of(one.get("text")) for one in inner if isinstance(one, dict))
        if others := [one for one in inner if not (isinstance(one, dict) and isinstance(one.get("text"), str))]:
            rest[member] = others
    else:
        text = word_of(inner)
        if text == "" and says(inner):
            rest[member] = inner
    return track, text, {"type": kind, **rest} if rest else None


def _read_reasoning(made: Delta, delta: Json, news: News) -> None:
    """One source in a chunk, never two: servers send the same text under several names. What differs rides beside."""
    details = delta.get("reasoning_details")
    entries = [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []
    joined = "".join(word_of(one.get(name)) for one in entries for name in _DETAIL_TEXTS)
    given = [(name, delta[name]) for name in REASONING if isinstance(delta.get(name), str) and delta[name]]
    chosen = next((text for _, text in given), "") or joined
    if made.reasoning and chosen and chosen != made.reasoning:
        made.rest["reasoning"] = chosen
    made.reasoning = made.reasoning or chosen
    for name, text in given:
        if text != made.reasoning:
            made.rest[name] = text
    made.rest |= {
        name: delta[name] for name in REASONING if delta.get(name) is not None and not isinstance(delta[name], str)
    }
    if entries and joined and joined == made.reasoning:
        entries = [{name: value for name, value in one.items() if name not in _DETAIL_TEXTS} for one in entries]
        made.rest |= news.of("delta", {"reasoning_details": entries}, frozenset())
    elif details:
        made.rest["reasoning_details"] = details


def chunk_defects(frame: Json) -> list[Defect]:
    """List what a chunk lacks."""
    found: list[Defect] = []
    if not word_of(frame.get("id")):
        found.append(defect("member_missing", "$.id", "a non-empty string", frame.get("id")))
    if not isinstance(frame.get("choices"), list):
        found.append(defect("member_missing", "$.choices", "an array", frame.get("choices")))
    return found


def choice_defects(choice: Json, position: int) -> list[Defect]:
    """List what one choice lacks."""
    found: list[Defect] = []
    path = f"$.choices[{position}]"
    if index_of(choice.get("index")) is None:
        found.append(defect("index_invalid", f"{path}.index", "a natural number", choice.get("index")))
    if not isinstance(choice.get("delta"), dict):
        found.append(defect("member_missing", f"{path}.delta", "an object", choice.get("delta")))
    return found


def entry_defects(entry: Json, position: int) -> list[Defect]:
    """List what one piece of a call lacks, whichever piece it is."""
    if index_of(entry.get("index")) is None:
        path = f"$.choices[0].delta.tool_calls[{position}].index"
        return [defect("index_invalid", path, "a natural number", entry.get("index"))]
    return []
