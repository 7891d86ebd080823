"""`foldline ledger`: what was sent where, what is on its way, what nobody can know, and an operator's word about it."""

import enum
import getpass
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Annotated, Any

import msgspec
import typer

from ledger import delivery, forgetting
from ledger.delivery import Step
from ledger.parts import PartRecord, Reply
from ledger.states import SETTLED, State, is_settled
from workers.commands import selection
from workers.commands.output import Json, When, show_json, show_record, show_rows, times
from workers.commands.session import EXIT_REFUSED, Ledger, fail, open_ledger, read_config, run_async

COLUMNS = ("part", "state", "target", "attempts", "since", "late", "note")
TIMES = {"attempt_at", "created_at", "age_from", "due_at", "unknown_at", "settled_at", "exposed_at", "passed_at"}
EXIT_UNKNOWN = 3  # for a script that watches over what nobody can know

Part = Annotated[str, typer.Argument(metavar="PART", help="A delivery's id, as the listing prints it.")]
Bodies = Annotated[bool, typer.Option("--bodies", help="Show the messages themselves, too.")]
By = Annotated[str, typer.Option(metavar="WHO", help="Who says so; it is written down.")]

ledger_app = typer.Typer(no_args_is_help=True, help="Deliveries: list them, look at one, say what became of it.")


class Outcome(enum.StrEnum):
    """What a person can know of an unknown delivery."""

    SENT = "sent"
    NOT_SENT = "not-sent"


Known = Annotated[Outcome, typer.Argument(metavar="OUTCOME", help="What became of it, as you found out.")]


@ledger_app.command("list")
def list_deliveries(
    *,
    state: Annotated[
        State | None, typer.Option(help="Only in this state; exit code 3 when `unknown` finds any.")
    ] = None,
    target: selection.Target = "",
    turn: selection.Turn = "",
    older_than: selection.Older = "",
    newer_than: selection.Newer = "",
    late: selection.Late = False,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")] = 1_000,
    bodies: Bodies = False,
    as_json: Json = False,
) -> None:
    """List deliveries: what is not settled and what was given up, or what the options choose."""
    wanted = selection.read_wanted(state, target, turn, older_than, newer_than, late=late)
    when = times(as_json=as_json)
    rows = [_row(part, when, bodies=bodies) for part in run_async(_selected(wanted, count))]
    show_rows(rows, (*COLUMNS, "body") if bodies else COLUMNS, as_json=as_json, empty="no deliveries")
    if state is State.UNKNOWN and rows:
        raise SystemExit(EXIT_UNKNOWN)


@ledger_app.command("purge")
def purge(
    *,
    state: Annotated[State | None, typer.Option(help="Only in this state, a settled one.")] = None,
    target: selection.Target = "",
    turn: selection.Turn = "",
    older_than: selection.Older = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would go, and remove nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Remove the records of settled deliveries for good; what is in a lane, or unknown, stays."""
    if not (state or target or turn or older_than):
        fail("ledger purge: say which, by --state, --target, --turn or --older-than", EXIT_REFUSED)
    if state is not None and not is_settled(state):
        settled = ", ".join(sorted(SETTLED))
        fail(f"ledger purge: what is {state} still owes something; settled are {settled}", EXIT_REFUSED)
    counts = run_async(_purge(selection.read_wanted(state, target, turn, older_than), dry_run=dry_run))
    show_record({"dry_run": dry_run, "purged": counts.total(), **dict(counts)}, as_json=as_json)


@ledger_app.command("show")
def show(part: Part, bodies: Bodies = False, as_json: Json = False) -> None:
    """Show one delivery with its attempts."""
    record = run_async(_read(part))
    shown = msgspec.to_builtins(record)
    shown["body_bytes"] = len(record.body.encode())
    if not bodies:
        del shown["body"]
    show_record(shown if as_json else _for_people(shown), as_json=as_json)


@ledger_app.command("resolve")
def resolve(part: Part, outcome: Known, by: By = "", as_json: Json = False) -> None:
    """Say whether an unknown delivery arrived; one that did not is sent."""

    def call(ledger: Ledger, record: PartRecord) -> Awaitable[Step]:
        quarantine, ttl = ledger.config.delivery.quarantine_ms, ledger.config.retention.part_ms
        sent = outcome is Outcome.SENT
        return ledger.scripts.run(
            delivery.resolve(ledger.keys, record, sent=sent, by=by or _me(), quarantine_ms=quarantine, ttl_ms=ttl)
        )

    _act(part, call, as_json=as_json)


@ledger_app.command("resend")
def resend(part: Part, by: By = "", as_json: Json = False) -> None:
    """Send an unknown delivery again without knowing: it may arrive twice, and is counted apart."""

    def call(ledger: Ledger, record: PartRecord) -> Awaitable[Step]:
        quarantine, ttl = ledger.config.delivery.quarantine_ms, ledger.config.retention.part_ms
        return ledger.scripts.run(
            delivery.resend(ledger.keys, record, by=by or _me(), quarantine_ms=quarantine, ttl_ms=ttl)
        )

    _act(part, call, as_json=as_json)


@ledger_app.command("requeue")
def requeue(part: Part, by: By = "", as_json: Json = False) -> None:
    """Try a dead delivery once more."""

    def call(ledger: Ledger, record: PartRecord) -> Awaitable[Step]:
        ttl = ledger.config.retention.part_ms
        return ledger.scripts.run(delivery.requeue(ledger.keys, record, by=by or _me(), ttl_ms=ttl))

    _act(part, call, as_json=as_json)


@ledger_app.command("drop")
def drop(part: Part, by: By = "", as_json: Json = False) -> None:
    """Give a delivery up; its lane goes on."""

    def call(ledger: Ledger, record: PartRecord) -> Awaitable[Step]:
        quarantine, ttl = ledger.config.delivery.quarantine_ms, ledger.config.retention.part_ms
        return ledger.scripts.run(
            delivery.drop(ledger.keys, record, by=by or _me(), quarantine_ms=quarantine, ttl_ms=ttl)
        )

    _act(part, call, as_json=as_json)


def _act(part: str, call: Callable[[Ledger, PartRecord], Awaitable[Step]], *, as_json: bool) -> None:
    async def work() -> Step:
        async with open_ledger(read_config()) as ledger:
            return await call(ledger, await _require(ledger, part))

    step = run_async(work())
    if step.reply not in {Reply.OK, Reply.ALREADY}:
        why = {
            Reply.EARLY: "its last attempt may still be on its way; ask again when the quarantine is over",
            Reply.STATE: f"it is {step.state}, where this cannot be said",
        }
        fail(f"{part}: {why.get(step.reply, step.reply.value)}")
    if as_json:
        show_json({"part": part, "state": step.state})
    else:
        sys.stdout.write(f"{part} is {step.state} now\n")


async def _read(part: str) -> PartRecord:
    async with open_ledger(read_config()) as ledger:
        return await _require(ledger, part)


async def _require(ledger: Ledger, part: str) -> PartRecord:
    try:
        record = await ledger.scripts.run(delivery.read_part(ledger.keys, part))
    except ValueError as error:
        fail(f"no delivery's id: {part!r}: {error}")
    if record is None:
        fail(f"no delivery {part}: it never was, or its retention is over")
    return record


async def _selected(wanted: selection.Wanted, count: int) -> list[PartRecord]:
    found: list[PartRecord] = []
    async with open_ledger(read_config()) as ledger, aclosing(selection.select(ledger, wanted)) as chosen:
        async for part in chosen:
            found.append(part)
            if len(found) == count:
                break
    return found


async def _purge(wanted: selection.Wanted, *, dry_run: bool) -> Counter[str]:
    """Remove what is chosen and settled, by its own script for each: what has been taken out of the dead meanwhile stays."""
    counts: Counter[str] = Counter()
    async with open_ledger(read_config()) as ledger:
        async for part in selection.select(ledger, wanted, everything=True):
            if not is_settled(part.state) or part.in_lane:
                continue
            if dry_run:
                counts[part.state] += 1
                continue
            purged = await ledger.scripts.run(forgetting.purge_part(ledger.keys, part, age_ms=wanted.older_ms or 0))
            if purged.reply is Reply.OK and purged.state is not None:
                counts[purged.state] += 1
    return counts


def _for_people(shown: dict[str, Any]) -> dict[str, Any]:
    """A record with its times as people write them, and a line for each attempt."""
    when = times(as_json=False)
    attempts: dict[str, str] = shown.pop("attempts_made")
    told = {name: when(value) if name in TIMES else value for name, value in shown.items()}
    made = [
        (ident, *text.split(" ", 2)) for ident, text in attempts.items()
    ]  # number, time, verdict: as `intent` writes them
    for ident, number, at_ms, verdict in sorted(made, key=lambda attempt: int(attempt[1])):
        told[f"attempt {number}"] = f"{when(int(at_ms))} {verdict}, {ident}"
    return told


def _row(part: PartRecord, when: When, *, bodies: bool) -> dict[str, Any]:
    row = {
        "part": part.id,
        "state": part.state.value,
        "target": selection.target_of(part),
        "turn": part.turn,
        "block": part.block,
        "attempts": part.attempts,
        "since": when(selection.since(part)),
        "late": part.late,
        "guarantee": part.guarantee,
        "duplicate_detected": part.duplicate_detected,
        "waivers": part.waivers,
        "note": part.note or part.receipt,
        "webhook_id": part.webhook_id,
    }
    return {**row, "body": part.body} if bodies else row


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"
