"""The summary: what the client, Redis and the receivers each hold of one turn, and whether they agree to the byte."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from ledger import delivery, log, turns
from ledger.commands import Call
from ledger.errors import LedgerError
from ledger.parts import PartRecord
from ledger.records import TurnRecord
from ledger.states import State
from scripts.show.receiver import applied
from scripts.show.spectator import Received
from workers.commands.session import Ledger

SETTLE_S = 40.0
POLL_S = 0.1


@dataclass(frozen=True)
class Line:
    """One line of the summary."""

    what: str
    value: str
    holds: bool


async def scripted_text(upstream_url: str, request: dict[str, Any]) -> str:
    """Ask the upstream itself, without foldline: its answer is a function of the request."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{upstream_url}/responses", json={**request, "stream": False}) as answer,
    ):
        body = msgspec.json.decode(await answer.read())
    messages = [item for item in body["output"] if item["type"] == "message"]
    return "".join(part["text"] for message in messages for part in message["content"])


async def settled(ledger: Ledger, turn: str) -> tuple[TurnRecord, list[PartRecord]]:
    """Wait until the turn owes nothing more; returns it, and its deliveries, as they stand then."""
    run, keys = ledger.scripts.run, ledger.keys
    record = await run(turns.read_turn(keys, turn))
    parts: list[PartRecord] = []
    try:
        async with asyncio.timeout(SETTLE_S):
            while True:
                record = await run(turns.read_turn(keys, turn))
                names = await run(delivery.parts_of(keys, turn))
                found = await asyncio.gather(*(run(delivery.read_part(keys, name)) for name in names))
                parts = [part for part in found if part is not None]
                if record is not None and _owes_nothing(record, parts):
                    break
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        pass  # the summary says what is still open
    if record is None:
        raise LedgerError(f"turn {turn} is gone")
    return record, parts


def _owes_nothing(record: TurnRecord, parts: list[PartRecord]) -> bool:
    is_planned = record.state.is_terminal and record.planned == record.blocks_next
    return is_planned and record.open_parts == 0 and all(part.settled_at for part in parts)


async def judge(
    ledger: Ledger, turn: str, *, received: Received, script: str, console: Path, hook_log: Path, killed: int
) -> list[Line]:
    """Compare everything with everything; each line says whether it holds."""
    run, keys = ledger.scripts.run, ledger.keys
    record, parts = await settled(ledger, turn)
    blocks = [await run(log.read_block(keys, turn, number)) for number in range(record.blocks_next)]
    stored = "".join(entry.sse for entry in await run(log.read_frames(keys, turn, after=-1)))
    known = [block for block in blocks if block is not None]
    concatenated = "".join(block.text + block.separator for block in known)
    hooked, repeats = applied(hook_log, turn)
    printed = [told for told in _console(console) if told["turn"] == turn]
    states = Counter(part.state.value for part in parts)
    pending = await _pending(ledger, turn, record)
    return [
        Line("turn", f"{turn} {record.state.value}", record.state.value == "completed"),
        Line("workers killed while it ran", str(killed), killed > 0),
        Line("characters of the upstream's answer", str(len(script)), bool(script)),
        Line("… the client's text", _same(received.text, script), received.text == script),
        Line("… blocks in Redis, put together", _same(concatenated, script), concatenated == script),
        Line("… the webhook's log, put together", _same(_text(hooked), script), _text(hooked) == script),
        Line(
            "… the console's lines",
            f"{len(printed)} of {len(known)} blocks",
            [told["text"] for told in printed] == [b.opener + b.text + b.closer + b.separator for b in known],
        ),
        Line(
            "frames received, numbered from 0",
            f"{len(received.frames)} of {record.frames_next}",
            received.numbers == list(range(record.frames_next)),
        ),
        Line(
            "… and their bytes, beside those stored",
            _same("".join(received.frames), stored),
            "".join(received.frames) == stored,
        ),
        Line("deliveries", ", ".join(f"{n} {name}" for name, n in sorted(states.items())), set(states) == {State.SENT}),
        Line("requests that came twice to the webhook", str(repeats), repeats == 0),
        Line("left pending", ", ".join(pending) or "nothing", not pending),
    ]


def _text(bodies: list[dict[str, Any]]) -> str:
    return "".join(body["text"] + body["separator"] for body in bodies)


def _console(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def _same(found: str, expected: str) -> str:
    if found == expected:
        return "equal"
    at = next(
        (i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), min(len(found), len(expected))
    )
    return f"DIFFERS at character {at} ({len(found)} characters)"


async def _pending(ledger: Ledger, turn: str, record: TurnRecord) -> list[str]:
    """What of this turn somebody still has to do."""
    run, keys = ledger.scripts.run, ledger.keys
    partition = keys.partition_of_turn(turn)
    open_work = [f"{record.open_parts} deliveries"] if record.open_parts else []
    if turn in await run(turns.inflight_turns(keys, partition)):
        open_work.append("events not folded")
    for name in ("deadlines", "sending", "due", "unknown"):
        key = getattr(keys, name)(partition)
        members = await run(Call("ZRANGE", (key,), (0, -1), list, script=False))
        mine = [member for member in members if str(member).startswith(turn)]
        if mine:
            open_work.append(f"{len(mine)} in {name}")
    return open_work
