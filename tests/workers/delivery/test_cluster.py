"""The delivery role on a cluster: every call of it stays within one slot."""

import asyncio
from pathlib import Path

import msgspec
import pytest
import redis.asyncio as aioredis

from ledger.states import State
from tests.support.deliveries import Desk
from tests.support.receivers import Receiver
from tests.support.servers import Cluster
from tests.support.waiting import wait_until
from tests.workers.delivery.conftest import FAST, SECRET
from workers.config import Config, DeliveryConfig, RedisConfig, TargetConfig
from workers.delivery.worker import DeliveryWorker


@pytest.mark.long
async def test_blocks_are_delivered_on_a_cluster(tmp_path: Path) -> None:
    with Cluster() as cluster:
        async with aioredis.RedisCluster.from_url(cluster.url, decode_responses=True) as client, Receiver() as receiver:
            desk = Desk(client)
            listed = [{"channel": "webhook", "name": "hook"}, {"channel": "console", "name": "terminal"}]
            await desk.open_turn(targets=msgspec.json.encode(listed).decode(), serial=1)
            for block in range(3):
                await desk.add_block(block, text=f"text {block}")
            config = Config(
                redis=RedisConfig(url=cluster.url, partitions=8, cluster=True, block_ms=100),
                delivery=DeliveryConfig(**FAST),
                targets={
                    "hook": TargetConfig(channel="webhook", url=receiver.url, secret_env="S", rate_per_s=100),
                    "terminal": TargetConfig(channel="console", path=str(tmp_path / "out")),
                },
            )
            halt = asyncio.Event()
            task = asyncio.create_task(DeliveryWorker(config, environ={"S": SECRET}).run(halt))

            async def sent() -> bool:
                ids = await client.lrange(desk.keys.parts(desk.turn), 0, -1)
                return [(await desk.part(str(part))).state for part in ids] == [State.SENT] * 6

            await wait_until(sent, "all parts are sent", timeout_s=30)
            halt.set()
            await task
            assert [body["text"] for body in receiver.texts] == ["text 0", "text 1", "text 2"]
