"""What was read and is in no block, told from frames and blocks alone."""

from typing import Any

import msgspec
import pytest

from ledger.records import BlockRecord
from pipeline.events import TextDelta
from pipeline.output import Block, Output
from pipeline.settings import resolve
from pipeline.turn import Turn
from tests.workers.fold_bench import AT, started, turn_id
from workers.fold.live import Effects
from workers.fold.remainder import Told, ending

TEXT = "response.output_text.delta"
THOUGHT = "response.reasoning_summary_text.delta"
REFUSAL = "response.refusal.delta"
FENCED = "Before.\n\n```python\n" + "".join(f"line_{n} = {n}\n" for n in range(20)) + "```\n\nBehind."


def frame(event: str, delta: str) -> str:
    return f"event: {event}\ndata: {msgspec.json.encode({'type': event, 'delta': delta}).decode()}\n\n"


def stored(text: str, separator: str = "", **markers: Any) -> BlockRecord:
    return BlockRecord(
        opener="", text=text, closer="", separator=separator, markers=msgspec.json.encode(markers).decode()
    )


def told_of(frames: list[tuple[str, str]], blocks: list[BlockRecord | None]) -> Told:
    told = Told()
    for event, delta in frames:
        told.frames(frame(event, delta))
    for block in blocks:
        told.block(block)
    return told


def last_blocks(told: Told, **settings: Any) -> list[Block]:
    return ending(told, resolve({"on_failure": "deliver", **settings}), "x", number=len(told.answer))


@pytest.mark.parametrize("at", range(0, len(FENCED), 7))
def test_wherever_a_turn_breaks_off_blocks_and_remainder_are_what_was_read(at: int) -> None:
    settings = {"min_chars": 20, "max_chars": 80, "on_failure": "deliver"}
    turn = Turn(turn_id(1))
    effects = Effects(frames_next=0, blocks_next=0)

    def add(output: Output) -> None:
        effects.sse.extend(one.sse for one in output.frames)
        effects.blocks.extend(output.blocks)

    add(turn.push(started(turn_id(1), settings)))  # type: ignore[arg-type]  # a policy is a word
    for n in range(0, at, 5):
        text = FENCED[n : min(n + 5, at)]
        add(turn.push(TextDelta(seq=1 + n, at=AT, item=0, content=0, track="text", text=text)))
    told = Told()
    told.frames("".join(effects.sse))
    for record in effects.records:
        told.block(record)
    more = ending(told, resolve(settings), "x", number=len(effects.blocks))
    blocks = effects.blocks + more
    assert "".join(block.text + block.separator for block in blocks) == FENCED[:at]
    assert [block.ordinal for block in blocks] == list(range(len(blocks)))
    for block in blocks:
        assert len(block.body) <= 80
        assert block.body.count("```") % 2 == 0 or not block.closer, "a fence of ours is open"


def test_reasoning_and_refusals_are_told_apart_from_text() -> None:
    frames = [(THOUGHT, "Hm. "), (THOUGHT, "Well."), (TEXT, "So "), (TEXT, "be it."), (REFUSAL, "No"), (REFUSAL, ".")]
    told = told_of(frames, [stored("Hm.", " ", kind="reasoning"), stored("", kind="tool", note="look")])
    shown = last_blocks(told, reasoning="shown")
    assert [(block.text, block.markers) for block in shown] == [
        ("Well.", {"kind": "reasoning"}),
        ("So be it.", {}),
        ("", {"kind": "refusal", "note": "No."}),
    ]
    assert [block.text for block in last_blocks(told)] == ["So be it.", ""], "hidden reasoning stays hidden"
    assert last_blocks(told, on_failure="note")[-1].markers["kind"] == "note"


def test_what_is_beyond_the_bound_of_the_output_stays_suppressed() -> None:
    told = told_of(
        [(TEXT, "x" * 300)], [stored("x" * 100), stored("x" * 50, suppressed=True, reason="max_output_chars")]
    )
    (rest,) = last_blocks(told, max_output_chars=100)
    assert (rest.text, rest.markers) == ("x" * 150, {"suppressed": True, "reason": "max_output_chars"})
    assert told.answer == "x" * 100
    assert last_blocks(told, max_output_chars=300)[0].markers == {}
    told.frames(frame(THOUGHT, "Hm."))
    thought = last_blocks(told, max_output_chars=100, reasoning="shown")[0]
    assert thought.markers == {"kind": "reasoning", "suppressed": True, "reason": "max_output_chars"}


def test_blocks_that_are_ahead_of_the_frames_leave_nothing() -> None:
    told = told_of([(TEXT, "one")], [stored("one two")])
    assert last_blocks(told) == []
    assert told.is_clear


@pytest.mark.parametrize("blocks", [[None], [None, stored("ha", " ")], [stored("something else")]])
def test_text_whose_place_nobody_knows_is_not_given_out(blocks: list[BlockRecord | None]) -> None:
    told = told_of([(TEXT, "ha "), (TEXT, "ha "), (TEXT, "ha")], blocks)
    assert last_blocks(told) == []
    assert not told.is_clear
    assert [block.markers["kind"] for block in last_blocks(told, on_failure="note")] == ["note"]
