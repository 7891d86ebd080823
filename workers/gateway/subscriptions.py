"""One connection that listens for new frames, and all the readers of this process.

The fold tells of each commit on its partition's channel; a hint carries the frames themselves. Pub/sub promises nothing, so a hint is
never the truth: after each confirmed subscription every reader of that partition reads its stream, a hint that does not go on where
a reader stands makes it read, and each reader reads at least every `poll_ms` anyway.

All channels are subscribed to from the start, in one connection (on a cluster: one for each node that serves some, with sharded
channels). There are as many channels as partitions, so the number of clients and turns does not matter to the server.
"""

import asyncio
import contextlib
from collections import defaultdict
from typing import Any

import msgspec

from ledger.keys import Keyspace
from workers.config import GatewayConfig
from workers.gateway.sse import split_frames
from workers.gateway.watch import FrameSource, Watch
from workers.observability import logs
from workers.streams.connection import AsyncClient
from workers.streams.hints import HintsLost, listen

RECONNECT_S = 0.2  # between two tries of the listening connection


class Addressed(msgspec.Struct, frozen=True):
    """A hint of which only the turn is read: most hints are of turns that nobody watches here."""

    turn: str


class Hint(Addressed, frozen=True):
    """What the fold says about one commit of one turn."""

    first: int
    n: int
    sse: str


_addressed_decoder = msgspec.json.Decoder(Addressed)
_hint_decoder = msgspec.json.Decoder(Hint)


class Subscriptions:
    """The hub: makes readers, hands them hints, ends them when the process stops."""

    def __init__(
        self, client: AsyncClient, keys: Keyspace, source: FrameSource, config: GatewayConfig, *, sharded: bool
    ) -> None:
        self._client = client
        self._keys = keys
        self._source = source
        self._config = config
        self._sharded = sharded
        self._watches: defaultdict[str, set[Watch]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self.confirmed = asyncio.Event()
        """Set while every channel is subscribed to."""

    async def start(self) -> None:
        """Begin to listen."""
        self._task = asyncio.create_task(self._listen())

    async def stop(self) -> None:
        """End every reader and stop listening."""
        self.end_all()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def end_all(self) -> None:
        """End every reader, and each that is made from now on: the process stops, the turns go on."""
        self._stopping = True
        for watch in [watch for group in self._watches.values() for watch in group]:
            watch.stop()

    def watch(self, turn: str, *, after: int = -1, last_hash: str | None = None) -> Watch:
        """Return a reader of the turn's frames numbered above `after`; the caller closes it."""
        watch = Watch(
            turn,
            self._source,
            after=after,
            last_hash=last_hash,
            queue_bytes=self._config.client_queue_bytes,
            poll_ms=self._config.poll_ms,
            on_close=self._forget,
        )
        self._watches[turn].add(watch)
        if self._stopping:
            watch.stop()
        return watch

    @property
    def watched(self) -> int:
        """How many readers there are."""
        return sum(map(len, self._watches.values()))

    def _forget(self, watch: Watch) -> None:
        group = self._watches.get(watch.turn)
        if group is not None:
            group.discard(watch)
            if not group:
                del self._watches[watch.turn]

    async def _listen(self) -> None:
        channels = {self._keys.hint(partition): partition for partition in range(self._keys.partitions)}
        told = False
        while True:
            missing = set(channels)

            def confirmed(channel: str, missing: set[str] = missing) -> None:
                missing.discard(channel)
                self._distrust("subscribed", channels[channel])
                if not missing:
                    self.confirmed.set()

            try:
                await listen(
                    self._client,
                    list(channels),
                    sharded=self._sharded,
                    on_confirmed=confirmed,
                    on_hint=self._hand_out,
                )
            except HintsLost as error:
                if self.confirmed.is_set() or not told:  # once for each time that it is lost, not for each try
                    logs.bind().warning("hints_lost", error=str(error))
                told = True
            self.confirmed.clear()
            self._distrust("unsubscribed")
            await asyncio.sleep(RECONNECT_S)

    def _distrust(self, reason: str, partition: int | None = None) -> None:
        for turn, group in self._watches.items():
            if partition is None or self._keys.partition_of_turn(turn) == partition:
                for watch in group:
                    watch.distrust(reason)

    def _hand_out(self, data: Any) -> None:
        if not self._watches:
            return
        try:
            if (group := self._watches.get(_addressed_decoder.decode(data).turn)) is None:
                return
            hint = _hint_decoder.decode(data)
        except msgspec.DecodeError as error:
            logs.bind().warning("hint_refused", error=str(error))
            return
        frames = split_frames(hint.first, hint.sse)
        if len(frames) != hint.n:
            for watch in group:
                watch.distrust("gap")
            return
        size = sum(len(frame.sse) for frame in frames)
        for watch in group:
            watch.offer(frames, size)
