"""What each event of the wire must have, and what its blocks are."""

import json
from typing import Any, Final

from pipeline.events import Track
from pipeline.normalize.defects import Defect, defect, index_of, word_of

Json = dict[str, Any]
TEXTS: Final[dict[str, tuple[Track, str]]] = {"text": ("text", "text"), "thinking": ("reasoning", "thinking")}
"""Blocks of text: the track, and the member of the block that holds what it begins with."""
DELTAS: Final[dict[str, tuple[Track, str]]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("reasoning", "thinking"),
    "input_json_delta": ("tool_input", "partial_json"),
}
"""Deltas of text: the track, and the member of the delta that holds it."""
MARKS: Final = {"signature_delta": "signature", "citations_delta": "annotation", "compaction_delta": "compaction"}
"""Deltas that say something of their block and are no text of it, and the status that tells of each."""
CALLS: Final = {"tool_use": "function", "server_tool_use": "", "mcp_tool_use": "mcp"}
"""Calls and their kinds; the server's own tools are of the kind that they are named."""
CLIENTS: Final = frozenset({"function", "custom"})
"""Kinds of calls that clients answer; a tool of the server's own that is so named is none of them."""
RESULT: Final = "_tool_result"
REDACTED: Final = "redacted_thinking:"
"""What the public form of withheld thinking begins with; what follows is to be given back as it is."""

_REQUIRED: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "message_start": (("message", "object"), ("message.id", "word")),
    "content_block_start": (("index", "index"), ("content_block", "object"), ("content_block.type", "word")),
    "content_block_delta": (("index", "index"), ("delta", "object"), ("delta.type", "word")),
    "content_block_stop": (("index", "index"),),
    "message_delta": (("delta", "object"),),
}
_FORMS = {"object": "an object", "word": "a non-empty string", "index": "a natural number"}


def shape_defects(kind: str, frame: Json) -> list[Defect]:
    """List what an event of a known type lacks."""
    found: list[Defect] = []
    for path, form in _REQUIRED.get(kind, ()):
        owner, _, member = path.rpartition(".")
        holder = frame.get(owner) if owner else frame
        if isinstance(holder, dict) and not _has(holder.get(member), form):
            found.append(defect("member_missing", f"$.{path}", _FORMS[form], holder.get(member)))
    return found


def _has(value: object, form: str) -> bool:
    if form == "object":
        return isinstance(value, dict)
    return index_of(value) is not None if form == "index" else word_of(value) != ""


def object_of(value: object) -> Json:
    """Read an object: anything else is the empty one."""
    return value if isinstance(value, dict) else {}


def input_text(value: object) -> str:
    """A call's input that came with its block, as text; an empty one is none."""
    if value is None or value in ({}, "", []):
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def more_than(value: Json, *names: str) -> Json:
    """The members beside those named that say anything."""
    return {
        name: one for name, one in value.items() if name not in names and one is not None and one not in ("", [], {})
    }
