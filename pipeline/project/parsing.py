r"""Markdown to tokens: CommonMark with tables, strikethrough and mathematics. HTML is text, and so are link reference definitions,
since what refers to one may stand in another block.

Formulas are recognised so that what stands in them is not taken for emphasis: `$…$`, `$$…$$`, `\\(…\\)` and `\\[…\\]`. No channel here renders
them, so they are shown as code.

Emphasis may begin and end beside a wide letter or sign, where CommonMark wants a space: Chinese, Japanese and Korean are written without any,
and `**标签：**正文` would keep its stars.
"""

import re
import unicodedata
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token

MATH = "latex"
_INLINE_MATH = re.compile(
    r"\$\$(?!\$)(.+?)\$\$|\$(?![\s$])([^\n$]*[^\s$\\])\$(?!\d)|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL
)
_FORMULA = re.compile(r"[\\^_={}<>+*/\d]")  # else an escaped bracket is just that
_OPENERS = {"$$": "$$", "\\[": "\\]"}
_CLOSERS = {**_OPENERS, "\\(": "\\)"}


def parse(text: str) -> list[Token]:
    """Return the block tokens; those of inline text have their own in `children`."""
    return _PARSER.parse(text)


def is_wide(char: str) -> bool:
    """Whether a character is as wide as two, as those of Chinese, Japanese and Korean are; false for none."""
    return char > "\u10ff" and unicodedata.east_asian_width(char) in "WF"


class _State(StateInline):
    def __init__(self, src: str, md: MarkdownIt, env: Any, tokens: list[Token]) -> None:
        super().__init__(src, md, env, tokens)
        self.absent: set[str] = set()
        """What is known to come no more."""

    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:  # noqa: N802, N803 - the parser's names
        scanned = super().scanDelims(start, canSplitWord)
        if not canSplitWord:
            return scanned
        stop = start + scanned.length
        before = self.src[start - 1] if start else " "
        behind = self.src[stop] if stop < self.posMax else " "
        if not is_wide(before) and not is_wide(behind):
            return scanned
        return Scanned(not behind.isspace(), not before.isspace(), scanned.length)


class _Inline(ParserInline):
    def parse(self, src: str, md: MarkdownIt, env: Any, tokens: list[Token]) -> list[Token]:
        state = _State(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


def _inline_math(state: StateInline, silent: bool) -> bool:
    """A formula within a line."""
    mark = state.src[state.pos]
    if mark != "$" and (mark != "\\" or state.src[state.pos + 1 : state.pos + 2] not in {"(", "["}):
        return False
    closer = _CLOSERS.get(state.src[state.pos : state.pos + 2], "$")
    absent = state.absent if isinstance(state, _State) else set()
    if closer in absent or state.src.find(closer, state.pos + len(closer)) < 0:
        absent.add(closer)  # many may be opened and none closed
        return False
    match = _INLINE_MATH.match(state.src, state.pos, state.posMax)
    if match is None or (mark == "\\" and _FORMULA.search(match[3] or match[4]) is None):
        return False
    formula = " ".join((match[1] or match[2] or match[3] or match[4]).split())
    if not formula:
        return False
    if not silent:
        state.push("code_inline", "code", 0).content = formula
    state.pos = match.end()
    return True


def _block_math(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A formula of its own, between lines that hold its marks; without its end it is none."""
    first = state.bMarks[start] + state.tShift[start]
    closer = _OPENERS.get(state.src[first : first + 2])
    if closer is None or state.is_code_block(start):
        return False
    opened = state.src[first + 2 : state.eMarks[start]].strip()
    if closer in opened:
        return False
    line = start + 1
    lines = [opened] if opened else []
    while line < end:
        content = state.getLines(line, line + 1, state.sCount[start], False)
        if content.rstrip().endswith(closer):
            lines.append(content.rstrip()[:-2].rstrip())
            break
        if not content.strip():
            return False
        lines.append(content)
        line += 1
    else:
        return False
    if not silent:
        state.line = line + 1
        token = state.push("fence", "code", 0)
        token.info = MATH
        token.content = "\n".join(part for part in lines if part) + "\n"
        token.map = [start, line + 1]
    return True


def _make() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 40})
    parser.inline = _Inline()
    parser.configure("commonmark", {"html": False, "maxNesting": 40}).enable(["table", "strikethrough"])
    parser.disable(["html_block", "html_inline", "reference"])
    parser.inline.ruler.before("escape", "math", _inline_math)
    parser.block.ruler.before("fence", "math", _block_math, {"alt": ["paragraph", "blockquote", "list"]})
    return parser


_PARSER = _make()
