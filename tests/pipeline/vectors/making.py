"""Blocks and parts from texts and events, as the vectors give them."""

from collections.abc import Sequence
from typing import Any

from pipeline.assemble import Assembler
from pipeline.events import (
    FOLD_VERSION,
    BlockFinal,
    ErrorInfo,
    Event,
    Status,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from pipeline.output import Block
from pipeline.project.registry import profile_of, project
from pipeline.settings import resolve, resolve_layers
from pipeline.turn import Turn

IDLE = object()
FLUSH = object()
TURN = "3-0123456789abcdef01234567"


def settled(**said: Any) -> dict[str, Any]:
    """Return a turn's settings; `break_` is `break`."""
    return resolve_layers([("vector", {key.rstrip("_"): value for key, value in said.items()})]).values


def assembled(pieces: Sequence[object], **said: Any) -> tuple[list[str], str]:
    """Return the blocks that are out after these pieces, and what is still held, as a final flush gives it."""
    assembler = Assembler(resolve(settled(**said)))
    blocks: list[Block] = []
    text = ""
    for piece in pieces:
        if piece is IDLE:
            blocks += assembler.idle()
        elif piece is FLUSH:
            blocks += assembler.flush()
        else:
            blocks += assembler.push(str(piece))
            text += str(piece)
    rest = assembler.flush(final=True)
    assert "".join(block.text + block.separator for block in [*blocks, *rest]) == text
    return [block.body for block in blocks], "".join(block.body + block.separator for block in rest)


class Story:
    """Events of one turn, in order, with their numbers."""

    def __init__(self, runtime: Any = "main", **said: Any) -> None:
        self.events: list[Event] = []
        self._add(
            TurnStarted,
            fold=FOLD_VERSION,
            runtime=runtime,
            wire="canonical",
            turn=TURN,
            session="s",
            settings=settled(**said),
        )

    def _add(self, event: Any, /, **members: Any) -> "Story":
        self.events.append(event(seq=len(self.events), at=len(self.events), **members))
        return self

    def text(self, *pieces: str, item: int = 0) -> "Story":
        """Text in deltas."""
        for piece in pieces:
            self._add(TextDelta, item=item, content=0, track="text", text=piece)
        return self

    def thought(self, *pieces: str, item: int = 9) -> "Story":
        """Reasoning in deltas."""
        for piece in pieces:
            self._add(TextDelta, item=item, content=0, track="reasoning", text=piece)
        return self

    def refusal(self, text: str) -> "Story":
        """A refusal."""
        return self._add(TextDelta, item=0, content=0, track="refusal", text=text)

    def final(self, text: str, item: int = 0) -> "Story":
        """The final word on a text."""
        return self._add(BlockFinal, item=item, content=0, track="text", text=text)

    def tool(self, item: int = 1, status: str = "completed") -> "Story":
        """A tool's call, from start to end."""
        self._add(ToolStarted, item=item, call_id=f"call-{item}", name="look", kind="function")
        return self._add(ToolFinished, item=item, call_id=f"call-{item}", status=status, input="{}")

    def status(self, name: str, detail: Any = None) -> "Story":
        """A status."""
        return self._add(Status, name=name, detail=detail)

    def done(self) -> "Story":
        """A whole end."""
        return self._add(TurnCompleted, outcome="completed")

    def failed(self) -> "Story":
        """A failure."""
        return self._add(TurnFailed, error=ErrorInfo(code="server_error"))

    def cancelled(self) -> "Story":
        """A cancel."""
        return self._add(TurnCancelled, reason="user")

    def blocks(self) -> list[Block]:
        """Fold the events; law 4 holds whatever they are."""
        turn = Turn(TURN)
        blocks = [block for event in self.events for block in turn.push(event).blocks]
        told = "".join(event.text for event in self.events if isinstance(event, TextDelta) and event.track == "text")
        texts = [block for block in blocks if block.markers.get("kind") != "reasoning"]
        assert "".join(block.text + block.separator for block in texts) == told or any(
            isinstance(event, BlockFinal) for event in self.events
        )
        assert [block.ordinal for block in blocks] == list(range(len(blocks)))
        return blocks

    def texts(self) -> list[str]:
        """The texts of the blocks that have one."""
        return [block.text for block in self.blocks() if block.text]


def joined(blocks: Sequence[Block]) -> str:
    """The texts as one view shows them, with their boundaries."""
    return "".join(str(block.markers.get("boundary", "")) + block.text + block.separator for block in blocks)


def parts(channel: str, text: str, **bounds: Any) -> list[str]:
    """Return the bodies of a channel's messages for a text."""
    return [part.body for part in project(Block(0, text), profile_of(channel, **bounds))]
