"""A body of server-sent events to pieces: JSON frames, noise, the sentinel, or one JSON body in place of a stream.

Shared by the wires whose frames are JSON objects. Nothing is raised: what cannot be read is a piece of its own, and what
only a lenient reader takes (bad UTF-8, half a surrogate pair, NaN) comes with its defect.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import msgspec

from pipeline.limits import Limits
from pipeline.normalize.alike import Alike
from pipeline.normalize.defects import Defect, defect
from pipeline.normalize.leniency import is_too_deep, read_object
from pipeline.normalize.opening import Opening
from pipeline.normalize.sse import BOM, DONE, SseEvent, SseSplitter


class Form(Enum):
    """What a piece is."""

    FRAME = "frame"  # a JSON object
    NOISE = "noise"  # data that is no JSON object, or none at all
    DONE = "done"  # `[DONE]`
    BODY = "body"  # the whole body was one JSON value, and not a stream


class Piece(msgspec.Struct, frozen=True):
    """One piece of a body; `value` is its JSON, or only its text where it is `like` one before; `name` the event's type where the stream named one."""

    form: Form
    data: bytes
    name: str = ""
    value: Any = None
    why: Defect | None = None
    like: Alike | None = None


class Intake:
    """Holds one body between two reads. `exceeded` names the bound that was exceeded; then nothing more is taken.

    Pieces are made one by one, as they are taken, since whoever takes them says by `alike` how to read the next.
    """

    def __init__(self, limits: Limits) -> None:
        self.alike: Alike | None = None
        self._limits = limits
        self._splitter = SseSplitter(limits)
        self._decoder = msgspec.json.Decoder()
        self._body: list[bytes] | None = None
        self._body_bytes = 0
        self._body_exceeded = False
        self._opening = Opening()
        self._closed = False

    @property
    def exceeded(self) -> str | None:
        """The bound that the body exceeded."""
        return "json_body_bytes" if self._body_exceeded else self._splitter.exceeded

    @property
    def leftover(self) -> bytes:
        """The lines of unknown fields, where some servers write an error: until the body's end, those before `[DONE]` alone."""
        return b"\n".join(self._splitter.leftover if self._closed else self._splitter.left_before_done)

    def feed(self, data: bytes) -> Iterable[Piece]:
        """Take bytes; give the pieces that they complete."""
        if not self._opening.is_known:
            data = self._opening.feed(data)
            self._body = [] if self._opening.is_json else None
        if self._body is not None:
            self._collect(data)
            return []
        return self._pieces(self._splitter.feed(data))

    def close(self) -> Iterable[Piece]:
        """The body has ended: give what it held back."""
        self._closed = True
        if self._body is not None:
            return self._whole(b"".join(self._body))
        return self._pieces(self._splitter.feed(self._opening.close()) + self._splitter.close())

    def _collect(self, data: bytes) -> None:
        if self._body is None or self._body_exceeded:
            return
        self._body.append(data)
        self._body_bytes += len(data)
        if self._body_bytes > self._limits.json_body_bytes:
            self._body.clear()
            self._body_exceeded = True

    def _whole(self, body: bytes) -> Iterable[Piece]:
        """Read the body that was held: JSON, or a stream after all."""
        self._body = None
        if self._body_exceeded:
            return []
        why = defect("not_a_stream", "$", "server-sent events", body)
        try:
            value = self._decoder.decode(body.removeprefix(BOM))
        except (msgspec.DecodeError, RecursionError):
            return self._pieces(self._splitter.feed(body) + self._splitter.close())
        if is_too_deep(body, value, self._limits.json_depth):
            return [Piece(Form.NOISE, body, why=why)]
        return [Piece(Form.BODY, body, value=value, why=why)]

    def _pieces(self, events: list[SseEvent]) -> Iterator[Piece]:
        for event in events:
            like = self.alike
            if like is not None and event.event == like.name and (text := like.text_in(event.data)) is not None:
                yield Piece(Form.FRAME, event.data, event.event, text, like=like)
            else:
                yield self._piece(event)

    def _piece(self, event: SseEvent) -> Piece:
        data = event.data
        if data.strip() == DONE:
            return Piece(Form.DONE, data, event.event)
        frame, why = read_object(data, self._limits.json_depth)
        return Piece(Form.NOISE if frame is None else Form.FRAME, data, event.event, frame, why)
