"""Canonical events in short, and what a turn makes of them."""

from typing import Any

from pipeline.events import (
    BlockFinal,
    Event,
    Status,
    TextDelta,
    ToolFinished,
    ToolStarted,
    Track,
    TurnCompleted,
)
from pipeline.output import Block
from pipeline.turn import Turn
from tests.pipeline.staged import started
from tests.pipeline.streams import TURN, Json, data_of
from tests.pipeline.test_turn_properties import check_public

END = TurnCompleted(seq=99, at=0, outcome="completed")


def delta(text: str, item: int = 0, content: int = 0, track: Track = "text", wire: Json | None = None) -> TextDelta:
    return TextDelta(seq=1, at=0, item=item, content=content, track=track, text=text, wire=wire)


def final(text: str, item: int = 0, content: int = 0, track: Track = "text") -> BlockFinal:
    return BlockFinal(seq=1, at=0, item=item, content=content, track=track, text=text)


def status(name: str, item: int | None = 0, content: int | None = None, **more: Any) -> Status:
    return Status(seq=1, at=0, name=name, item=item, content=content, **more)


def item(kind: str, **more: Any) -> Json:
    return {"item": {"type": kind, **more}}


def call(item: int = 0, name: str = "f", kind: str = "function", wire: Json | None = None) -> ToolStarted:
    return ToolStarted(seq=1, at=0, item=item, call_id=f"k{item}", name=name, kind=kind, wire=wire)


def answer(item: int = 0, text: str | None = None, wire: Json | None = None, **more: Any) -> ToolFinished:
    return ToolFinished(seq=1, at=0, item=item, call_id=f"k{item}", status="completed", input=text, wire=wire, **more)


def fold(*events: Event, whole: bool = True) -> tuple[list[Json], list[Json], list[Block]]:
    """The frames behind the response's start, the output, and the blocks."""
    turn = Turn(TURN)
    frames, blocks = [], []
    for event in [started(), *events, END]:
        made = turn.push(event)
        frames += made.frames
        blocks += made.blocks
    if whole:
        check_public(frames)
    data = data_of(frames)
    return data[2:-1], data[-1]["response"]["output"], blocks


def output_of(*events: Event) -> list[Json]:
    return fold(*events)[1]
