"""Reading a shadowed turn from the ledger: what foldline recorded, what the other path reported, and how they compare.

Nothing is stored of a comparison: it follows from the records, so that asking twice, or a better comparer, costs no history. A turn is
compared once both sides are whole: ended and planned here, and told in full there.
"""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from ledger.commands import Call
from ledger.delivery import parts_of, read_part
from ledger.keys import Keyspace
from ledger.records import TurnRecord
from ledger.shadow import Sent, read_sent
from pipeline.events import Target
from pipeline.project.registry import shown
from workers.shadow.comparison import Comparison, compare

T = TypeVar("T")
Run = Callable[[Call[Any]], Awaitable[Any]]


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message that another path sent: to which target, and what it said."""

    target: str
    text: str


class Standing(StrEnum):
    """How far a shadowed turn is."""

    COMPARED = "compared"
    UNFINISHED = "unfinished"
    """It runs, or not all of its blocks are planned."""
    UNREPORTED = "unreported"
    """The other path has not told all that it sent."""
    EXPIRED = "expired"
    """What was recorded is no longer kept."""


class Shadowed(msgspec.Struct, frozen=True, kw_only=True):
    """One shadowed turn; `comparison` is there once it is compared."""

    turn: str
    runtime: str
    state: str
    standing: Standing
    ours: dict[str, list[str]]
    theirs: dict[str, list[str]]
    comparison: Comparison | None = None

    @property
    def verdict(self) -> str:
        """`equal`, the kinds of what differs, or how far the turn is."""
        if self.comparison is None:
            return self.standing.value
        return ", ".join(self.comparison.kinds) or "equal"

    def as_row(self) -> dict[str, Any]:
        """The turn as programs read it."""
        differences = self.comparison.differences if self.comparison is not None else ()
        return {
            "turn": self.turn,
            "runtime": self.runtime,
            "state": self.state,
            "verdict": self.verdict,
            "kinds": [kind.value for kind in self.comparison.kinds] if self.comparison is not None else [],
            "differences": [msgspec.to_builtins(difference) for difference in differences],
        }


async def collect(run: Run, keys: Keyspace, record: TurnRecord) -> Shadowed:
    """Read both sides of a turn and compare them, if they are whole."""
    sent: Sent = await run(read_sent(keys, record.id))
    theirs = group([msgspec.json.decode(text, type=Message) for text in sent.messages.values()])
    ours, is_kept = await _recorded(run, keys, record)
    standing = Standing.COMPARED
    if not record.state.is_terminal or record.planned != record.blocks_next:
        standing = Standing.UNFINISHED
    elif not is_kept:
        standing = Standing.EXPIRED
    elif not sent.is_whole:
        standing = Standing.UNREPORTED
    return Shadowed(
        turn=record.id,
        runtime=record.runtime,
        state=record.state.value,
        standing=standing,
        ours=ours,
        theirs=theirs,
        comparison=compare(ours, theirs) if standing is Standing.COMPARED else None,
    )


def group(messages: list[Message]) -> dict[str, list[str]]:
    """Messages by their targets, in the order in which they were sent."""
    grouped: dict[str, list[str]] = {}
    for message in messages:
        grouped.setdefault(message.target, []).append(message.text)
    return grouped


async def _recorded(run: Run, keys: Keyspace, record: TurnRecord) -> tuple[dict[str, list[str]], bool]:
    """What foldline would have sent, by target, and whether all of it is still kept."""
    targets = msgspec.json.decode(record.targets or "[]", type=list[Target])
    ours: dict[str, list[str]] = {target.name: [] for target in targets}
    for part_id in await run(parts_of(keys, record.id)):
        part = await run(read_part(keys, part_id))
        if part is None:
            return ours, False
        if part.content_type:  # text that was given up has none, and nobody would have seen it
            ours.setdefault(part.target, []).append(shown(part.channel, part.body))
    return ours, True
