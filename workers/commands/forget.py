"""`foldline forget`: removes everything of a session or of a tenant, for good.

Turns that run are cancelled first and waited for: while one is under way, its processes would write what was just removed. What is not over
in time, or may be on its way to a channel, is refused by name and left whole; the same command finishes it later. Deliveries that wait are
removed unsent. All keys are walked over, because what is old may stand in no index any more.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

import typer

from ledger import delivery, forgetting, turns
from ledger.access import DEFAULT_TENANT, TENANT_MARK, scoped
from ledger.commands import SLICE, Call
from ledger.forgetting import ForgetStatus, Whose
from ledger.records import START, TurnState
from workers.commands.output import Json, show_json, show_record
from workers.commands.session import EXIT_REFUSED, Ledger, fail, open_ledger, read_config, run_async
from workers.streams.scanning import keys_like

T = TypeVar("T")

AT_ONCE = 100
LOOK_S = 0.2
PASSES = 5
"""How often what has come meanwhile is looked for; whoever goes on submitting is told of it."""
GONE = "gone"  # the lane of a part whose record has expired
WHY = {
    ForgetStatus.RUNNING: "it has not ended",
    ForgetStatus.PLANNING: "its blocks wait for a delivery process to plan them",
    ForgetStatus.SENDING: "an attempt of it may be on its way",
    ForgetStatus.PARTS: "deliveries of it have come meanwhile",
    ForgetStatus.MISMATCH: "deliveries of it are being moved",
}


@dataclass(frozen=True)
class Wanted:
    """Whose data goes: a tenant's, or of it one session's."""

    tenant: str
    session: str

    @property
    def names(self) -> set[str]:
        """What the session may be called in the ledger; a turn without one is its own, under a name that is no client's."""
        return {self.session, scoped(self.tenant, self.session)} if self.session else set()

    def takes(self, whose: Whose) -> bool:
        """Whether a turn or an idempotency record is meant."""
        return whose.tenant == self.tenant and (not self.session or whose.session in self.names)

    def takes_orphan(self, whose: Whose) -> bool:
        """The same of a part whose turn's record is gone: its session alone tells."""
        if self.session:
            return whose.session == scoped(self.tenant, self.session)
        return whose.session.startswith(f"{self.tenant}{TENANT_MARK}")


@dataclass
class Found:
    """What there is of them."""

    turns: dict[str, Whose] = field(default_factory=dict)
    parts: dict[str, set[str]] = field(default_factory=dict)
    blocks: dict[str, set[int]] = field(default_factory=dict)
    idempotency: list[str] = field(default_factory=list)
    reports: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By stream, what another path told of them and no turn has yet: entries with their turns."""


@dataclass
class Forgotten:
    """What was done."""

    turns: int = 0
    parts: int = 0
    idempotency: int = 0
    reports: int = 0
    cancelled: int = 0
    refused: dict[str, str] = field(default_factory=dict)


def forget(
    *,
    session: Annotated[str, typer.Option(metavar="SESSION", help="A session, as its client named it.")] = "",
    tenant: Annotated[
        str, typer.Option(metavar="TENANT", help="A tenant: all of its data, or with --session that session's.")
    ] = "",
    wait_s: Annotated[
        int, typer.Option("--wait", min=0, metavar="SECONDS", help="Seconds to wait for turns that run to end.")
    ] = 30,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would go, and remove nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Remove all data of a session or a tenant: turns, events, frames, blocks, deliveries, idempotency keys."""
    if not (session or tenant):
        fail("forget: say whose data, by --session or --tenant", EXIT_REFUSED)
    done = run_async(_forget(Wanted(tenant or DEFAULT_TENANT, session), wait_s=wait_s, dry_run=dry_run))
    shown = {"dry_run": dry_run, "turns": done.turns, "deliveries": done.parts, "idempotency_keys": done.idempotency}
    shown |= {"reports": done.reports, "cancelled": done.cancelled}
    if as_json:
        show_json({**shown, "refused": done.refused})
    else:
        show_record(shown, as_json=False)
        for turn, why in done.refused.items():
            sys.stderr.write(f"foldline: forget: turn {turn} is still there: {why}\n")
    if done.refused:
        raise SystemExit(EXIT_REFUSED)


async def _forget(wanted: Wanted, *, wait_s: int, dry_run: bool) -> Forgotten:
    done = Forgotten()
    async with open_ledger(read_config()) as ledger:
        for _ in range(PASSES):
            found = await find(ledger, wanted)
            if dry_run:
                done.turns, done.idempotency = len(found.turns), len(found.idempotency)
                done.parts = sum(len(parts) for parts in found.parts.values())
                done.reports = sum(len(reports) for reports in found.reports.values())
                return done
            done.refused = {}
            if not found.turns and not found.idempotency:
                return done
            await _cancel(ledger, found, done)
            await _remove(ledger, found, done, wait_s=wait_s)
            if done.refused:
                return done
        done.refused = dict.fromkeys((await find(ledger, wanted)).turns, "it was submitted meanwhile")
    return done


# finding


async def find(ledger: Ledger, wanted: Wanted) -> Found:
    """Walk over all keys and choose what is of them."""
    found, keys = Found(), ledger.keys
    partitions: Iterable[int | None] = {keys.partition_of(name) for name in wanted.names} or {None}
    for p in partitions:
        known: set[str] = set()
        async for key, whose in _whose(ledger, keys.all_of("turn", p)):
            known.add(keys.turn_of_key(key))
            if wanted.takes(whose):
                found.turns[keys.turn_of_key(key)] = whose
        orphans: list[str] = []
        async for key in keys_like(ledger.client, keys.all_of("part", p)):
            turn = keys.turn_of_key(key)
            if turn in found.turns:
                found.parts.setdefault(turn, set()).add(keys.part_of_key(key))
            elif turn not in known:
                orphans.append(key)
        for key, whose in await _read_all(ledger, orphans):
            if not whose.tenant and wanted.takes_orphan(whose) and not await _exists(ledger, whose.turn):
                found.turns.setdefault(whose.turn, whose)
                found.parts.setdefault(whose.turn, set()).add(keys.part_of_key(key))
        async for key in keys_like(ledger.client, keys.all_of("block", p)):
            if (turn := keys.turn_of_key(key)) in found.turns:
                found.blocks.setdefault(turn, set()).add(int(key.rpartition(":")[2]))
    async for key, whose in _whose(ledger, keys.all_idem()):
        if wanted.takes(whose) or whose.turn in found.turns:
            found.idempotency.append(key)
    for stream in (keys.reports, keys.reports_aside) if found.turns else ():
        found.reports[stream] = [one async for one in _reports(ledger, stream) if one[1] in found.turns]
    return found


async def _reports(ledger: Ledger, stream: str) -> AsyncIterator[tuple[str, str]]:
    after = START
    while page := await ledger.scripts.run(forgetting.turns_of_reports(stream, after=after)):
        for one in page:
            yield one
        after = page[-1][0]


async def _exists(ledger: Ledger, turn: str) -> bool:
    return await ledger.scripts.run(turns.read_turn(ledger.keys, turn)) is not None


async def _whose(ledger: Ledger, pattern: str) -> AsyncIterator[tuple[str, Whose]]:
    page: list[str] = []
    async for key in keys_like(ledger.client, pattern):
        page.append(key)
        if len(page) == AT_ONCE:
            for one in await _read_all(ledger, page):
                yield one
            page = []
    for one in await _read_all(ledger, page):
        yield one


async def _read_all(ledger: Ledger, keys: list[str]) -> list[tuple[str, Whose]]:
    found: list[tuple[str, Whose]] = []
    for first in range(0, len(keys), AT_ONCE):
        page = keys[first : first + AT_ONCE]
        read = await _all(ledger, [forgetting.read_whose(key) for key in page])
        found += list(zip(page, read, strict=True))
    return found


async def _all(ledger: Ledger, calls: list[Call[T]]) -> list[T]:
    return await asyncio.gather(*(ledger.scripts.run(call) for call in calls))


# removing


async def _cancel(ledger: Ledger, found: Found, done: Forgotten) -> None:
    grace_ms = ledger.config.limits.cancel_grace_ms
    for turn, whose in found.turns.items():
        if whose.state in {TurnState.QUEUED, TurnState.RUNNING}:
            reply = await ledger.scripts.run(turns.request_cancel(ledger.keys, turn, grace_ms=grace_ms))
            done.cancelled += reply is turns.CancelStatus.OK


async def _remove(ledger: Ledger, found: Found, done: Forgotten, *, wait_s: int) -> None:
    """Remove what is over, look again at the rest until the time is up, and say what is in the way of it."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    waiting = dict(found.turns)
    while True:
        for turn, whose in list(waiting.items()):
            status = await _remove_turn(ledger, turn, whose.session, found, done)
            if status is ForgetStatus.OK:
                done.turns += 1
                del waiting[turn]
                done.refused.pop(turn, None)
            else:
                done.refused[turn] = WHY[status]
        if not waiting or loop.time() > deadline:
            break
        await asyncio.sleep(LOOK_S)
    for stream, reports in found.reports.items():
        entries = [entry for entry, turn in reports if turn not in waiting]
        for first in range(0, len(entries), SLICE):
            done.reports += await ledger.scripts.run(forgetting.forget_reports(stream, entries[first : first + SLICE]))
    for key in found.idempotency:
        whose = await ledger.scripts.run(forgetting.read_whose(key))
        if whose.turn not in waiting:
            done.idempotency += await ledger.scripts.run(forgetting.forget_idempotency(key))


async def _remove_turn(ledger: Ledger, turn: str, session: str, found: Found, done: Forgotten) -> ForgetStatus:
    run, keys = ledger.scripts.run, ledger.keys
    quarantine_ms = ledger.config.delivery.quarantine_ms
    names = sorted({*await run(delivery.parts_of(keys, turn)), *found.parts.get(turn, ())})
    for first in range(0, len(names), AT_ONCE):
        page = names[first : first + AT_ONCE]
        records = await _all(ledger, [delivery.read_part(keys, name) for name in page])
        lanes = {name: record.lane if record else GONE for name, record in zip(page, records, strict=True)}
        status, _ = await run(forgetting.forget_parts(keys, turn, lanes, quarantine_ms=quarantine_ms))
        if status is not ForgetStatus.OK:
            return status
        done.parts += sum(record is not None for record in records)
        found.parts.get(turn, set()).difference_update(page)
    record = await run(turns.read_turn(keys, turn))
    blocks = sorted({*found.blocks.get(turn, ()), *range(record.blocks_next if record is not None else 0)})
    status = ForgetStatus.MORE
    first = 0
    while status is ForgetStatus.MORE:
        page_of_blocks = blocks[first : first + SLICE]
        first += SLICE
        status = await run(
            forgetting.forget_turn(keys, turn, session=session, blocks=page_of_blocks, is_last=first >= len(blocks))
        )
    return status
