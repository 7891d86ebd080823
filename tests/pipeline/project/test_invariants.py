"""Any Markdown, on any channel, within any bounds: what no projection may break."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it.token import Token

from pipeline.output import Block
from pipeline.project.parsing import parse
from pipeline.project.parts import Profile, Unit
from pipeline.project.registry import profile_of, project
from tests.pipeline.project.reading import check, letters, visible

CHATS = ("discord", "slack", "telegram", "matrix")
PIECES = st.sampled_from(
    [
        *("word ", "a", "\n", "\n\n", " ", "  ", "    ", "\t", "x" * 17, "Done. ", "(par ", "en) ", "<br>", "---\n"),
        *("**", "*", "_", "~~", "`", "``` \n", "```py\n", "\n```\n", "~~~\n", "`````", "\\*", "$x$", "$$\n", "|"),
        *("- ", "1. ", "> ", "# ", "#### ", "[ ] ", "| a | b |\n|---|--:|\n| c | d |\n", "| e | f |\n" * 9),
        *(
            "é",
            "e\u0301",
            "😀",
            "👩‍👩‍👧‍👦",
            "🇩🇪🇫🇷",
            "漢字。",
            "مرحبا ",
            "ab \u0301c",
            "&",
            "<",
            "&amp;",
            "@everyone ",
            "<@1>",
        ),
    ]
)
TEXTS = st.lists(PIECES, max_size=40).map("".join)
LIMITS = st.sampled_from([1, 2, 3, 5, 8, 9, 12, 20, 30, 40, 60, 100, None])
LINES = st.sampled_from([None, 1, 2, 3, 5, 17])
UNITS = st.sampled_from(["utf16", "codepoints", "bytes"])


def bounded(channel: str, limit: int | None, lines: int | None, unit: Unit) -> Profile:
    return replace(profile_of(channel), limit=limit, max_lines=lines, unit=unit)


def said(tokens: list[Token]) -> str:
    """What the Markdown says, without its marks."""
    texts: list[str] = []
    for token in tokens:
        if token.children is not None:
            texts.append(said(token.children))
        elif token.type == "text":
            texts.append(token.content.replace("<br>", ""))  # a line break, outside code
        elif token.type in {"code_inline", "fence", "code_block"}:
            texts.append(token.content)
    return "".join(texts)


@pytest.mark.parametrize("channel", CHATS)
@settings(max_examples=120, deadline=None)
@given(TEXTS, LIMITS, LINES, UNITS)
@example("a`b`" * 30 + "x", 60, None, "utf16")
@example("```\n" + "\n" * 50 + "x", 20, 2, "utf16")
@example("> " + "quoted " * 30, 40, 3, "utf16")
@example("> 1. a1. b> ~~**🇩🇪🇫🇷 x**", 20, 3, "bytes")
def test_every_part_is_within_its_bounds_balanced_and_not_empty(
    channel: str, text: str, limit: int | None, lines: int | None, unit: Unit
) -> None:
    profile = bounded(channel, limit, lines, unit)
    parts = project(Block(0, text), profile)
    check(parts, channel, profile)
    assert len(parts) <= 3 * len(text) + 3
    assert project(Block(0, text), profile) == parts


@pytest.mark.parametrize("channel", CHATS)
@settings(max_examples=120, deadline=None)
@given(TEXTS, LIMITS)
def test_no_letter_of_the_text_is_lost_or_doubled(channel: str, text: str, limit: int | None) -> None:
    if "|" in text or text.startswith(("    ", "\t", "\n")):
        return  # tables are said in another order; deep first lines are moved out of their lists
    parts = project(Block(0, text), bounded(channel, limit, None, "utf16"))
    shown = letters("".join(visible(part, channel) for part in parts))
    wanted = letters(said(parse(text)))
    rest = iter(shown)  # numbers of lists and languages of code are shown besides
    assert all(letter in rest for letter in wanted), (wanted, shown)
    extra = len(shown) - len(wanted)
    assert extra == 0 or any(sign in text for sign in ("1. ", "```", "~~~", "$$"))


@pytest.mark.parametrize("channel", CHATS)
@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200), st.integers(5, 60))
def test_any_text_at_all_is_held_to_its_limit(channel: str, text: str, limit: int) -> None:
    profile = bounded(channel, limit, None, "utf16")
    check(project(Block(0, text.replace("```", "")), profile), channel, profile)


CALLS = {
    "discord": ("@everyone", "@here", "<@", "<#"),
    "slack": ("@everyone", "@here", "@channel", "<!", "<@", "<#"),
    "telegram": ("@everyone", "@here", "@channel", "@all"),
    "matrix": ("@room", "@everyone", "@here", "@channel"),
}
CALLERS = st.lists(
    st.sampled_from(
        [
            *(
                "@",
                "everyone",
                "here",
                "channel",
                "room",
                "all",
                "@everyone",
                "<@",
                "<@&",
                "<#",
                "<!",
                "1>",
                "channel>",
            ),
            *(
                "*",
                "_",
                "**",
                "~~",
                "[",
                "](https://a.example/x)",
                "https://a.example/",
                "&lt;",
                "&#64;",
                "\\",
                "\n",
                " ",
            ),
        ]
    ),
    max_size=12,
).map("".join)


@pytest.mark.parametrize("channel", CHATS)
@settings(max_examples=120, deadline=None)
@given(CALLERS, st.sampled_from([None, 5, 20]))
@example("a &#64;*channel* and @_here_", None)
@example("*@_everyone_*", None)
@example("see https://a.example/@everyone now", 20)
@example("[label](https://a.example/@here)", None)
def test_nobody_is_called_whatever_stands_between(channel: str, text: str, limit: int | None) -> None:
    text = text.replace("    ", " ")  # code calls nobody, and stays as it is
    for part in project(Block(0, text), bounded(channel, limit, None, "utf16")):
        body = str(json.loads(part.body)["formatted_body"]) if channel == "matrix" else part.body
        shown = re.sub(r'href="[^"]*"|<(?:https?|mailto):[^|>]*\|', "", body)  # what is followed, and not read
        assert not any(call in shown for call in CALLS[channel]), (text, body)


@pytest.mark.parametrize("channel", CHATS)
def test_long_text_makes_few_parts(channel: str) -> None:
    text = "A sentence of ordinary length, with **bold** and `code`. " * 400
    limit = profile_of(channel).limit or 1
    assert len(project(Block(0, text), profile_of(channel))) <= 2 * len(text) // limit + 2


@pytest.mark.parametrize("channel", CHATS)
def test_half_of_a_surrogate_pair_becomes_a_replacement(channel: str) -> None:
    for part in project(Block(0, "a \ud83d b"), profile_of(channel)):
        assert "�" in part.body


@pytest.mark.parametrize("channel", CHATS)
def test_a_note_is_shown_behind_the_text(channel: str) -> None:
    (part,) = project(Block(0, "The text.", markers={"note": "A *note* & more"}), profile_of(channel))
    shown = visible(part, channel)
    assert letters(shown) == "ThetextAnotemore"
    assert shown.index("The text.") < shown.index("note")
    (alone,) = project(Block(0, "", markers={"kind": "note", "note": "alone"}), profile_of(channel))
    assert "alone" in visible(alone, channel)
