"""Writes the events of a turn whose wire has no indexes of its own: a new item whenever the kind of output changes.

A run of text of one track is one item; a tool is an item. Text is finished, with `block_final` and `item_finished`, as soon
as something else begins, and at the turn's end at the latest.
"""

from typing import Any

from pipeline.events import (
    BlockFinal,
    ErrorInfo,
    Event,
    Outcome,
    Status,
    TextDelta,
    ToolFinished,
    ToolStarted,
    Track,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    Wire,
)
from pipeline.limits import Limits
from pipeline.normalize.defects import Defect
from pipeline.normalize.stamp import Stamp

Json = dict[str, Any]
TRUNCATED = "upstream_truncated"


class Run:
    """The item of text that is open: its track, its text so far, the upstream's name for it if it has one."""

    __slots__ = ("chars", "item", "name", "pieces", "track", "wire")

    def __init__(self, item: int, track: Track, name: str) -> None:
        self.item = item
        self.track = track
        self.name = name
        self.pieces: list[str] = []
        self.chars = 0
        self.wire: Json = {}


class Narrator:
    """The growing list of events, the run of text that is open, the bounds, the defects that wait for an event."""

    def __init__(self, stamp: Stamp, limits: Limits) -> None:
        self.limits = limits
        self.out: list[Event] = []
        self.exceeded: str | None = None
        self.run: Run | None = None
        self._stamp = stamp
        self._items = 0
        self._chars = 0
        self._untold: list[Defect] = []
        self._told: set[tuple[str, str, str]] = set()

    def take(self) -> list[Event]:
        """The events since the last take."""
        events = self.out
        self.out = []
        return events

    def new_item(self) -> int:
        """Number a new item; past the bound the turn will end."""
        if self._items >= self.limits.turn_items:
            self.exceeded = "turn_items"
        self._items += 1
        return self._items - 1

    def keep(self, chars: int, item_chars: int) -> None:
        """Count text against the bounds of an item and of the turn."""
        self._chars += chars
        if item_chars > self.limits.item_text_chars:
            self.exceeded = "item_text_chars"
        elif self._chars > self.limits.turn_text_chars:
            self.exceeded = "turn_text_chars"

    # defects

    def blame(self, kind: str, defects: list[Defect]) -> None:
        """Remember defects for the next event; each is told once for a kind of message."""
        for one in defects:
            key = (kind, one["code"], one["path"])
            if key not in self._told:
                self._told.add(key)
                self._untold.append(one)

    def tell_untold(self) -> None:
        """Tell of defects whose message made no event that could carry them."""
        if self._untold:
            self.status("malformed", detail=self._untold[0])

    def _wire(self, wire: Wire) -> Wire:
        if not self._untold:
            return wire or None
        defects, self._untold = self._untold, []
        return {**(wire or {}), "defects": defects}

    # text

    def text(self, track: Track, text: str, wire: Wire = None, *, name: str = "") -> None:
        """Tell of text: it goes on with the open run of its track and name, else it begins one."""
        run = self.run
        if run is None or run.track != track or (name and run.name and name != run.name):
            self.end_text()
            run = self.run = Run(self.new_item(), track, name)
        run.name = run.name or name
        run.pieces.append(text)
        run.chars += len(text)
        self.keep(len(text), run.chars)
        seq, at = self._stamp.next()
        wire = self._wire(wire)
        self.out.append(TextDelta(seq=seq, at=at, item=run.item, content=0, track=track, text=text, wire=wire))

    def end_text(self) -> None:
        """Finish the open run of text, if there is one."""
        run, self.run = self.run, None
        if run is None:
            return
        seq, at = self._stamp.next()
        text = "".join(run.pieces)
        wire = self._wire(run.wire)
        self.out.append(BlockFinal(seq=seq, at=at, item=run.item, content=0, track=run.track, text=text, wire=wire))
        self.status("item_finished", run.item)

    # tools

    def tool_started(self, item: int, call_id: str, name: str, kind: str, wire: Wire = None) -> None:
        """Tell that a tool was called."""
        seq, at = self._stamp.next()
        wire = self._wire(wire)
        self.out.append(ToolStarted(seq=seq, at=at, item=item, call_id=call_id, name=name, kind=kind, wire=wire))

    def tool_input(self, item: int, text: str) -> None:
        """Tell a tool's input, whole."""
        seq, at = self._stamp.next()
        self.out.append(TextDelta(seq=seq, at=at, item=item, content=0, track="tool_input", text=text))

    def tool_finished(
        self, item: int, call_id: str, status: str, text: str, *, output: object = None, wire: Wire = None
    ) -> None:
        """Tell that a tool's call is whole, or that it has run."""
        seq, at = self._stamp.next()
        self.out.append(
            ToolFinished(
                seq=seq,
                at=at,
                item=item,
                call_id=call_id,
                status=status,
                input=text,
                output=output,
                wire=self._wire(wire),
            )
        )

    # anything else

    def status(self, name: str, item: int | None = None, *, detail: object = None, wire: Wire = None) -> None:
        """Tell of anything else."""
        seq, at = self._stamp.next()
        self.out.append(Status(seq=seq, at=at, name=name, item=item, detail=detail, wire=self._wire(wire)))

    # the end

    def complete(self, outcome: Outcome, reason: str | None, usage: Json | None, wire: Wire = None) -> None:
        """Tell that the turn ended by itself."""
        seq, at = self._stamp.next()
        details = {"reason": reason} if reason is not None else None
        self.out.append(
            TurnCompleted(
                seq=seq, at=at, outcome=outcome, usage=usage, incomplete_details=details, wire=self._wire(wire)
            )
        )

    def fail(self, error: ErrorInfo, usage: Json | None = None, wire: Wire = None) -> None:
        """Tell that the turn failed."""
        seq, at = self._stamp.next()
        self.out.append(TurnFailed(seq=seq, at=at, error=error, usage=usage, wire=self._wire(wire)))

    def cancel(self, usage: Json | None = None, wire: Wire = None) -> None:
        """Tell that the turn was cancelled."""
        seq, at = self._stamp.next()
        self.out.append(TurnCancelled(seq=seq, at=at, reason="cancelled", usage=usage, wire=self._wire(wire)))

    def fail_by_limit(self, limit: str) -> None:
        """Tell that the turn failed because a bound was exceeded; its name is the code."""
        bound = getattr(self.limits, limit)
        self.fail(ErrorInfo(code=limit, message=f"the upstream exceeded {limit} ({bound})"))


def without(value: Json, *names: str) -> Json:
    """The members that are left without those named."""
    return {name: member for name, member in value.items() if name not in names}
