"""Tables for channels that have none: drawn with lines in a monospaced font, where that is narrow enough to be read.

Not drawn are cells in scripts that clients take from other fonts, whose letters are not one or two columns wide (Chinese, Japanese, Korean,
right-to-left scripts): their columns would not stand below each other. Emoji are, since nothing much stands behind them.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

import regex
from markdown_it.token import Token

Cell = list[Token]
_LINE_BREAK = regex.compile(r"<br\s*/?>", regex.IGNORECASE)
_CLUSTER = regex.compile(r"\X")
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})


@dataclass(slots=True)
class Table:
    """Cells as inline tokens; `aligned` is `left`, `right` or `center` for each column."""

    head: list[Cell] = field(default_factory=list)
    aligned: list[str] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)


def read(tokens: Sequence[Token], at: int) -> tuple[Table, int]:
    """Read the table that begins at a token; returns it and the index behind it."""
    table = Table()
    row: list[Cell] = table.head
    while tokens[at].type != "table_close":
        token = tokens[at]
        if token.type == "tr_open" and table.head:
            row = []
            table.rows.append(row)
        elif token.type == "th_open":
            table.aligned.append(str(token.attrGet("style") or "text-align:left").removeprefix("text-align:"))
        elif token.type == "inline":
            row.append(token.children or [])
        at += 1
    return table, at + 1


def plain(cell: Cell) -> str:
    """Return the text of a cell."""
    return " ".join(_LINE_BREAK.sub(" ", "".join(_word(token) for token in cell)).split())


def _word(token: Token) -> str:
    return " " if token.type in {"softbreak", "hardbreak"} else token.content


def has_link(cell: Cell) -> bool:
    """Whether a cell holds an address that drawing would lose."""
    return any(token.type in {"link_open", "image"} for token in cell)


def drawn(table: Table, width: int) -> str | None:
    """Draw the table, at most so many columns wide; None when it is wider, or holds what cannot be drawn."""
    if any(has_link(cell) for row in [table.head, *table.rows] for cell in row):
        return None
    grid = [[plain(cell) for cell in row] for row in [table.head, *table.rows]]
    if any(_is_foreign(text) for row in grid for text in row):
        return None
    widths = [max(columns(row[index]) for row in grid if index < len(row)) for index in range(len(table.head))]
    if sum(widths) + 3 * (len(widths) - 1) > width:
        return None
    lines = [_line(row, widths, table.aligned) for row in grid]
    lines.insert(1, "─┼─".join("─" * size for size in widths))
    return "\n".join(lines)


def _line(row: list[str], widths: list[int], aligned: list[str]) -> str:
    cells = [_padded(text, size, side) for text, size, side in zip(row, widths, aligned, strict=False)]
    return " │ ".join(cells).rstrip()


def _padded(text: str, size: int, side: str) -> str:
    space = size - columns(text)
    left = {"right": space, "center": space // 2}.get(side, 0)
    return " " * left + text + " " * (space - left)


def _is_foreign(text: str) -> bool:
    """Whether a text has letters that are not one column wide."""
    return not text.isascii() and any(
        unicodedata.bidirectional(char) in _RIGHT_TO_LEFT
        or (char.isalpha() and unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def columns(text: str) -> int:
    """Return how many columns a text takes in a monospaced font: wide characters and emoji take two."""
    if text.isascii():
        return len(text)
    return sum(2 if _is_wide(cluster) else 1 for cluster in _CLUSTER.findall(text))


def _is_wide(cluster: str) -> bool:
    return (
        unicodedata.east_asian_width(cluster[0]) in "WF"
        or "\ufe0f" in cluster
        or "\U0001f1e6" <= cluster[0] <= "\U0001f1ff"
    )
