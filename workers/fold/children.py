"""What a child turn tells its parent: that it began, each time it has new blocks, and how it ended with what came of it.

These are events for the parent's log, made from the child's own: their numbers, times and words follow from the child's log alone, so a
fold that does it again makes the very same. They go with the child's effects in one commit, under the producer `child:<turn>`: a crash
leaves both or neither, and no note comes twice or is left out. A parent that has ended hears nothing more; the child's text is
delivered all the same, since it never goes by way of the parent.
"""

from dataclasses import dataclass
from typing import Any, Final

from ledger.keys import parse_turn_id
from pipeline.events import Event, Status, ToolFinished
from pipeline.output import Block

ANSWER_CHARS: Final = 16_384
"""Of the child's text so much goes into the parent's log; the child's own record holds all of it."""
NO_ITEM: Final = 2**53 - 1
"""The item of a result that no item of the parent's upstream stands for; the call's id says whose it is."""

STARTED: Final = "child_started"
PROGRESS: Final = "child_progress"
ENDED: Final = "child_ended"


@dataclass
class Child:
    """The child's side: whose child it is, how much was told, and the text so far."""

    turn: str
    parent: str
    call: str = ""
    notes_next: int = 0
    blocks: int = 0
    at: int = 0
    """The time of the event that the next note is about; notes have no clock of their own."""
    answer: str = ""
    is_cut: bool = False

    def started(self) -> list[Event]:
        """The child's first event is folded."""
        return [self._status(STARTED)]

    def progressed(self, blocks: list[Block]) -> list[Event]:
        """The child has new blocks."""
        if not blocks:
            return []
        self.blocks += len(blocks)
        for block in blocks:
            if not block.markers.get("suppressed") and not block.markers.get("kind"):
                self._keep(block.text + block.separator)
        return [self._status(PROGRESS)]

    def recall(self, answer: str) -> None:
        """The child's text so far, where it was not folded here."""
        self.answer, self.is_cut = "", False
        self._keep(answer)

    def ended(self, state: str, error: dict[str, Any] | None) -> list[Event]:
        """The child is over: told as a status, and as the finished tool that it was to its parent."""
        members: dict[str, Any] = {"state": state, "text": self.answer}
        if self.is_cut:
            members["truncated"] = True
        if error:
            members["error"] = error
        ending = self._status(ENDED, **members)
        result = ToolFinished(
            seq=self._take(),
            at=self.at,
            item=NO_ITEM,
            call_id=self.call or self.turn,
            status=state,
            output={"turn": self.turn, **members},
        )
        return [ending, result]

    def _status(self, name: str, **members: Any) -> Status:
        child = {"turn": self.turn, "call_id": self.call or None, "blocks": self.blocks, **members}
        kind = f"foldline.{name.replace('_', '.')}"
        return Status(seq=self._take(), at=self.at, name=name, detail=self.turn, wire={"type": kind, "child": child})

    def _take(self) -> int:
        self.notes_next += 1
        return self.notes_next - 1

    def _keep(self, text: str) -> None:
        room = ANSWER_CHARS - len(self.answer)
        self.answer += text[:room]
        self.is_cut = self.is_cut or len(text) > room


def can_hear(parent: str, turn: str) -> bool:
    """Whether a parent's log can be written together with the child's effects: both are of one partition."""
    try:
        return parse_turn_id(parent)[0] == parse_turn_id(turn)[0] and parent != turn
    except ValueError:
        return False
