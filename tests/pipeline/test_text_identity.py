"""Text is identified by its place, never by what it says; and what was said before a tool is read before it."""

from pipeline.events import Event, TextDelta, ToolStarted, TurnCompleted, TurnStarted
from pipeline.output import Block
from pipeline.turn import Turn

TURN = "0-" + "ab" * 12


def delta(text: str) -> TextDelta:
    return TextDelta(seq=1, at=0, item=0, content=0, track="text", text=text)


def blocks_after(*events: Event) -> list[Block]:
    turn = Turn(TURN)
    turn.push(
        TurnStarted(seq=0, at=0, fold=1, runtime="main", wire="chat", turn=TURN, session="s", settings={"idle_ms": 0})
    )
    return [block for event in events for block in turn.push(event).blocks]


def test_two_equal_deltas_are_two_texts() -> None:
    blocks = blocks_after(delta("ha "), delta("ha "), delta("ha"), TurnCompleted(seq=2, at=0, outcome="completed"))
    assert "".join(block.text + block.separator for block in blocks) == "ha ha ha"


def test_the_text_before_a_tool_goes_out_before_the_tool() -> None:
    tool = ToolStarted(seq=2, at=0, item=1, call_id="c", name="look", kind="function")
    assert [block.text for block in blocks_after(delta("Let me see."), tool)] == ["Let me see."]
