"""The clients: each session's turns in order, read to their last frame through whatever happens, every byte logged as it came.

A client does what any client should: it submits under an idempotency key until somebody answers, reads the turn's events, comes back with
the last id that it holds, at another gateway, and leaves by itself now and then. Some read a turn a second time from its beginning.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from scripts.chaos.crew import Crew
from scripts.chaos.journal import Journal
from scripts.chaos.receivers import KINDS

TERMINALS = ("event: response.completed", "event: response.incomplete", "event: response.failed", "event: stream_error")
AGAIN_S = (0.05, 0.6)
THINK_S = (0.0, 3.0)
"""Between two turns of a session."""
QUIET_S = 4.0
"""Without a byte for so long, keep-alives included, a connection is given up."""
TURN_S = 300.0
"""What takes longer than this has been lost, the checker says."""
AHEAD = 2
"""Turns of a serial session that may be unfinished at once."""
SETTINGS = ({"min_chars": 40, "max_chars": 160, "idle_ms": 200}, {"min_chars": 120, "max_chars": 400, "idle_ms": 2000})


@dataclass
class Reading:
    """One turn as one client reads it."""

    key: str
    turn: str
    last_id: str = ""
    is_over: bool = False
    connections: int = 0


@dataclass
class Clients:
    """All sessions. `ended` counts turns whose last frame was read."""

    crew: Crew
    journal: Journal
    seed: int
    turns: int
    sessions: int
    more_targets: Callable[[str], list[str]] = lambda _key: []
    """Where a turn's answer goes besides the receivers, by its key."""
    ended: int = 0
    open_turns: dict[str, str] = field(default_factory=dict)
    """By key, the turn, of what is unfinished; empty until it is known."""
    streams: Counter[str] = field(default_factory=Counter)
    """By gateway, the streams of unfinished turns that are open there."""
    known: list[str] = field(default_factory=list)
    """All turns."""
    _next: int = 0

    async def run(self) -> None:
        """Run every session until all turns are over."""
        timeout = aiohttp.ClientTimeout(total=None, connect=2.0, sock_read=QUIET_S)
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http, asyncio.TaskGroup() as group:
            for number in range(self.sessions):
                group.create_task(self._session(http, number))

    async def _session(self, http: aiohttp.ClientSession, number: int) -> None:
        chance = random.Random(f"{self.seed}:session:{number}")
        serial = number % 4 == 0
        reading: set[asyncio.Task[None]] = set()
        while self._next < self.turns:
            key = f"k{self._next}"
            self._next += 1
            session = f"s{number}"
            body = {
                "request": {"model": "chaos", "input": key, "metadata": {"key": key}},
                "session": session,
                "serial": serial,
                "targets": [*KINDS, *self.more_targets(key)],
                "settings": chance.choice(SETTINGS),
            }
            self.open_turns[key] = ""
            self.journal.write(key=key, session=session, body=body)
            turn = await self._submit(http, key, body, chance)
            if turn is None:
                continue
            self.open_turns[key] = turn
            self.known.append(turn)
            reading.add(asyncio.create_task(self._read(http, Reading(key=key, turn=turn), chance)))
            while len(reading) >= (AHEAD if serial else 1):
                done, reading = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            await asyncio.sleep(chance.uniform(*THINK_S))
        for task in reading:
            await task

    async def _submit(
        self, http: aiohttp.ClientSession, key: str, body: dict[str, Any], chance: random.Random
    ) -> str | None:
        try:
            async with asyncio.timeout(TURN_S):
                while True:
                    turn = await self._post(http, key, body, chance)
                    if turn is not None:
                        self.journal.write(key=key, turn=turn)
                        return turn
                    await asyncio.sleep(chance.uniform(*AGAIN_S))
        except TimeoutError:
            self._give_up(key, "submit")
            return None

    async def _post(
        self, http: aiohttp.ClientSession, key: str, body: dict[str, Any], chance: random.Random
    ) -> str | None:
        url, _ = self._gateway(chance)
        try:
            async with http.post(f"{url}/v1/turns", json=body, headers={"Idempotency-Key": key}) as answer:
                said = await answer.read()
                if answer.status in {200, 201}:
                    return str(msgspec.json.decode(said)["id"])
                self.journal.write(key=key, refused=answer.status, said=said.decode("utf-8", "replace"))
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError):
            pass  # nobody there, or gone before its answer: the same key again
        return None

    async def _read(self, http: aiohttp.ClientSession, reading: Reading, chance: random.Random) -> None:
        try:
            async with asyncio.timeout(TURN_S):
                while not reading.is_over:
                    await self._connect(http, reading, chance)
                    if not reading.is_over:
                        await asyncio.sleep(chance.uniform(*AGAIN_S))
        except TimeoutError:
            self._give_up(reading.key, "read")
            return
        self.open_turns.pop(reading.key, None)
        self.ended += 1
        if chance.random() < 0.2:
            again = Reading(key=reading.key, turn=reading.turn, connections=-1)
            while not again.is_over:  # a whole reading in one connection, or none
                again.last_id = ""
                await self._connect(http, again, chance)

    async def _connect(self, http: aiohttp.ClientSession, reading: Reading, chance: random.Random) -> None:
        url, gateway = self._gateway(chance)
        again = reading.connections < 0
        leaves_after = chance.randint(500, 20_000) if chance.random() < 0.1 and not again else None
        headers = {"Last-Event-ID": reading.last_id} if reading.last_id else {}
        reading.connections += not again
        got = b""
        self.streams[gateway] += 1
        try:
            async with http.get(f"{url}/v1/turns/{reading.turn}/events", headers=headers) as answer:
                async for chunk in answer.content.iter_any():
                    got += chunk
                    if answer.status != 200 or (leaves_after is not None and len(got) > leaves_after):
                        break
                if answer.status == 200:
                    self._note(reading, got, again=again)
                else:
                    self.journal.write(key=reading.key, refused=answer.status, said=got.decode("utf-8", "replace"))
        except (aiohttp.ClientError, TimeoutError, OSError):
            self._note(reading, got, again=again)
        finally:
            self.streams[gateway] -= 1

    def _note(self, reading: Reading, got: bytes, *, again: bool) -> None:
        """Log what came, and keep the last id of what came whole."""
        whole = got[: got.rfind(b"\n\n") + 2].decode() if b"\n\n" in got else ""
        self.journal.write(key=reading.key, turn=reading.turn, again=again, after=reading.last_id, sse=whole)
        for line in whole.splitlines():
            if line.startswith("id: "):
                reading.last_id = line.removeprefix("id: ")
            elif line.startswith(TERMINALS):
                reading.is_over = True

    def _give_up(self, key: str, what: str) -> None:
        self.journal.write(key=key, gave_up=what)
        self.open_turns.pop(key, None)
        self.ended += 1

    def _gateway(self, chance: random.Random) -> tuple[str, str]:
        slots = [slot for slot in self.crew.slots if slot.role == "gateway"]
        slot = chance.choice(slots)
        return f"http://127.0.0.1:{slot.port}", slot.name
