"""A short run of the fuzz, and that it finds what is planted."""

import gc
import json
import sys
from typing import Any

import pytest

from pipeline.assemble import Answer
from pipeline.output import Frame, Output
from pipeline.turn import Turn
from scripts.fuzz import engine
from scripts.fuzz.__main__ import reduced
from scripts.fuzz.engine import Task, attempt, fuzz, run, stream
from scripts.fuzz.seeds import EVENTS, MOST, WIRE_NAMES, seeds

SEED = 20


def test_a_few_hundred_spoiled_streams_of_every_wire_break_nothing() -> None:
    made = fuzz(400, SEED)
    assert made["faults"] == []
    assert set(made["wires"]) == set(WIRE_NAMES)
    assert len(made["strict_refuses"]) > 15
    assert made["strict_accepts"] > 20


def test_nothing_is_left_behind() -> None:
    """The same streams once more, when every cache is filled, hold no more memory than before."""
    task = Task(SEED, 0, 80, 1, WIRE_NAMES, None)
    held = []
    for _ in range(3):
        run(task)
        gc.collect()
        held.append(sys.getallocatedblocks())
    assert min(held[1:]) - held[0] < 1000


def test_a_stream_is_made_of_the_seed_and_its_number() -> None:
    kept = seeds(WIRE_NAMES)
    for number in range(80):
        wire, pieces, chunks = stream(SEED, number, kept)
        assert (wire, pieces, chunks) == stream(SEED, number, kept)
        assert len(pieces) <= MOST
    assert stream(SEED, 1, kept) != stream(SEED + 1, 1, kept)


def faults(wire: str = "all", streams: int = 60) -> str:
    made = fuzz(streams, SEED, WIRE_NAMES if wire == "all" else (wire,))
    return json.dumps(made["faults"])


def number_twice(monkeypatch: pytest.MonkeyPatch) -> str:
    taken = Turn.take

    def take(turn: Turn) -> Output:
        made = taken(turn)
        made.frames = [Frame(one.number, one.event, one.data.replace(b":7}", b":6}")) for one in made.frames]
        return made

    monkeypatch.setattr(Turn, "take", take)
    return "not numbered 0..N"


def lose_an_item(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("pipeline.turn.machine.output_of", lambda _: [])
    return "not the items that were shown"


def lose_text(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(Answer, "text", lambda *_: [])
    return "the blocks are not the text"


def raise_another(monkeypatch: pytest.MonkeyPatch) -> str:
    def feed(*_: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr(Turn, "feed", feed)
    return "KeyError"


def hang(monkeypatch: pytest.MonkeyPatch) -> str:
    def feed(*_: Any) -> None:
        while True:
            pass

    monkeypatch.setattr(Turn, "feed", feed)
    monkeypatch.setattr(engine, "HANG_SECONDS", 0.05)
    return "Hang"


@pytest.mark.parametrize("plant", [number_twice, lose_an_item, lose_text, raise_another, hang])
def test_what_is_planted_is_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = plant(monkeypatch)
    assert wanted in faults("chat", streams=20)


def test_a_fault_is_shown_by_as_few_pieces_as_it_takes() -> None:
    def found(parts: Any) -> list[str]:
        return ["both"] if {3, 7} <= set(parts) else []

    assert reduced(list(range(10)), found) == [3, 7]
    assert reduced([1, 2], found) == [1, 2]


def test_events_of_other_producers_are_tried_too() -> None:
    kept = [seed for seed in seeds((EVENTS,)) if any(piece.name == "tools" for piece in seed.pieces)]
    assert kept
    for seed in kept:
        assert attempt(1, EVENTS, seed.pieces, []).faults == []
