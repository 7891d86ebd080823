"""Waiting for new entries of streams, by plain blocking reads that take nothing away from anybody.

A blocked group read takes entries in its owner's name after the owner's lease is gone; so groups are read inside fenced
scripts, which do not block, and this is the bell that says when to call them. A wake-up that is lost costs one block time,
which is under a second. On one server all streams are read by one call; on a cluster each by its own, on its own connection,
because two slots of one node in one read are refused.
"""

import asyncio
from typing import Any

from redis.exceptions import RedisClusterException, RedisError

from workers.config import RedisConfig
from workers.streams.connection import connect_blocking

REST_S = 0.002
"""Shortest time from one answer to the next read: under load the streams always have news, and reading it faster is waste."""
AWAY_S = 0.1
"""Wait after a read that failed, while the server is away."""

Group = tuple[str, ...]


class News:
    """The streams that somebody waits for, and how far each was seen.

    One task calls ``wait`` in a loop; ``watch``, ``seen`` and ``forget`` may be called by others meanwhile.
    """

    def __init__(self, config: RedisConfig, *, name: str = "news") -> None:
        self._config = config
        self._client = connect_blocking(config, name=name)
        self._after: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._reads: dict[Group, asyncio.Task[set[str]]] = {}

    def watch(self, key: str, after: str) -> None:
        """Wait for entries of the stream beyond this id as well; ``0-0`` for all."""
        self._after[key] = after
        self._changed.set()

    def seen(self, key: str, entry_id: str) -> None:
        """Entries up to this one have been taken and are no news; never moves backwards."""
        known = self._after.get(key)
        if known is not None and _pair(entry_id) > _pair(known):
            self._after[key] = entry_id

    def forget(self, key: str) -> None:
        """Stop waiting for the stream."""
        self._after.pop(key, None)

    async def wait(self, timeout_ms: int | None = None) -> set[str]:
        """The watched streams that have something new; empty at the time-out or while the server is away.

        The time-out is cut to the configured block. With nothing watched it waits until something is, or the time-out.
        """
        block_ms = self._config.block_ms if timeout_ms is None else min(timeout_ms, self._config.block_ms)
        self._changed.clear()
        await self._match_reads()
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            done, _ = await asyncio.wait(
                {changed, *self._reads.values()}, timeout=block_ms / 1000, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            changed.cancel()
            await asyncio.wait({changed})  # and not await it: that would swallow a cancel of our own
        found: set[str] = set()
        for group, read in list(self._reads.items()):
            if read in done:
                del self._reads[group]
                found |= read.result()
        return {key for key in found if key in self._after}

    async def close(self) -> None:
        """Let go of the connections."""
        self._after.clear()
        await self._match_reads()
        await self._client.aclose()

    async def _match_reads(self) -> None:
        """Start a read for every group that has none, end those whose streams are not watched any more."""
        wanted = self._groups()
        for group in [group for group in self._reads if group not in wanted]:
            read = self._reads.pop(group)
            read.cancel()  # the client drops the connection with it, so no reply is left for the next command
            await asyncio.wait({read})  # and not await it: that would swallow a cancel of our own
        for group in wanted:
            if group not in self._reads:
                self._reads[group] = asyncio.create_task(self._read(group))

    def _groups(self) -> set[Group]:
        if self._config.cluster:
            return {(key,) for key in self._after}
        return {tuple(sorted(self._after))} if self._after else set()

    async def _read(self, group: Group) -> set[str]:
        await asyncio.sleep(REST_S)
        positions = {key: self._after[key] for key in group if key in self._after}
        if not positions:
            return set()
        try:
            reply: Any = await self._client.execute_command(
                "XREAD", "COUNT", 1, "BLOCK", self._config.block_ms, "STREAMS", *positions, *positions.values()
            )
        except (RedisError, RedisClusterException, OSError):
            await asyncio.sleep(AWAY_S)
            return set()
        found = set()
        for key, entries in reply.items() if isinstance(reply, dict) else reply or ():
            entry_id = entries[0][0]
            if key in self._after and _pair(entry_id) > _pair(self._after[key]):
                self.seen(key, entry_id)
                found.add(key)
        return found


def _pair(entry_id: str) -> tuple[int, int]:
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number or 0)
