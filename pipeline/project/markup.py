"""What the channels that read HTML have in common: escaping, cuts that keep entities whole, and the text without its markup."""

import html
import re

import regex

ATOM = regex.compile(r"&(?:#\d+|#x[0-9a-f]+|[a-z]+);|<[a-z]+>", regex.IGNORECASE)
_TAG = re.compile(r"<(/?)([a-z]+[0-9]?)([^>]*)>")
_HREF = re.compile(r'href="([^"]*)"')
_START = re.compile(r'start="(\d+)"')
_BLOCKS = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "pre", "blockquote", "table"})


def escaped(text: str) -> str:
    """Escape text for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def attribute(text: str) -> str:
    """Escape the value of an attribute."""
    return escaped(text).replace('"', "&quot;")


def whole(text: str, cut: int) -> int:
    """Not within an entity, nor within an element that stands for itself."""
    if text.startswith("<"):
        return 0
    start = text.rfind("&", max(0, cut - 9), cut)
    if start < 0 or text.find(";", start, cut) >= 0 or text.find(";", cut, start + 10) < 0:
        return cut
    return start


def bare(markup: str) -> str:
    """Return the text of markup that keeps its own line feeds: addresses behind their links, every other element left out."""
    links: list[str] = []
    at, pieces = 0, []
    for tag in _TAG.finditer(markup):
        pieces.append(markup[at : tag.start()])
        at = tag.end()
        if tag[2] == "a":
            pieces.append(_link(links, tag[3], closing=tag[1] == "/"))
    return html.unescape("".join([*pieces, markup[at:]]))


def plain(markup: str) -> str:
    """Return what a reader sees of our own HTML, as plain text: marks of lists, addresses behind links, cells apart."""
    pieces: list[str] = []
    lists: list[int] = []
    links: list[str] = []
    at = gap = 0  # line feeds before the next text
    lead = ""  # what stands between them and the text
    for tag in _TAG.finditer(markup):
        text = markup[at : tag.start()]
        at = tag.end()
        closing, name, rest = tag[1] == "/", tag[2], tag[3]
        if name == "a":
            text += _link(links, rest, closing=closing)
        if text:
            pieces += ("\n" * gap if pieces else "", lead, text)
            gap, lead = 0, ""
        if name in {"ul", "ol"}:
            gap = max(gap, 1 if lists[1 if closing else 0 :] else 2)
            _list(lists, rest, ordered=name == "ol", closing=closing)
        elif name == "li":
            gap = max(gap, 1)
            lead = "" if closing else (lead or "  " * (len(lists) - 1)) + _item(lists)
        elif name in _BLOCKS and not lead:
            gap = max(gap, 1 if lists else 2)
        elif name == "tr":
            gap, lead = max(gap, 1), ""
        elif name == "br":
            gap += 1
        elif name == "hr":
            pieces += ("\n\n" if pieces else "", "──────────")
            gap = 2
        elif name in {"td", "th"} and not closing and not gap:
            lead = " | "
    pieces += ("\n" * gap if pieces and markup[at:] else "", markup[at:])
    return html.unescape("".join(pieces)).replace("\xa0", " ")


def _list(lists: list[int], rest: str, *, ordered: bool, closing: bool) -> None:
    """Keep the next number of each open list; 0 for bullets."""
    if closing:
        lists.pop()
        return
    start = _START.search(rest)
    lists.append((int(start[1]) if start else 1) if ordered else 0)


def _item(lists: list[int]) -> str:
    if not lists or lists[-1] == 0:
        return "• "
    lists[-1] += 1
    return f"{lists[-1] - 1}. "


def _link(links: list[str], rest: str, *, closing: bool) -> str:
    if closing:
        return f" ({links.pop()})" if links else ""
    href = _HREF.search(rest)
    links.append(href[1] if href else "")
    return ""
