"""The gateway's view of the ledger: a few operations, each repeated for a short while when the server does not answer.

Every call here may be repeated as it is, so a lost reply costs time and nothing else. What does not come back within
`PATIENCE_S` becomes a 503 for a request; a stream's reader goes on trying by itself.
"""

import asyncio
from typing import Any, TypeVar

import msgspec

from ledger import log, turns
from ledger.commands import Call, Scripts
from ledger.errors import Unavailable
from ledger.keys import Keyspace, parse_turn_id
from ledger.records import TurnRecord
from workers.gateway.sse import StoredFrame, split_frames
from workers.gateway.watch import Progress
from workers.observability import metrics
from workers.streams.connection import POOL_SIZE, AsyncClient

T = TypeVar("T")

PATIENCE_S = 3.0  # a server that restarts is back within this, most of the time
WAIT_S = 0.05
CONCURRENT = POOL_SIZE // 2  # calls at once: the pool refuses what is above its size


class Store:
    """Runs ledger calls for request handlers and readers."""

    def __init__(self, client: AsyncClient, keys: Keyspace) -> None:
        self.keys = keys
        self._scripts = Scripts(client)
        self._room = asyncio.Semaphore(CONCURRENT)

    async def once(self, call: Call[T]) -> T:
        """Run a call; raises `Unavailable` when the server does not answer."""
        async with self._room:
            return await self._scripts.run(call)

    async def run(self, call: Call[T]) -> T:
        """Run a call, and repeat it for a while as long as the server does not answer."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while True:
            try:
                return await self.once(call)
            except Unavailable:
                metrics.UNAVAILABLE.labels(role="gateway").inc()
                if loop.time() > deadline:
                    raise
            await asyncio.sleep(WAIT_S)

    async def turn(self, turn: str, tenant: str) -> TurnRecord | None:
        """Return a turn's record if it exists and is this tenant's; anything that is no id of ours is no turn."""
        if not self.is_ours(turn):
            return None
        record = await self.run(turns.read_turn(self.keys, turn))
        return record if record is not None and record.tenant == tenant else None

    def is_ours(self, turn: str) -> bool:
        """Whether this could be the id of a turn of this deployment."""
        try:
            return parse_turn_id(turn)[0] < self.keys.partitions
        except ValueError:
            return False

    async def frames(self, turn: str, after: int, size: int) -> list[StoredFrame]:
        """Return the frames of the first entries that hold frames above `after`: `size` bytes, and two entries at least."""
        found = await self.once(log.read_frames_of_size(self.keys, turn, after=after, size=size))
        return [frame for entry in found for frame in split_frames(entry.first, entry.sse)]

    async def progress(self, turn: str) -> Progress | None:
        """Return what the turn's record says about its stream, or None when there is no such turn."""
        record = await self.once(turns.read_turn(self.keys, turn))
        return None if record is None else Progress(ended=record.state.is_terminal, frames_next=record.frames_next)

    async def first_frame(self, turn: str) -> StoredFrame | None:
        """Return frame 0, if it is there."""
        found = await self.run(log.read_frames(self.keys, turn, after=-1, count=1))
        frames = split_frames(found[0].first, found[0].sse) if found else []
        return frames[0] if frames and frames[0].number == 0 else None

    async def last_frame(self, record: TurnRecord) -> StoredFrame | None:
        """Return the last frame that the turn's record knows, if it is there."""
        last = record.frames_next - 1
        found = await self.run(log.read_frames(self.keys, record.id, after=last - 1, count=1)) if last >= 0 else []
        frames = split_frames(found[0].first, found[0].sse) if found else []
        return next((frame for frame in frames if frame.number == last), None)


def decoded(text: str) -> Any:
    """Return stored JSON as a value; nothing stored is None."""
    return msgspec.json.decode(text) if text else None
