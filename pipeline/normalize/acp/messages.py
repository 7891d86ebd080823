"""An agent's messages and thoughts: chunks pass verbatim, a whole message of version 2 may only extend what was told.

A message that replaces its earlier text would take back what readers have seen: then what was told stands, and a status tells
of the difference.
"""

from typing import Any

from pipeline.events import Track
from pipeline.normalize.defects import defect, word_of
from pipeline.normalize.narrator import Narrator, without

Json = dict[str, Any]
_CHUNKS: dict[str, Track] = {"agent_message_chunk": "text", "agent_thought_chunk": "reasoning"}
_WHOLE: dict[str, Track] = {"agent_message": "text", "agent_thought": "reasoning"}


class Messages:
    """The messages of one turn by their ids; of a finished one only its fingerprint is kept."""

    def __init__(self, narrator: Narrator) -> None:
        self._narrator = narrator
        self._whole: dict[str, int] = {}

    def take(self, kind: str, update: Json) -> bool:
        """Tell an update, if it is a message's."""
        if kind in _CHUNKS:
            self._block(_CHUNKS[kind], update, update.get("content"))
        elif kind in _WHOLE:
            self._replace(_WHOLE[kind], update)
        else:
            return False
        return True

    def _block(self, track: Track, update: Json, content: object) -> None:
        name = word_of(update.get("messageId"))
        if isinstance(content, dict) and content.get("type") == "text" and isinstance(text := content.get("text"), str):
            rest = without(update, "sessionUpdate", "content")
            if more := without(content, "type", "text"):
                rest["content"] = more
            if text:
                self._narrator.text(track, text, {"update": rest} if rest else None, name=name)
            elif more:
                self._narrator.status("item", wire={"update": update})
            return
        if isinstance(content, dict) and word_of(content.get("type")):
            self._narrator.end_text()
            detail = {"media": word_of(content.get("mimeType")) or content["type"]}
            self._narrator.status("item", detail=detail, wire={"update": update})
            return
        why = defect("member_invalid", "$.params.update.content", "a content block", content)
        self._narrator.status("unknown", wire={"update": update, "defects": [why]})

    def _replace(self, track: Track, update: Json) -> None:
        """Take a whole message: tell what it says beyond what was told of it."""
        narrator = self._narrator
        name = word_of(update.get("messageId"))
        blocks = update.get("content")
        texts = [
            block["text"]
            for block in (blocks if isinstance(blocks, list) else [blocks])
            if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
        ]
        text = "".join(texts)
        run = narrator.run
        told = "".join(run.pieces) if run is not None and run.track == track and run.name == name else None
        if told is None and name in self._whole:
            if self._whole[name] != hash(text):
                narrator.status(
                    "mismatch", detail={"event": "agent_message", "chars": len(text)}, wire={"update": update}
                )
            return
        if told is not None and not text.startswith(told):
            detail = {"event": "agent_message", "track": track, "streamed": len(told), "chars": len(text)}
            narrator.status("mismatch", run.item if run is not None else None, detail=detail, wire={"update": update})
            return
        rest = without(update, "sessionUpdate", "content")
        more = text[len(told or "") :]
        if more:
            narrator.text(track, more, {"update": rest} if rest else None, name=name)
        if len(self._whole) < narrator.limits.turn_items:
            self._whole[name] = hash(text)
