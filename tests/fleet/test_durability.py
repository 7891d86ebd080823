"""What a server that dies takes with it, at each durability setting: nothing, or what is detected and named; never a silent repeat."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from ledger.states import State
from scripts.chaos.proxy import Proxy
from tests.fleet.crashing import CARRIERS, FIRST_GATE, SECOND_GATE, Stage, Told, stage
from tests.support.fleet import SETTINGS, Worker
from tests.support.receivers import Act
from tests.support.rollback import cut, repoint, written
from tests.support.servers import Server
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

KEEP_LONG = {"FOLDLINE_INGEST_PRODUCER_KEEP_MS": "60000"}
KEEP_NOTHING = {"FOLDLINE_INGEST_PRODUCER_KEEP_MS": "1"}
ROLLED_BACK = "delivery_rolled_back"


async def start(s: Stage) -> dict[str, Worker]:
    return {role: await s.fleet.start(role) for role in CARRIERS}


async def quiet_at(s: Stage, turn: str, frames: int) -> None:
    """Wait until so many frames are stored and every part that there is has been sent."""
    await s.fleet.framed(turn, frames)

    async def sent() -> bool:
        record = await s.fleet.turn(turn)
        parts = await s.fleet.parts(turn)
        done = all(part.state is State.SENT for part in parts)
        return record.blocks_next > 0 and record.planned == record.blocks_next and len(parts) > 0 and done

    await wait_until(sent, f"the parts of {turn} to be sent")


async def lose_what_follows(s: Stage, server: Server, turn: str) -> None:
    """Stand at the first gate; go on to the second; lose everything in between."""
    await quiet_at(s, turn, FIRST_GATE)
    size = written(server)
    for gate in (SECOND_GATE - 4, SECOND_GATE):  # in two steps, so that the first is behind the producer at the second
        s.upstream.release(gate)
        await quiet_at(s, turn, gate)
    server.kill()
    cut(server, size)


async def test_a_killed_server_that_writes_through_loses_and_repeats_nothing(tmp_path: Path, undisturbed: Told) -> None:
    with Server(aof=True) as server:
        async with stage(server, tmp_path) as s:
            s.upstream.pause_before(FIRST_GATE)
            await start(s)
            turn = await s.submit()
            for gate in (FIRST_GATE, FIRST_GATE + 4, FIRST_GATE + 8):
                await s.fleet.framed(turn, gate)
                server.kill()
                s.upstream.release(gate + 4)
                server.start()
            s.upstream.release()
            told = await s.told(turn)
            assert told.frames == undisturbed.frames
            assert told.applied == undisturbed.applied
            assert told.console == undisturbed.console
            assert not any(ROLLED_BACK in worker.log.read_text() for worker in s.fleet.workers)


async def test_lost_moments_are_said_again_by_whoever_said_them(tmp_path: Path, undisturbed: Told) -> None:
    with Server(aof=True) as server:
        async with stage(server, tmp_path, environ=KEEP_LONG) as s:
            s.upstream.pause_before(FIRST_GATE)
            workers = await start(s)
            turn = await s.submit()
            await lose_what_follows(s, server, turn)
            server.start()
            s.upstream.release()
            told = await s.told(turn)
            assert told.frames == undisturbed.frames
            assert told.applied == undisturbed.applied
            assert told.console == undisturbed.console
            assert s.receiver.repeats == 0
            assert workers["delivery"].log.read_text().count(ROLLED_BACK) > 1


async def test_moments_that_nobody_holds_any_more_end_the_turn_by_name(tmp_path: Path, undisturbed: Told) -> None:
    with Server(aof=True) as server:
        async with stage(server, tmp_path, environ=KEEP_NOTHING) as s:
            s.upstream.pause_before(FIRST_GATE)
            await start(s)
            turn = await s.submit()
            await lose_what_follows(s, server, turn)
            server.start()
            s.upstream.release()
            record = await s.fleet.ended(turn)
            assert record.state == "failed"
            assert "log_rolled_back" in record.error
            frames = (await s.fleet.frames(turn)).split("\n\n")
            whole = undisturbed.frames.split("\n\n")
            assert frames[:FIRST_GATE] == whole[:FIRST_GATE]
            assert frames[-2].startswith("event: response.failed\n")
            assert s.receiver.repeats == 0


async def test_a_client_that_holds_lost_frames_is_told_so(tmp_path: Path) -> None:
    with Server(aof=True) as server:
        async with stage(server, tmp_path) as s:
            s.upstream.pause_before(FIRST_GATE)
            workers = await start(s)
            gateway = await s.fleet.start("gateway")
            url = f"http://127.0.0.1:{gateway.port}/v1/turns"
            body = {"request": {"model": "sample-1", "input": "Write."}, "targets": ["hook"], "settings": SETTINGS}
            async with aiohttp.ClientSession() as http, http.post(url, json=body) as answer:
                turn = str((await answer.json())["id"])
            reading = asyncio.create_task(read(f"{url}/{turn}/events"))
            await lose_what_follows(s, server, turn)
            await workers["ingest"].kill()
            server.start()
            said = await asyncio.wait_for(reading, 60)
            assert '"code":"stream_rolled_back"' in said
            assert said.count("\nevent: response.output_text.delta") >= SECOND_GATE - 8


async def read(url: str) -> str:
    async with aiohttp.ClientSession() as http, http.get(url) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.text()


@pytest.mark.parametrize("durable", ["none", "waitaof"])
async def test_an_intent_that_waited_for_the_disk_outlives_its_sender_and_the_servers_last_moments(
    tmp_path: Path, durable: str
) -> None:
    environ = {**KEEP_LONG, "FOLDLINE_REDIS_DURABLE": durable}
    with Server("--appendfsync", "everysec", aof=True) as server:
        async with stage(server, tmp_path, environ=environ, hook={"key_window_ms": 1}) as s:
            s.upstream.pause_before(FIRST_GATE)
            s.receiver.play(Act.STALL_AFTER)
            for role in ("ingest", "fold"):
                await s.fleet.start(role)
            turn = await s.submit()
            await s.fleet.framed(turn, FIRST_GATE)
            before = written(server)
            delivery = await s.fleet.start("delivery")
            await wait_until(lambda: len(s.receiver.requests) > 0, "a first request")
            at_request = written(server)
            server.kill()
            await delivery.kill()
            cut(server, at_request if durable == "waitaof" else before)
            server.start()
            s.receiver.release()
            await s.fleet.start("delivery")
            s.upstream.release()
            await s.told(turn)
            parts = [part for part in await s.fleet.parts(turn) if part.target == "hook"]
            if durable == "waitaof":  # the record knows of the attempt: nobody makes it again
                assert {part.guarantee for part in parts} == {"exactly-once"}
                assert parts[0].state is State.UNKNOWN
                assert s.receiver.repeats == 0
            else:  # nobody knows of it; that this can be stands on every part, and in the log from the start
                assert {part.guarantee for part in parts} == {"at-least-once"}
                assert s.receiver.repeats == 1
                assert "targets_at_least_once" in delivery.log.read_text()


@asynccontextmanager
async def replicated() -> AsyncIterator[tuple[Server, Server, Server, Proxy, Proxy]]:
    """A primary, its replica, a spare to follow that one, the fleet's way to whoever is primary, the replica's way to the primary."""
    kind = "redis-server" if shutil.which("redis-server") else None
    with Server(kind=kind) as primary, Server(kind=kind) as replica, Server(kind=kind) as spare:
        way, link = Proxy(primary.port), Proxy(primary.port)
        await way.start()
        await link.start()
        with replica.client() as client:
            client.replicaof("127.0.0.1", str(link.port))
            await wait_until(lambda: client.info("replication")["master_link_status"] == "up", "the replica to follow")
        yield primary, replica, spare, way, link
        await way.stop()
        await link.stop()


@pytest.mark.parametrize("durable", ["none", "wait"])
async def test_a_replica_promoted_by_hand(tmp_path: Path, durable: str, undisturbed: Told) -> None:
    async with replicated() as (primary, replica, spare, way, link):
        url = f"redis://127.0.0.1:{way.port}/0"
        environ = {**KEEP_LONG, "FOLDLINE_REDIS_DURABLE": durable}
        async with stage(primary, tmp_path, url=url, environ=environ) as s:
            s.upstream.pause_before(FIRST_GATE)
            workers = await start(s)
            turn = await s.submit()
            await quiet_at(s, turn, FIRST_GATE)
            sent = len(s.receiver.requests)
            stalled = asyncio.create_task(
                link.stall(3600)
            )  # what the primary says from here on, the replica never hears
            s.upstream.release(SECOND_GATE)
            if durable == "wait":
                await s.fleet.framed(turn, SECOND_GATE)
                log = workers["delivery"].log
                await wait_until(lambda: "not_durable" in log.read_text(), "an attempt that was not made", 30)
                assert len(s.receiver.requests) == sent
            else:
                await quiet_at(s, turn, SECOND_GATE)
                assert len(s.receiver.requests) > sent
            primary.kill()
            stalled.cancel()
            await link.stop()
            repoint(replica, None)
            repoint(spare, replica)
            way.point_at(replica.port)
            s.upstream.release()
            told = await s.told(turn)
            assert told.frames == undisturbed.frames
            assert told.applied == undisturbed.applied
            assert told.console == undisturbed.console
            assert s.receiver.repeats == 0
            assert (ROLLED_BACK in workers["delivery"].log.read_text()) == (durable == "none")
