"""The reader's side of a turn, method by method: what is held, what goes out, and what is shown beside the text."""

from typing import Any

import pytest

from pipeline.assemble import Answer, Assembler
from pipeline.events import Status, ToolFinished, ToolStarted, TurnCompleted
from pipeline.output import Block
from pipeline.settings import resolve
from tests.pipeline.streams import text_of


def answer(**settings: Any) -> Answer:
    return Answer(resolve(settings))


def kinds(blocks: list[Block]) -> list[str | None]:
    return [block.markers.get("kind") for block in blocks]


END = TurnCompleted(seq=9, at=0, outcome="completed")


def test_an_answer_counts_its_blocks_and_says_when_it_waits() -> None:
    made = answer(min_chars=3, idle_ms=50)
    assert (made.blocks, made.wants_idle_after_ms) == (0, None)
    assert made.text("", 0) == []
    made.text("Hello", 0)
    assert made.wants_idle_after_ms == 50
    assert [block.text for block in made.idle()] == ["Hello"]
    assert made.blocks == 1
    thinking = answer(min_chars=3, idle_ms=50, reasoning="shown")
    thinking.reasoning("Thinking", (0, 0))
    assert thinking.wants_idle_after_ms == 50


def test_reasoning_that_is_shown_comes_behind_the_text_before_it() -> None:
    made = answer(reasoning="shown")
    made.text("Text.", 0)
    blocks = made.reasoning("Thought.", (1, 0)) + made.reasoning("Another.", (1, 1)) + made.end(END)
    assert [(block.text, block.markers.get("kind")) for block in blocks] == [
        ("Text.", None),
        ("Thought.", "reasoning"),
        ("Another.", "reasoning"),
    ]
    assert answer().reasoning("Hidden.", (0, 0)) == made.reasoning("", (0, 0)) == []


@pytest.mark.parametrize(
    ("name", "lines", "given"), [("requires_action", "none", 1), ("requires_action", "summary", 2), ("item_started", "summary", 1), ("usage", "summary", 0)]
)  # fmt: skip
def test_a_status_gives_out_the_text_before_it_and_may_be_told(name: str, lines: str, given: int) -> None:
    made = answer(status_lines=lines)
    made.text("Text.", 0)
    assert len(made.status(Status(seq=1, at=0, name=name, detail=" now "))) == given


def test_a_tool_is_told_once_and_a_bad_end_once() -> None:
    made = answer(tool_lines="summary")
    started = ToolStarted(seq=1, at=0, item=0, call_id="k", name="f", kind="function")
    ended = ToolFinished(seq=1, at=0, item=0, call_id="k", status="failed")
    blocks = [made.tool(event) for event in (started, started, ended, ended)]
    assert [len(some) for some in blocks] == [1, 0, 1, 0]
    assert "f: failed" in blocks[2][0].markers["note"]


@pytest.mark.parametrize("sizes", [[1], [7], [300], [5000]])
def test_text_beyond_the_bound_of_the_output_is_kept_and_not_shown(sizes: list[int]) -> None:
    text = "".join(f"word {n}. " for n in range(600))
    made = answer(max_output_chars=1000, min_chars=100, max_chars=400)
    blocks = []
    for at in range(0, len(text), sizes[0]):
        blocks += made.text(text[at : at + sizes[0]], 0)
    blocks += made.end(END)
    assert text_of(blocks) == text
    shown = "".join(block.text + block.separator for block in blocks if not block.markers.get("suppressed"))
    assert shown == text[:1000]
    assert kinds(blocks).count("note") == 1


def test_a_refusal_is_one_line_at_the_end() -> None:
    made = answer()
    made.refusal("No")
    made.refusal(", never.")
    (block,) = made.end(END)
    assert (block.markers["kind"], block.markers["note"], block.text) == ("refusal", "No, never.", "")


def pushed(texts: list[str], **settings: Any) -> list[Block]:
    assembler = Assembler(resolve(settings))
    return [block for text in texts for block in assembler.push(text)] + assembler.flush(final=True)


def test_a_long_delta_behind_a_long_held_text_makes_the_same_blocks_as_short_ones() -> None:
    text = "x" * 9000 + " word" * 20_000
    sizes: Any = {"min_chars": 100, "max_chars": 900_000}
    whole = pushed([text[:9000], text[9000:]], **sizes)
    assert whole == pushed([text[at : at + 50] for at in range(0, len(text), 50)], **sizes)
    small = pushed([text[:9000], text[9000:]], min_chars=100, max_chars=2000)
    assert text_of(small) == text


def test_sentences_may_be_preferred() -> None:
    blocks = pushed(
        ["One is one. Two is two.\nThree is three. Four"], min_chars=5, max_chars=30, **{"break": "sentence"}
    )
    assert [block.text for block in blocks] == ["One is one.", "Two is two.\nThree is three.", "Four"]


def test_a_first_line_of_marks_that_holds_a_mark_was_no_fence() -> None:
    for first in ("```" + "i" * 40, "```js " + "word " * 12):
        text = first + "` and more\nand a line\n"
        blocks = pushed(list(text), min_chars=1, max_chars=20)
        assert text_of(blocks) == text


def test_reasoning_behind_a_call_gives_out_the_text_before_it() -> None:
    made = answer(tool_lines="none")
    made.text("Text.", 0)
    made.tool(ToolStarted(seq=1, at=0, item=1, call_id="k", name="f", kind="function"))
    made.text("More.", 2)
    made.tool(ToolFinished(seq=2, at=0, item=1, call_id="k", status="completed"))
    assert [block.text for block in made.reasoning("Hm.", (3, 0))] == ["More."]
