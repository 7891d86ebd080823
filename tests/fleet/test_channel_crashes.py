"""The delivery worker dies, and freezes past its lease, at every named point, with every channel as a target."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from ledger.states import State
from scripts.channels.service import Act, Window
from tests.fleet.chatting import TARGETS, UNTELLABLE, Chats, chats
from tests.fleet.crashing import FIRST_GATE, SECOND_GATE
from tests.support.chats import MEDIA, route_of
from tests.support.fleet import Worker
from tests.support.servers import Server
from tests.support.waiting import wait_until
from workers.runtime.failpoints import FAILPOINTS

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]

DELIVERY = sorted(name for name in FAILPOINTS if name.startswith("delivery."))
ROLES = ("ingest", "fold", "delivery")


@pytest.fixture(scope="module")
def undisturbed(redis_server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What everybody shows when nothing happens."""

    async def run() -> dict[str, list[str]]:
        async with chats(redis_server, tmp_path_factory.mktemp("undisturbed")) as on:
            for role in ROLES:
                await on.fleet.start(role)
            return await on.quiet(await on.submit())

    return asyncio.run(run())


def check(told: dict[str, list[str]], undisturbed: dict[str, list[str]]) -> None:
    """The law: each part once and in order; where nobody can tell, at most once and in order."""
    assert set(told) == set(TARGETS)
    for name in TARGETS:
        if name != UNTELLABLE:
            assert told[name] == undisturbed[name], name
    shown = told[UNTELLABLE]
    assert shown == [text for text in undisturbed[UNTELLABLE] if text in shown]
    assert len(shown) == len(set(shown))


async def check_unknown(on: Chats, turn: str, undisturbed: dict[str, list[str]]) -> None:
    """What is not shown is unknown, and listed so."""
    parts = [part for part in await on.fleet.parts(turn) if part.target == UNTELLABLE]
    unknown = [part for part in parts if part.state is State.UNKNOWN]
    assert len(parts) == len(undisturbed[UNTELLABLE])
    assert len(on.told()[UNTELLABLE]) >= len(parts) - len(unknown)
    # A sleeper's receipt for an attempt that was repeated by key is recorded as a duplicate, though its message is the same one.
    alarmed = {part.channel for part in await on.fleet.parts(turn) if part.duplicate_detected}
    assert alarmed <= {"discord", "matrix"}


async def lost_at(worker: Worker, failpoint: str, action: str) -> None:
    if action == "exit":
        assert await worker.exited(40) == FAILPOINTS[failpoint], worker.tail()
    else:
        await worker.frozen(40)


@pytest.mark.parametrize("action", ["exit", "pause"])
@pytest.mark.parametrize("failpoint", DELIVERY)
async def test_a_delivery_worker_with_chats_lost_at(
    failpoint: str, action: str, redis_server: Server, tmp_path: Path, undisturbed: dict[str, list[str]]
) -> None:
    async with chats(redis_server, tmp_path) as on:
        on.upstream.pause_before(FIRST_GATE)
        first = await on.fleet.start("delivery")
        for role in ("ingest", "fold"):
            await on.fleet.start(role)
        turn = await on.submit()
        await on.fleet.framed(turn, FIRST_GATE)
        await wait_until(lambda: all(on.told().values()), "a first message everywhere")
        await first.kill()
        worker = await on.fleet.start("delivery", failpoint=f"{failpoint}={action}")
        on.upstream.release(SECOND_GATE)
        await lost_at(worker, failpoint, action)
        await on.fleet.start("delivery")
        on.upstream.release()
        check(await on.quiet(turn), undisturbed)
        await check_unknown(on, turn, undisturbed)
        if action == "pause":
            worker.resume()
            worker.process.terminate()
            assert await worker.exited(30) == 0, worker.tail()
            check(await on.quiet(turn), undisturbed)
            await check_unknown(on, turn, undisturbed)


@pytest.mark.parametrize("act", [Act.RESET_BEFORE, Act.RESET_AFTER, Act.STALL_AFTER, Act.FAIL_AFTER, Act.CUT_AFTER])
async def test_the_first_answer_of_every_channel_goes_wrong(
    act: Act, redis_server: Server, tmp_path: Path, undisturbed: dict[str, list[str]]
) -> None:
    async with chats(redis_server, tmp_path) as on:
        for server in on.servers.values():
            server.play(act)
        for role in (*ROLES, "delivery"):
            await on.fleet.start(role)
        turn = await on.submit()
        told = await on.quiet(turn)
        for server in on.servers.values():
            server.release()
        check(told, undisturbed)
        await check_unknown(on, turn, undisturbed)


async def everybody(on: Chats, turns: int) -> dict[str, list[str]]:
    """Let four delivery workers send so many turns of as many sessions, spread over all partitions."""
    for role in (*ROLES, "delivery", "delivery", "delivery"):
        await on.fleet.start(role)
    names = [
        await on.fleet.submit(session=f"s{number}", targets=TARGETS, turn_hex=f"{number:024x}")
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
