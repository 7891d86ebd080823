"""A server that lost its last moments: by restoring an earlier copy of all its keys, or by cutting its append-only file."""

from pathlib import Path
from typing import Any, Self

import redis
import redis.asyncio as aioredis

from tests.support.servers import Server


class Copy:
    """All keys of a server at one moment."""

    def __init__(self, kept: dict[Any, tuple[int, Any]]) -> None:
        self._kept = kept

    @classmethod
    async def of(cls, url: str) -> Self:
        """Take it."""
        async with aioredis.Redis.from_url(url) as client:
            return cls({key: (max(0, await client.pttl(key)), await client.dump(key)) for key in await client.keys()})

    async def restore(self, url: str) -> None:
        """Make it what the server holds, in one step."""
        async with aioredis.Redis.from_url(url) as client, client.pipeline(transaction=True) as pipe:
            pipe.flushall()
            for key, (ttl_ms, value) in self._kept.items():
                pipe.restore(key, ttl_ms, value, replace=True)  # a worker may write between two of them
            await pipe.execute()


def written(server: Server) -> int:
    """How long the append-only file is by now."""
    return _file(server).stat().st_size


def cut(server: Server, size: int) -> None:
    """Leave so much of the append-only file of a server that does not run."""
    with _file(server).open("r+b") as file:
        file.truncate(size)


def _file(server: Server) -> Path:
    [file] = (server.folder / "appendonlydir").glob("*.incr.aof")
    return file


def repoint(server: Server, primary: Server | None) -> None:
    """Make a server the replica of another, or of none: a promotion by hand."""
    with redis.Redis(port=server.port) as client:
        if primary is None:
            client.replicaof("NO", "ONE")
        else:
            client.replicaof("127.0.0.1", str(primary.door))
