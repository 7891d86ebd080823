"""Every process dies, and freezes past its lease, at every named point; what readers get is what they get undisturbed."""

from pathlib import Path
from typing import Any

import pytest

from ledger.states import State
from tests.fleet.crashing import FIRST_GATE, SECOND_GATE, Stage, Told, stage
from tests.support.fleet import Worker
from tests.support.servers import Server
from tests.support.waiting import wait_until
from workers.runtime.failpoints import FAILPOINTS

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

FOLD = sorted(name for name in FAILPOINTS if name.startswith("fold."))
DELIVERY = sorted(name for name in FAILPOINTS if name.startswith("delivery."))
INGEST = sorted(name for name in FAILPOINTS if name.startswith("ingest."))
ACTIONS = ["exit", "pause"]

LOST = {"ingest.mid_stream", "ingest.before_terminal"}
"""Points after the upstream's first word: the turn ends as `ingest_lost` and keeps what was there."""


def check(s: Stage, told: Told, undisturbed: Told) -> None:
    """The law: the same frames, each block applied once and in order, the console at most once."""
    assert told.frames == undisturbed.frames
    assert told.applied == undisturbed.applied
    assert len(told.console) == len(set(told.console))
    assert set(told.console) <= set(undisturbed.console)


async def check_unknown(s: Stage, turn: str, told: Told, undisturbed: Told) -> None:
    """What the console does not show is unknown, and what is unknown may be shown: never a second time."""
    parts = await s.fleet.parts(turn)
    board = [part for part in parts if part.target == "board"]
    unknown = [part for part in board if part.state is State.UNKNOWN]
    assert all(part.state is State.SENT for part in parts if part.target == "hook")
    assert len(board) == len(undisturbed.console)
    assert len(told.console) >= len(board) - len(unknown)
    repeats = s.receiver.repeats
    assert repeats <= 1, f"{repeats} physical repeats: only the attempt that was cut may come twice"


async def lost_at(s: Stage, worker: Worker, failpoint: str, action: str) -> None:
    """Wait until the process is where it should die or freeze."""
    if action == "exit":
        assert await worker.exited(30) == FAILPOINTS[failpoint], worker.tail()
    else:
        await worker.frozen(30)


async def woken(worker: Worker) -> None:
    """Wake a frozen process and let it end; one that was stopping already needs no second signal."""
    worker.resume()
    if "stopping" not in worker.tail():
        worker.process.terminate()
    assert await worker.exited(30) == 0, worker.tail()


async def finish(s: Stage, turn: str, worker: Worker, action: str, undisturbed: Told) -> None:
    """Open the gate, let the others end the turn, wake the frozen one: nothing it says counts any more."""
    s.upstream.release()
    told = await s.told(turn)
    check(s, told, undisturbed)
    await check_unknown(s, turn, told, undisturbed)
    if action == "pause":
        await woken(worker)
        again = await s.told(turn)
        check(s, again, undisturbed)
        await check_unknown(s, turn, again, undisturbed)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("failpoint", FOLD)
async def test_a_fold_worker_lost_at(
    failpoint: str, action: str, redis_server: Server, tmp_path: Path, undisturbed: Told, note_kill: Any
) -> None:
    async with stage(redis_server, tmp_path) as s:
        s.upstream.pause_before(FIRST_GATE)
        first = await s.fleet.start("fold")
        for role in ("ingest", "delivery"):
            await s.fleet.start(role)
        turn = await s.submit()
        await s.fleet.framed(turn, FIRST_GATE)
        await first.kill()
        worker = await s.fleet.start("fold", failpoint=f"{failpoint}={action}")
        s.upstream.release(SECOND_GATE)
        if failpoint == "fold.before_release":
            await s.fleet.framed(turn, SECOND_GATE)
            worker.process.terminate()
        await lost_at(s, worker, failpoint, action)
        assert s.is_unfinished
        note_kill(in_flight=True)
        await s.fleet.start("fold")
        await finish(s, turn, worker, action, undisturbed)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("failpoint", DELIVERY)
async def test_a_delivery_worker_lost_at(
    failpoint: str, action: str, redis_server: Server, tmp_path: Path, undisturbed: Told, note_kill: Any
) -> None:
    async with stage(redis_server, tmp_path) as s:
        s.upstream.pause_before(FIRST_GATE)
        first = await s.fleet.start("delivery")
        for role in ("ingest", "fold"):
            await s.fleet.start(role)
        turn = await s.submit()
        await s.fleet.framed(turn, FIRST_GATE)
        await wait_until(lambda: len(s.receiver.applied) > 0, "a first block")
        await first.kill()
        worker = await s.fleet.start("delivery", failpoint=f"{failpoint}={action}")
        s.upstream.release(SECOND_GATE)
        await lost_at(s, worker, failpoint, action)
        assert s.is_unfinished
        note_kill(in_flight=True)
        await s.fleet.start("delivery")
        await finish(s, turn, worker, action, undisturbed)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("failpoint", INGEST)
async def test_an_ingest_worker_lost_at(
    failpoint: str, action: str, redis_server: Server, tmp_path: Path, undisturbed: Told, note_kill: Any
) -> None:
    async with stage(redis_server, tmp_path) as s:
        ends = failpoint in {"ingest.before_terminal", "ingest.after_terminal"}
        middle = failpoint == "ingest.mid_stream"
        said_first = failpoint in LOST  # something of the upstream's is published before the process is lost
        if not ends or said_first:
            s.upstream.pause_before(1 if middle else FIRST_GATE)
        worker = await s.fleet.start("ingest", failpoint=f"{failpoint}={action}{'@2' if middle else ''}")
        await s.fleet.start("delivery")
        if not ends:
            await s.fleet.start("fold")
        turn = await s.submit()
        if said_first:
            await wait_until(lambda: published(s, turn), "the upstream's first word in the log")
            s.upstream.release(FIRST_GATE if middle else None)
        await lost_at(s, worker, failpoint, action)
        assert not (await s.fleet.turn(turn)).state.is_terminal
        note_kill(in_flight=True)
        if ends:
            await s.fleet.start("fold")
        await s.fleet.start("ingest")
        if failpoint not in LOST:
            await finish(s, turn, worker, action, undisturbed)
            return
        s.upstream.release()
        record = await s.fleet.ended(turn)
        assert record.state == "failed"
        assert "ingest_lost" in record.error
        frames = await s.fleet.frames(turn)
        kept, _, last = frames.rstrip("\n").rpartition("\n\n")
        assert undisturbed.frames.startswith(common(kept, undisturbed.frames))
        assert len(common(kept, undisturbed.frames)) > 0
        assert last.startswith("event: response.failed\n")
        if action == "pause":
            await woken(worker)
            assert await s.fleet.frames(turn) == frames


async def published(s: Stage, turn: str) -> bool:
    """Whether more than `turn_started` is in the log."""
    return (await s.fleet.turn(turn)).next.get("ingest", 0) > 1


def common(left: str, right: str) -> str:
    """The frames that two streams begin with alike."""
    same: list[str] = []
    for ours, theirs in zip(left.split("\n\n"), right.split("\n\n"), strict=False):
        if ours != theirs:
            break
        same.append(ours)
    return "\n\n".join(same)
