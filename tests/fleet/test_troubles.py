"""What a server can do to a fleet in the middle of a turn, and the turn goes on without anybody's help: nobody is started again."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ledger import access
from tests.fleet.crashing import CARRIERS, FIRST_GATE, SECOND_GATE, Stage, Told, stage
from tests.support.fleet import Worker
from tests.support.servers import Server
from tests.support.waiting import wait_until, wait_until_sync

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

LEASE_S = 1.5
"""Of ingest and fold in these fleets: a trouble that takes longer outlasts every claim."""


async def passes(seconds: float) -> None:
    """Let so much time go by while the trouble lasts."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    await wait_until(lambda: loop.time() >= until, "the trouble to last long enough", seconds + 5)


async def lose_groups(server: Server, s: Stage) -> None:
    """NOGROUP: somebody destroyed every group."""
    with server.client() as client:
        destroyed = 0
        for p in range(s.fleet.keys.partitions):
            keys = s.fleet.keys
            for stream, group in ((keys.requests(p), "ingest"), (keys.log(p), "fold"), (keys.blocks(p), "delivery")):
                if client.exists(stream):
                    destroyed += client.xgroup_destroy(stream, group)
        assert destroyed >= 3


async def load_for_long(server: Server, s: Stage) -> None:
    """LOADING: killed, and then busy with its own file for longer than any claim lasts."""
    with server.client() as client:
        with client.pipeline(transaction=False) as pipe:
            for number in range(2_000):
                pipe.set(f"filler:{number}", "x")
            pipe.execute()
        client.bgrewriteaof()
        wait_until_sync(lambda: not client.info("persistence")["aof_rewrite_in_progress"], "the file to be rewritten")
    server.kill()
    server.change("--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024")
    loop = asyncio.get_running_loop()
    began = loop.time()
    starting = asyncio.ensure_future(asyncio.to_thread(server.start))
    await wait_until(lambda: asyncio.to_thread(is_loading, server), "the server to say that it is loading")
    await starting
    assert loop.time() - began > LEASE_S


def is_loading(server: Server) -> bool:
    with redis.Redis(port=server.port, socket_timeout=1, retry=Retry(NoBackoff(), 0)) as client:
        try:
            client.ping()
        except redis.RedisError as error:
            return isinstance(error, redis.BusyLoadingError)
    return False


async def refuse_writes(server: Server, s: Stage) -> None:
    """READONLY: it follows a master that nobody reaches, until it is told otherwise."""
    with server.client() as client:
        client.replicaof("127.0.0.1", "1")
        with pytest.raises(redis.ReadOnlyError):
            client.set("x", "y")
        s.upstream.release()  # the turn has more to say meanwhile, and nobody can write it down
        await passes(2 * LEASE_S)
        client.replicaof("NO", "ONE")


async def run_out_of_memory(server: Server, s: Stage) -> None:
    """OOM: it takes nothing that needs room."""
    with server.client() as client:
        client.config_set("maxmemory", 1_000_000)
        with pytest.raises(redis.OutOfMemoryError):
            client.set("x", "y")
        s.upstream.release()
        await passes(2 * LEASE_S)
        client.config_set("maxmemory", 0)


async def cut_connections(server: Server, s: Stage) -> None:
    """Every connection is closed, again and again, those that listen included."""
    with server.client() as client:

        def is_back() -> bool:
            return {"foldline-fold", "foldline-hints"} <= {row["name"] for row in client.client_list()}

        for _ in range(10):
            await wait_until(is_back, "the fleet to connect again")
            for kind in ("normal", "pubsub"):
                client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")


async def restart(server: Server, s: Stage) -> None:
    """Killed, away for longer than any claim lasts, and back with what it had."""
    server.kill()
    await passes(2 * LEASE_S)
    await asyncio.to_thread(server.start)


async def freeze(server: Server, s: Stage) -> None:
    """It answers nobody for longer than any claim lasts."""
    server.pause()
    await passes(2 * LEASE_S)
    server.resume()


Trouble = Callable[[Server, Stage], Awaitable[None]]


async def begun(s: Stage) -> tuple[str, list[Worker]]:
    """A fleet with its gateway, and a turn that stands in the middle."""
    s.upstream.pause_before(FIRST_GATE)
    workers = [await s.fleet.start(role) for role in (*CARRIERS, "gateway")]
    turn = await s.submit()
    await s.fleet.framed(turn, FIRST_GATE)
    return turn, workers


@pytest.mark.parametrize(
    "trouble",
    [lose_groups, load_for_long, refuse_writes, run_out_of_memory, cut_connections, restart, freeze],
    ids=lambda trouble: str(trouble.__name__),
)
async def test_a_turn_goes_on_after_it_byte_for_byte(trouble: Trouble, undisturbed: Told, tmp_path: Path) -> None:
    with Server(aof=True) as server:
        async with stage(server, tmp_path) as s:
            turn, workers = await begun(s)
            await trouble(server, s)
            s.upstream.pause_before(SECOND_GATE)
            s.upstream.release()
            await s.fleet.framed(turn, SECOND_GATE, 60)
            s.upstream.release()
            told = await s.told(turn)
            assert (told.frames, told.applied) == (undisturbed.frames, undisturbed.applied)
            assert told.console == undisturbed.console
            assert s.receiver.repeats == 0
            assert all(worker.is_alive for worker in workers)
            record = await s.fleet.turn(turn)
            assert record.ingest_epoch == 1, "nobody took it over: the server's absence is nobody's death"


async def test_a_server_that_was_emptied_heals_by_itself_and_says_what_was_lost(
    undisturbed: Told, tmp_path: Path
) -> None:
    with Server(aof=True) as server:
        async with stage(server, tmp_path) as s, aiohttp.ClientSession() as http:
            key = access.ApiKey(name="reader", tenant="test", created=1)
            await s.fleet.run(access.add_key(s.fleet.keys, access.hash_key("secret"), key))
            turn, workers = await begun(s)
            url = f"http://127.0.0.1:{workers[-1].port}/v1/turns/{turn}/events"
            async with http.get(url, headers={"Authorization": "Bearer secret"}) as answer:
                assert answer.status == 200
                with server.client() as client:
                    client.flushall()
                s.upstream.release()
                last = (await asyncio.wait_for(answer.read(), 30)).decode().rstrip().split("\n\n")[-1]
            assert json.loads(last.partition("data: ")[2])["code"] == "turn_lost"

            carrier = workers[0]
            await wait_until(lambda: '"verdict": "unknown_turn"' in carrier.tail(20_000), "the loss to be logged", 20)
            async with http.get(f"http://127.0.0.1:{carrier.port}/metrics") as answer:
                assert 'foldline_server_lost_data_total{role="ingest"} 1.0' in await answer.text()
            turn = await s.submit()
            assert (await s.told(turn)).frames == undisturbed.frames
            assert all(worker.is_alive for worker in workers), "new turns need nobody's help"
