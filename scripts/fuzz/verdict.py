"""What must be true of every stream, however it was spoiled; what is not, in words.

Knows the public stream by its documentation, and gathers it by itself: the payload must be what its own frames add up to.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from pipeline.codec import decode as read_event
from pipeline.errors import PipelineError
from pipeline.events import Status, TextDelta
from pipeline.kinds import KINDS
from pipeline.normalize.responses.calls import same_json
from pipeline.output import Block, Frame, Payload
from pipeline.turn import Decoded, Turn, Validation, collect, decode
from pipeline.validate import SUPPORTED
from scripts import sdk
from scripts.fuzz.seeds import Piece

Json = dict[str, Any]
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
FRAMES_PER_EVENT = (
    8  # an item that came as its end alone is told from its start on: added, part, delta, text, part, done
)
BYTES_PER_BYTE = 12  # an item is told whole at its start and its end, and once more in the terminal
SDK_EVERY = 250
AGAIN_EVERY = 4  # of those, what comes out is folded and decoded again
MEMBERS = {
    "response.output_text": "text",
    "response.refusal": "refusal",
    "response.reasoning_text": "text",
    "response.reasoning_summary_text": "text",
    **{f"response.{row.stem}": row.final or row.input or "" for row in KINDS.values() if row.stem},
}
POSITIONS = {
    **dict.fromkeys(MEMBERS, "content_index"),
    "response.reasoning_summary_text": "summary_index",
    **{f"response.{row.stem}": row.position or "" for row in KINDS.values() if row.stem},
}
TEXTS = frozenset(f"{stem}.{end}" for stem in MEMBERS for end in ("delta", "done"))
PARTS = frozenset({"output_text", "refusal", "summary_text", "reasoning_text"})


class Tried:
    """One stream, and what became of it."""

    def __init__(self) -> None:
        self.events = 0
        self.frames = 0
        self.refused = ""
        self.faults: list[str] = []


def tried(number: int, wire: str, chunks: Sequence[bytes]) -> Tried:
    """Decode a body, leniently as it was cut and strictly as a whole, and hold what comes of it against the rules."""
    found, body = Tried(), b"".join(chunks)
    lenient = None
    try:
        lenient = decode(chunks, wire)
    except PipelineError as refused:
        if wire != "canonical":  # the one wire whose faults are raised
            found.faults.append(f"lenient refuses: {refused!r}")
    if lenient is not None:
        found.events, found.frames = len(lenient.events), len(lenient.frames)
        if lenient.payload.status != "running":
            found.faults += public(lenient.frames, lenient.payload, told=wire == "canonical" or mismatch(lenient))
        found.faults += whole(lenient, wire, len(body))
        if number % AGAIN_EVERY == 0 and wire != "canonical":
            found.faults += again(lenient)
        if number % SDK_EVERY == 0:
            found.faults += accumulated(lenient.frames)
    try:
        strict = decode([body], wire, Validation.STRICT)
    except PipelineError as refused:
        diagnostic = getattr(refused, "diagnostic", None)
        found.refused = diagnostic.code if diagnostic is not None else type(refused).__name__
        if found.refused == "unreadable_event":
            found.faults.append(f"strict: {refused}")
    else:
        if lenient is None or (strict.frames, strict.payload) != (lenient.frames, lenient.payload):
            found.faults.append("strict accepts, and gives other frames than lenient")
    return found


def pushed(pieces: Sequence[Piece]) -> Tried:
    """Push the events of several producers into a turn, leniently and strictly."""
    found = Tried()
    told = []
    for piece in pieces:
        try:
            told.append((read_event(piece.data), piece.name))
        except PipelineError:
            found.refused = "event"
    machine, frames = Turn("0-000000000000000000000000"), list[Frame]()
    for event, producer in told:
        frames += machine.push(event, producer).frames
    found.events, found.frames = len(told), len(frames)
    ended = machine.ended
    payload = machine.finish()
    if ended:
        found.faults += public(frames, payload, told=True)
    elif [frame.number for frame in frames] != list(range(len(frames))):
        found.faults.append("frames are not numbered 0..N")
    if payload.error is not None and payload.error["code"] == "unreadable_event":
        found.faults.append(f"an event could not be read: {payload.error['message']}")
    strict = Turn("0-000000000000000000000000", validation=Validation.STRICT)
    try:
        for event, producer in told:
            strict.push(event, producer)
    except PipelineError as refused:
        found.refused = str(refused)[:40]
        if "unreadable_event" in str(refused):
            found.faults.append(f"strict: {refused}")
    return found


def mismatch(decoded: Decoded) -> bool:
    """Whether a final text contradicted what was streamed, and was told of."""
    return any(isinstance(event, Status) and event.name == "mismatch" for event in decoded.events)


def whole(decoded: Decoded, wire: str, size: int) -> Iterator[str]:
    """The laws of one turn as a whole: its end, its text, its size."""
    error = decoded.payload.error
    if error is not None and error["code"] == "unreadable_event":
        yield f"an event could not be read: {error['message']}"
    if decoded.payload.status == "running" and wire != "canonical":
        yield "the turn has no terminal"
    if wire == "canonical":
        return
    yield from _text(decoded.events, decoded.blocks)
    if len(decoded.frames) > FRAMES_PER_EVENT * (len(decoded.events) + 1):
        yield f"{len(decoded.frames)} frames of {len(decoded.events)} events"
    shown = sum(len(frame.data) for frame in decoded.frames)
    if shown > BYTES_PER_BYTE * size + 1000 * (len(decoded.frames) + 1):
        yield f"{shown} bytes of {size}"


def again(decoded: Decoded) -> Iterator[str]:
    """Its events folded again give the same bytes, and our own strict decoder reads what we relay."""
    folded = collect(decoded.events)
    if (folded.frames, folded.blocks, folded.payload) != (decoded.frames, decoded.blocks, decoded.payload):
        yield "folded again, it gives other bytes"
    yield from _relayed(decoded)


def _text(events: Iterable[Any], blocks: Iterable[Block]) -> Iterator[str]:
    said = "".join(event.text for event in events if isinstance(event, TextDelta) and event.track == "text")
    if "".join(block.text + block.separator for block in blocks) != said:
        yield "the blocks are not the text"


def _relayed(decoded: Decoded) -> Iterator[str]:
    output = decoded.payload.response["output"]
    if not {item.get("type") for item in output} <= SUPPORTED or mismatch(decoded):
        return  # refused by name, as they must be
    if any(item.get("name") == "" for item in output):
        return  # a call that never got its name: whoever reads it again waits for that
    body = "".join(frame.sse for frame in decoded.frames).encode()
    turn = str(decoded.payload.response["id"]).removeprefix("resp_")
    try:
        relayed = decode([body], "responses", Validation.STRICT, turn=turn)
    except PipelineError as refused:
        if not _foreign_parts(decoded.frames):
            yield f"our strict decoder refuses the public stream: {refused}"
        return
    if [frame.data for frame in relayed.frames] != [frame.data for frame in decoded.frames]:
        pairs = zip(relayed.frames, decoded.frames, strict=False)
        if any(json.loads(one.data) != json.loads(other.data) for one, other in pairs):
            yield "the public stream, relayed again, is another"


def _foreign_parts(frames: Iterable[Frame]) -> bool:
    parts = [msgspec.json.decode(frame.data).get("part") for frame in frames if "_part." in frame.event]
    return any(not isinstance(part, dict) or part.get("type") not in PARTS for part in parts)


def accumulated(frames: Iterable[Frame]) -> Iterator[str]:
    """Whether the official SDK reads the public stream."""
    try:
        sdk.public(frames)
    except Exception as refused:  # noqa: BLE001  it raises whatever its code meets
        yield f"the SDK refuses the public stream: {refused!r}"


# -- the public stream


def public(frames: Sequence[Frame], payload: Payload, *, told: bool) -> Iterator[str]:
    """One beginning, one end, numbers 0..N, every item once and whole, and a payload that the frames add up to.

    `told`: a final text contradicted its deltas, and a status said so.
    """
    data: list[Json] = [msgspec.json.decode(frame.data) for frame in frames]
    types = [event["type"] for event in data]
    if [event["sequence_number"] for event in data] != list(range(len(data))):
        yield "frames are not numbered 0..N"
    if not types:
        return
    if types[0] != "response.created" or types.count("response.created") != 1:
        yield "there is not one response.created, at the beginning"
    if types.count("response.in_progress") > 1:
        yield "response.in_progress is told twice"
    ends = [kind for kind in types if kind in ENDS]
    if ends != [types[-1]]:
        yield f"there is not one terminal, at the end: {ends}"
        return
    yield from _items(data, payload, told=told)


def _items(data: Sequence[Json], payload: Payload, *, told: bool) -> Iterator[str]:
    items = Items()
    for event in data:
        yield from items.take(event)
    response = data[-1]["response"]
    output = response["output"]
    if output != [items.done.get(index) for index in range(len(items.added))]:
        yield "the terminal's output is not the items that were shown"
    if msgspec.json.decode(msgspec.json.encode(payload.response)) != response:
        yield "the payload is not the terminal's response"
    told_of = (
        event["response"] for event in data if "output_index" not in event and isinstance(event.get("response"), dict)
    )
    if any(one.get("id") != response["id"] for one in told_of):  # in an item's event it is a member that nobody knows
        yield "a response has another id"
    if not told:
        yield from items.unlike()


class Items:
    """The items of a public stream, gathered from its frames."""

    def __init__(self) -> None:
        self.added: list[Json] = []
        self.done: dict[int, Json] = {}
        self._ids: set[str] = set()
        self._deltas: dict[tuple[int, str, int], str] = {}
        self._finals: dict[tuple[int, str, int], str] = {}

    def take(self, event: Json) -> Iterator[str]:
        """Take the next frame; tell what is wrong with it."""
        kind, index = str(event["type"]), event.get("output_index")
        if kind == "response.output_item.added":
            if index != len(self.added):
                yield f"item {index} is added after {len(self.added)}"
            if event["item"]["id"] in self._ids:
                yield f"id {event['item']['id']} is used twice"
            self._ids.add(event["item"]["id"])
            self.added.append(event["item"])
        elif kind == "response.output_item.done":
            if index in self.done or not isinstance(index, int) or index >= len(self.added):
                yield f"item {index} is done twice, or was not added"
                return
            self.done[index] = event["item"]
            if [event["item"].get(name) for name in ("id", "type")] != [
                self.added[index].get(name) for name in ("id", "type")
            ]:
                yield f"item {index} ends as another than it began"
        elif isinstance(index, int) and kind in TEXTS:
            yield from self._texts(event, kind, index)

    def _texts(self, event: Json, kind: str, index: int) -> Iterator[str]:
        if index in self.done or index >= len(self.added):
            yield f"{kind} of item {index}, which is not open"
            return
        track = kind.rpartition(".")[0]
        place = (index, track, event.get(POSITIONS[track], 0))
        if kind.endswith(".delta"):
            if place in self._finals:
                yield f"{kind} after its final word"
            if isinstance(event.get("delta"), str):
                self._deltas[place] = self._deltas.get(place, "") + event["delta"]
            return
        if place in self._finals:
            yield f"{kind} is told twice"
        self._finals[place] = str(event.get(MEMBERS[track]))

    def unlike(self) -> Iterator[str]:
        """What was told of a text and is not in its item."""
        for place, text in self._finals.items():
            index, track, content = place
            item = self.done.get(index, {})
            if track.endswith(("output_text", "refusal")) and item.get("type") == "message":
                parts = item.get("content") or []
                held = [part.get("text", part.get("refusal")) for part in parts if part.get("type") in PARTS]
                if text and text not in held and len(held) == len(parts):
                    yield f"item {index} holds {held}, not {text!r}"
            row = KINDS.get(item.get("type", ""))
            if row is not None and row.input is not None and track == f"response.{row.stem}":
                asked = item.get(row.input)
                said = text or self._deltas.get(place)  # where nothing was, the item's own end may say more
                if said and asked != text and not same_json(str(asked), text):
                    yield f"item {index} asks for {asked!r}, not {text!r}"
            if self._deltas.get((index, track, content), "") != text and track.endswith(("_text", "refusal")):
                yield f"{track} of item {index} ends as {text!r}, not as streamed"
