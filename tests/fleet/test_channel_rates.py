"""Four delivery workers before every channel: what one of them is told holds for all, and a configured rate is shared."""

import asyncio
from pathlib import Path

import pytest

from ledger.states import State
from scripts.channels.service import Window
from tests.fleet.chatting import READ_BACK, TARGETS, Chats, chats
from tests.support.chats import MEDIA
from tests.support.servers import Server
from tests.support.waiting import wait_until

PATIENT = {
    "FOLDLINE_DELIVERY_LEASE_MS": "15000",
    "FOLDLINE_DELIVERY_RENEW_MS": "3000",
    "FOLDLINE_DELIVERY_SEND_DEADLINE_MS": "8000",
    "FOLDLINE_DELIVERY_MARGIN_MS": "2000",
}
"""Nobody dies here, and a slow machine's answers are waited for."""
pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]


async def started(on: Chats, redis: Server) -> None:
    """Start a fleet of four delivery workers, and wait until each has its partition."""
    await asyncio.gather(*(on.fleet.start(role) for role in ("ingest", "fold", *["delivery"] * 4)))

    async def shared() -> bool:
        with redis.client() as client:
            owners = {client.hget(on.fleet.keys.owner("delivery", number), "worker") for number in range(4)}
        return None not in owners and len(owners) == 4

    await wait_until(shared, "four owners of four partitions", 60)


async def write(on: Chats, numbers: range, max_chars: int) -> list[str]:
    """Submit turns of as many sessions, spread over all partitions."""
    sessions: dict[int, list[str]] = {number: [] for number in range(4)}
    for candidate in range(100):
        sessions[on.fleet.keys.partition_of(f"s{candidate}")].append(f"s{candidate}")
    return [
        await on.fleet.submit(
            session=sessions[number % 4][number // 4],
            targets=TARGETS,
            turn_hex=f"{number:024x}",
            settings={"min_chars": max_chars, "max_chars": max_chars, "idle_ms": 60_000},
        )
        for number in numbers
    ]


async def test_a_wait_that_one_worker_is_told_holds_all_four(redis_server: Server, tmp_path: Path) -> None:
    chat_of = {name: MEDIA[name].chat for name in MEDIA} | {READ_BACK: MEDIA["discord"].other_chat}
    async with chats(redis_server, tmp_path, environ=PATIENT) as on:
        for server in on.servers.values():
            server.route_limit = Window(1, 6.0)
        await started(on, redis_server)
        (first,) = await write(on, range(1), 500)
        held: dict[str, int] = {}

        def everywhere() -> bool:
            with redis_server.client() as client:
                for name, chat in chat_of.items():
                    account = "discord" if name == READ_BACK else name
                    until = client.hget(on.fleet.keys.budget(f"{account}/{chat}"), "held_until")
                    held.update({name: int(str(until))} if until else {})
            return held.keys() == set(TARGETS)

        await wait_until(everywhere, "a word to wait from every channel", 60)
        for server in on.servers.values():
            server.route_limit = None  # from here on nobody is told anything: what is known is what the one was told
        others = await write(on, range(1, 8), 500)
        for turn in [first, *others]:
            await on.quiet(turn)
        for turn in others:
            for part in await on.fleet.parts(turn):
                begins = [int(made.split()[1]) for made in part.attempts_made.values()]
                assert min(begins) >= held[part.target], part.id
        assert all(
            on.servers[name].told for name in ("slack", "telegram", "matrix")
        )  # Discord says it before it refuses


async def test_a_rate_is_shared_by_four_workers(redis_server: Server, tmp_path: Path) -> None:
    rate = {"chat_rate_per_s": 2, "rate_per_s": 3, "burst": 3}
    async with chats(redis_server, tmp_path, rate=rate, environ=PATIENT) as on:
        for server in on.servers.values():
            # In any two seconds 3 at once and 2 or 3 a second after them are begun: 7 or 9, and four times as many if each worker had
            # a budget of its own. What arrives late on a slow machine comes on top.
            server.route_limit, server.global_limit = Window(11, 2.0), Window(14, 2.0)
        await started(on, redis_server)
        for turn in await write(on, range(4), 180):
            await on.quiet(turn, timeout_s=180)
            assert all(part.state is State.SENT for part in await on.fleet.parts(turn))
        told = on.told()
        for name in TARGETS:
            assert all(told[name].count(shown) == 4 for shown in told[name]), name
        assert {name: len(server.told) for name, server in on.servers.items()} == dict.fromkeys(MEDIA, 0)
