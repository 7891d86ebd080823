"""Other people's readings of what the projectors write: HTML by html.parser, marks by counting."""

import html.parser
import json
import re
from collections.abc import Callable

import regex

from pipeline.project.parts import Part, Profile

VOID = {"br", "hr"}
SIZES: dict[str, Callable[[str], int]] = {
    "utf16": lambda text: len(text.encode("utf-16-le", "surrogatepass")) // 2,
    "codepoints": len,
    "bytes": lambda text: len(text.encode("utf-8", "surrogatepass")),
}


class Reader(html.parser.HTMLParser):
    """Collects the text of HTML, and whatever is not balanced in it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.text: list[str] = []
        self.open: list[str] = []
        self.problems: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if "&" in data or "<" in data:
            self.problems.append(data)

    def handle_entityref(self, name: str) -> None:
        self.text.append(html.unescape(f"&{name};"))

    def handle_charref(self, name: str) -> None:
        self.text.append(html.unescape(f"&#{name};"))


def read_html(markup: str) -> str:
    """Return the text of balanced HTML with whole entities; AssertionError for any other."""
    reader = Reader()
    reader.feed(markup)
    reader.close()
    assert not reader.problems, (reader.problems, markup)
    assert not reader.open, (reader.open, markup)
    return "".join(reader.text)


def measured(part: Part, channel: str) -> str:
    """Return what a channel's limit counts."""
    return str(json.loads(part.body)["formatted_body"]) if channel == "matrix" else part.body


def visible(part: Part, channel: str) -> str:
    """Return the text that a reader sees, without marks."""
    text = measured(part, channel)
    if channel in {"telegram", "matrix"}:
        return read_html(text)
    return html.unescape(text) if channel == "slack" else re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text)


def letters(text: str) -> str:
    """Return the letters and digits of a text: what no projection may change or lose. Slack's stand-in for an underscore is none."""
    return "".join(char for char in text if char.isalnum() and char != "\u02cd")


def check(parts: list[Part], channel: str, profile: Profile) -> None:
    """Hold parts against the bounds of their profile."""
    size = SIZES[profile.unit]
    for number, part in enumerate(parts):
        text = measured(part, channel)
        assert part.ordinal == number
        assert text.strip(), "an empty part"
        text.encode()  # no half of a surrogate pair
        if profile.limit is not None and size(text) > profile.limit:
            assert is_atom(visible(part, channel)), (size(text), profile.limit, text)
        if profile.max_lines is not None and profile.max_lines >= 1:
            assert text.count("\n") < profile.max_lines, text
        if channel in {"discord", "slack"}:
            assert text.count("```") % 2 == 0, text
        else:
            read_html(text)


def is_atom(text: str) -> bool:
    """Whether a text is one character to a reader, or a rule: only such may be longer than a limit."""
    return text == "" or len(regex.findall(r"\X", text)) == 1
