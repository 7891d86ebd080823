"""Clients of the server: retries off, every time-out stated.

A client's own retries run commands twice when a reply is lost: INCR counted 2, a group read skipped an entry. So no client here
repeats anything; ``patience`` repeats whole operations, which are safe to repeat. A blocking client's socket time-out stands
above its block, else an empty stream looks like a broken connection. Replies are text; the protocol version is fixed at 2, so
that the shape of a reply does not follow the server's version.
"""

from typing import Any

import redis
import redis.asyncio as aioredis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from workers.config import RedisConfig
from workers.config.addresses import is_tls, read_sentinels
from workers.streams.cancelling import HeedingCluster, HeedingRedis
from workers.streams.sentinels import connect_master, connect_master_sync

AsyncClient = aioredis.Redis | aioredis.RedisCluster
SyncClient = redis.Redis | redis.RedisCluster

BLOCK_MARGIN_MS = 2_000
"""What a blocking read may take beyond its block before the connection counts as lost."""
POOL_SIZE = 32
"""Connections of one client; more concurrent calls than that wait for one to be free."""
CLUSTER_POOL_SIZE = 512
"""The same for a node of a cluster, where a call beyond it fails (and is repeated) instead of waiting."""


def _options(config: RedisConfig, timeout_ms: int, name: str) -> dict[str, Any]:
    tls: dict[str, Any] = {}
    if is_tls(config.url):
        files = {"ssl_ca_certs": config.ca_file, "ssl_certfile": config.cert_file, "ssl_keyfile": config.key_file}
        tls = {option: file for option, file in files.items() if file}
    return tls | {
        "socket_timeout": timeout_ms / 1000,
        "socket_connect_timeout": config.connect_timeout_ms / 1000,
        "socket_keepalive": True,
        "health_check_interval": 0,
        "decode_responses": True,
        "protocol": 2,
        "client_name": f"foldline-{name}",
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }


def connect(config: RedisConfig, *, name: str = "worker") -> AsyncClient:
    """A client for commands that do not block; opens its connections when first used. Close it with ``aclose``."""
    return _async(config, config.socket_timeout_ms, name)


def connect_blocking(config: RedisConfig, *, name: str = "news", block_ms: int | None = None) -> AsyncClient:
    """A client for blocking reads of at most ``block_ms`` (the configured one by default)."""
    block = config.block_ms if block_ms is None else block_ms
    return _async(config, block + BLOCK_MARGIN_MS, name)


def connect_sync(config: RedisConfig, *, name: str = "lease") -> SyncClient:
    """A client for a thread of its own."""
    options = _options(config, config.socket_timeout_ms, name)
    sentinels = read_sentinels(config.url, asks_login=config.sentinel_auth)
    if sentinels is not None:
        return connect_master_sync(sentinels, options)
    if config.cluster:
        return redis.RedisCluster.from_url(config.url, retry=Retry(NoBackoff(), 0), **options)
    return redis.Redis.from_url(config.url, retry=Retry(NoBackoff(), 0), **options)


def _async(config: RedisConfig, timeout_ms: int, name: str) -> AsyncClient:
    options = _options(config, timeout_ms, name)
    sentinels = read_sentinels(config.url, asks_login=config.sentinel_auth)
    if sentinels is not None:
        return connect_master(sentinels, options)
    if config.cluster:
        return HeedingCluster.from_url(
            config.url, retry=AsyncRetry(NoBackoff(), 0), max_connections=CLUSTER_POOL_SIZE, **options
        )
    pool: aioredis.BlockingConnectionPool = aioredis.BlockingConnectionPool.from_url(
        config.url, retry=AsyncRetry(NoBackoff(), 0), max_connections=POOL_SIZE, timeout=timeout_ms / 1000, **options
    )
    return HeedingRedis.from_pool(pool)
