"""What every process asks of the server before it begins: that it lets us, that it drops no keys, that the data is of our schema.

A server that is away is waited for. One that cannot be worked on is refused with the reason, because whatever is begun on it breaks in the
middle of a turn: a right that is missing at the first command that needs it, an eviction when memory runs short.
"""

from collections.abc import Callable, Mapping
from typing import Any

import redis.asyncio as aioredis

from ledger.access import check_meta
from ledger.commands import CLIENT_ERRORS, Scripts, translate
from ledger.errors import AccessDenied, Evicting, Unavailable
from ledger.keys import Keyspace
from ledger.rights import describe, missing_rights
from workers.config import RedisConfig
from workers.streams.connection import AsyncClient
from workers.streams.guard import Guard
from workers.streams.patience import patiently

KEEPING = "noeviction"


async def check_server(
    client: AsyncClient,
    config: RedisConfig,
    *,
    role: str,
    guard: Guard | None = None,
    give_up: Callable[[], bool] | None = None,
) -> bool:
    """Wait for the server and check it; AccessDenied, Evicting or SchemaMismatch when it cannot be worked on.

    False when `give_up` said so before the server answered.
    """
    keys = Keyspace(config.prefix, config.partitions)

    async def ask() -> None:
        scripts = Scripts(client)
        missing = await scripts.run(missing_rights(keys, cluster=config.cluster, durable=config.durable))
        if missing:
            raise AccessDenied(describe(missing))
        for policy in await _policies(client):
            if policy not in {KEEPING, ""}:
                raise Evicting(policy)
        await scripts.run(check_meta(keys))

    try:
        await patiently(ask, what="check_server", role=role, guard=guard, give_up=give_up)
    except Unavailable:
        return False
    return True


async def _policies(client: AsyncClient) -> list[str]:
    """What each node does when its memory is full; INFO says it where CONFIG is forbidden, too."""
    try:
        if isinstance(client, aioredis.RedisCluster):
            reply: Any = await client.info("memory", target_nodes=aioredis.RedisCluster.PRIMARIES)
            nodes: list[Mapping[str, Any]] = [reply] if "maxmemory_policy" in reply else list(reply.values())
        else:
            nodes = [await client.info("memory")]
    except CLIENT_ERRORS as error:
        raise translate("INFO", error) from error
    return [str(node.get("maxmemory_policy", "")) for node in nodes]
