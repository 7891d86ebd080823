"""Vectors of the chunker (CK), the coalescer (CO), the agent's projector (AC) and the block pipeline (PL)."""

import pytest

from pipeline.project.registry import profile_of, project
from tests.pipeline.vectors.making import FLUSH, IDLE, Story, assembled, joined, parts


def test_a_whole_fence_ends_a_block_and_what_follows_waits() -> None:
    code = "Intro\n```js\nconsole.log('x')\n```"
    out, held = assembled([code + "\n\nAfter first line\nAfter second line"], min_chars=1, max_chars=40)
    assert (out, held) == ([code], "After first line\nAfter second line")


def test_newline_mode_ends_at_the_first_blank_line_past_the_minimum() -> None:
    text = "First paragraph.\n\nSecond paragraph.\n\nThird paragraph."
    out, held = assembled([text], min_chars=30, max_chars=200, chunk_mode="newline")
    assert (out, held) == (["First paragraph.\n\nSecond paragraph."], "Third paragraph.")


def test_newline_mode_below_the_minimum_gives_nothing() -> None:
    text = "First paragraph.\n \nSecond paragraph."
    assert assembled([text], min_chars=100, max_chars=200, chunk_mode="newline") == ([], text)


def test_a_word_longer_than_a_block_is_cut_hard() -> None:
    out, held = assembled(["abcdefghijKLMNOP"], min_chars=1, max_chars=10, chunk_mode="newline")
    assert (out, held) == (["abcdefghij"], "KLMNOP")


def test_a_cut_takes_no_surrogate_pair_apart() -> None:
    assert assembled(["x" * 19 + "😀tail"], min_chars=1, max_chars=20) == (["x" * 19], "😀tail")


def test_the_closer_is_reserved_when_a_fence_is_cut() -> None:
    out, held = assembled(["```txt\n" + "x" * 12 + "😀tail"], min_chars=10, max_chars=20)
    assert (out, held) == (["```txt\n" + "x" * 9 + "\n```"], "```txt\nxxx😀tail\n```")


def test_a_blank_line_within_a_fence_ends_nothing() -> None:
    code = "```js\nconst a = 1;\n\nconst b = 2;\n```"
    out, held = assembled([code + "\n\nAfter fence"], min_chars=10, max_chars=200, chunk_mode="newline")
    assert (out, held) == ([code], "After fence")


def test_code_longer_than_a_block_is_reopened_with_its_language_and_never_empty() -> None:
    out, held = assembled(["```txt\n" + "a" * 80 + "\n```", FLUSH], min_chars=10, max_chars=30)
    sizes = [len(block.removeprefix("```txt\n").removesuffix("\n```")) for block in [*out, held]]
    assert sizes[:5] == [19, 19, 19, 19, 4]
    assert held == "```"  # the fence's end alone is nothing to show, and is kept as what separates
    assert all(block.startswith("```txt\n") and block.endswith("\n```") and len(block) <= 30 for block in out)


def test_the_true_closer_is_used_where_it_fits() -> None:
    out, held = assembled(["```ts\nabcdefghijklmnop\n```"], min_chars=8, max_chars=20)
    assert [*out, held] == ["```ts\nabcdefghij\n```", "```ts\nklmnop\n```"]


def test_an_indented_fence_stays_whole_between_paragraphs() -> None:
    code = "  ```js\n  const x = 1;\n  ```"
    out, held = assembled([f"Intro\n\n{code}\n\nOutro"], min_chars=5, max_chars=30)
    assert [*out, held] == ["Intro", code, "Outro"]


def test_two_paragraphs_past_the_minimum_are_two_blocks() -> None:
    out, held = assembled(["First block line\n\nSecond block line"], min_chars=5, max_chars=25)
    assert [*out, held] == ["First block line", "Second block line"]


def test_the_start_of_a_fence_is_not_given_out_before_a_tool() -> None:
    # the law: tags are text, outside a fence as within
    tail = "xml\n<final>literal</final>\n~~~\n\n<think>private</think>After"
    out, held = assembled(["Intro\n\n~~~", FLUSH, tail], min_chars=1, break_="newline")
    assert (out, held) == (["Intro"], "~~~" + tail)


def test_tildes_in_the_middle_of_a_cut_line_are_no_fence() -> None:
    # the law: nothing is taken out of the text
    tail = "~~~xml\n<think>private</think>After"
    assert assembled(["a" * 1200 + tail]) == (["a" * 1200], tail)


def test_deltas_are_joined_as_they_come_and_go_out_after_a_silence() -> None:
    # the law: the joiner is empty; a space comes from the model
    assert assembled(["Hello,", " world", IDLE], min_chars=1) == (["Hello, world"], "")


def test_a_silence_gives_nothing_out_below_the_minimum() -> None:
    assert assembled(["short", IDLE], min_chars=10) == ([], "short")
    assert assembled(["short", IDLE, " message", IDLE], min_chars=10) == (["short message"], "")


def test_short_paragraphs_are_one_block_with_their_own_blank_line() -> None:
    text = ["First paragraph", "\n\nSecond paragraph", IDLE]
    assert assembled(text, min_chars=25) == (["First paragraph\n\nSecond paragraph"], "")


def test_a_flush_gives_out_what_is_below_the_minimum() -> None:
    assert assembled(["short", FLUSH], min_chars=10) == (["short"], "")


def test_reasoning_and_answer_are_never_one_block() -> None:
    blocks = Story(reasoning="shown").thought("hidden").text("Visible answer").done().blocks()
    assert [(block.text, block.markers.get("kind")) for block in blocks] == [
        ("hidden", "reasoning"),
        ("Visible answer", None),
    ]
    assert Story().thought("hidden").text("Visible answer").done().texts() == ["Visible answer"]


def test_a_silence_of_no_length_is_one() -> None:
    story = Story(idle_ms=0, max_chars=20, min_chars=10).text("long enough text").status("idle").done()
    assert story.texts() == ["long enough text"]


@pytest.mark.parametrize("runtime", ["main", "subagent", "acp"])
def test_full_blocks_go_out_while_the_text_streams(runtime: str) -> None:
    story = Story(runtime, min_chars=1, max_chars=50).text("a" * 50, "b" * 50, "c" * 20).done()
    assert story.texts() == ["a" * 50, "b" * 50, "c" * 20]


def test_a_delta_across_the_limit_is_cut_at_the_limit() -> None:
    assert assembled(["a" * 52, "b" * 10], min_chars=1, max_chars=50) == (["a" * 50], "aa" + "b" * 10)


def test_half_a_sentence_waits_for_the_rest_of_it() -> None:
    first, second = "Yes. Send me the term(s), and I’ll run ", "`wd-cli` searches right away. "
    assert assembled([first, IDLE, second, FLUSH])[0] == [(first + second).rstrip()]


def test_text_between_tools_is_told_apart_from_them_and_kept_in_order() -> None:
    # the law: a tool cuts; the texts are two blocks, and together what was said
    story = Story(tool_lines="summary").text("What").tool().text(" now?").done()
    assert [block.text or block.markers["note"] for block in story.blocks()] == ["What", "🔧 look", " now?"]


def test_texts_around_a_tool_are_set_apart_as_configured() -> None:
    story = Story("acp", hidden_boundary="paragraph").text("Step 1: Creating file...").tool()
    blocks = story.text("Step 2: Writing content...").done().blocks()
    assert joined(blocks) == "Step 1: Creating file...\n\nStep 2: Writing content..."


@pytest.mark.parametrize(
    ("boundary", "first", "second", "shown"),
    [
        ("space", "fallback.", "I don't", "fallback. I don't"),
        ("none", "fallback.", "I don't", "fallback.I don't"),
        ("space", "fallback.\n", "I don't", "fallback.\nI don't"),
        ("newline", "fallback.\n", "I don't", "fallback.\nI don't"),
        ("newline", "fallback.", "I don't", "fallback.\nI don't"),
        ("space", "fallback.", " I don't", "fallback. I don't"),
    ],
)
def test_a_hidden_tool_leaves_a_boundary_and_never_glue(boundary: str, first: str, second: str, shown: str) -> None:
    blocks = Story("acp", hidden_boundary=boundary).text(first).tool().text(second).done().blocks()
    assert joined(blocks) == shown


def test_a_tool_before_the_first_text_leaves_no_boundary() -> None:
    assert joined(Story().tool().text("first").done().blocks()) == "first"


@pytest.mark.parametrize("name", ["usage_update", "keepalive", "available_commands_update", "annotation"])
def test_a_hidden_status_leaves_no_trace(name: str) -> None:
    assert Story("acp").text("A").status(name).text("B").done().texts() == ["AB"]


def test_what_is_beyond_the_bound_of_the_output_is_recorded_and_told_once() -> None:
    blocks = Story(max_output_chars=5).text("hello world", "ignored tail").done().blocks()
    assert [block.text for block in blocks if not block.markers] == ["hello"]
    assert sum("note" in block.markers for block in blocks) == 1
    dropped = [block for block in blocks if block.markers.get("suppressed")]
    assert "".join(block.text + block.separator for block in dropped) == " worldignored tail"
    assert {block.markers["reason"] for block in dropped} == {"max_output_chars"}


def test_the_bound_of_the_output_takes_no_character_apart() -> None:
    family = "👩‍👩‍👧‍👦"
    for pieces in (["ab" + family], list("ab" + family)):
        assert Story(max_output_chars=5).text(*pieces, "more").done().texts()[0] == "ab"


def test_the_same_text_in_two_turns_is_sent_twice() -> None:
    assert [Story().text("A").done().texts() for _ in range(2)] == [["A"], ["A"]]


def test_text_goes_out_before_a_status_line() -> None:
    blocks = Story(status_lines="summary").text("Hello", " world").status("plan", "two steps").done().blocks()
    assert [block.text or block.markers["note"] for block in blocks] == ["Hello world", "⚙️ plan: two steps"]


def test_a_long_status_line_is_shortened() -> None:
    blocks = Story(status_lines="summary", max_status_chars=64).status("plan", "x" * 500).done().blocks()
    assert len(blocks[0].markers["note"]) == len("⚙️ ") + 64


def test_each_call_is_told_once_whatever_is_said_of_it() -> None:
    # the law: identity decides; a repeated start of one call is no second call
    story = Story(tool_lines="summary").tool(1).tool(1).tool(2).tool(3, status="failed").tool(3, status="failed").done()
    notes = [block.markers["note"] for block in story.blocks()]
    assert notes == ["🔧 look", "🔧 look", "🔧 look", "🔧 look: failed"]


def test_deltas_below_the_minimum_are_one_block_at_the_end() -> None:
    assert Story().text("What", " do", " you want to work on?").done().texts() == ["What do you want to work on?"]


def test_a_final_word_that_repeats_the_deltas_adds_nothing() -> None:
    for deltas in (["Hello"], ["para1\n\n", "para2"], ["  hello  "]):
        assert Story().text(*deltas).final("".join(deltas)).done().texts() == Story().text(*deltas).done().texts()


def test_a_final_word_without_deltas_is_delivered() -> None:
    assert Story().final("all at once").done().texts() == ["all at once"]


def test_equal_texts_at_two_places_are_two_texts() -> None:
    assert Story().text("same", item=0).tool().text("same", item=2).done().texts() == ["same", "same"]


def test_a_tail_is_given_out_exactly_once_at_every_end() -> None:
    assert Story().text("A tail").failed().texts() == ["A tail"]
    assert Story().text("A tail").cancelled().texts() == ["A tail"]
    assert Story().text("A tail").done().texts() == ["A tail"]


@pytest.mark.parametrize("end", ["failed", "cancelled"])
@pytest.mark.parametrize("policy", ["deliver", "note", "suppress"])
def test_what_is_held_at_a_bad_end_goes_as_the_policy_says(end: str, policy: str) -> None:
    story = Story(on_failure=policy, on_cancel=policy).text("First.").tool().text("A tail")
    first, *rest = getattr(story, end)().blocks()
    assert (first.text, first.markers) == ("First.", {})
    (tail,) = rest
    assert tail.text == "A tail"
    assert ("note" in tail.markers, bool(tail.markers.get("suppressed"))) == (policy == "note", policy == "suppress")
    assert tail.markers.get("reason") == (end if policy == "suppress" else None)


def test_a_failure_without_text_is_told_in_a_block_of_its_own() -> None:
    (block,) = Story().failed().blocks()
    assert (block.text, block.markers["kind"]) == ("", "note")


def test_a_refusal_is_shown_and_is_no_text() -> None:
    (block,) = Story().refusal("I will not.").done().blocks()
    assert (block.text, block.markers) == ("", {"kind": "refusal", "note": "I will not."})
    for channel in ("discord", "slack", "telegram"):
        assert "I will not." in project(block, profile_of(channel))[0].body


def test_two_messages_are_not_glued() -> None:
    blocks = Story().text("Alpha one.", item=0).text("Beta one.", item=1).done().blocks()
    assert [block.text for block in blocks] == ["Alpha one.", "Beta one."]
    assert joined(blocks) == "Alpha one. Beta one."


@pytest.mark.parametrize(
    "pieces", [["디", "렉", "토", "리"], ["/home/", "user/"], ["Hello", " ", "world"], ["ha", "ha"]]
)
def test_nothing_is_put_between_deltas_and_nothing_taken(pieces: list[str]) -> None:
    assert Story("acp").text(*pieces).done().texts() == ["".join(pieces)]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_every_blank_line_is_there_once_whatever_the_deltas(size: int) -> None:
    text = "# Title\n\nFirst paragraph.\n\nSecond paragraph."
    story = Story(min_chars=1, max_chars=20).text(*[text[at : at + size] for at in range(0, len(text), size)]).done()
    assert [block.body for block in story.blocks()] == ["# Title", "First paragraph.", "Second paragraph."]
    assert joined(story.blocks()) == text


def test_a_flush_keeps_the_line_feed_between_two_texts() -> None:
    assert joined(Story(hidden_boundary="none").text("First.\n").tool().text("Second.").done().blocks()) == (
        "First.\nSecond."
    )


def test_newline_mode_makes_each_paragraph_a_block() -> None:
    out, held = assembled(["p" * 78 + "\n\n" + "q" * 51 + "\n\n" + "r" * 43], chunk_mode="newline")
    assert [*out, held] == ["p" * 78, "q" * 51, "r" * 43]
    assert assembled(["Line one\nLine two"], chunk_mode="newline") == ([], "Line one\nLine two")


def test_a_line_with_text_behind_the_ticks_closes_no_fence() -> None:
    code = "```txt\ncode\n```not-a-close\nmore\n```"
    assert assembled([code + "\n\nAfter"], min_chars=5)[0] == [code]
    assert parts("discord", code) == [
        "```txt\ncode\n``\u200b`not-a-close\nmore\n```".replace("``\u200b`", "`\u200b`\u200b`")
    ]


def test_a_long_first_line_of_a_fence_is_not_repeated_and_leaves_no_stray_mark() -> None:
    text = "```" + "i" * 100 + "\n" + "a" * 200 + "\n```"
    out, held = assembled([text], min_chars=5, max_chars=50)
    assert all(len(block) <= 50 for block in out)
    code = [block for block in [*out, held] if "a" in block]
    assert all(block.startswith("```\n") and block.endswith("\n```") for block in code)
    out, held = assembled(["`" * 40 + "x\n" + "a" * 200 + "\n" + "`" * 40], min_chars=5, max_chars=50)
    assert "".join([*out, held]).count("`") == 80


def test_a_table_is_cut_between_its_rows() -> None:
    rows = [f"| {number} | value |" for number in range(40)]
    out, held = assembled(["\n".join(["| n | v |", "|---|---|", *rows])], min_chars=50, max_chars=200)
    assert all(line.startswith("|") and line.endswith("|") for block in [*out, held] for line in block.split("\n"))


def test_a_limit_too_small_for_a_fence_cuts_raw_and_in_bounds() -> None:
    out, held = assembled(["```\n" + "A" * 30 + "\n```"], min_chars=1, max_chars=8)
    assert all(len(block) <= 8 for block in [*out, held])
