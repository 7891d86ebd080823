"""Clients of the master that sentinels name. Each new connection asks them; nothing is repeated here.

During a failover connections break and the old master, if it still answers, refuses writes (READONLY): both are waited out like any absence
of the server, and the next connection goes to whom the sentinels have promoted by then.
"""

from typing import Any

import redis
import redis.asyncio as aioredis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import SentinelConnectionPool as AsyncPool
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool as SyncPool

from workers.config.addresses import Sentinels
from workers.streams.cancelling import HeedingRedis

POOL_SIZE = 512
"""Connections of one client, as for a node of a cluster: a call beyond it fails (and is repeated) instead of waiting."""


class MasterPool(AsyncPool):
    """Connections to the master; closes those to the sentinels with them."""

    async def aclose(self) -> None:
        """Close everything."""
        await super().aclose()
        await self.sentinel_manager.aclose()


class SyncMasterPool(SyncPool):
    """The same, blocking."""

    def close(self) -> None:
        """Close everything."""
        super().close()
        for sentinel in self.sentinel_manager.sentinels:
            sentinel.close()


def connect_master(sentinels: Sentinels, options: dict[str, Any]) -> HeedingRedis:
    """A client of the master."""
    retry = AsyncRetry(NoBackoff(), 0)
    asked = {**_of_sentinels(sentinels, options), "retry": retry}
    manager: Any = aioredis.Sentinel(sentinels.hosts, sentinel_kwargs=asked)  # type: ignore[no-untyped-call]  # redis-py's
    members = {**_of_members(sentinels, options), "retry": retry}
    client: Any = HeedingRedis.from_pool(MasterPool(sentinels.service, manager, **members))  # type: ignore[no-untyped-call]  # redis-py's
    made: HeedingRedis = client
    return made


def connect_master_sync(sentinels: Sentinels, options: dict[str, Any]) -> redis.Redis:
    """The same, for a thread of its own."""
    retry = Retry(NoBackoff(), 0)
    asked = {**_of_sentinels(sentinels, options), "retry": retry}
    manager: Any = redis.Sentinel(sentinels.hosts, sentinel_kwargs=asked)  # type: ignore[no-untyped-call]  # redis-py's
    members = {**_of_members(sentinels, options), "retry": retry}
    return redis.Redis.from_pool(SyncMasterPool(sentinels.service, manager, **members))  # type: ignore[no-untyped-call]  # redis-py's


def _of_members(sentinels: Sentinels, options: dict[str, Any]) -> dict[str, Any]:
    return {
        **options,
        "ssl": sentinels.tls,
        "db": sentinels.database,
        "username": sentinels.username,
        "password": sentinels.password,
        "max_connections": POOL_SIZE,
    }


def _of_sentinels(sentinels: Sentinels, options: dict[str, Any]) -> dict[str, Any]:
    """A sentinel is asked on the way to a connection: it has as long as a connection may take, and not as long as a blocking read."""
    login = {"username": sentinels.username, "password": sentinels.password} if sentinels.asks_login else {}
    wait = options["socket_connect_timeout"]
    return {**options, "ssl": sentinels.tls, "socket_timeout": wait, "socket_connect_timeout": wait, **login}
