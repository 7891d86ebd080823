"""Everything that a server holds, in words, so that it can be searched: DUMP would pack long values."""

from typing import Any

import redis

from tests.support.servers import Cluster, Server


def contents(server: Server | Cluster) -> dict[str, str]:
    """Each key with its value as text, on a cluster of every node."""
    found: dict[str, str] = {}
    for node in server.servers if isinstance(server, Cluster) else [server]:
        with node.client() as client:
            for key in client.scan_iter(count=1000):
                value = _read(client, key)
                if value is not None:  # gone since it was listed
                    found[key] = value
    return found


def mentioning(held: dict[str, str], word: str) -> set[str]:
    """The keys that hold a word, or are named by it."""
    return {key for key, value in held.items() if word in key or word in value}


def _read(client: redis.Redis, key: str) -> str | None:
    reader: Any = {
        "string": client.get,
        "hash": client.hgetall,
        "list": lambda name: client.lrange(name, 0, -1),
        "set": client.smembers,
        "zset": lambda name: client.zrange(name, 0, -1),
        "stream": client.xrange,
        "none": lambda _name: None,
    }[str(client.type(key))]
    value = reader(key)
    return None if value is None else str(value)
