"""What the upstream says in each turn: made of the seed and the turn's key alone, so that a request made again is answered alike.

Texts repeat themselves on purpose (a paragraph twice, a word many times over, the same answer in two turns): whoever leaves out what looks
like something already sent loses text here. Some answers call a function between two texts, some think first, some are cut short.
"""

import random
from dataclasses import dataclass
from typing import Any

from scripts.responses_stream import FunctionCall, Item, Summary, Text, compose, cut

WORDS = [
    "Fluss",
    "Wasser",
    "Stein",
    "river",
    "water",
    "stone",
    "ha",
    "ha",
    "ha",
    "über",
    "den",
    "Berg",
    "水",
    "火",
    "石",
    "🌊",
    "wave",
    "after",
    "wave",
    "and",
    "and",
    "then",
    "then",
    "once",
    "again",
    "twice",
    "(a)",
    "[b]",
    "`code`",
    "*soft*",
    "**loud**",
    "1.",
    "-",
    "no",
    "yes",
    "never",
    "lost",
    "never",
    "twice",
    "naïve",
    "café",
]
PREPARED = (
    "The river carries what it is given, and it gives back what it carries, in the order in which it came.",
    "ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha",
    "Noch einmal: der Fluss trägt, was man ihm gibt. Noch einmal: der Fluss trägt, was man ihm gibt.",
    "- eins\n- zwei\n- drei\n- eins\n- zwei\n- drei",
    "水は流れる。水は流れる。石は残る。",
)
CUT_SHARE = 0.02
"""Of the answers end in the middle, as broken upstreams do."""


@dataclass(frozen=True, kw_only=True)
class Play:
    """One turn's answer: its items, the pauses between its events, and the event before which it is cut (none: whole)."""

    items: tuple[Item, ...]
    delay_s: float
    cut_before: int | None

    def events(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """The wire events of the answer, as far as it goes."""
        return compose(request, self.items)[: self.cut_before]


def play_of(seed: int, key: str) -> Play:
    """Decide what is said in a turn."""
    chance = random.Random(f"{seed}:{key}")
    items: list[Item] = []
    if chance.random() < 0.2:
        items.append(Summary(pieces=cut(_paragraph(chance), chance.randint(1, 6))))
    items.append(_text(chance))
    if chance.random() < 0.25:
        items.append(FunctionCall(name="look", pieces=cut('{"where":"' + _paragraph(chance) + '"}', 4)))
        if chance.random() < 0.5:
            items.append(_text(chance))
    events = len(compose({}, items))
    cut_before = chance.randint(1, events - 1) if chance.random() < CUT_SHARE else None
    return Play(items=tuple(items), delay_s=chance.uniform(0.004, 0.05), cut_before=cut_before)


def _text(chance: random.Random) -> Text:
    paragraphs = [_paragraph(chance) for _ in range(chance.randint(1, 6))]
    if chance.random() < 0.4:
        paragraphs.append(chance.choice(paragraphs))
    text = "\n\n".join(paragraphs)
    return Text(pieces=cut(text, chance.randint(1, min(60, len(text)))))


def _paragraph(chance: random.Random) -> str:
    if chance.random() < 0.5:
        return chance.choice(PREPARED)
    return " ".join(chance.choices(WORDS, k=chance.randint(5, 40)))


def as_line(key: str, play: Play) -> dict[str, Any]:
    """What the checker is told: each event's type and what it adds, and whether the end is missing."""
    events = [[event["type"], event.get("delta")] for event in play.events({})]
    return {"key": key, "events": events, "whole": play.cut_before is None}
