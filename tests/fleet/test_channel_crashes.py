"""The delivery worker dies, and freezes past its lease, at every named point, with every channel as a target."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ledger.states import State
from scripts.channels.service import Act
from tests.fleet.chatting import SHORT, TARGETS, UNTELLABLE, Chats, chats
from tests.fleet.crashing import FIRST_GATE, SECOND_GATE
from tests.support.fleet import Worker
from tests.support.servers import Server
from tests.support.waiting import wait_until
from workers.runtime.failpoints import FAILPOINTS

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]

DELIVERY = sorted(name for name in FAILPOINTS if name.startswith("delivery."))
IN_ONE_FLEET = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(redis_server: Server, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chats]:
    """The fleet of all cases, without a delivery worker."""
    async with chats(redis_server, tmp_path_factory.mktemp("chats"), environ=SHORT) as on:
        await asyncio.gather(on.fleet.start("ingest"), on.fleet.start("fold"))
        yield on


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def undisturbed(stage: Chats) -> dict[str, list[str]]:
    """What everybody shows when nothing happens; what Telegram should show is taken from Slack, in case of a slow answer there."""
    await stage.fleet.start("delivery")
    told = await stage.quiet(await stage.submit())
    await stage.without_delivery()
    return {**told, UNTELLABLE: told["slack"]}


@pytest_asyncio.fixture(loop_scope="module")
async def on(stage: Chats, undisturbed: dict[str, list[str]]) -> AsyncIterator[Chats]:
    """The stage for one case."""
    yield stage
    stage.upstream.release()
    await stage.without_delivery()


async def check(on: Chats, turn: str, undisturbed: dict[str, list[str]]) -> None:
    """The law: each part once and in order. Where nobody can tell, at most once, in order, and what is not shown is unknown and listed.

    A part that stepped aside as unknown goes out behind the others if its sender, once it wakes, proves that it never sent it.
    """
    told = await on.quiet(turn)
    assert set(told) == set(TARGETS)
    for name in TARGETS:
        if name != UNTELLABLE:
            assert told[name] == undisturbed[name], name
    records = await on.fleet.parts(turn)
    parts = [part for part in records if part.target == UNTELLABLE]
    wanted, shown = undisturbed[UNTELLABLE], told[UNTELLABLE]
    assert len(parts) == len(wanted)
    aside = {text for part, text in zip(parts, wanted, strict=True) if part.unknown_at}
    assert len(shown) == len(set(shown))
    assert [text for text in shown if text not in aside] == [text for text in wanted if text not in aside]
    assert set(shown) <= set(wanted)
    unknown = [text for part, text in zip(parts, wanted, strict=True) if part.state is State.UNKNOWN]
    assert set(wanted) - set(shown) <= set(unknown)
    # A sleeper's receipt for an attempt that was repeated by key is recorded as a duplicate, though its message is the same one.
    alarmed = {part.channel for part in records if part.duplicate_detected}
    assert alarmed <= {"discord", "matrix"}


async def lost_at(worker: Worker, failpoint: str, action: str) -> None:
    if action == "exit":
        assert await worker.exited(40) == FAILPOINTS[failpoint], worker.tail()
    else:
        await worker.frozen(40)


@IN_ONE_FLEET
@pytest.mark.parametrize("action", ["exit", "pause"])
@pytest.mark.parametrize("failpoint", DELIVERY)
async def test_a_delivery_worker_with_chats_lost_at(
    failpoint: str, action: str, on: Chats, undisturbed: dict[str, list[str]]
) -> None:
    on.upstream.pause_before(FIRST_GATE)
    first = await on.fleet.start("delivery")
    turn = await on.submit()
    await on.fleet.framed(turn, FIRST_GATE)
    await wait_until(lambda: all(on.told().values()), "a first message everywhere", 30)
    await first.kill()
    worker = await on.fleet.start("delivery", failpoint=f"{failpoint}={action}")
    on.upstream.release(SECOND_GATE)
    await lost_at(worker, failpoint, action)
    await on.fleet.start("delivery")
    on.upstream.release()
    await check(on, turn, undisturbed)
    if action == "pause":
        worker.resume()
        assert await worker.terminate(30) == 0, worker.tail()
        await check(on, turn, undisturbed)


@IN_ONE_FLEET
@pytest.mark.parametrize("act", [Act.RESET_BEFORE, Act.RESET_AFTER, Act.STALL_AFTER, Act.FAIL_AFTER, Act.CUT_AFTER])
async def test_the_first_answer_of_every_channel_goes_wrong(
    act: Act, on: Chats, undisturbed: dict[str, list[str]]
) -> None:
    for server in on.servers.values():
        server.play(act)
    await asyncio.gather(on.fleet.start("delivery"), on.fleet.start("delivery"))
    turn = await on.submit()
    await check(on, turn, undisturbed)
    for server in on.servers.values():
        assert not server.script["send"]
        server.release()
