"""Where text may be cut without taking apart what is read as one character (extended grapheme clusters, UAX 29)."""

import regex

_CLUSTER = regex.compile(r"\X")
# Characters that join with no neighbour of their kind: printable ASCII, letters of Latin, Greek, Cyrillic, Hebrew, Arabic, kana, Han.
_PLAIN = (
    r"[ -~\u00c0-\u02ff\u0370-\u0482\u048a-\u052f\u05d0-\u05ea\u0621-\u063a\u0641-\u064a"
    r"\u3001-\u3029\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff]"
)
_PAIR = regex.compile(_PLAIN + "{2}")
_LAST_PAIR = regex.compile("(?r)" + _PLAIN + "{2}")  # searched backwards


def boundary(text: str, wanted: int) -> int:
    """Return the last boundary at or before `wanted`; 0 when the first cluster is longer.

    Reads one character behind `wanted` and no further, so what follows it cannot change the answer.
    """
    if wanted >= len(text):
        return len(text)
    if wanted <= 0:
        return 0
    if _PAIR.match(text, wanted - 1):
        return wanted
    safe = _LAST_PAIR.search(text, endpos=wanted)
    best = 0 if safe is None else safe.end() - 1
    for cluster in _CLUSTER.finditer(text, best, wanted + 1):
        if cluster.end() > wanted:
            break
        best = cluster.end()
    return best


def shortened(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, with an ellipsis where something was left out."""
    if len(text) <= limit:
        return text
    return text[: boundary(text, limit - 1)].rstrip() + "…"
