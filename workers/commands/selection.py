"""Which deliveries an operator means: by state, target, turn and age; read from the lists that hold them, never by walking over all keys.

What is open or was given up stands in lists of its partition. What was sent or suppressed is found by the partition's index of turns, which
goes back as far as `retention.turn_ms`.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Annotated

import typer

from ledger import delivery, turns
from ledger.parts import PartRecord
from ledger.states import State
from workers.commands.output import UNITS_MS
from workers.commands.probes import read_now
from workers.commands.session import EXIT_REFUSED, Ledger, fail

PAGE = 500
LISTS = {
    State.SENDING: State.SENDING,
    State.RETRY: State.RETRY,
    State.UNKNOWN: State.UNKNOWN,
    State.DEAD: State.DEAD,
    State.ABANDONED: State.DEAD,
}
"""States that are listed, each by the state that names its list."""
BY_TURN = frozenset({State.SENT, State.SUPPRESSED})

Target = Annotated[
    str, typer.Option(metavar="TARGET", help="Only to this target: its name, or as the listing shows it.")
]
Turn = Annotated[str, typer.Option(metavar="TURN", help="Only of this turn.")]
Older = Annotated[
    str, typer.Option("--older-than", metavar="AGE", help="Only what stands so for longer: 90s, 15m, 2h, 7d.")
]
Newer = Annotated[str, typer.Option("--newer-than", metavar="AGE", help="Only what stands so for a shorter time.")]
Late = Annotated[bool, typer.Option("--late", help="Only what was settled after its lane had gone on without it.")]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A choice of deliveries; what is empty or None does not choose."""

    state: State | None = None
    target: str = ""
    turn: str = ""
    older_ms: int | None = None
    newer_ms: int | None = None
    late: bool = False

    def takes(self, part: PartRecord, now_ms: int) -> bool:
        """Whether it chooses the part."""
        age_ms = now_ms - since(part)
        return (
            self.state in (None, part.state)
            and self.turn in ("", part.turn)
            and self.target in ("", part.target, target_of(part), f"{part.target}/{part.recipient}")
            and (self.older_ms is None or age_ms >= self.older_ms)
            and (self.newer_ms is None or age_ms < self.newer_ms)
            and (part.late or not self.late)
        )


def read_wanted(
    state: State | None, target: str, turn: str, older_than: str, newer_than: str = "", *, late: bool = False
) -> Wanted:
    """Read a command's options; ends the command in words when an age is none."""
    return Wanted(
        state=state, target=target, turn=turn, older_ms=_age(older_than), newer_ms=_age(newer_than), late=late
    )


def since(part: PartRecord) -> int:
    """Since when a part stands as it does, by the server's time in ms."""
    return part.settled_at or part.unknown_at or part.attempt_at or part.created_at


def target_of(part: PartRecord) -> str:
    """A part's target as the listing shows it."""
    return f"{part.channel}:{part.target}" + (f"/{part.recipient}" if part.recipient else "")


async def select(ledger: Ledger, wanted: Wanted, *, everything: bool = False) -> AsyncGenerator[PartRecord, None]:
    """The chosen parts, each once. Without a state and a turn: what is open or was given up; `everything`: what is settled, too."""
    now = await read_now(ledger)
    seen: set[str] = set()
    async for names in _names(ledger, wanted, everything=everything):
        fresh = [name for name in dict.fromkeys(names) if name not in seen]
        seen.update(fresh)
        for first in range(0, len(fresh), PAGE):
            calls = (delivery.read_part(ledger.keys, name) for name in fresh[first : first + PAGE])
            for part in await asyncio.gather(*(ledger.scripts.run(call) for call in calls)):
                if part is not None and wanted.takes(part, now):
                    yield part


async def _names(ledger: Ledger, wanted: Wanted, *, everything: bool) -> AsyncIterator[list[str]]:
    run, keys = ledger.scripts.run, ledger.keys
    if wanted.turn:
        try:
            partitions = [keys.partition_of_turn(wanted.turn)]
        except ValueError as error:
            fail(str(error))
        yield await run(delivery.parts_of(keys, wanted.turn))
    else:
        partitions = list(range(keys.partitions))
    for p in partitions:
        for listed in _lists(wanted.state):
            async for page in _pages(ledger, p, listed):
                yield page
        if wanted.late:
            yield await run(delivery.list_late(keys, p))
        if wanted.state in (None, State.PENDING):
            for lane, _ in await run(delivery.list_lanes(keys, p)):
                yield await run(delivery.read_lane(keys, p, lane))
        if not wanted.turn and (everything or wanted.state in BY_TURN):
            async for page in _of_turns(ledger, p):
                yield page


def _lists(state: State | None) -> list[State]:
    return list(dict.fromkeys(LISTS.values())) if state is None else [LISTS[state]] if state in LISTS else []


async def _pages(ledger: Ledger, p: int, listed: State) -> AsyncIterator[list[str]]:
    start = 0
    while True:
        page = await ledger.scripts.run(delivery.list_parts(ledger.keys, p, listed, start=start, count=PAGE))
        if not page:
            return
        yield [name for name, _ in page]
        start += len(page)


async def _of_turns(ledger: Ledger, p: int) -> AsyncIterator[list[str]]:
    run, keys = ledger.scripts.run, ledger.keys
    start = 0
    while True:
        page = await run(turns.recent_turns(keys, p, start=start, count=PAGE))
        if not page:
            return
        for names in await asyncio.gather(*(run(delivery.parts_of(keys, turn)) for turn in page)):
            yield names
        start += len(page)


def _age(text: str) -> int | None:
    if not text:
        return None
    units = {name: unit for unit, name in UNITS_MS}
    found = re.fullmatch(r"(\d{1,12})(ms|s|m|h|d)", text.strip())
    if found is None:
        fail(f"an age is a number and one of {', '.join(reversed(units))}, as in 15m, not {text!r}", EXIT_REFUSED)
    return int(found[1]) * units[found[2]]
