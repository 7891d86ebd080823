"""A delivery worker dies or freezes at every named point, before a receiver of each capability.

One leaves out ids that it has taken, one can be asked, one can do neither. The first two get each part once and in order; the third at
most once, and what it may not have got is unknown and listed.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ledger.states import State
from tests.fleet.crashing import FIRST_GATE, PIECES, SECOND_GATE, WORDS
from tests.support.fleet import Fleet
from tests.support.receivers import Receiver
from tests.support.servers import Server
from tests.support.upstream import Upstream, text
from tests.support.waiting import wait_until
from workers.runtime.failpoints import FAILPOINTS

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

POINTS = sorted(name for name in FAILPOINTS if name.startswith("delivery."))
KINDS = ("idempotent", "reconcilable", "bare")


@asynccontextmanager
async def site(server: Server, folder: Path) -> AsyncIterator[tuple[Fleet, Upstream, dict[str, Receiver]]]:
    with server.client() as client:
        client.flushall()
    receivers = {kind: Receiver(dedupes=kind == "idempotent") for kind in KINDS}
    async with Upstream(text(WORDS, pieces=PIECES)) as upstream:
        for receiver in receivers.values():
            await receiver.start()
        targets: dict[str, dict[str, object]] = {
            kind: {
                "channel": "webhook",
                "url": receiver.url,
                "key_window_ms": 1 if kind != "idempotent" else 86_400_000,
            }
            for kind, receiver in receivers.items()
        }
        targets["reconcilable"]["reconcile_url"] = receivers["reconcilable"].find_url
        upstreams = {"sample": {"base_url": upstream.base_url, "side_effects": False, "read_timeout_ms": 30_000}}
        async with Fleet(server.url, folder, upstreams=upstreams, targets=targets) as fleet:
            yield fleet, upstream, receivers
        for receiver in receivers.values():
            await receiver.stop()


async def quiet(fleet: Fleet, turn: str) -> None:
    """Wait until nothing is owed but what nobody can know."""
    await fleet.ended(turn)

    async def done() -> bool:
        record, parts = await fleet.turn(turn), await fleet.parts(turn)
        over = all(p.state is State.SENT or (p.state is State.UNKNOWN and p.target == "bare") for p in parts)
        return record.planned == record.blocks_next and len(parts) > 0 and over

    await wait_until(done, f"the deliveries of {turn}", 60)


async def check(fleet: Fleet, turn: str, receivers: dict[str, Receiver]) -> None:
    """Once and in order where it can be known; at most once, and the rest listed, where it cannot."""
    bodies = {kind: [body["block"] for body in receiver.texts] for kind, receiver in receivers.items()}
    parts = await fleet.parts(turn)
    blocks = [part.block for part in parts if part.target == "idempotent"]
    assert len(blocks) > 3
    assert bodies["idempotent"] == blocks
    assert bodies["reconcilable"] == blocks
    late = {part.block for part in parts if part.target == "bare" and part.unknown_at}  # a sleeper's word may settle it
    on_time = [block for block in bodies["bare"] if block not in late]
    assert on_time == sorted(on_time)
    assert len(bodies["bare"]) == len(set(bodies["bare"]))
    unknown = {part.block for part in parts if part.state is State.UNKNOWN}
    assert set(blocks) - set(bodies["bare"]) <= unknown
    assert len(unknown) <= 1


@pytest.mark.parametrize("action", ["exit", "pause"])
@pytest.mark.parametrize("point", POINTS)
async def test_each_capability_keeps_its_promise(point: str, action: str, redis_server: Server, tmp_path: Path) -> None:
    async with site(redis_server, tmp_path) as (fleet, upstream, receivers):
        upstream.pause_before(FIRST_GATE)
        first = await fleet.start("delivery")
        for role in ("ingest", "fold"):
            await fleet.start(role)
        turn = await fleet.submit(request={"input": "Write."}, targets=KINDS, turn_hex="5eed" * 6)
        await fleet.framed(turn, FIRST_GATE)
        await wait_until(lambda: all(receiver.applied for receiver in receivers.values()), "a first block everywhere")
        await first.terminate()
        worker = await fleet.start("delivery", failpoint=f"{point}={action}")
        upstream.release(SECOND_GATE)
        if action == "exit":
            assert await worker.exited(30) == FAILPOINTS[point], worker.tail()
        else:
            await worker.frozen(30)
        await fleet.start("delivery")
        upstream.release()
        await quiet(fleet, turn)
        await check(fleet, turn, receivers)
        if action == "pause":
            worker.resume()
            worker.process.terminate()
            assert await worker.exited(30) == 0, worker.tail()
            await quiet(fleet, turn)
            await check(fleet, turn, receivers)
