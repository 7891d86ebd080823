"""Forms that answers seldom have: each is shown on every channel, and nothing that it says is lost."""

import json
from dataclasses import replace

import pytest
from markdown_it.token import Token

from pipeline.output import Block
from pipeline.project import telegram
from pipeline.project.dialect import Dialect, Marks
from pipeline.project.markup import whole
from pipeline.project.measure import MEASURES
from pipeline.project.packing import Packer
from pipeline.project.pieces import Close, Drop, Lead, Open, Span, Text
from pipeline.project.registry import profile_of, project, shown
from pipeline.project.tables import columns
from pipeline.project.walking import Walker

CHATS = ("discord", "slack", "telegram", "matrix")


def bodies(channel: str, text: str, limit: int | None = None, **markers: object) -> list[str]:
    profile = profile_of(channel)
    if limit is not None:
        profile = replace(profile, limit=limit)
    return [part.body for part in project(Block(ordinal=0, text=text, markers=dict(markers)), profile)]


def read(channel: str, body: str) -> str:
    return telegram.plain_of(body) if channel == "telegram" else shown(channel, body)


FORMS = [
    ("[label](gopher://host/x)", ["label", "gopher://host/x"]),
    ("[](https://a.example/x)", ["https://a.example/x"]),
    ("[a $x + y$ b](https://a.example)", ["x + y", "https://a.example"]),
    ("Empty $ $ and `` ` `` here", ["Empty", "here"]),
    ("Text before\n$$\nx^2\n$$\nand behind", ["x^2", "behind"]),
    ("      - one\n      - two\n\n    more", ["one", "two", "more"]),
    ("   - one\n- two\n", ["one", "two"]),
    ("      - one\n      - two", ["one", "two"]),
    ("an empty $$ $$ formula", ["formula"]),
    ("- a\n  ```\n  x = 1\n\n  y = 2\n  ```\n  b\n- c", ["a", "x = 1", "y = 2", "b", "c"]),
    ("> quoted\n>\n> ```py\n> one()\n> two()\n> ```", ["quoted", "one()", "two()"]),
    ("![alt](https://a.example/i.png) text", ["alt", "text"]),
    ("a<br>b and **bold** *em* ~~gone~~", ["a", "b", "bold", "em", "gone"]),
    ("one \\[ x \\] two", ["one", "two"]),
    ("a\n\n$$\nx^2\n\nb", ["a", "x^2", "b"]),
    ("[![alt](https://a.example/i.png) and more](https://b.example/)", ["alt", "more", "https://b.example/"]),
]


@pytest.mark.parametrize("channel", CHATS)
@pytest.mark.parametrize(("text", "words"), FORMS)
def test_every_form_is_shown(channel: str, text: str, words: list[str]) -> None:
    read_back = "\n".join(read(channel, body) for body in bodies(channel, text))
    for word in words:
        assert word in read_back, read_back


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("**标签：**正文", "<b>标签：</b>正文"),
        ("**日本語（括弧）。**続き", "<b>日本語（括弧）。</b>続き"),
        ("~~옛것(구).~~새것", "<s>옛것(구).</s>새것"),
        ("他说*“好”*吗", "他说<i>“好”</i>吗"),
        ("**Label:**text and **a **b", "**Label:**text and **a **b"),
        ("二 * 三 * 四", "二 * 三 * 四"),
    ],
)
def test_emphasis_needs_no_spaces_beside_wide_letters(text: str, marked: str) -> None:
    assert bodies("telegram", text) == [marked]


@pytest.mark.parametrize("text", ["「**粗**」，", "前**粗**后", "，*斜*，", "**标签：**正文"])
def test_slack_shows_no_marks_beside_wide_letters_and_signs(text: str) -> None:
    assert bodies("slack", text) == [text.replace("*", "")]


@pytest.mark.parametrize(("channel", "limit"), [("discord", None), ("slack", 200), ("telegram", 200), ("matrix", 300)])
def test_each_message_that_goes_on_with_a_table_begins_with_its_head(channel: str, limit: int | None) -> None:
    rows = "".join(f"| row {number} | value {number} |\n" for number in range(40))
    texts = [read(channel, body) for body in bodies(channel, f"| name | what |\n|---|---|\n{rows}\nAfter.", limit)]
    assert len(texts) > 2
    assert all(text.count("name") == 1 and text.count("what") == 1 for text in texts if "value" in text)
    assert "".join(texts).count("value") == 40


@pytest.mark.parametrize("channel", CHATS)
def test_a_head_that_takes_a_quarter_of_a_message_is_said_once(channel: str) -> None:
    rows = "".join(f"| {number} | {number} |\n" for number in range(40))
    texts = [read(channel, body) for body in bodies(channel, f"| {'n' * 30} | what |\n|---|---|\n{rows}", 170)]
    assert "".join(texts).count("what") == 1


def test_a_message_ends_behind_a_sentence_rather_than_within_the_next() -> None:
    text = "A first sentence of some length. Then (as it goes) a second one here. And the third is cut off"
    assert bodies("telegram", text, 80)[0] == "A first sentence of some length. Then (as it goes) a second one here."
    assert bodies("telegram", text.replace("(", "").replace(")", ""), 80)[0].endswith("a second one here.")
    assert bodies("telegram", "One. Two three four five six seven eight nine", 40)[0].endswith("eight")


@pytest.mark.parametrize("channel", CHATS)
@pytest.mark.parametrize("limit", [25, 40])
@pytest.mark.parametrize(
    "text", ["**" + "word " * 40 + "**", "`" + "x" * 80 + "`", "> - " + "a b " * 30, "```\n" + "line\n" * 30 + "```"]
)
def test_a_narrow_limit_cuts_every_form(channel: str, limit: int, text: str) -> None:
    parts = bodies(channel, text, limit)
    assert len(parts) > 1
    assert all(parts)


@pytest.mark.parametrize("channel", CHATS)
def test_a_note_of_several_lines_is_shown_line_by_line(channel: str) -> None:
    (body,) = bodies(channel, "Text.", note="first\n\nthird")
    assert "first" in read(channel, body)
    assert "third" in read(channel, body)


def test_a_part_is_read_back_as_a_reader_is_shown_it() -> None:
    block = Block(ordinal=0, text="x", opener="```\n", closer="\n```", markers={"note": "cut"})
    webhook, console, matrix = (project(block, profile_of(name))[0].body for name in ("webhook", "console", "matrix"))
    assert shown("webhook", webhook) == "```\nx\n```\n[cut]"
    assert shown("webhook", json.dumps({**json.loads(webhook), "markers": {}})) == "```\nx\n```"
    assert shown("console", console) == console
    assert shown("matrix", matrix) == json.loads(matrix)["body"]
    markup = '<a href="https://a.example">label</a> &amp; <b>bold</b>'
    assert telegram.plain_of(markup) == "label (https://a.example) & bold"


class Plain(Dialect):
    """What a dialect is before a channel says anything."""

    def link(self, href: str) -> Marks | None:
        return None if href else ("<", ">")

    def marks(self, kind: str, *, touched: bool) -> Marks | None:
        return None if touched else (kind, kind)


def test_a_dialect_says_nothing_of_what_only_a_channel_knows() -> None:
    plain = Plain()
    assert (plain.text("*", first=True), plain.code_text("`"), plain.code_span("x")) == ("*", "`", ("`", "x", "`"))
    assert plain.fence("py", "> ") == ("```py\n> ", "\n> ```")
    assert (plain.address("u"), plain.heading(2)) == ("u", "## ")
    assert Dialect.__abstractmethods__ == {"link", "marks"}


def test_packing_that_stands_still_is_refused() -> None:
    assert Packer._goes_on((1, 2), (1, 3)) == (1, 3)
    with pytest.raises(RuntimeError, match="stands still"):
        Packer._goes_on((1, 2), (1, 2))


def test_packing_by_itself_cuts_at_any_character_and_ends_in_no_blank() -> None:
    packer = Packer(MEASURES["codepoints"], 4, None)
    assert packer.pack([Text("abcdefghij"), Text(" ")]) == ["abcd", "efgh", "ij"]


def test_of_the_leads_that_wait_the_one_that_lost_its_text_is_dropped() -> None:
    packer = Packer(MEASURES["codepoints"], None, None)
    assert packer.pack([Lead("- "), Lead("> "), Drop("- "), Text("x"), Drop("> ")]) == ["> x"]


@pytest.mark.parametrize(
    ("text", "width"), [("ab", 2), ("é", 1), ("日本", 4), ("😀", 2), ("☀️", 2), ("🇳🇴", 2), ("👨‍👩‍👧", 2), ("e\u0301", 1)]
)
def test_columns_are_those_of_a_monospaced_font(text: str, width: int) -> None:
    assert columns(text) == width


@pytest.mark.parametrize(
    ("text", "cut", "moved"),
    [("a &amp; b", 5, 2), ("a &amp; b", 7, 7), ("a & b", 4, 4), ("a &amp; b", 2, 2), ("<br />", 3, 0)],
)
def test_no_cut_lies_within_an_entity_or_an_element(text: str, cut: int, moved: int) -> None:
    assert whole(text, cut) == moved


def test_a_span_in_which_nothing_came_leaves_no_trace() -> None:
    span, packer = Span("<b>", "</b>"), Packer(MEASURES["codepoints"], None, None)
    assert packer.pack([Open(span), Lead("- "), Close(), Text("x")]) == ["- x"]


def test_tokens_that_nobody_knows_are_passed_over() -> None:
    walker = Walker(Plain(), [], longest=10)
    walker.walk([Token("hologram", "", 0)])
    walker.inline([Token("hologram", "", 0)])
    assert walker.ops == []
