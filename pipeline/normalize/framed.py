"""What every adapter of a stream of JSON frames does alike: feeding, bounds, the end; the wire itself is its subclass."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from pipeline.errors import MisuseError
from pipeline.events import ErrorInfo, Event, TextDelta
from pipeline.limits import Limits
from pipeline.normalize.alike import Alike, alike
from pipeline.normalize.defects import defect
from pipeline.normalize.failures import error_in_text
from pipeline.normalize.intake import Form, Intake, Piece
from pipeline.normalize.slots import SlotNarrator
from pipeline.normalize.stamp import Stamp

Json = dict[str, Any]


class FramedAdapter(ABC):
    """One turn's stream: `feed` its bytes at any cut, `close` it at the body's end.

    A subclass reads the frames and says with `_finish` how the turn ends; the end of the body ends it at the latest.
    """

    def __init__(self, *, stamp: Stamp, limits: Limits | None = None) -> None:
        self.ended = False
        self.late = 0
        self.unsure = False
        self._limits = limits or Limits()
        self._narrator = SlotNarrator(stamp, self._limits)
        self._intake = Intake(self._limits)
        self._before: Alike | None = None
        self._closed = False

    def feed(self, data: bytes) -> list[Event]:
        """Take bytes; give the events that they complete."""
        if self._closed:
            raise MisuseError("fed after close")
        self._take(self._intake.feed(data))
        return self._given()

    def close(self) -> list[Event]:
        """The body has ended: give what is still open, and a terminal if there was none."""
        if self._closed:
            raise MisuseError("closed twice")
        self._closed = True
        self._take(self._intake.close())
        events = self._given()
        if not self.ended:
            self.ended = True
            self._end(None)
            events += self._narrator.take()
        return events

    @abstractmethod
    def _frame(self, frame: Json, name: str) -> None:
        """Read one frame; `name` is the stream's own name for it, if it gave one."""

    @abstractmethod
    def _body(self, value: Any, data: bytes) -> None:
        """Read a body that is one JSON value in place of a stream; it is whole."""

    @abstractmethod
    def _sentinel(self) -> None:
        """Read `[DONE]`."""

    @abstractmethod
    def _end(self, found: str | None) -> None:
        """Tell how the turn ends: at what was `found`, or at the end of the body."""

    @abstractmethod
    def _drain(self, *, whole: bool) -> None:
        """Finish what is open, in the order of the items."""

    @abstractmethod
    def _texts_of(self, frame: Json, event: TextDelta) -> list[object]:
        """The text in a frame of which such an event was made, in each place that it has; none where the frames like it are
        not to be read as it was.
        """

    def _finish(self, found: str) -> None:
        """End the turn before the end of the body."""
        self.ended = True
        self._end(found)

    def _noise(self, piece: Piece) -> None:
        """Tell of data that is no frame."""
        detail = piece.data.decode("utf-8", "replace")[: self._limits.error_message_chars] or None
        self._narrator.status("unknown", detail=detail)

    def _told_elsewhere(self) -> ErrorInfo | None:
        """The error that stands in the body's lines of unknown fields."""
        return error_in_text(self._intake.leftover, self._limits)

    def _beside(self) -> Json:
        """The body's lines of unknown fields, as far as a failure may quote them."""
        text = self._intake.leftover.decode("utf-8", "replace")[: self._limits.error_message_chars]
        return {"body": text} if text.strip() else {}

    def _take(self, pieces: Iterable[Piece]) -> None:
        narrator = self._narrator
        for piece in pieces:
            if self.ended or narrator.exceeded is not None:
                self.late += piece.form is not Form.DONE and piece.data.strip() != b""
                continue
            if piece.like is not None:
                self._again(piece.like, piece.value)
                continue
            self._intake.alike, before, self._before = None, self._before, None
            if piece.why is not None:
                narrator.blame("", [piece.why])
            if piece.form is Form.FRAME:
                told = len(narrator.out)
                self._frame(piece.value, piece.name)
                if len(narrator.out) == told + 1:
                    self._learn(piece, before)
            elif piece.form is Form.NOISE:
                self._noise(piece)
            elif piece.form is Form.DONE:
                self._sentinel()
            else:
                self._body(piece.value, piece.data)

    def _again(self, like: Alike, text: str) -> None:
        """Tell of the text of a frame that is like the one before."""
        self._narrator.again(like.event, like.slot, text)

    def _learn(self, piece: Piece, before: Alike | None) -> None:
        """Let the next frames be read as this one was, if it told of a text and of nothing else that may be another next time."""
        narrator = self._narrator
        event, slot = narrator.out[-1], narrator.last
        if not isinstance(event, TextDelta) or slot is None or narrator.untold:
            return
        known = alike(piece.data, piece.name, event, slot, self._texts_of)
        if known is not None and (event.wire is None or (before is not None and known.confirms(before))):
            self._intake.alike = known
        else:
            self._before = known

    def _given(self) -> list[Event]:
        if not self.ended and (limit := self._intake.exceeded or self._narrator.exceeded) is not None:
            self.ended = True
            self._drain(whole=False)
            self._narrator.fail_by_limit(limit)
        return self._narrator.take()


def unnamed(found: object) -> dict[str, str]:
    """The defect of a frame without a type of its own."""
    return defect("type_missing", "$.type", "the event's type", found)
