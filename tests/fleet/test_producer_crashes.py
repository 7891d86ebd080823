"""A producer outside, and the gateways that it publishes through killed and frozen around a publish: every event is kept once."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.support.fleet import Fleet
from tests.support.receivers import Receiver
from tests.support.servers import Server
from workers.client import Door, Producer
from workers.runtime.failpoints import FAILPOINTS

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

POINTS = ["gateway.before_publish", "gateway.after_publish"]
WORDS = [f"Word {number} of an answer that somebody else makes. " for number in range(12)]
BODY = {"upstream": "outside", "request": {}, "targets": ["hook"], "settings": {"min_chars": 90, "max_chars": 90}}
LOST = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError)


async def carry(url: str, *, patience_s: float) -> Producer:
    """Carry the turn from wherever it stands, through one gateway."""
    async with Door.open(url, patience_s=patience_s) as door:
        producer = await Producer.submit(door, BODY, key="one-answer")
        for word in WORDS[producer.next_seq - 1 :]:
            producer.delta(word)
            async with asyncio.timeout(5):
                await producer.flush()
        await producer.complete()
        return producer


@pytest.mark.parametrize("action", ["exit", "pause"])
@pytest.mark.parametrize("failpoint", POINTS)
async def test_a_gateway_lost_at(failpoint: str, action: str, redis_server: Server, tmp_path: Path) -> None:
    with redis_server.client() as client:
        client.flushall()
    async with Receiver() as receiver:
        targets = {"hook": {"channel": "webhook", "url": receiver.url}}
        upstreams = {"outside": {"external": True, "runtime": "acp"}}
        async with Fleet(redis_server.url, tmp_path, upstreams=upstreams, targets=targets) as fleet:
            for role in ("fold", "delivery"):
                await fleet.start(role)
            first = await fleet.start("gateway", failpoint=f"{failpoint}={action}@4")
            second = await fleet.start("gateway")
            with pytest.raises(LOST):
                await carry(f"http://127.0.0.1:{first.port}", patience_s=0.5)
            if action == "exit":
                assert await first.exited() == FAILPOINTS[failpoint], first.tail()
            else:
                await first.frozen()
            producer = await carry(f"http://127.0.0.1:{second.port}", patience_s=30)
            if action == "pause":
                first.resume()
                assert await first.terminate() == 0, first.tail()
            record = await fleet.settled(producer.turn)
            assert (record.state, record.next["external"]) == ("completed", len(WORDS) + 2)
            assert "".join(body["text"] + body["separator"] for body in receiver.texts) == "".join(WORDS)
