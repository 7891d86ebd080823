"""A process that owns nothing is counted among the living while it lives."""

import redis

from ledger.commands import Scripts
from ledger.errors import Unavailable
from ledger.keys import Keyspace
from ledger.ownership import live_workers
from tests.support.servers import Server
from tests.support.waiting import wait_until
from workers.config import RedisConfig
from workers.streams.attendance import Attendance
from workers.streams.connection import connect

KEYS = Keyspace()


async def test_who_lives_is_counted_until_it_stops_and_again_after_an_outage() -> None:
    with Server() as server:
        client = connect(RedisConfig(url=server.url), name="test")
        scripts = Scripts(client)
        attendance = Attendance(scripts, KEYS, role="gateway", worker="one")
        await attendance.stop()  # what never began has nothing to end

        async def counted() -> bool:
            try:
                return await scripts.run(live_workers(KEYS, role="gateway")) == ["one"]
            except Unavailable:
                return False

        await attendance.start()
        try:
            await wait_until(counted, "the first heartbeat")
            server.kill()
            server.start()
            with redis.Redis.from_url(server.url) as other:
                other.flushall()
            await wait_until(counted, "a heartbeat after the outage")
        finally:
            await attendance.stop()
        assert await scripts.run(live_workers(KEYS, role="gateway")) == []
        await client.aclose()
