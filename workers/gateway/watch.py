"""One client's reading of one turn's public stream, from any frame to the last.

Authority: the stored stream. Hints only make it quick: they are queued when they continue exactly where this reader stands, and
anything else (a gap, an overlap that differs, a full queue, a new subscription, a second without news) makes it read the stream.

Memory: the queue is bounded in bytes; when it is full it is dropped and the reader goes back to the stream, so many bytes at a
time. So a slow client costs a fixed amount, whatever the turn produces meanwhile.

Loss: the reader keeps number and hash of the last frame that it handed out, and reads the stream from that frame on. A stream that
holds other bytes there was rolled back; one that is gone was lost, or has expired. Each ends the client by name, never by silence.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from ledger.errors import Unavailable
from workers.gateway import errors
from workers.gateway.sse import StoredFrame
from workers.observability import metrics

READ_BYTES = 128 * 1024  # of one read of the stream, save that one entry (one commit) is never cut
OUTAGE_RETRY_S = 0.25  # between two tries while the server is away
QUIET_S = 3.0  # without a new frame for so long, the turn's record is asked whether the turn has ended


class End(Enum):
    """Why a reader hands out nothing more."""

    DONE = "done"
    LOST = errors.TURN_LOST
    ROLLED_BACK = errors.STREAM_ROLLED_BACK
    EXPIRED = errors.STREAM_EXPIRED
    STOPPING = "stopping"


MESSAGES = {
    End.LOST: "the turn is no longer known: its server lost its data",
    End.ROLLED_BACK: "the stream was rolled back behind the last frame that was sent; read it again from its start",
    End.EXPIRED: "the turn ended so long ago that its stream is no longer kept",
}


@dataclass(frozen=True, slots=True)
class Progress:
    """What a turn's record says about its public stream."""

    ended: bool
    frames_next: int


class FrameSource(Protocol):
    """Where stored frames are read; raises `Unavailable` while the server cannot answer."""

    async def frames(self, turn: str, after: int, size: int) -> list[StoredFrame]:
        """Return the frames of the first entries that hold frames numbered above `after`: so many that they hold `size` bytes.

        Two entries at least, where there are two: the first may end with the one frame that its reader has.
        """
        ...

    async def progress(self, turn: str) -> Progress | None:
        """Return what the turn's record says, or None when there is no such turn."""
        ...


class Watch:
    """A reader. Use `next` until it returns `End`, then `close`; `offer` and `distrust` are the hub's."""

    def __init__(
        self,
        turn: str,
        source: FrameSource,
        *,
        after: int,
        last_hash: str | None,
        queue_bytes: int,
        poll_ms: int,
        on_close: Callable[["Watch"], None],
    ) -> None:
        self.turn = turn
        self.number = after + 1
        """The number of the next frame that will be handed out."""
        self._source = source
        self._last_hash = last_hash
        self._queue: deque[tuple[list[StoredFrame], int]] = deque()
        self._queue_bytes = 0
        self._queue_limit = queue_bytes
        self._tail = self.number
        self._reason: str | None = "start"
        self._poll_s = poll_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._read_at = 0.0
        self._fresh_at = self._loop.time()
        self._disbelieved = 0
        self._news = asyncio.Event()
        self._end: End | None = None
        self._on_close = on_close

    def offer(self, frames: list[StoredFrame], size: int) -> None:
        """Take the frames of a hint: queue them when they go on where this reader stands, distrust the queue otherwise."""
        if self._reason is not None or self._end is not None or not frames:
            return
        first, beyond = frames[0].number, frames[-1].number + 1
        if first < self._tail:
            held = self.number - 1
            if first <= held < beyond and self._last_hash not in (None, frames[held - first].digest):
                self.distrust("differs")
            if beyond <= self._tail or self._reason is not None:
                return
            frames = frames[self._tail - first :]
            size = sum(len(frame.sse) for frame in frames)
        elif first > self._tail:
            self.distrust("gap")
            return
        if self._queue_bytes + size > self._queue_limit:
            self.distrust("slow")
            return
        self._queue.append((frames, size))
        self._queue_bytes += size
        self._tail = beyond
        self._news.set()

    def distrust(self, reason: str) -> None:
        """Forget what is queued and read the stream."""
        self._queue.clear()
        self._queue_bytes = 0
        self._tail = self.number
        self._reason = reason
        self._news.set()

    def stop(self) -> None:
        """End the reader because the gateway stops; the turn goes on."""
        if self._end is None:
            self._end = End.STOPPING
        self._news.set()

    def close(self) -> None:
        """Leave the hub."""
        self._on_close(self)

    @property
    def queued_bytes(self) -> int:
        """How much is held for this client."""
        return self._queue_bytes

    async def next(self, timeout_s: float) -> list[StoredFrame] | End | None:
        """Return the next frames, why there are none any more, or None after a time-out."""
        deadline = self._loop.time() + timeout_s
        while True:
            if self._end is not None:
                return self._end
            if frames := self._pop():
                return self._handed(frames)
            if self._reason is not None or self._loop.time() >= self._read_at:
                if frames := await self._read_if_possible():
                    return self._handed(frames)
                if self._is_restless():
                    continue
            now = self._loop.time()
            if now >= deadline:
                return None
            self._news.clear()
            if not self._queue:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, min(deadline, self._read_at) - now)):
                        await self._news.wait()

    def _is_restless(self) -> bool:
        return self._end is not None or self._reason is not None

    def _pop(self) -> list[StoredFrame]:
        while self._queue:
            frames, size = self._queue.popleft()
            self._queue_bytes -= size
            frames = [frame for frame in frames if frame.number >= self.number]
            if frames and frames[0].number == self.number:
                return frames
            if frames:
                self.distrust("gap")
        return []

    def _handed(self, frames: list[StoredFrame]) -> list[StoredFrame]:
        last = frames[-1]
        self.number = last.number + 1
        self._tail = max(self._tail, self.number)
        self._last_hash = last.digest
        self._fresh_at = self._loop.time()
        self._disbelieved = 0
        if last.is_terminal:
            self._end = End.DONE
        return frames

    async def _read_if_possible(self) -> list[StoredFrame]:
        try:
            return await self._read()
        except Unavailable:
            self._read_at = self._loop.time() + min(self._poll_s, OUTAGE_RETRY_S)
            return []

    async def _read(self) -> list[StoredFrame]:
        """Read the stream from the last frame handed out; sets the end when the stream contradicts this reader."""
        reason, self._reason = self._reason, None
        if reason not in (None, "start"):
            metrics.CLIENT_CATCHUPS.labels(reason=reason).inc()
        held = self.number - 1
        found = await self._source.frames(self.turn, held - 1, READ_BYTES)
        self._read_at = self._loop.time() + self._poll_s
        fresh = [frame for frame in found if frame.number > held]
        if held >= 0:
            known = next((frame for frame in found if frame.number == held), None)
            if known is None:
                await self._judge_absence(has_later=bool(fresh))
                return []
            if self._last_hash is None:
                self._last_hash = known.digest
            elif self._last_hash != known.digest:
                self._end = End.ROLLED_BACK
                return []
            if known.is_terminal:
                self._end = End.DONE
                return []
        if fresh:
            if fresh[0].number != self.number:
                self._end = End.ROLLED_BACK if held >= 0 else End.EXPIRED
                return []
            self._reason = "more"  # there may be more than was asked for
            return fresh
        if held < 0 or self._loop.time() - self._fresh_at > QUIET_S:
            await self._judge_silence()
        return []

    async def _judge_absence(self, *, has_later: bool) -> None:
        """The frame that the client holds is not in the stream: find out why."""
        progress = await self._source.progress(self.turn)
        if progress is None:
            self._end = End.LOST
        elif progress.frames_next < self.number or has_later:
            self._end = End.ROLLED_BACK
        else:
            self._disbelieve(progress)

    async def _judge_silence(self) -> None:
        """Nothing new in the stream: a turn that is gone, or that has ended without this reader's seeing its end."""
        progress = await self._source.progress(self.turn)
        if progress is None:
            self._end = End.LOST
        elif progress.frames_next > self.number:
            self._disbelieve(progress)
        elif progress.ended:
            self._end = End.DONE

    def _disbelieve(self, progress: Progress) -> None:
        # The record promises frames that the stream did not show. They may have been committed between the two reads; when they
        # are still missing at the third look, they are gone.
        self._disbelieved += 1
        if self._disbelieved < 3:
            self._reason = "more"
        else:
            self._end = End.EXPIRED if progress.ended else End.LOST
