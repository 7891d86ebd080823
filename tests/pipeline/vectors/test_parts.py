"""Vectors of the splitters of plain text (TX), Discord (DC) and Telegram (TG), and of what channels show."""

import html
import re

import pytest

from pipeline.output import Block
from pipeline.project.registry import profile_of, project
from tests.pipeline.project.reading import SIZES, read_html
from tests.pipeline.vectors.making import Story, parts

CHATS = ("discord", "slack", "telegram")


@pytest.mark.parametrize("channel", ["slack", "telegram"])
@pytest.mark.parametrize(
    ("limit", "text", "pieces"),
    [
        (
            40,
            "paragraph one line\n\nparagraph two starts here and continues",
            ["paragraph one line", "paragraph two starts here and continues"],
        ),
        (10, "Supercalifragilisticexpialidocious", ["Supercalif", "ragilistic", "expialidoc", "ious"]),
        (26, "Hello (outer (inner) end) world", ["Hello (outer (inner) end)", "world"]),
        (10, "alpha beta gamma", ["alpha beta", "gamma"]),
        (5, "word     next", ["word", "next"]),
        (4, "abcd efgh", ["abcd", "efgh"]),
    ],
)
def test_plain_text_is_split_at_lines_then_words_then_hard(
    channel: str, limit: int, text: str, pieces: list[str]
) -> None:
    # `alpha beta gamma` fills ten characters here; the vector's splitter looks for a blank within them and gives `alpha`
    assert parts(channel, text, limit=limit) == pieces


def test_a_space_with_a_mark_on_it_is_no_place_to_split() -> None:
    pieces = parts("slack", "ab \u0301cd", limit=2)
    assert pieces == ["ab", " \u0301", "cd"]


def test_short_lines_are_split_by_their_number() -> None:
    text = "\n".join(f"line {number}" for number in range(45))
    assert [part.count("\n") + 1 for part in parts("discord", text, max_lines=20)] == [20, 20, 5]
    twenty = "\n".join(f"line {number}" for number in range(20))
    assert [part.count("\n") + 1 for part in parts("discord", twenty)] == [17, 3]
    assert len(parts("discord", twenty, max_lines=40)) == 1


def test_discord_keeps_blanks_at_a_cut_and_prefers_them_to_cjk_marks() -> None:
    text = "alpha beta。gamma delta"
    pieces = parts("discord", text, limit=13)
    assert pieces == ["alpha", " beta。gamma", " delta"]
    assert "".join(pieces) == text


def test_text_without_blanks_is_cut_behind_cjk_marks() -> None:
    assert parts("discord", "一二三四五。六七八九十", limit=8) == ["一二三四五。", "六七八九十"]


def test_a_fence_takes_two_of_the_lines_of_a_message() -> None:
    code = "```py\nl0\nl1\nl2\nl3\nl4\nl5\n```"
    pieces = ["```py\nl0\nl1\nl2\n```", "```py\nl3\nl4\nl5\n```"]
    assert parts("discord", code, max_lines=5) == pieces


def test_a_long_line_of_code_is_cut_hard_within_its_fence() -> None:
    pieces = parts("discord", "```js\n" + "a" * 40 + "\n```", limit=30)
    assert pieces == ["```js\n" + "a" * 20 + "\n```"] * 2
    assert [len(piece) for piece in pieces] == [30, 30]


def test_ticks_with_text_behind_them_close_no_fence_on_any_channel() -> None:
    text = "```txt\ncode\n```not-a-close\nmore\n```\nAfter"
    (telegram,) = parts("telegram", text)
    assert telegram == '<pre><code class="language-txt">code\n```not-a-close\nmore</code></pre>\nAfter'
    (discord,) = parts("discord", text)
    assert discord.count("```") == 2  # those within are kept apart by a zero-width space, since Discord would end there


def test_ampersands_grow_and_none_is_cut() -> None:
    pieces = parts("telegram", "&" * 4000)
    assert len(pieces) >= 5
    assert all(re.fullmatch("(?:&amp;)+", piece) and len(piece) <= 4096 for piece in pieces)
    assert sum(len(html.unescape(piece)) for piece in pieces) == 4000


def test_emoji_count_as_two_units() -> None:
    pieces = parts("telegram", "😀" * 4096)
    assert len(pieces) == 2
    assert all(SIZES["utf16"](piece) <= 4096 for piece in pieces)
    assert "".join(pieces) == "😀" * 4096


@pytest.mark.parametrize(
    ("opener", "line", "times", "limit"),
    [("```txt", "a", 500, 120), ("~~~sh", "x", 600, 140), ("````md", "y", 600, 140), ("  ```js", "z", 600, 160)],
)
def test_every_piece_of_long_code_is_a_whole_fence(opener: str, line: str, times: int, limit: int) -> None:
    closer = opener.rstrip("txshmdj")
    pieces = parts("discord", f"{opener}\n{line * times}\n{closer}", limit=limit)
    # Discord knows no other marks, so tildes and longer runs become three backticks
    info = opener.strip(" `~")
    assert all(piece.startswith(f"```{info}\n") and piece.endswith("\n```") and len(piece) <= limit for piece in pieces)
    assert sum(piece.count(line) for piece in pieces) - len(pieces) * info.count(line) == times


def test_a_limit_below_a_fences_marks_is_kept() -> None:
    assert all(len(piece) <= 8 for piece in parts("discord", "```\n" + "A" * 100 + "\n```", limit=8))


def test_many_marks_make_no_explosion_of_pieces() -> None:
    assert len(parts("discord", "a`b`" * 750 + "x", limit=3000)) == 2


@pytest.mark.parametrize("channel", ["slack", "discord", "telegram"])
def test_a_reply_under_the_limit_is_one_message(channel: str) -> None:
    text = "\n".join(["One line of a reply.", "And a second one.", "A third. " * 40])
    assert len(parts(channel, text)) == 1


def test_emphasis_is_closed_and_opened_again_within_the_limit() -> None:
    for piece in parts("discord", "_" + "word " * 100 + "end_", limit=60):
        assert piece.startswith("_")
        assert piece.endswith("_")
        assert len(piece) <= 60


def test_reasoning_is_italic_in_every_piece() -> None:
    block = Block(0, "a thought " * 30, markers={"kind": "reasoning"})
    for part in project(block, profile_of("discord", limit=100)):
        assert part.body[0] == part.body[-1] == "_"
        assert len(part.body) <= 100


@pytest.mark.parametrize("channel", CHATS)
def test_markup_that_grows_is_split_again(channel: str) -> None:
    text = " ".join(f"**b{number}** & [l](https://example.com/{number})" for number in range(400))
    limit = profile_of(channel).limit
    assert limit is not None
    for piece in parts(channel, text):
        assert SIZES["utf16"](piece) <= limit
        if channel == "telegram":
            read_html(piece)


@pytest.mark.parametrize("channel", CHATS)
def test_a_table_or_a_quote_is_split_between_its_lines(channel: str) -> None:
    rows = "\n".join(f"| row {number} | value {number} |" for number in range(60))
    text = f"| name | value |\n|---|---|\n{rows}"
    drawn = "\n".join(parts(channel, text, limit=500))
    for number in range(60):
        assert re.search(rf"row {number} +│ value {number}\b", drawn), number
    quote = "\n".join(f"> quoted line {number}" for number in range(80))
    for piece in parts(channel, quote, limit=500):
        assert piece.startswith(("> ", "<blockquote>"))
        assert piece.count("quoted line") == len(re.findall(r"quoted line \d+", piece))


@pytest.mark.parametrize("channel", CHATS)
def test_small_deltas_give_the_same_messages_under_every_runtime(channel: str) -> None:
    text = (
        "# Plan\n\nFirst, **do** this.\n\n```py\n"
        + "print(1)\n" * 90
        + "```\n\n"
        + "Then a long sentence follows. " * 60
    )
    made = {}
    for runtime in ("main", "subagent", "acp"):
        story = Story(runtime).text(*[text[at : at + 3] for at in range(0, len(text), 3)]).done()
        made[runtime] = [part for block in story.blocks() for part in project(block, profile_of(channel))]
    assert made["main"] == made["subagent"] == made["acp"]
    assert len(made["main"]) > 2


@pytest.mark.parametrize("channel", ["discord", "slack", "telegram", "matrix"])
@pytest.mark.parametrize(
    "call", ["@everyone", "@here", "@channel", "<!channel>", "<!here>", "<@U123>", "<#C1>", "<@&5>", "@room"]
)
def test_mentions_are_neutral(channel: str, call: str) -> None:
    dangerous = {
        "discord": ("@everyone", "@here", "<@U", "<@&", "<#"),
        "slack": ("@everyone", "@here", "@channel", "<!", "<@", "<#"),
        "telegram": ("@everyone", "@here", "@channel"),
        "matrix": ("@room", "@everyone", "@here", "@channel"),
    }[channel]
    for text in (f"Hello {call}!", f"**{call}**", f"- {call}", f"| a |\n|---|\n| {call} |", f"> {call}"):
        for piece in parts(channel, text):
            bare = re.sub(r"```.*?```|<pre>.*?</pre>", "", piece, flags=re.DOTALL)
            assert not any(sign in bare for sign in dangerous), piece


def test_slack_reads_no_emphasis_where_markdown_said_none() -> None:
    (piece,) = parts("slack", r"\*not bold\* \_nor this\_ \~or this\~, 2 * 3 * 4, snake_case_name and **bold**")
    assert (
        piece == "\u2217not bold\u2217 \u02cdnor this\u02cd \u223cor this\u223c, 2 * 3 * 4, snake_case_name and *bold*"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"\*a \_b\_ c\*", "\u2217a \u02cdb\u02cd c\u2217"),
        (r"\*args and \*\*kwargs, 3 \* 4 \*", "*args and **kwargs, 3 * 4 *"),
        (r"\~/.config and \~/bin", "~/.config and ~/bin"),
        (r"a\*b\* \*\* c", "a*b* ** c"),
    ],
)
def test_slack_gets_other_signs_only_where_two_would_be_marks(text: str, shown: str) -> None:
    assert parts("slack", text) == [shown]


@pytest.mark.parametrize("channel", CHATS)
def test_a_table_in_wide_letters_or_from_right_to_left_is_told_row_by_row(channel: str) -> None:
    for cell in ("中文", "مرحبا", "안녕"):
        (piece,) = parts(channel, f"| a | b |\n|---|---|\n| {cell} | two |")
        assert "│" not in piece
        assert f"{cell}" in piece
        assert "b: two" in piece
