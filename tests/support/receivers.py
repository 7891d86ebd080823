"""A webhook receiver on the loopback: logs each request raw before anything else, then acts by script.

It leaves out repeats by `webhook-id`, as Standard Webhooks asks of a receiver, and keeps the order in which it applied what it took.
With `dedupes` off it takes whatever comes, as many times as it comes. It can be asked for a message by its id.
"""

import asyncio
import json
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web


class Act(Enum):
    """What to do with one request, after it was logged."""

    ACCEPT = "accept"
    FAIL_BEFORE = "fail_before"
    """500, and nothing was taken."""
    FAIL_AFTER = "fail_after"
    """500, although it was taken."""
    STALL_BEFORE = "stall_before"
    """No answer until released; taken only then."""
    STALL_AFTER = "stall_after"
    """Taken, and no answer until released."""
    RESET_BEFORE = "reset_before"
    RESET_AFTER = "reset_after"
    TOO_MANY = "too_many"
    """429 with Retry-After."""
    GONE = "gone"
    REFUSE = "refuse"
    """400."""
    REDIRECT = "redirect"
    CONFLICT = "conflict"
    """409: in progress."""


_STATUS = {
    Act.FAIL_BEFORE: 500,
    Act.FAIL_AFTER: 500,
    Act.TOO_MANY: 429,
    Act.GONE: 410,
    Act.REFUSE: 400,
    Act.REDIRECT: 307,
    Act.CONFLICT: 409,
}
_TAKES_FIRST = {Act.ACCEPT, Act.FAIL_AFTER, Act.STALL_AFTER, Act.RESET_AFTER}


@dataclass
class Request:
    """One request as it came over the wire."""

    id: str
    headers: dict[str, str]
    body: bytes
    act: Act
    repeated: bool


@dataclass
class Receiver:
    """One endpoint. `script` is used up request by request, then `otherwise` holds."""

    script: deque[Act] = field(default_factory=deque)
    otherwise: Act = Act.ACCEPT
    retry_after: str = "1"
    log: Path | None = None
    dedupes: bool = True
    asked: list[str] = field(default_factory=list)
    answers: deque[int] = field(default_factory=deque)
    """Statuses of the answers to the next questions; then the truth."""
    requests: list[Request] = field(default_factory=list)
    applied: list[str] = field(default_factory=list)
    bodies: dict[str, bytes] = field(default_factory=dict)
    port: int = 0
    _release: asyncio.Event = field(default_factory=asyncio.Event)
    _runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def find_url(self) -> str:
        """Where it is asked for a message."""
        return f"{self.url}/{{id}}"

    @property
    def texts(self) -> list[Any]:
        """The bodies that were applied, in order."""
        return [json.loads(self.bodies[message]) for message in self.applied]

    @property
    def repeats(self) -> int:
        """Requests whose id had come before."""
        return sum(request.repeated for request in self.requests)

    def play(self, *acts: Act) -> None:
        """Act so on the next requests."""
        self.script.extend(acts)

    def release(self) -> None:
        """Let every stalled request go on."""
        self._release.set()

    async def start(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/hook", self._serve)
        app.router.add_get("/hook/{id}", self._find)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        server: Any = site._server
        self.port = server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Refuse connections from now on; `start` listens on the same port again."""
        self._release.set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self._release.clear()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        act = self.script.popleft() if self.script else self.otherwise
        message = request.headers.get("webhook-id", "")
        seen = Request(
            id=message,
            headers=dict(request.headers),
            body=body,
            act=act,
            repeated=any(other.id == message for other in self.requests),
        )
        self.requests.append(seen)
        if self.log is not None:
            with self.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"id": message, "act": act.value, "body": body.decode()}) + "\n")
        if act in _TAKES_FIRST:
            self._apply(seen)
        if act in {Act.STALL_BEFORE, Act.STALL_AFTER}:
            await self._release.wait()
            self._apply(seen)
        if act in {Act.RESET_BEFORE, Act.RESET_AFTER}:
            assert request.transport is not None
            request.transport.abort()
        status = _STATUS.get(act, 204)
        headers = {"Retry-After": self.retry_after} if act is Act.TOO_MANY else {}
        if act is Act.REDIRECT:
            headers["Location"] = self.url
        return web.Response(status=status, headers=headers, text=act.value if status != 204 else None)

    async def _find(self, request: web.Request) -> web.StreamResponse:
        message = request.match_info["id"]
        self.asked.append(message)
        truth = 200 if message in self.bodies else 404
        return web.Response(status=self.answers.popleft() if self.answers else truth)

    def _apply(self, request: Request) -> None:
        if request.id not in self.bodies or not self.dedupes:
            self.applied.append(request.id)
            self.bodies[request.id] = request.body
