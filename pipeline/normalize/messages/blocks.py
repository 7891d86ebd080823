"""The content blocks of a message: texts, calls, the results of calls, and blocks that pass as they are.

A block's item is its index; a second message of the same stream counts from where the first one ended. A block ends at its
stop, at the start of another, or with the turn, and gets its final word there. A server's own call ends with its result.
"""

from itertools import chain
from typing import Any

from pipeline.normalize.defects import defect, index_of, word_of
from pipeline.normalize.messages.shape import (
    CALLS,
    CLIENTS,
    DELTAS,
    MARKS,
    REDACTED,
    RESULT,
    TEXTS,
    input_text,
    more_than,
    object_of,
)
from pipeline.normalize.slots import Slot, SlotNarrator, call_status

Json = dict[str, Any]


class Block:
    """One content block as far as it is known."""

    __slots__ = ("citations", "done", "given", "id", "kind", "opening", "signature", "slot", "waits", "wire")

    def __init__(self, item: int, kind: str, opening: Json) -> None:
        track = "tool_input" if kind in CALLS else TEXTS.get(kind, ("text", ""))[0]
        self.slot = Slot(item, 0, track)
        self.kind = kind
        self.opening = opening
        self.id = ""
        self.given = ""
        self.signature = ""
        self.wire: Json = {}
        self.citations: list[Json] = []
        self.done = False
        self.waits = False  # a server's call whose result has not come

    @property
    def item(self) -> int:
        """The item's number."""
        return self.slot.item


class Blocks:
    """All blocks of a turn, by the index of the current message and by the id of their call."""

    def __init__(self, narrator: SlotNarrator) -> None:
        self._narrator = narrator
        self._by_index: dict[int, Block] = {}
        self._current: Block | None = None
        self._waiting: dict[str, list[Block]] = {}
        self._numbers: set[int] = set()
        self._base = 0
        self._next = 0

    def new_message(self) -> None:
        """Count the indexes of another message behind those of the one before."""
        self._base = self._next
        self._by_index.clear()

    def start(self, frame: Json) -> None:
        """Begin a block; one that is open ends here."""
        if (before := self._current) is not None and not before.done:
            found = defect("block_open", "$.index", "the stop of the open block", before.kind)
            self._narrator.blame("block", [found])
            self.finish(before)
        opening = object_of(frame.get("content_block"))
        kind = word_of(opening.get("type"))
        block = self._open(index_of(frame.get("index")), kind, opening)
        rest = more_than(frame, "type", "index", "content_block")
        if rest:
            self._narrator.rest["event"] = rest
        if kind in TEXTS:
            self._text(block, opening)
        elif kind in CALLS:
            self._call(block, opening)
        elif kind.endswith(RESULT) and self._result(block, opening):
            block.done = True
        else:
            self._narrator.status("item", block.item, detail=kind or None, wire={"content_block": opening})
        self._narrator.tell_rest()

    def delta(self, frame: Json) -> None:
        """Go on with a block."""
        narrator = self._narrator
        delta = object_of(frame.get("delta"))
        kind = word_of(delta.get("type"))
        index = index_of(frame.get("index"))
        block = self._by_index.get(index) if index is not None else self._current
        if block is None or block.done:
            found = defect("block_unknown", "$.index", "the index of an open block", frame.get("index"))
            narrator.blame("block", [found])
            narrator.status("unknown", detail=frame.get("type"), wire={"event": frame})
            return
        rest = more_than(frame, "type", "index", "delta")
        if rest:
            narrator.rest["event"] = rest
        track, member = DELTAS.get(kind, (None, ""))
        text = delta.get(member)
        if track is not None and isinstance(text, str) and self._takes(block, track):
            if more := more_than(delta, "type", member):
                narrator.rest["delta"] = more
            if text:
                narrator.keep_in(block.slot, text)
                narrator.delta(block.slot, text)
        elif kind in MARKS:
            self._mark(block, kind, delta)
        else:
            narrator.blame("block", [defect("delta_unknown", "$.delta.type", f"a delta of {block.kind}", kind)])
            narrator.status("unknown", block.item, detail=kind or None, wire={"event": frame})
        narrator.tell_rest()

    def stop(self, frame: Json) -> None:
        """End a block."""
        index = index_of(frame.get("index"))
        block = self._by_index.get(index) if index is not None else self._current
        if block is None:
            found = defect("block_unknown", "$.index", "the index of an open block", frame.get("index"))
            self._narrator.blame("block", [found])
            return
        if rest := more_than(frame, "type", "index"):
            self._narrator.rest["event"] = rest
        self.finish(block)
        self._narrator.tell_rest()

    def finish(self, block: Block, *, whole: bool = True) -> None:
        """Give a block its final word; a call of the server's waits for its result."""
        if block.done:
            return
        block.done = True
        narrator = self._narrator
        if block.kind in CALLS:
            text = self._input_of(block, whole=whole)
            if block.kind == "tool_use" or not whole:
                self._finish_call(block, call_status(text, whole=whole), text)
            else:
                block.waits = True
                self._waiting.setdefault(block.id, []).append(block)
                narrator.status("input_finished", block.item, detail=text)
        elif block.kind == "redacted_thinking" and whole:
            narrator.status("item_finished", block.item, wire=_finished(block))
        elif block.kind in TEXTS or block.slot.pieces:
            for wire in block.citations:
                citation = object_of(wire["delta"].get("citation"))
                narrator.status("annotation", block.item, wire={**wire, "annotation": _annotation(block, citation)})
            narrator.final(block.slot, block.wire)
            if whole:
                narrator.status("item_finished", block.item, wire=_finished(block))

    def drain(self, *, whole: bool) -> None:
        """Finish what is open, in the order of the items: the server's calls too, whose results never came."""
        last = [self._current] if self._current is not None and not self._current.done else []
        for block in sorted([*chain(*self._waiting.values()), *last], key=lambda one: one.item):
            if not block.done:
                self.finish(block, whole=whole)
            if block.waits:
                text = self._input_of(block, whole=whole)
                self._finish_call(block, call_status(text, whole=True) if whole else "incomplete", text)
        self._waiting.clear()

    # kinds

    def _mark(self, block: Block, kind: str, delta: Json) -> None:
        """Tell what a delta says of its block. A citation is of the block's whole text and waits for its end."""
        if kind == "citations_delta":
            block.citations.append({**self._narrator.take_rest(), "delta": delta})
            return
        if kind == "signature_delta":
            block.signature += word_of(delta.get("signature"))
        self._narrator.status(MARKS[kind], block.item, wire={**self._narrator.take_rest(), "delta": delta})

    def _text(self, block: Block, opening: Json) -> None:
        member = TEXTS[block.kind][1]
        block.wire = {"content_block": more} if (more := more_than(opening, "type", member, "signature")) else {}
        if text := word_of(opening.get(member)):
            self._narrator.keep_in(block.slot, text)
            self._narrator.delta(block.slot, text)
        if signature := word_of(opening.get("signature")):
            block.signature = signature
            self._narrator.status("signature", block.item, wire={"delta": {"signature": signature}})

    def _call(self, block: Block, opening: Json) -> None:
        name = word_of(opening.get("name"))
        block.id = word_of(opening.get("id")) or f"call_{block.item}"
        block.given = input_text(opening.get("input"))
        more = more_than(opening, "type", "id", "name", "input")
        wire = {**self._narrator.take_rest(), **({"content_block": more} if more else {})}
        kind = CALLS[block.kind] or (name if name not in CLIENTS else "")
        self._narrator.tool_started(block.item, block.id, name, kind or "server", wire)

    def _result(self, block: Block, opening: Json) -> bool:
        """End the call whose result a block is; False where it is of none that waits."""
        waiting = self._waiting.get(word_of(opening.get("tool_use_id")))
        if not waiting:
            return False
        call = waiting.pop(0)
        content = opening.get("content")
        failed = opening.get("is_error") is True or word_of(object_of(content).get("type")).endswith("_error")
        wire = {"content_block": more_than(opening, "content"), "index": block.item, **self._narrator.take_rest()}
        text = self._input_of(call, whole=True)
        self._finish_call(call, "failed" if failed else "completed", text, content, wire)
        return True

    def _finish_call(
        self, block: Block, status: str, text: str, output: object = None, wire: Json | None = None
    ) -> None:
        block.waits = False
        self._narrator.tool_finished(block.item, block.id, status, text, output=output, wire=wire)

    def _input_of(self, block: Block, *, whole: bool) -> str:
        """A call's input: what was streamed, else what its block began with, else the empty object."""
        return block.slot.text or block.given or ("{}" if whole else "")

    def _takes(self, block: Block, track: str) -> bool:
        """Whether a block streams such text; one of a kind that nobody knows may stream any but a call's input."""
        if block.kind in CALLS or block.kind in TEXTS:
            return block.slot.track == track
        return track == "text"

    # places

    def _open(self, index: int | None, kind: str, opening: Json) -> Block:
        number = self._next if index is None else self._base + index
        if number in self._numbers:
            self._narrator.blame("block", [defect("index_repeated", "$.index", "an index that is not taken", index)])
            number = self._next
        self._numbers.add(number)
        self._next = max(self._next, number + 1)
        self._narrator.new_item()
        block = Block(number, kind, opening)
        self._by_index[number - self._base if index is None else index] = block
        self._current = block
        return block


def _finished(block: Block) -> Json | None:
    """The item that thinking becomes: its signature, or all of it where it is withheld, is what a later request gives back."""
    signature = block.signature
    if block.kind == "redacted_thinking":
        signature = REDACTED + word_of(block.opening.get("data"))
    return {"item": {"type": "reasoning", "summary": [], "encrypted_content": signature}} if signature else None


def _annotation(block: Block, citation: Json) -> Json:
    """A citation as the public stream has it: what names a page is a link from the block's whole text."""
    if not word_of(citation.get("url")):
        return citation
    place = {"start_index": 0, "end_index": block.slot.chars}
    return {"type": "url_citation", "url": citation["url"], "title": word_of(citation.get("title")), **place}
