import asyncio

import pytest

from ledger.keys import Keyspace
from ledger.records import TurnState
from tests.support.servers import Cluster, Server
from tests.support.waiting import wait_until
from tests.workers.gateway.stage import Stage, created, delta, ended, read_events, stage

POLL_MS = 60_000  # no poll comes to the aid of a hint


async def read_by_hints_alone(on: Stage) -> None:
    """Read turns of several partitions live, each frame as soon as its hint comes."""
    await wait_until(on.gateway.is_ready, "the channels are subscribed to")
    sessions = [f"session-{number}" for number in range(12)]
    assert len({Keyspace().partition_of(session) for session in sessions}) > 6
    for session in sessions:
        turn = await on.submit(session=session)
        async with on.http.get(f"{on.url}/v1/turns/{turn}/events") as answer:
            await wait_until(lambda: on.gateway.hub.watched == 1, "the client watches")
            for frame in (created(turn), delta(1, "a"), delta(2, "b")):
                await on.commit(turn, frame)
                await asyncio.wait_for(answer.content.readuntil(frame.data + b"\n\n"), 5)
            await on.commit(turn, ended(3, turn), state=TurnState.COMPLETED)
            assert len(await read_events(answer)) == 1
        await wait_until(lambda: on.gateway.hub.watched == 0, "the reader is gone")


async def test_hints_carry_the_frames_on_one_server(redis_url: str) -> None:
    async with stage(redis_url, poll_ms=POLL_MS) as on:
        await read_by_hints_alone(on)


@pytest.mark.long
async def test_hints_carry_the_frames_on_sharded_channels_of_a_cluster() -> None:
    with Cluster() as cluster:
        async with stage(cluster.url, cluster=True, poll_ms=POLL_MS) as on:
            await read_by_hints_alone(on)


async def test_a_client_that_reads_nothing_holds_up_nobody_and_loses_nothing(redis_url: str) -> None:
    async with stage(redis_url, poll_ms=POLL_MS, client_queue_bytes=100_000) as on:
        await wait_until(on.gateway.is_ready, "the channels are subscribed to")
        turn = await on.submit()
        path = f"{on.url}/v1/turns/{turn}/events"
        async with on.http.get(path) as quick, on.http.get(path) as slow:
            await wait_until(lambda: on.gateway.hub.watched == 2, "both clients watch")
            await on.commit(turn, created(turn))
            readers, number = on.gateway.hub._watches[turn], 0
            while not any(reader._reason == "slow" for reader in readers):  # until sockets and queue are full
                number += 1
                frame = delta(number, "x" * 60_000)
                await on.commit(turn, frame)
                await asyncio.wait_for(quick.content.readuntil(frame.data + b"\n\n"), 10)
            await on.commit(turn, ended(number + 1, turn), state=TurnState.COMPLETED)
            assert len(await read_events(quick)) == 1
            numbers = [int(event.split("-")[0].removeprefix("id: ")) for event in await read_events(slow)]
            assert numbers == list(range(number + 2))


async def test_frames_that_were_told_of_while_nobody_listened_are_read_at_the_next_subscription() -> None:
    with Server(aof=True) as server:
        async with stage(server.url, poll_ms=POLL_MS) as on:
            await wait_until(on.gateway.is_ready, "the channels are subscribed to")
            turn = await on.submit()
            async with on.http.get(f"{on.url}/v1/turns/{turn}/events") as answer:
                await on.commit(turn, created(turn))
                await answer.content.readuntil(b"response.created")
                await on.client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
                await on.commit(turn, ended(1, turn), state=TurnState.COMPLETED, hint=False)
                assert b"response.completed" in await asyncio.wait_for(answer.read(), 10)


async def test_a_hint_that_is_none_is_ignored(redis_url: str) -> None:
    async with stage(redis_url, poll_ms=POLL_MS) as on:
        await wait_until(on.gateway.is_ready, "the channels are subscribed to")
        turn = await on.submit()
        channel = on.keys.hint(on.keys.partition_of_turn(turn))
        async with on.http.get(f"{on.url}/v1/turns/{turn}/events") as answer:
            await on.commit(turn, created(turn))
            await answer.content.readuntil(b"response.created")
            for text in ("", "{", "[]", f'{{"turn":"{turn}"}}', f'{{"turn":"{turn}","first":1,"n":7,"sse":"x"}}'):
                await on.client.execute_command("PUBLISH", channel, text)
            await on.commit(turn, ended(1, turn), state=TurnState.COMPLETED)
            assert b"response.completed" in await asyncio.wait_for(answer.read(), 10)
