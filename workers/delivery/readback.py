"""Judging what a channel shows when it is asked for a message by its mark.

A mark that is shown proves the message. Its absence proves that the message is not there only where every message that might be it shows
a mark: some channels keep none. A message of a bot's without any mark, with the same letters and digits, might be it; one with others cannot be.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from workers.delivery.outcomes import Found

SKEW_MS = 5 * 60 * 1000
"""How far the channel's clock may be from the server's: so much earlier than the first attempt the search begins."""
PAGES = 20
"""Pages read at most; what is further back is not searched, and so not found to be absent."""
_REWRITTEN = re.compile(r"<[^>]*>")
"""Markup that channels rewrite: custom emoji, links, mentions. A body that holds it is never told apart by its letters."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One message of a channel, as far as it matters here."""

    mark: str
    text: str
    is_bots: bool


def judge(messages: Iterable[Seen], *, mark: str, body: str) -> Found:
    """Whether the message with this mark is among the messages of the whole time in question."""
    found = Found.NO
    for seen in messages:
        if seen.mark == mark:
            return Found.YES
        if seen.is_bots and not seen.mark and might_be(seen.text, body):
            found = Found.UNCLEAR
    return found


def might_be(text: str, body: str) -> bool:
    """Whether a text may be what became of a body; only letters and digits count, which no channel changes."""
    if _REWRITTEN.search(body) or _REWRITTEN.search(text):
        return True
    return _letters(text) == _letters(body)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()
