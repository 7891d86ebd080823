"""A producer's side of the protocol, for programs that carry turns themselves.

    async with Door.open("http://127.0.0.1:8137", key="…") as door:
        producer = await Producer.submit(door, {"upstream": "mine", "session": "s", "targets": ["hook"], "request": {}}, key="job-7")
        producer.put(TextDelta(item=0, content=0, track="text", text="Hello."))   # seq and at may be left out: see `delta`
        await producer.complete()

Authority: the token that submit or a claim gave; when another producer has claimed the turn, everything raises `ProducerStaleError`.
Loss: what the gateway has not acknowledged is sent again as it was, however its reply was lost; what it has is kept for a while, in case
its server loses its tail. Events are numbered here, so a program that restarts claims the turn and goes on at `next`.
Wait: a gateway that is away, full or behind makes `flush` wait. `cancelled` says that somebody wants the turn to end; ending it is the
program's part.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import msgspec

from pipeline.events import ErrorInfo, Event, Outcome, TextDelta, Track, TurnCancelled, TurnCompleted, TurnFailed
from workers.ingest.batcher import Batch, Batcher, RolledBackError
from workers.runtime import entropy
from workers.runtime.clock import Clock, SystemClock

WAIT_S: Final = 0.25
LONGEST_WAIT_S: Final = 5.0
TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)
MAX_EVENTS: Final = 512
MAX_BYTES: Final = 256 * 1024
KEEP_MS: Final = 5_000
KEEP_BYTES: Final = 512 * 1024


class ClientError(Exception):
    """The gateway refused what was asked; `code` is its own word for why, `error` all that it said."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {error.get('code')}: {error.get('message')}")
        self.status = status
        self.code = str(error.get("code"))
        self.error = error


class ProducerStaleError(ClientError):
    """Another producer has claimed the turn: this one has nothing more to say."""


class TurnOverError(ClientError):
    """The turn has ended otherwise, by its limits or by somebody else."""


@dataclass(frozen=True)
class Door:
    """A gateway, and who we are there."""

    url: str
    session: aiohttp.ClientSession
    patience_s: float = 600.0
    """For how long a gateway that is away is asked again."""

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, key: str | None = None, patience_s: float = 600.0) -> AsyncIterator["Door"]:
        """Connect to a gateway; `key` is an API key, where it asks for one."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with aiohttp.ClientSession(headers=headers, timeout=TIMEOUT) as session:
            yield cls(url.rstrip("/"), session, patience_s)

    async def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Post until there is an answer; raise ClientError for one that is a refusal."""
        return await self.ask("POST", path, body, headers)

    async def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The same with any method; what is asked may be asked again."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.patience_s
        wait_s = WAIT_S
        while True:
            try:
                async with self.session.request(method, self.url + path, data=body, headers=headers) as answer:
                    told = _decoded(await answer.read())
                    if answer.status < 300:
                        return told
                    if answer.status not in (429, 502, 503, 504) or loop.time() > until:
                        raise _refusal(answer.status, told)
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError):
                if loop.time() > until:
                    raise
            await asyncio.sleep(entropy.jitter(wait_s, wait_s * 1.5))
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)


class Producer:
    """One turn, carried from here."""

    def __init__(self, door: Door, turn: str, token: str, *, next_seq: int, clock: Clock | None = None) -> None:
        self.turn = turn
        self.token = token
        self.cancelled = False
        self._door = door
        self._clock = clock or SystemClock()
        self._batcher = Batcher(
            next_seq=next_seq, max_events=MAX_EVENTS, max_bytes=MAX_BYTES, keep_ms=KEEP_MS, keep_bytes=KEEP_BYTES
        )

    @classmethod
    async def submit(cls, door: Door, body: Mapping[str, Any], *, key: str | None = None) -> "Producer":
        """Submit a turn of an external upstream; with the same `key` it is the same turn, however often this is called."""
        request = {**body, "idempotency_key": key or f"producer-{entropy.hex24()}"}
        told = await door.post("/v1/turns", msgspec.json.encode(request))
        producer = told.get("producer") or {}
        if (
            not producer.get("token") or producer["next"] > 1
        ):  # it has begun already: before a restart of ours, for example
            return await cls.claim(door, told["id"])
        return cls(door, told["id"], producer["token"], next_seq=producer["next"])

    @classmethod
    async def claim(cls, door: Door, turn: str) -> "Producer":
        """Take a turn over; whoever carried it is refused from here on. Goes on behind what is stored."""
        told = await door.post(f"/v1/turns/{turn}/claim", b"")
        producer = cls(door, turn, told["token"], next_seq=told["next"])
        producer.cancelled = told["cancel"]
        return producer

    @classmethod
    async def resume(cls, door: Door, turn: str, token: str) -> "Producer":
        """Go on with a token that is still ours, behind what is stored."""
        told = await door.ask("GET", f"/v1/turns/{turn}")
        if not told.get("producer"):
            raise ClientError(
                409, {"code": "turn_not_external", "message": "this turn is carried by an ingest process"}
            )
        return cls(door, turn, token, next_seq=told["producer"]["next"])

    @property
    def next_seq(self) -> int:
        """The number of the next event to be put."""
        return self._batcher.next_seq

    @property
    def acknowledged(self) -> int:
        """How many events the server has."""
        return self._batcher.acknowledged

    def put(self, event: Event) -> None:
        """Take an event; it is numbered here, and has the time of now unless it brings one."""
        if self._batcher.has_terminal:
            raise ValueError("the turn has its terminal event; nothing may be put behind it")
        at = event.at or self._clock.now_ms()
        self._batcher.put(msgspec.structs.replace(event, seq=self._batcher.next_seq, at=at))

    def delta(self, text: str, *, item: int = 0, content: int = 0, track: Track = "text") -> None:
        """Take a piece of text, verbatim."""
        self.put(TextDelta(seq=0, at=0, item=item, content=content, track=track, text=text))

    async def flush(self) -> None:
        """Return when the server has everything that was put."""
        while (batch := self._batcher.seal()) is not None:
            await self._send(batch)

    async def complete(self, *, outcome: Outcome = "completed", usage: dict[str, Any] | None = None) -> None:
        """End the turn by itself."""
        self.put(TurnCompleted(seq=0, at=0, outcome=outcome, usage=usage))
        await self.flush()

    async def fail(self, code: str, message: str = "") -> None:
        """End the turn in an error."""
        self.put(TurnFailed(seq=0, at=0, error=ErrorInfo(code=code, message=message)))
        await self.flush()

    async def cancel(self, reason: str = "cancelled") -> None:
        """End the turn as somebody asked for."""
        self.put(TurnCancelled(seq=0, at=0, reason=reason))
        await self.flush()

    async def _send(self, batch: Batch) -> None:
        headers = {"X-Foldline-Producer": self.token, "Content-Type": "application/json"}
        try:
            told = await self._door.post(f"/v1/turns/{self.turn}/events", batch.events.encode(), headers)
        except ClientError as error:
            if error.code != "sequence_gap":
                raise
            told = dict(error.error)  # the server lost its tail: what is kept goes again
        self.cancelled = self.cancelled or bool(told.get("cancel"))
        try:
            self._batcher.settle(told["next"], self._clock.boottime_ms())
        except RolledBackError as lost:
            words = f"the server lost events from {lost.expected} on, which are no longer kept"
            raise ClientError(409, {"code": "log_rolled_back", "message": words}) from None


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        told = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return told if isinstance(told, dict) else {}


def _refusal(status: int, told: Mapping[str, Any]) -> ClientError:
    error = told.get("error")
    error = error if isinstance(error, dict) else {"code": "refused", "message": f"the gateway answered {status}"}
    kinds = {"producer_stale": ProducerStaleError, "turn_ended": TurnOverError}
    return kinds.get(str(error.get("code")), ClientError)(status, error)
