import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.assemble import Assembler
from pipeline.assemble.cuts import blank_cut, sentence_cut
from pipeline.output import Block
from pipeline.settings import StreamSettings, resolve

FLUSH, IDLE = "\0flush", "\0idle"  # stand for a flush and a silence among deltas


def run(parts: list[str], stream: StreamSettings) -> list[Block]:
    assembler = Assembler(stream)
    blocks: list[Block] = []
    for part in parts:
        blocks += assembler.flush() if part == FLUSH else assembler.idle() if part == IDLE else assembler.push(part)
    return blocks + assembler.flush(final=True)


def shown(blocks: list[Block]) -> list[str]:
    return [block.body for block in blocks]


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def small(min_chars: int, max_chars: int) -> StreamSettings:
    return StreamSettings(min_chars=min_chars, max_chars=max_chars)


PIECES = st.sampled_from(
    [
        "a",
        "word ",
        "\n",
        "\n\n",
        " ",
        "```",
        "```js\n",
        "~~~\n",
        "\n```\n",
        "`",
        "Done. ",
        "。",
        "é",
        "😀",
        "\r\n",
        "  ",
        "x" * 17,
        "```" + "i" * 30 + "\n",
        "👩‍👩‍👧‍👦",
        "| a | b |\n",
        "|---|:-:|\n",
        "| c | d |\n| e | f |\n",
        "|",
    ]
)
TEXTS = st.lists(PIECES, max_size=60).map("".join)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[list[str], list[str], StreamSettings]:
    """Two partitions of one sequence of texts, flushes and silences."""
    texts = draw(st.lists(TEXTS, min_size=1, max_size=4))
    both: list[list[str]] = [[], []]
    for index, text in enumerate(texts):
        between = draw(st.sampled_from([FLUSH, IDLE]))
        for parts in both:
            cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
            parts += [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
            if index < len(texts) - 1:
                parts.append(between)
    least = draw(st.integers(1, 40))
    return both[0], both[1], small(least, draw(st.integers(least, 60)))


@settings(max_examples=400, deadline=None)
@given(partitions())
def test_blocks_do_not_depend_on_where_deltas_end_and_lose_nothing(
    case: tuple[list[str], list[str], StreamSettings],
) -> None:
    one, two, stream = case
    blocks = run(one, stream)
    text = "".join(part for part in one if part not in {FLUSH, IDLE})
    assert "".join(block.text + block.separator for block in blocks) == text
    assert [block.ordinal for block in blocks] == list(range(len(blocks)))
    assert all(units(block.body) <= stream.max_chars or len(block.text) == 1 for block in blocks)
    assert run(two, stream) == blocks
    characters: list[str] = []
    for part in one:
        characters += [part] if part in {FLUSH, IDLE} else list(part)
    assert run(characters, stream) == blocks
    for block in blocks:
        if block.opener.startswith("|"):
            assert block.opener.count("\n") == 2
            assert block.text.startswith("|")


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(12, 40), st.integers(0, 40))
@example("```js\n\n\n" + "x" * 60, 12, 4)
def test_no_block_is_a_fence_with_nothing_in_it(text: str, least: int, more: int) -> None:
    for block in run([text], small(least, least + more)):
        if block.opener and block.closer:
            assert block.text


def test_a_block_ends_at_the_first_blank_line_past_the_minimum() -> None:
    blocks = run(["First block line\n\nSecond block line"], small(5, 25))
    assert shown(blocks) == ["First block line", "Second block line"]
    assert blocks[0].separator == "\n\n"


def test_a_paragraph_is_given_out_when_the_next_begins() -> None:
    assembler = Assembler(small(5, 100))
    assert assembler.push("A paragraph.\n\n") == []
    assert shown(assembler.push("N")) == ["A paragraph."]


def test_paragraphs_below_the_minimum_stay_together() -> None:
    blocks = run(["First paragraph.\n\nSecond paragraph.\n\nThird paragraph."], small(30, 200))
    assert shown(blocks) == ["First paragraph.\n\nSecond paragraph.", "Third paragraph."]


def test_a_full_block_ends_at_a_line_then_a_sentence_then_a_blank_then_hard() -> None:
    assert shown(run(["one two\nthree four five"], small(4, 12))) == ["one two", "three four", "five"]
    assert shown(run(["One two. Three four"], small(4, 12))) == ["One two.", "Three four"]
    assert shown(run(["abcdefghijKLMNOP"], small(1, 10))) == ["abcdefghij", "KLMNOP"]


def test_a_hard_cut_keeps_a_character_whole() -> None:
    assert shown(run(["x" * 19 + "e\u0301tail"], small(1, 20))) == ["x" * 19, "e\u0301tail"]


def test_a_fence_cut_in_two_is_closed_and_opened_again() -> None:
    blocks = run(["```txt\n" + "a" * 80 + "\n```"], small(10, 30))
    assert shown(blocks)[0] == "```txt\n" + "a" * 19 + "\n```"
    assert [len(block.text.removeprefix("```txt\n").removesuffix("\n```")) for block in blocks] == [19, 19, 19, 19, 4]
    assert all(block.body.startswith("```txt\n") and block.body.endswith("\n```") for block in blocks)


def test_a_fence_that_fits_is_never_cut_at_its_blank_lines() -> None:
    code = "```js\nlet a = 1;\n\nlet b = 2;\n```"
    assert shown(run([code + "\n\nAfter fence"], small(10, 200))) == [code, "After fence"]


def test_code_breaks_at_lines_and_keeps_its_indentation() -> None:
    blocks = run(["```py\nif x:\n    a()\n    b()\n    c()\n```\n"], small(10, 28))
    assert shown(blocks) == ["```py\nif x:\n    a()\n```", "```py\n    b()\n    c()\n```"]


HEAD = "| n | v |\n|---|--:|\n"
ROWS = "".join(f"| {number} | value {number} |\n" for number in range(30))


def test_a_table_that_is_cut_goes_on_below_its_head() -> None:
    blocks = run(["Intro\n\n" + HEAD + ROWS + "\nAfter"], small(50, 200))
    table = blocks[:-1]
    assert [block.opener for block in table] == ["", *[HEAD] * (len(table) - 1)]
    assert len(table) > 2
    assert "".join(block.text + block.separator for block in blocks) == "Intro\n\n" + HEAD + ROWS + "\nAfter"
    assert all(line.startswith("| ") and line.endswith(" |") for block in table[1:] for line in block.text.split("\n"))
    assert (blocks[-1].opener, blocks[-1].text) == ("", "After")


def test_a_silence_cuts_no_row_and_what_follows_has_the_head() -> None:
    blocks = run([HEAD + "| 1 | one |\n| 2 | t", IDLE, "wo |\n| 3 | three |"], small(10, 200))
    assert shown(blocks) == [HEAD + "| 1 | one |", HEAD + "| 2 | two |\n| 3 | three |"]


@pytest.mark.parametrize(
    "rest",
    ["\n| 9 | nine |", "No row.", " | indented |", "```\n| code |\n```"],
)
def test_what_is_no_row_gets_no_head(rest: str) -> None:
    blocks = run([HEAD + "| 1 | one |\n", IDLE, rest], small(10, 200))
    assert [block.opener for block in blocks] == ["", ""]


def test_behind_a_tool_nothing_goes_on_with_a_table() -> None:
    blocks = run([HEAD + "| 1 | one |\n", FLUSH, "| other | table |\n|---|---|\n"], small(10, 200))
    assert [block.opener for block in blocks] == ["", ""]


def test_a_head_that_would_fill_the_block_is_not_said_again() -> None:
    head = f"| {'n' * 60} | v |\n|---|---|\n"
    assert not any(block.opener for block in run([head + ROWS], small(50, 200)))


def test_lines_that_only_look_like_a_table_have_no_head() -> None:
    for text in ("| a | b |\n|---|\n" + ROWS, "|---|---|\n" + ROWS, ROWS, "| a \\| b |\n|---|---|\n" + ROWS):
        assert not any(block.opener for block in run([text], small(50, 200))), text


def test_a_row_is_not_cut_where_a_line_ends_before_it() -> None:
    blocks = run([HEAD + "| 1 | One. Two words. |\n| 2 | " + "Some more. " * 9 + "|\n"], small(60, 110))
    assert shown(blocks)[0] == HEAD + "| 1 | One. Two words. |"


def test_tildes_in_the_middle_of_a_cut_line_open_no_fence() -> None:
    blocks = run(["a" * 1200 + "~~~xml\nAfter"], small(800, 1200))
    assert shown(blocks) == ["a" * 1200, "~~~xml\nAfter"]


def test_the_start_of_a_fence_waits_at_a_flush_that_is_not_the_last() -> None:
    assembler = Assembler(small(800, 1200))
    assembler.push("Intro\n\n~~~")
    assert shown(assembler.flush()) == ["Intro"]
    assembler.push("xml\n<a>b</a>\n~~~\n\nAfter")
    assert shown(assembler.flush(final=True)) == ["~~~xml\n<a>b</a>\n~~~\n\nAfter"]


def test_blank_text_waits_and_comes_out_at_the_end_as_a_separator() -> None:
    assembler = Assembler(small(1, 10))
    assembler.push("\n\n")
    assert assembler.flush() == []
    assert assembler.flush(final=True) == [Block(0, "", separator="\n\n")]


@pytest.mark.parametrize(
    "text", ["\n" * 5000, "a\n" + " \n" * 3000 + "b", "```\nx" + "\n" * 3000 + "y", "ab " + "\t" * 1030 + "c"]
)
def test_a_flood_of_blanks_is_given_out_in_the_same_pieces_however_it_comes(text: str) -> None:
    stream = small(1, 40)
    blocks = run([text], stream)
    assert "".join(block.text + block.separator for block in blocks) == text
    assert run(list(text), stream) == blocks
    assert run([text[at : at + 700] for at in range(0, len(text), 700)], stream) == blocks


def test_an_idle_event_is_wanted_only_when_enough_is_held() -> None:
    assembler = Assembler(small(5, 100))
    assembler.push("abc")
    assert (assembler.wants_idle_after_ms, assembler.idle()) == (None, [])
    assembler.push("def")
    assert assembler.wants_idle_after_ms == 1000
    assert shown(assembler.idle()) == ["abcdef"]


@pytest.mark.parametrize(
    ("given_settings", "expected"),
    [
        ({}, StreamSettings()),
        ({"min_chars": 0, "max_chars": -1}, StreamSettings(min_chars=1, max_chars=1)),
        ({"min_chars": 5000}, StreamSettings(min_chars=1200, max_chars=1200)),
        ({"max_chars": "many", "break": "page"}, StreamSettings()),
        ({"min_chars": 10.7, "max_chars": 20, "idle_ms": 5, "break": "newline"}, StreamSettings(11, 20, 5, "newline")),
    ],
)
def test_settings_are_clamped(given_settings: dict[str, object], expected: StreamSettings) -> None:
    assert resolve(given_settings) == expected


def test_a_cut_within_a_line_is_the_last_that_there_is_room_for() -> None:
    text = "One. Two. Three. Four"
    for room, end in ((16, 16), (15, 9), (8, 4)):
        cut = sentence_cut(text, [(0, len(text))], 1, room)
        assert (cut.end if cut is not None else None) == end
    assert sentence_cut(text, [(0, len(text))], 1, 3) is None
    before = blank_cut(text, [(0, 9), (10, 21)], 1, 12)
    assert before is not None
    assert (before.end, before.rest) == (4, 5)
