"""Telling gateways of new frames right after their commit, best effort: the stream is the truth, a lost hint costs a poll.

Order matters to those who listen, so one task publishes, one call after the other; when it falls behind, hints are left out.
"""

import asyncio
import contextlib

import msgspec

from ledger.errors import LedgerError
from ledger.log import hint
from workers.fold.context import Context
from workers.fold.live import Effects, Live
from workers.runtime import failpoints

WAITING_MAX = 1_000
"""Hints that may wait; beyond it gateways find the frames by themselves."""
TOGETHER_BYTES = 256 * 1024
"""When so much goes by one call, the next hint waits for the next one. A commit of many turns has many, and each answer of the server takes
its time."""


class Hints:
    """The hints of one partition."""

    def __init__(self, context: Context, partition: int) -> None:
        self._context = context
        self._partition = partition
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(WAITING_MAX)
        self._task: asyncio.Task[None] | None = None

    def put(self, live: Live, effects: Effects) -> None:
        """Tell of a turn's committed frames."""
        if not effects.sse:
            return
        payload = msgspec.json.encode(
            {
                "turn": live.turn,
                "first": effects.frames_next,
                "n": len(effects.sse),
                "sse": "".join(effects.sse),
                "ended": live.machine is None,
            }
        )
        if self._task is None:
            self._task = asyncio.create_task(self._publish())
        with contextlib.suppress(asyncio.QueueFull):
            self._queue.put_nowait(payload)

    async def close(self) -> None:
        """Send what waits, when it can be sent at once, and end."""
        if self._task is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._context.config.redis.socket_timeout_ms / 1000):
                await self._queue.join()
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _publish(self) -> None:
        sharded = self._context.config.redis.cluster
        while True:
            payloads = [await self._queue.get()]
            size = len(payloads[0])
            while size < TOGETHER_BYTES and not self._queue.empty():
                payloads.append(self._queue.get_nowait())
                size += len(payloads[-1])
            with contextlib.suppress(LedgerError):
                await self._context.scripts.run(hint(self._context.keys, self._partition, payloads, sharded=sharded))
            for _ in payloads:
                self._queue.task_done()
            failpoints.hit("fold.after_hint")
