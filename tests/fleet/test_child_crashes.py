"""A parent and its child, and every worker of theirs killed or frozen at every point: each text and the result arrive once."""

import asyncio
from pathlib import Path

import pytest

from ledger.turns import request_cancel
from tests.fleet.family import CHILD_WORDS, FIRST_GATE, SECOND_GATE, Family, Told, family
from tests.support.fleet import Worker
from tests.support.servers import Server
from tests.support.waiting import wait_until
from workers.runtime.failpoints import FAILPOINTS

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]

ROLES = ("ingest", "fold", "delivery")
POINTS = sorted(name for name in FAILPOINTS if name.split(".")[0] in ROLES)
SLEEPERS = [name for name in POINTS if name.partition(".")[2].startswith(("before_", "mid_", "after_intent"))]
"""Where a worker that wakes holds something that it has yet to write or to send; `test_crashes` freezes one at every point."""
CASES = [*((name, "exit") for name in POINTS), *((name, "pause") for name in SLEEPERS)]
AT_THE_END = {"ingest.before_terminal", "ingest.after_terminal"}


async def undisturbed_run(server: Server, folder: Path) -> Told:
    async with family(server, folder) as f:
        f.parents.pause_before(FIRST_GATE)
        for role in ROLES:
            await f.fleet.start(role)
        await f.submit_parent()
        await f.submit_child()
        await f.fleet.ended(f.child)
        f.open()
        return await f.told()


@pytest.fixture(scope="module")
def undisturbed(redis_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What everybody gets when nothing happens: the child's end is told while the parent runs."""
    told = asyncio.run(undisturbed_run(redis_server, tmp_path_factory.mktemp("undisturbed")))
    assert told.notes[-1].startswith("call_7 completed")
    assert "The child's paragraph 5" in told.notes[-1]
    return told


def check(told: Told, undisturbed: Told) -> None:
    assert told.child_frames == undisturbed.child_frames
    assert told.child_texts == undisturbed.child_texts
    assert told.parent_texts == undisturbed.parent_texts
    assert told.notes == undisturbed.notes
    assert told.announced == undisturbed.announced
    assert told.parent_frames == undisturbed.parent_frames


async def lost_at(worker: Worker, failpoint: str, action: str) -> None:
    if action == "exit":
        assert await worker.exited(60) == FAILPOINTS[failpoint], worker.tail()
    else:
        await worker.frozen(60)


async def stand_at(f: Family, failpoint: str, action: str) -> Worker:
    """Bring both turns to their gates, replace the role's worker by one that will die, and let it."""
    role = failpoint.split(".", maxsplit=1)[0]
    middle = failpoint == "ingest.mid_stream"
    f.parents.pause_before(FIRST_GATE)
    f.children.pause_before(FIRST_GATE)
    first = await f.fleet.start(role)
    for other in ROLES:
        if other != role:
            await f.fleet.start(other)
    await f.submit_parent()
    await f.submit_child()
    await f.fleet.framed(f.child, FIRST_GATE)
    await f.fleet.framed(f.parent, FIRST_GATE)
    await first.kill()
    worker = await f.fleet.start(role, failpoint=f"{failpoint}={action}{'@2' if middle else ''}")
    if failpoint in AT_THE_END:  # the child ends, the parent stands at its gate
        f.children.release()
    else:
        f.gate(SECOND_GATE)
    if failpoint == "fold.before_release":
        await f.fleet.framed(f.child, SECOND_GATE)
        worker.process.terminate()
    await lost_at(worker, failpoint, action)
    return worker


@pytest.mark.parametrize(("failpoint", "action"), CASES)
async def test_a_worker_of_both_lost_at(
    failpoint: str, action: str, redis_server: Server, tmp_path: Path, undisturbed: Told
) -> None:
    async with family(redis_server, tmp_path) as f:
        worker = await stand_at(f, failpoint, action)
        await f.fleet.start(failpoint.split(".", maxsplit=1)[0])
        f.children.release()
        await f.fleet.ended(f.child, 60)
        f.open()
        check(await f.told(), undisturbed)
        if action == "pause":
            worker.resume()
            if "stopping" not in worker.tail():
                worker.process.terminate()
            assert await worker.exited(60) == 0, worker.tail()
            check(await f.told(), undisturbed)


@pytest.mark.parametrize("end", ["completed", "cancelled", "failed"])
async def test_a_child_outlives_its_parent_and_its_workers(
    end: str, redis_server: Server, tmp_path: Path, undisturbed: Told
) -> None:
    async with family(redis_server, tmp_path) as f:
        f.parents.pause_before(FIRST_GATE)
        f.children.pause_before(FIRST_GATE)
        workers = [await f.fleet.start(role) for role in ROLES]
        await f.submit_parent()
        await f.submit_child()
        await f.fleet.framed(f.child, FIRST_GATE)
        if end == "cancelled":
            await f.fleet.run(request_cancel(f.fleet.keys, f.parent, grace_ms=1_000))
        elif end == "failed":
            await f.parents.close()  # it is gone for good: reading it again is given up
        else:
            f.parents.release()
        record = await f.fleet.ended(f.parent, 60)
        assert record.state == end
        frames = await f.fleet.frames(f.parent)
        for worker in workers:
            await worker.kill()
        for role in ROLES:
            await f.fleet.start(role)
        f.open()
        await f.fleet.settled(f.child, 60)
        assert await f.fleet.frames(f.child) == undisturbed.child_frames
        bodies = [body for body in f.receiver.texts if body["turn"] == f.child]
        assert [body["text"] for body in bodies] == undisturbed.child_texts
        assert "".join(body["text"] + body["separator"] for body in bodies) == CHILD_WORDS
        assert await f.fleet.frames(f.parent) == frames
        child = await f.fleet.turn(f.child)
        assert child.notes_unheard == child.notes_next - len(await f.notes()) > 0


async def test_workers_that_die_again_and_again_tell_every_note_once(
    redis_server: Server, tmp_path: Path, undisturbed: Told
) -> None:
    async with family(redis_server, tmp_path) as f:
        f.parents.pause_before(FIRST_GATE)
        f.children.pause_before(FIRST_GATE)
        for role in ("ingest", "delivery"):
            await f.fleet.start(role)
        first = await f.fleet.start("fold")
        await f.submit_parent()
        await f.submit_child()
        await f.fleet.framed(f.child, FIRST_GATE)
        await first.kill()
        for number, point in enumerate(["before_commit", "after_commit", "after_take", "after_commit"]):
            worker = await f.fleet.start("fold", failpoint=f"fold.{point}=exit")
            f.children.release(FIRST_GATE + 3 * (number + 1))
            await wait_until(lambda one=worker: not one.is_alive, f"fold to die at {point}", 60)
        await f.fleet.start("fold")
        f.children.release()
        await f.fleet.ended(f.child, 60)
        f.open()
        check(await f.told(), undisturbed)
