"""The three kinds of receiver that there are, as real HTTP servers: each logs a request as it came before it does anything about it.

`idempotent` leaves out ids that it has taken. `reconcilable` takes whatever comes, and can be asked for an id. `bare` takes whatever comes
and says nothing about it afterwards. What a receiver did is a second line of its log, written when it did it.
"""

import asyncio
import random
import socket
import struct
from enum import StrEnum
from pathlib import Path

from aiohttp import web

from scripts.chaos.journal import Journal

IDEMPOTENT, RECONCILABLE, BARE = "idempotent", "reconcilable", "bare"
KINDS = (IDEMPOTENT, RECONCILABLE, BARE)


class Fault(StrEnum):
    """What a receiver does with one request instead of taking it and saying so."""

    REFUSE = "refuse"
    """400: it will never take it."""
    TOO_MANY = "too_many"
    RESET_BEFORE = "reset_before"
    RESET_AFTER = "reset_after"
    FAIL_BEFORE = "fail_before"
    """500, and nothing was taken."""
    FAIL_AFTER = "fail_after"
    """500, although it was taken."""
    GARBAGE = "garbage"
    """Taken, and answered with what is no HTTP."""
    SLOW = "slow"
    STALL = "stall"
    """Taken, and not answered before the sender has given up."""
    LATE = "late"
    """Taken when the sender has given up already."""


TAKES = frozenset({None, Fault.RESET_AFTER, Fault.FAIL_AFTER, Fault.GARBAGE, Fault.STALL})
SHARES = {
    Fault.TOO_MANY: 0.01,
    Fault.RESET_BEFORE: 0.004,
    Fault.RESET_AFTER: 0.004,
    Fault.FAIL_BEFORE: 0.004,
    Fault.FAIL_AFTER: 0.004,
    Fault.GARBAGE: 0.002,
    Fault.SLOW: 0.01,
    Fault.STALL: 0.002,
    Fault.LATE: 0.002,
}
"""How often each happens under load; the ambiguous ones together in 2 of 100 sends: each makes its lane wait for a quarantine, and
lanes that get more than they can send only grow."""
UNCLEAR_SHARE = 0.1
"""Of the questions that are answered with 500."""
SLOW_S = 0.3


class Receiver:
    """One endpoint of one kind. `fault_of` decides about each request; by default none has a fault."""

    def __init__(self, kind: str, log: Path, *, chance: random.Random | None = None, deadline_s: float = 1.5) -> None:
        self.kind = kind
        self.script: list[Fault | None] = []
        self.taken: dict[str, str] = {}
        """By id, the body that was taken first."""
        self._journal = Journal(log)
        self._chance = chance
        self._deadline_s = deadline_s
        self._runner: web.AppRunner | None = None
        self._number = 0
        self.url = ""

    @property
    def find_url(self) -> str:
        """Where it is asked for an id."""
        return f"{self.url}/{{id}}"

    async def start(self) -> None:
        """Listen on a free port."""
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post(f"/{self.kind}", self._receive)
        app.router.add_get(f"/{self.kind}/{{id}}", self._find)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/{self.kind}"

    async def stop(self) -> None:
        """Listen no more."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._journal.close()

    def _fault(self) -> Fault | None:
        if self.script:
            return self.script.pop(0)
        if self._chance is None:
            return None
        drawn = self._chance.random()
        for fault, share in SHARES.items():
            drawn -= share
            if drawn < 0:
                return fault
        return None

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        body = (await request.read()).decode()
        fault = self._fault()
        self._number += 1
        number, message = self._number, request.headers.get("webhook-id", "")
        self._journal.write(request=number, id=message, headers=dict(request.headers), body=body, fault=fault)
        if fault in TAKES:
            self._take(number, message, body)
        if fault in {Fault.SLOW, Fault.LATE, Fault.STALL}:
            await asyncio.sleep(SLOW_S if fault is Fault.SLOW else self._deadline_s * 1.2)
            if fault is not Fault.STALL:
                self._take(number, message, body)
        if fault in {Fault.RESET_BEFORE, Fault.RESET_AFTER}:
            _reset(request)
        elif fault is Fault.GARBAGE and request.transport is not None:
            request.transport.write(b"\x00\x01 what is this\r\n\r\n")
            request.transport.close()
        return _answer(fault)

    def _take(self, number: int, message: str, body: str) -> None:
        if self.kind == IDEMPOTENT and message in self.taken:
            return
        self.taken.setdefault(message, body)
        self._journal.write(taken=number, id=message)

    async def _find(self, request: web.Request) -> web.StreamResponse:
        if self.kind != RECONCILABLE:
            return web.Response(status=405)
        if self._chance is not None and self._chance.random() < UNCLEAR_SHARE:
            return web.Response(status=500)
        found = request.match_info["id"] in self.taken
        self._journal.write(asked=request.match_info["id"], found=found)
        return web.Response(status=200 if found else 404)


def _answer(fault: Fault | None) -> web.Response:
    match fault:
        case Fault.TOO_MANY:
            return web.Response(status=429, headers={"Retry-After": "0"})
        case Fault.REFUSE:
            return web.Response(status=400)
        case Fault.FAIL_BEFORE | Fault.FAIL_AFTER:
            return web.Response(status=500)
    return web.Response(status=204)


def _reset(request: web.Request) -> None:
    if request.transport is not None:
        handle = request.transport.get_extra_info("socket")
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
