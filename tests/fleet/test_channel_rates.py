"""Four delivery workers before every channel: what one of them is told holds for all, and a configured rate is shared."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from ledger.states import State
from scripts.channels.service import Window
from tests.fleet.chatting import TARGETS, Chats, chats
from tests.support.chats import MEDIA, route_of
from tests.support.servers import Server

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]


async def everybody(on: Chats, turns: int) -> dict[str, list[str]]:
    """Let four delivery workers send so many turns of as many sessions, spread over all partitions."""
    await asyncio.gather(*(on.fleet.start(role) for role in ("ingest", "fold", *["delivery"] * 4)))
    names = [
        await on.fleet.submit(
            session=f"s{number}",
            targets=TARGETS,
            turn_hex=f"{number:024x}",
            settings={"min_chars": 180, "max_chars": 180, "idle_ms": 60_000},
        )
        for number in range(turns)
    ]
    for turn in names:
        await on.quiet(turn, timeout_s=180)
        assert all(part.state is State.SENT for part in await on.fleet.parts(turn))
    told = on.told()
    for name in TARGETS:
        assert all(told[name].count(shown) == turns for shown in told[name]), name
    return told


async def test_a_wait_that_one_worker_is_told_holds_all_four(redis_server: Server, tmp_path: Path) -> None:
    async with chats(redis_server, tmp_path) as on:
        for server in on.servers.values():
            server.route_limit, server.global_limit = Window(6, 2.0), Window(9, 2.0)
        await everybody(on, turns=6)
        for name, server in on.servers.items():
            assert server.told, name
            late = server.unheeded(grace_s=0.5, route_of=partial(route_of, name))
            assert len(late) == 0, f"{name}: {len(late)} sends within waits that everybody had been told"


async def test_a_rate_is_shared_by_four_workers(redis_server: Server, tmp_path: Path) -> None:
    async with chats(redis_server, tmp_path, rate={"chat_rate_per_s": 2, "rate_per_s": 3, "burst": 3}) as on:
        for server in on.servers.values():
            # In any two seconds: at most 3 at once and 2 or 3 a second after them.
            server.route_limit, server.global_limit = Window(7, 2.0), Window(9, 2.0)
        await everybody(on, turns=4)
        assert {name: len(server.told) for name, server in on.servers.items()} == dict.fromkeys(MEDIA, 0)
