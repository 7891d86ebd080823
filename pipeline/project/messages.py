"""A block to the messages of a channel: parse, walk, pack."""

import re
from collections.abc import Callable

import regex

from pipeline.output import Block
from pipeline.project.dialect import Dialect
from pipeline.project.measure import MEASURES
from pipeline.project.packing import Packer
from pipeline.project.parsing import parse
from pipeline.project.parts import Profile
from pipeline.project.walking import Walker

_NESTED = re.compile(r"\n*([ \t]{4,})(?:[-*+]|\d{1,9}[.)])[ \t]")


def is_shown(block: Block) -> bool:
    """Whether there is anything for a reader in a block."""
    return not block.markers.get("suppressed") and bool(block.text.strip() or block.markers.get("note"))


def messages(
    block: Block,
    profile: Profile,
    dialect: Dialect,
    *,
    walker: type[Walker] = Walker,
    atom: regex.Pattern[str] | None = None,
    whole: Callable[[str, int], int] | None = None,
    keeps_blank: bool = False,
) -> list[str]:
    """Return the messages of a block in a dialect, each within the profile's bounds."""
    if not is_shown(block):
        return []
    body = _outdented(_sound(block.body if block.text.strip() else ""), within=bool(block.opener))
    longest = 512 if profile.limit is None else max(1, profile.limit) // 2
    walk = walker(dialect, body.split("\n"), longest=longest, italic=block.markers.get("kind") == "reasoning")
    walk.walk(parse(body))
    if note := block.markers.get("note"):
        walk.note(_sound(str(note)))
    packer = Packer(
        MEASURES[profile.unit],
        profile.limit,
        profile.max_lines,
        atom=atom,
        whole=whole,
        keeps_blank=keeps_blank,
    )
    return packer.pack(walk.ops)


def _sound(text: str) -> str:
    """Replace halves of surrogate pairs, which no channel takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _outdented(body: str, *, within: bool) -> str:
    """A block that begins deep in a list begins with an indented mark, which alone would read as code: move it out."""
    nested = None if within else _NESTED.match(body)
    if nested is None:
        return body
    width = len(nested[1])
    lines = body.split("\n")
    for index, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" \t"))
        if line.strip() and indent < width:
            break
        lines[index] = line[min(width, indent) :]
    return "\n".join(lines)
