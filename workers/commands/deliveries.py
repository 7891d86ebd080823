"""`foldline ledger`: what was sent where, what is on its way, what nobody can know, and an operator's word about it."""

import asyncio
import enum
import getpass
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
import typer

from ledger import delivery
from ledger.delivery import Step
from ledger.errors import LedgerError
from ledger.parts import PartRecord, Reply
from ledger.states import State
from workers.commands.output import Json, moment, show_json, show_record, show_rows
from workers.commands.session import Ledger, fail, open_ledger, read_config, run_async

COLUMNS = ("part", "state", "target", "attempts", "since", "note")
LISTED = (State.PENDING, State.SENDING, State.RETRY, State.UNKNOWN, State.DEAD)
"""States that are indexed; settled deliveries are found by their turn. `dead` lists the abandoned, too."""

Part = Annotated[str, typer.Argument(metavar="PART", help="A delivery's id, as the listing prints it.")]
By = Annotated[str, typer.Option(help="Who says so; it is written down.")]

ledger_app = typer.Typer(help="Deliveries: list them, look at one, say what became of it.")


class Outcome(enum.StrEnum):
    """What a person can know of an unknown delivery."""

    SENT = "sent"
    NOT_SENT = "not-sent"


@ledger_app.callback(invoke_without_command=True)
def list_deliveries(
    context: typer.Context,
    *,
    state: Annotated[State | None, typer.Option(help="Only deliveries in this state.")] = None,
    turn: Annotated[str, typer.Option(help="All deliveries of this turn, the settled ones too.")] = "",
    count: Annotated[int, typer.Option(min=1, help="At most so many of a partition and state.")] = 100,
    as_json: Json = False,
) -> None:
    """List deliveries: all that are not settled and those that were given up, or those of one turn."""
    if context.invoked_subcommand is not None:
        return
    found = run_async(_of_turn(turn) if turn else _listed(count))
    rows = [_row(part) for part in found if state in (None, part.state)]
    show_rows(rows, COLUMNS, as_json=as_json, empty="no deliveries")


@ledger_app.command("show")
def show(part: Part, as_json: Json = False) -> None:
    """Show one delivery with its attempts."""
    record = run_async(_read(part))
    show_record(msgspec.to_builtins(record), as_json=as_json)


@ledger_app.command("resolve")
def resolve(part: Part, outcome: Outcome, by: By = "", as_json: Json = False) -> None:
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
        raise LedgerError(str(error)) from None
    if record is None:
        fail(f"no delivery {part}: it never was, or its retention is over")
    return record


async def _of_turn(turn: str) -> list[PartRecord]:
    async with open_ledger(read_config()) as ledger:
        try:
            names = await ledger.scripts.run(delivery.parts_of(ledger.keys, turn))
        except ValueError as error:
            raise LedgerError(str(error)) from None
        return await _records(ledger, names)


async def _listed(count: int) -> list[PartRecord]:
    async with open_ledger(read_config()) as ledger:
        found = await asyncio.gather(
            *(_of_partition(ledger, p, count) for p in range(ledger.keys.partitions)),
        )
        names = list(dict.fromkeys(name for names in found for name in names))
        return await _records(ledger, names)


async def _of_partition(ledger: Ledger, partition: int, count: int) -> list[str]:
    names: list[str] = []
    for state in LISTED[1:]:
        listed = await ledger.scripts.run(delivery.list_parts(ledger.keys, partition, state, count=count))
        names += [name for name, _ in listed]
    for lane, _ in await ledger.scripts.run(delivery.list_lanes(ledger.keys, partition)):
        names += (await ledger.scripts.run(delivery.read_lane(ledger.keys, partition, lane)))[:count]
    return names


async def _records(ledger: Ledger, names: list[str]) -> list[PartRecord]:
    records = await asyncio.gather(*(ledger.scripts.run(delivery.read_part(ledger.keys, name)) for name in names))
    return [record for record in records if record is not None]


def _row(part: PartRecord) -> dict[str, Any]:
    since = part.settled_at or part.unknown_at or part.attempt_at or part.created_at
    return {
        "part": part.id,
        "state": part.state.value,
        "target": f"{part.channel}:{part.target}" + (f"/{part.recipient}" if part.recipient else ""),
        "turn": part.turn,
        "block": part.block,
        "attempts": part.attempts,
        "since": moment(since),
        "guarantee": part.guarantee,
        "duplicate_detected": part.duplicate_detected,
        "waivers": part.waivers,
        "note": part.note or part.receipt,
        "webhook_id": part.webhook_id,
    }


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"
