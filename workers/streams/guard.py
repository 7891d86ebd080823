"""When nothing may be taken over: for one lease period after the server was away, restarted, loaded or stepped its time.

While the server is down nobody can renew, so its downtime looks like idleness: without this rule the first process back would
declare every live turn lost. Holders renew as soon as the server answers; one full lease period gives each of them the time.
The same holds for age limits. A new process cannot know what happened before it, so it also asks how long the server is up.
"""

from collections.abc import Mapping
from typing import Any

import redis.asyncio as aioredis
from redis.exceptions import RedisClusterException, RedisError

from workers.observability import logs, metrics
from workers.runtime.clock import Clock
from workers.streams.connection import AsyncClient

STEP_MS = 5_000
"""A jump of the server's time against our monotonic clock beyond which leases by server time mean nothing."""


class Guard:
    """Holds back take-overs (and age limits) after a disturbance. One for each process; shared by all its loops."""

    def __init__(self, clock: Clock, lease_ms: int) -> None:
        self._clock = clock
        self._lease_ms = lease_ms
        self._closed_until_ms = 0
        self._began_ms = clock.boottime_ms()
        self._run_ids: dict[str, str] = {}
        self._offsets: dict[str, int] = {}

    def disturbed(self, reason: str) -> None:
        """Close for one lease period from now."""
        now = self._clock.boottime_ms()
        if now >= self._closed_until_ms:
            metrics.GUARD_CLOSED.labels(reason=reason).inc()
            logs.bind(reason=reason, lease_ms=self._lease_ms).warning("takeovers_held_back")
        self._closed_until_ms = now + self._lease_ms

    def may_take_over(self) -> bool:
        """Whether leases that ran out may be believed now; ask ``check`` first."""
        return self._clock.boottime_ms() >= self._closed_until_ms

    def calm_ms(self) -> int:
        """For how long the server has surely been there: since the end of the last disturbance, or as long as we know it."""
        return max(0, self._clock.boottime_ms() - max(self._began_ms, self._closed_until_ms))

    async def check(self, client: AsyncClient) -> bool:
        """Look at the server (run id, uptime, time) and answer like ``may_take_over``; never raises for an absent server."""
        try:
            for node, info in (await _readings(client)).items():
                self.observe(
                    node,
                    run_id=str(info["run_id"]),
                    uptime_ms=int(info["uptime_in_seconds"]) * 1000,
                    server_ms=int(info["server_time_usec"]) // 1000,
                )
        except (RedisError, RedisClusterException, OSError):
            self.disturbed("reconnect")
        return self.may_take_over()

    def observe(self, node: str, *, run_id: str, uptime_ms: int, server_ms: int) -> None:
        """Judge one reading of a node."""
        known = self._run_ids.get(node)
        offset = server_ms - self._clock.boottime_ms()
        if known is None and not self._run_ids and uptime_ms >= self._lease_ms:
            pass  # a process that starts beside a server that has long been up: nothing happened that it missed
        elif known is None:
            self.disturbed("young_server" if uptime_ms < self._lease_ms else "new_node")
        elif known != run_id:
            self.disturbed("restart")
        elif abs(offset - self._offsets[node]) > STEP_MS:
            self.disturbed("time_step")
        self._run_ids[node] = run_id
        self._offsets[node] = offset


async def _readings(client: AsyncClient) -> Mapping[str, Mapping[str, Any]]:
    if isinstance(client, aioredis.RedisCluster):
        reply: Any = await client.info("server", target_nodes=aioredis.RedisCluster.PRIMARIES)
        if "run_id" in reply:  # one node alone answers unwrapped
            return {"": reply}
        return {str(node): info for node, info in reply.items()}
    return {"": await client.info("server")}
