"""`foldline shadow`: which runtimes are shadowed, and how what foldline would deliver compares with what another path sent.

A turn's mode is decided when it is submitted and told to whoever submits it: the other path sends a turn if, and only if, it was told
`shadow`. So a switch, in either direction, at any time, leaves each turn with one sender.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Literal, get_args

import typer

from ledger import shadow, turns
from ledger.records import SHADOW, TurnRecord
from ledger.reports import ReportEntry, reports_aside
from pipeline.events import RuntimeName
from workers.commands.output import Json, console, show_json, show_record, show_rows
from workers.commands.session import EXIT_REFUSED, Ledger, fail, open_ledger, read_config, run_async
from workers.commands.turns import find_turn
from workers.shadow.collection import Shadowed, Standing, collect
from workers.shadow.comparison import Kind

RUNTIMES = get_args(RuntimeName)
TOTALS = ("runtime", "turns", "equal", *(kind.value for kind in Kind), *(s.value for s in Standing if s != "compared"))
TURNS = ("turn", "runtime", "state", "verdict")
ASIDE = ("entry", "turn", "id", "why")
AT_ONCE = 64  # turns read together: a report is a guest on the server

shadow_app = typer.Typer(no_args_is_help=True, help="Shadow runtimes, and compare two paths.")


class Setting(StrEnum):
    """What a runtime can be set to; `default` lets the configuration decide."""

    LIVE = "live"
    SHADOW = "shadow"
    DEFAULT = "default"


@shadow_app.command("set")
def set_mode(
    runtime: Annotated[str, typer.Argument(metavar="RUNTIME", help="main, subagent or acp.")],
    mode: Annotated[Setting, typer.Argument(metavar="MODE", help="live, shadow, or default: as configured.")],
    as_json: Json = False,
) -> None:
    """Deliver a runtime's turns, or only record what would be delivered; counts for turns submitted from now on."""
    if runtime not in RUNTIMES:
        fail(f"shadow set: a runtime is one of {', '.join(RUNTIMES)}, not {runtime!r}", EXIT_REFUSED)
    show_rows(run_async(_set(runtime, mode)), ("runtime", "mode", "source"), as_json=as_json, empty="no runtimes")


@shadow_app.command("modes")
def list_modes(as_json: Json = False) -> None:
    """Show every runtime's mode and where it comes from."""
    show_rows(run_async(_modes()), ("runtime", "mode", "source"), as_json=as_json, empty="no runtimes")


@shadow_app.command("report")
def report(
    *,
    runtime: Annotated[str, typer.Option(metavar="RUNTIME", help="Only this runtime's turns.")] = "",
    count: Annotated[
        int, typer.Option(min=1, metavar="N", help="At most so many turns of a partition, the newest first.")
    ] = 1_000,
    as_json: Json = False,
) -> None:
    """Compare all shadowed turns: totals per runtime, and every turn that is not equal."""
    found = [one for one in run_async(_collect(count)) if runtime in ("", one.runtime)]
    sums = totals(found)
    differing = [one for one in found if one.verdict != "equal"]
    if as_json:
        show_json({"totals": sums, "turns": [one.as_row() for one in differing]})
        return
    show_rows(sums, TOTALS, as_json=False, empty="no shadowed turns")
    if differing:
        console().print()
        show_rows([one.as_row() for one in differing], TURNS, as_json=False, empty="")


@shadow_app.command("aside")
def list_aside(
    count: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many, the newest first.")] = 100,
    as_json: Json = False,
) -> None:
    """List reports that came by the Redis stream and could not be kept, with the reason."""
    rows = [{"aside": entry.id, **entry.fields} for entry in run_async(_aside(count))]
    show_rows(rows, ASIDE, as_json=as_json, empty="no reports were put aside")


@shadow_app.command("show")
def show(
    turn: Annotated[str, typer.Argument(metavar="TURN", help="The turn's id.")],
    as_json: Json = False,
) -> None:
    """Show one turn's comparison with its diff: - is what foldline would send, + what the other path sent."""
    found = run_async(_one(turn))
    if as_json:
        show_json({**found.as_row(), "ours": found.ours, "theirs": found.theirs})
        return
    show_record({name: value for name, value in found.as_row().items() if name in TURNS}, as_json=False)
    if found.comparison is not None and not found.comparison.is_equal:
        console().print(found.comparison.diff)


def totals(found: Iterable[Shadowed]) -> list[dict[str, Any]]:
    """Per runtime, how many turns are equal, differ in what way, or cannot be compared yet; a turn may differ in several ways."""
    counts: dict[str, Counter[str]] = {}
    for one in found:
        counter = counts.setdefault(one.runtime, Counter())
        counter["turns"] += 1
        if one.comparison is None:
            counter[one.standing.value] += 1
        elif one.comparison.is_equal:
            counter["equal"] += 1
        else:
            counter.update(kind.value for kind in one.comparison.kinds)
    return [{"runtime": name, **{column: counts[name][column] for column in TOTALS[1:]}} for name in sorted(counts)]


async def _aside(count: int) -> list[ReportEntry]:
    async with open_ledger(read_config()) as ledger:
        found: list[ReportEntry] = await ledger.scripts.run(reports_aside(ledger.keys, count=count))
        return found


async def _set(runtime: str, mode: Setting) -> list[dict[str, Any]]:
    async with open_ledger(read_config()) as ledger:
        if mode is Setting.DEFAULT:
            await ledger.scripts.run(shadow.forget_mode(ledger.keys, runtime))
        else:
            await ledger.scripts.run(shadow.set_mode(ledger.keys, runtime, mode.value))
        return await _listed(ledger)


async def _modes() -> list[dict[str, Any]]:
    async with open_ledger(read_config()) as ledger:
        return await _listed(ledger)


async def _listed(ledger: Ledger) -> list[dict[str, Any]]:
    said = await ledger.scripts.run(shadow.read_modes(ledger.keys))
    rows = []
    for runtime in RUNTIMES:
        configured: Literal["live", "shadow"] = getattr(ledger.config.modes, runtime)
        source = "set while running" if runtime in said else "configuration"
        rows.append({"runtime": runtime, "mode": said.get(runtime) or configured, "source": source})
    return rows


async def _collect(count: int) -> list[Shadowed]:
    async with open_ledger(read_config()) as ledger:
        names: list[str] = []
        for partition in range(ledger.keys.partitions):
            listed: list[str] = await ledger.scripts.run(shadow.shadow_turns(ledger.keys, partition, count=count))
            names += listed
        found: list[Shadowed] = []
        for first in range(0, len(names), AT_ONCE):
            chosen = names[first : first + AT_ONCE]
            records = await asyncio.gather(*(ledger.scripts.run(turns.read_turn(ledger.keys, name)) for name in chosen))
            found += await asyncio.gather(*(_compared(ledger, record) for record in records if record is not None))
        return found


async def _one(turn: str) -> Shadowed:
    async with open_ledger(read_config()) as ledger:
        record = await find_turn(ledger, turn)
        if record is None:
            fail(f"no turn {turn}: it never was, or its retention is over")
        if record.mode != SHADOW:
            fail(f"turn {turn} is delivered by foldline: there is nothing to compare")
        return await _compared(ledger, record)


async def _compared(ledger: Ledger, record: TurnRecord) -> Shadowed:
    return await collect(ledger.scripts.run, ledger.keys, record)
