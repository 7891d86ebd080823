"""After the last turn: wait until nothing is owed any more but what nobody can know, and write down what the ledger says of each part."""

import asyncio
import time
from collections import Counter

import redis.asyncio as aioredis
from redis.exceptions import RedisError

from ledger.commands import Scripts
from ledger.delivery import parts_of, read_part
from ledger.errors import LedgerError
from ledger.keys import Keyspace
from ledger.parts import PartRecord
from ledger.states import SETTLED, State
from ledger.turns import read_turn
from scripts.chaos.chats import UNTELLABLE
from scripts.chaos.journal import Journal
from scripts.chaos.receivers import BARE

STUCK_S = 90.0
"""When nothing more has been settled for so long, nothing will be."""
LOOK_S = 0.25


async def settle(url: str, keys: Keyspace, turns: list[str], journal: Journal) -> Counter[str]:
    """Return how many parts ended in which state; `open` counts those that still owed something when the time was over."""
    client = aioredis.Redis.from_url(url, decode_responses=True, socket_timeout=5)
    scripts = Scripts(client)
    deadline = time.monotonic() + STUCK_S
    states: Counter[str] = Counter()
    try:
        for turn in turns:
            seen = -1
            while True:
                try:
                    parts, settled = await _settled(scripts, keys, turn)
                except (LedgerError, RedisError, OSError):
                    parts, settled = None, seen
                if parts is not None or settled != seen:
                    seen, deadline = settled, time.monotonic() + STUCK_S
                if parts is not None or time.monotonic() > deadline:
                    break
                await asyncio.sleep(LOOK_S)
            if parts is None:
                states["open"] += 1
                journal.write(turn=turn, open=True)
            for part in parts or []:
                states[part["state"]] += 1
                journal.write(turn=turn, **part)
    finally:
        await client.aclose()
    return states


async def _settled(scripts: Scripts, keys: Keyspace, turn: str) -> tuple[list[dict[str, str]] | None, int]:
    """The parts of a turn, or None while one of them is still to come or to be sent; and how many are neither."""
    record = await scripts.run(read_turn(keys, turn))
    if record is None or not record.state.is_terminal or record.planned != record.blocks_next:
        return None, 0
    parts: list[dict[str, str]] = []
    owed = 0
    for part_id in await scripts.run(parts_of(keys, turn)):
        part = await scripts.run(read_part(keys, part_id))
        if part is None or not _is_over(part):
            owed += 1
        else:
            parts.append({"id": part.webhook_id, "target": part.target, "state": part.state.value})
    return (None if owed else parts), len(parts)


def _is_over(part: PartRecord) -> bool:
    """Settled, or unknown where nobody can be asked."""
    return part.state in SETTLED or (part.state is State.UNKNOWN and part.target in {BARE, UNTELLABLE})
