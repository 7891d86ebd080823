"""Messages and reasoning: deltas pass verbatim, each slot gets one final word, at the first event that gives it."""

from typing import Any

from pipeline.events import Track, Wire
from pipeline.kinds import KINDS, Kind
from pipeline.kinds.slot import INPUT
from pipeline.normalize.defects import defect, index_of, word_of
from pipeline.normalize.responses.calls import announce
from pipeline.normalize.responses.items import Item
from pipeline.normalize.responses.scribe import Scribe
from pipeline.normalize.responses.tables import (
    DELTAS,
    DONES,
    INPUT_DELTAS,
    INPUT_DONES,
    INPUT_STARTS,
    MESSAGE,
    PART_TRACKS,
    PARTS_ADDED,
    PARTS_DONE,
    REASONING,
    Text,
)

Frame = dict[str, Any]
_BINDING = {"response.content_part.done", "response.output_item.done"}  # whose word on a message must not differ
_BODIES: tuple[tuple[str, tuple[Track, ...]], ...] = (
    ("summary", ("summary",)),
    ("content", ("text", "refusal", "reasoning")),
)


def on_delta(scribe: Scribe, kind: str, frame: Frame) -> None:
    """Pass a delta of text."""
    text = frame.get("delta")
    if not isinstance(text, str):
        on_unknown(scribe, kind, frame)
        return
    about = DELTAS[kind]
    item = _item_of(scribe, frame, about.track, about.kind)
    if not _may_stream(scribe, kind, item, about.track, text):
        return
    content = _content_of(frame, about, item)
    slot = scribe.slot(item, about.track, content)
    if slot.final is not None:
        scribe.ignored(kind, item, defect("delta_after_final", "$", "no more text", text), text)
        return
    scribe.keep(slot, text)
    _strip(frame, about.position, "delta")
    scribe.delta(item.number, content, about.track, text, frame)


def on_done(scribe: Scribe, kind: str, frame: Frame) -> None:
    """Take the final word that a `.done` gives."""
    about = DONES[kind]
    text = frame.get(about.text)
    if not isinstance(text, str):
        on_unknown(scribe, kind, frame)
        return
    item = _item_of(scribe, frame, about.track, about.kind)
    if not _may_stream(scribe, kind, item, about.track, text):
        return
    content = _content_of(frame, about, item)
    if scribe.slot(item, about.track, content).final is None:
        _strip(frame, about.position, about.text)
        finish_slot(scribe, item, (about.track, content), text, kind=kind, wire=frame)
    elif not finish_slot(scribe, item, (about.track, content), text, kind=kind):
        repeated(scribe, kind)


def on_input_delta(scribe: Scribe, kind: str, frame: Frame) -> None:
    """Pass a delta of a call's input; it waits while nobody has told the call's name."""
    text = frame.get("delta")
    if not isinstance(text, str):
        on_unknown(scribe, kind, frame)
        return
    row = INPUT_DELTAS[kind]
    item = _item_of(scribe, frame, INPUT, row.name)
    if not _may_stream(scribe, kind, item, INPUT, text, row=row):
        return
    content = _number_of(frame, row)
    slot = scribe.slot(item, INPUT, content)
    if slot.final is not None:
        scribe.ignored(kind, item, defect("delta_after_final", "$", "no more input", text), text)
        return
    scribe.keep(slot, text)
    if item.announced:
        _strip(frame, "", "delta")
        scribe.delta(item.number, content, INPUT, text, frame)
        return
    if not item.held and item.start is None:
        _tell_held(scribe, kind, item, frame)
    item.held.append((content, text))
    if slot.chars + len(item.held) > scribe.limits.held_input_chars:
        scribe.exceeded = "held_input_chars"


def on_input_done(scribe: Scribe, kind: str, frame: Frame) -> None:
    """Remember a call's whole input; the call itself ends with its item."""
    row, member = INPUT_DONES[kind]
    item = _item_of(scribe, frame, INPUT, row.name)
    text = word_of(frame.get(member))
    if not _may_stream(scribe, kind, item, INPUT, text, row=row):
        return
    if row.input is not None and not _first_input(scribe, kind, item, text) and item.announced:
        return
    if not item.announced:
        if row.named and not frame.get("name"):
            if item.start is None:
                _tell_held(scribe, kind, item, frame)
            return
        announce(scribe, item, {"name": frame.get("name"), "call_id": frame.get("call_id")}, None)
    _strip(frame, "", "")
    if row.input is not None:
        scribe.status("input_finished", item.number, wire=frame)
        return
    content = _number_of(frame, row)
    slot = scribe.slot(item, INPUT, content)
    if slot.final is not None:
        repeated(scribe, kind)
        return
    streamed = "".join(slot.pieces)
    slot.pieces.clear()
    slot.final = hash(text)
    frame.pop(member, None)
    scribe.final(item.number, content, INPUT, text, frame)
    if streamed not in {"", text}:
        why = defect("input_mismatch", "$", "the input that was streamed", text)
        detail = {"event": kind, "track": INPUT, "streamed": len(streamed), "chars": len(text)}
        scribe.mismatch(item.number, content, detail, why)


def _first_input(scribe: Scribe, kind: str, item: Item, text: str) -> bool:
    """Take the final word on a call's one input. The first stays; another one is told of."""
    slot = scribe.slot(item, INPUT, 0)
    if slot.final is None:
        slot.final = hash(text)
        item.input = text
        return True
    if text and text != item.input:
        detail = {"event": kind, "track": INPUT, "chars": len(text)}
        scribe.mismatch(item.number, 0, detail, defect("input_mismatch", "$", "the input that was told", text))
    else:
        repeated(scribe, kind)
    return False


def on_input_start(scribe: Scribe, kind: str, frame: Frame) -> None:
    """Tell of one of several inputs."""
    row = INPUT_STARTS[kind]
    item = _item_of(scribe, frame, INPUT, row.name)
    if not _may_stream(scribe, kind, item, INPUT, ""):
        return
    _strip(frame, "", "")
    frame[str(row.final)] = word_of(frame.get(str(row.final)))
    scribe.status("input_started", item.number, wire=frame)


def _number_of(frame: Frame, row: Kind) -> int:
    """Which of a call's inputs an event is about."""
    return (index_of(frame.get(row.position)) or 0) if row.position is not None else 0


def _tell_held(scribe: Scribe, kind: str, item: Item, frame: Frame) -> None:
    why = defect("item_unknown", "$.item_id", "an item that was added", frame.get("item_id"))
    scribe.status("held", item.number, detail={"event": kind}, wire={"defects": [*frame.get("defects", ()), why]})


def on_part_added(scribe: Scribe, kind: str, frame: Frame) -> None:
    """Tell of a part of an item."""
    _part(scribe, kind, frame, PARTS_ADDED[kind], "part_started")


def on_part_done(scribe: Scribe, kind: str, frame: Frame) -> None:
    """Tell of a part's end; it is the final word where no other came before."""
    _part(scribe, kind, frame, PARTS_DONE[kind], "part_finished")


def on_annotation(scribe: Scribe, kind: str, frame: Frame) -> None:
    """Tell of an annotation on a text."""
    item = _item_of(scribe, frame, "text", MESSAGE)
    content = _content_of(frame, Text("text", "content_index", "", MESSAGE), item)
    if item.done:
        scribe.ignored(kind, item, defect("item_done", "$", "an item that is not done", frame.get("item_id")))
        return
    _strip(frame, "content_index", "")
    scribe.status("annotation", item.number, content, wire=frame)


def on_unknown(scribe: Scribe, kind: str, frame: Frame) -> None:  # noqa: ARG001  every handler takes the event's type
    """Pass whatever we do not know, whole."""
    item = None
    index = index_of(frame.get("output_index"))
    if index is not None and (known := scribe.items.by_index.get(index)) is not None:
        item = known.number
        del frame["output_index"]
    frame.pop("sequence_number", None)
    scribe.status("unknown", item, wire=frame)


def repeated(scribe: Scribe, kind: str) -> None:
    """An event says again what was said: nothing is told but, with the next event, that it came."""
    scribe.untold.append(defect("repeated", "$.type", "each event once", kind))


def finish_slot(
    scribe: Scribe, item: Item, place: tuple[Track, int], text: str | None, *, kind: str, wire: Wire = None
) -> bool:
    """Give a slot its final word, or compare with the one it has; say whether anything was told.

    Text that was never streamed is told as one delta first, so that deltas always add up. An empty text never erases
    what was streamed.
    """
    track, content = place
    slot = scribe.slot(item, track, content)
    binds = kind in _BINDING and track in {"text", "refusal"}
    why = defect("text_mismatch", "$", "the text that was streamed", text) if binds else None
    if slot.final is not None:
        if not text or hash(text) == slot.final:
            return False
        scribe.mismatch(item.number, content, {"event": kind, "track": track, "chars": len(text)}, why)
        return True
    streamed = "".join(slot.pieces)
    slot.pieces.clear()
    final = text or streamed
    if final and not streamed:
        scribe.delta(item.number, content, track, final)
    slot.final = hash(final)
    scribe.final(item.number, content, track, final, wire)
    if streamed not in {"", final}:
        detail = {"event": kind, "track": track, "streamed": len(streamed), "chars": len(final)}
        scribe.mismatch(item.number, content, detail, why)
    return True


def finish_texts(scribe: Scribe, item: Item, body: Frame | None, kind: str) -> None:
    """Give every slot of an item its final word: from the finished item where there is one, else from what was streamed."""
    for member, tracks in _BODIES if body is not None else ():
        parts = body.get(member) if body is not None else None
        if isinstance(parts, list):
            _finish_parts(scribe, item, parts, tracks, kind)
    for track, content in list(item.slots):
        if track != "tool_input" and item.slots[track, content].final is None:
            finish_slot(scribe, item, (track, content), None, kind=kind)


def _finish_parts(scribe: Scribe, item: Item, parts: list[Any], tracks: tuple[Track, ...], kind: str) -> None:
    """Match a finished item's parts with the indexes that were streamed: by rank, since servers count from 1 or share
    a counter, unless the indexes themselves fit and more parts came than were streamed.
    """
    known = _indexes(item, tracks, len(parts))
    by_rank = bool(known) and (len(known) >= len(parts) or known[-1] >= len(parts))
    taken: set[int] = set()
    for position, part in enumerate(parts):
        if not isinstance(part, dict):
            continue
        track, member = PART_TRACKS.get(word_of(part.get("type")), (None, ""))
        if track is None or track not in tracks:
            continue
        content = position
        if by_rank:
            content = known[position] if position < len(known) else known[-1] + 1 + position - len(known)
            if (track, content) not in item.slots and any(place == content for _, place in item.slots):
                free = [one for one in known if one not in taken and (track, one) in item.slots]
                content = free[0] if free else content
            if content in taken:
                content = known[-1] + 1 + position
        taken.add(content)
        finish_slot(scribe, item, (track, content), word_of(part.get(member)), kind=kind)


def _indexes(item: Item, tracks: tuple[Track, ...], wanted: int) -> list[int]:
    """The indexes at which text was streamed or announced; where they are too many, the last of those with no text are left out."""
    known = item.indexes(tracks)
    spare = len(known) - wanted
    if spare <= 0:
        return known
    told = {content for (track, content), slot in item.slots.items() if track in tracks and slot.has_text}
    silent = [content for content in known if content not in told][-spare:]
    return [content for content in known if content not in silent]


def _part(scribe: Scribe, kind: str, frame: Frame, index: str, name: str) -> None:
    part = frame.get("part")
    part = part if isinstance(part, dict) else {}
    summary = index == "summary_index"
    default: Track | None = "summary" if summary else None
    track, member = PART_TRACKS.get(word_of(part.get("type")), (default, "text"))
    fallback = MESSAGE if track in {"text", "refusal"} else REASONING
    item = _item_of(scribe, frame, track or "", fallback)
    if item.done:
        scribe.ignored(kind, item, defect("item_done", "$", "an item that is not done", frame.get("item_id")))
        return
    content = _content_of(frame, Text(track or "text", index, "", fallback), item)
    if not summary:
        item.contents.add(content)
        if len(item.contents) > scribe.limits.item_contents:
            scribe.exceeded = "item_contents"
    if name == "part_finished" and track is not None and item.accepts(track):
        finish_slot(scribe, item, (track, content), word_of(part.get(member)), kind=kind)
    _strip(frame, index, "")
    scribe.status(name, item.number, content, wire=frame)


def _item_of(scribe: Scribe, frame: Frame, track: str, kind: str) -> Item:
    """Find the item that an event tells of, or make one: text may come before its item is added."""
    index = frame.get("output_index")
    if type(index) is not int or index_of(index) is None:
        index = None
    item_id = frame.get("item_id")
    item_id = item_id if isinstance(item_id, str) else ""
    item = scribe.items.find(index, item_id, track)
    if item is None:
        return scribe.open_item(index, kind, item_id)
    if item_id and not item.id:
        item.id = item_id
        scribe.items.by_id.setdefault(item_id, item)
        scribe.routes.clear()
    return item


def _may_stream(scribe: Scribe, kind: str, item: Item, track: Track, text: str, *, row: Kind | None = None) -> bool:
    if item.done:
        scribe.ignored(kind, item, defect("item_done", "$", "an item that is not done", kind), text)
        return False
    if not item.accepts(track) or (row is not None and not _streams(item, row)):
        scribe.ignored(kind, item, defect("kind_mismatch", "$.type", f"an event of {item.kind}", kind), text)
        return False
    return True


def _streams(item: Item, row: Kind) -> bool:
    """Whether an item's input streams by events of this kind: its own, or any while nobody has told what the item is."""
    own = KINDS.get(item.kind)
    return not item.announced if own is None else own.stem == row.stem


def _content_of(frame: Frame, about: Text, item: Item) -> int:
    index = frame.get(about.position)
    if type(index) is int and index_of(index) is not None:
        return index
    for track, content in reversed(item.slots):
        if track == about.track:
            return content
    if about.track != "summary" and item.contents:
        return max(item.contents)
    return 0


def _strip(frame: Frame, index: str, text: str) -> None:
    """Take out of an event what the canonical members hold; the rest travels as `wire`."""
    frame.pop("output_index", None)
    frame.pop("sequence_number", None)
    frame.pop(index, None)
    frame.pop(text, None)
