"""Compares what each turn's chats show with the turn's blocks, as far as a channel leaves them alone: by letters and digits, in order.

A block whose delivery is listed as unknown may be there or not; every other is there once. Blocks are taken from what the receivers were
sent, which is compared with what the client read elsewhere.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import product

from scripts.chaos_check.reading import Chat, Logs

MOST_UNKNOWN = 10
"""Blocks of one turn and target that nobody knows about; more are not told apart."""


def differences(logs: Logs) -> Iterator[tuple[str, str]]:
    """Each chat that shows anything else than it should: `lost`, `duplicated` or `misordered`, and a sentence."""
    blocks: dict[str, dict[int, str]] = {}
    for target in logs.targets:
        for (turn, block), texts in target.seen.items():
            blocks.setdefault(turn, {})[block] = letters(min(texts) + target.notes.get((turn, block), ""))
    for chat in logs.chats:
        reader = logs.readers.get(chat.key)
        turn = reader.turns[0] if reader is not None and reader.turns else ""
        wanted = blocks.get(turn, {})
        unknown = sorted(block for target, known, block in logs.unknown if (target, known) == (chat.target, turn))
        yield from _compare(chat, turn, wanted, unknown)


def letters(text: str) -> str:
    """A text without what channels mark, space or write otherwise."""
    return "".join(filter(str.isalnum, text)).casefold()


def _compare(chat: Chat, turn: str, wanted: dict[int, str], unknown: list[int]) -> Iterator[tuple[str, str]]:
    shown = "".join(map(letters, chat.texts))
    if len(unknown) > MOST_UNKNOWN:
        yield "lost", f"{chat.target}: {len(unknown)} blocks of {turn} are unknown"
        return
    for missing in product((False, True), repeat=len(unknown)):
        left_out = {block for block, is_missing in zip(unknown, missing, strict=True) if is_missing}
        if shown == "".join(text for block, text in sorted(wanted.items()) if block not in left_out):
            return
    expected = "".join(text for _, text in sorted(wanted.items()))
    have, need = Counter(shown), Counter(expected)
    kind = "misordered" if have == need else "duplicated" if have - need else "lost"
    at = next(
        (n for n, (a, b) in enumerate(zip(shown, expected, strict=False)) if a != b), min(len(shown), len(expected))
    )
    yield (
        kind,
        f"{chat.target}: the chat of {turn} differs at {at}: {shown[at : at + 30]!r} for {expected[at : at + 30]!r}",
    )
