"""Where text may be cut without taking apart what is read as one character (extended grapheme clusters, UAX 29).

Text may be written in UTF-16 units (`in_units`): every character above U+FFFF as its two surrogates, so that lengths and places count units.
"""

import re

import regex

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")

_CLUSTER = regex.compile(r"\X")
# Characters that join with no neighbour of their kind: printable ASCII, letters of Latin, Greek, Cyrillic, Hebrew, Arabic, kana, Han.
_PLAIN = (
    r"[ -~\u00c0-\u02ff\u0370-\u0482\u048a-\u052f\u05d0-\u05ea\u0621-\u063a\u0641-\u064a"
    r"\u3001-\u3029\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff]"
)
_PAIR = regex.compile(_PLAIN + "{2}")
_LAST_PAIR = regex.compile("(?r)" + _PLAIN + "{2}")  # searched backwards


def in_units(text: str) -> str:
    """Return the text with a character for each UTF-16 unit."""
    return text if text.isascii() or _ASTRAL.search(text) is None else _ASTRAL.sub(_pair, text)


def _pair(match: re.Match[str]) -> str:
    code = ord(match[0]) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


def from_units(text: str) -> str:
    """Return the text that `in_units` was given."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def boundary(text: str, wanted: int) -> int:
    """Return the last boundary at or before `wanted`; 0 when the first cluster is longer. The text may be in units.

    Reads one character behind `wanted` and no further, so what follows it cannot change the answer.
    """
    if wanted >= len(text):
        return len(text)
    if wanted <= 0:
        return 0
    if not text.isascii() and _SURROGATE.search(text, 0, wanted + 2) is not None:
        return _boundary_in_units(text, wanted)
    if _PAIR.match(text, wanted - 1):
        return wanted
    safe = _LAST_PAIR.search(text, endpos=wanted)
    best = 0 if safe is None else safe.end() - 1
    clusters = _CLUSTER.finditer(text, best, wanted + 1)
    for cluster in clusters:  # pragma: no branch - the last cluster ends behind `wanted`
        if cluster.end() > wanted:
            break
        best = cluster.end()
    return best


def _boundary_in_units(text: str, wanted: int) -> int:
    if "\udc00" <= text[wanted] <= "\udfff":
        wanted -= 1  # between the two halves of a character
    behind = 2 if "\ud800" <= text[wanted] <= "\udbff" else 1
    before = from_units(text[:wanted])
    whole = before + from_units(text[wanted : wanted + behind])
    return len(in_units(whole[: boundary(whole, len(before))]))


def shortened(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, with an ellipsis where something was left out."""
    if len(text) <= limit:
        return text
    return text[: boundary(text, limit - 1)].rstrip() + "…"
