"""What the loopback channel servers share: raw requests logged before anything else, faults by script, windows of rate limits.

A server is played from inside the process that runs it. Time is a function that the test may replace, so that windows pass without waiting.
"""

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web


class Act(Enum):
    """What goes wrong with one request; `BEFORE`: it has no effect, `AFTER`: it had its effect all the same."""

    FAIL_BEFORE = "fail_before"
    """500."""
    FAIL_AFTER = "fail_after"
    RESET_BEFORE = "reset_before"
    RESET_AFTER = "reset_after"
    STALL_BEFORE = "stall_before"
    """No answer until released; no effect before that."""
    STALL_AFTER = "stall_after"
    GARBAGE_AFTER = "garbage_after"
    """200 with a body that is no JSON."""
    CUT_AFTER = "cut_after"
    """The connection ends in the middle of the body."""
    LATE = "late"
    """It has its effect only when the sender has given up."""
    REDIRECT = "redirect"


@dataclass(frozen=True, kw_only=True, eq=False)
class Canned:
    """An answer as given, without any effect."""

    status: int
    body: Mapping[str, Any] | str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


Fault = Act | Canned
AFTER = frozenset({Act.FAIL_AFTER, Act.RESET_AFTER, Act.STALL_AFTER, Act.GARBAGE_AFTER, Act.CUT_AFTER})


@dataclass(frozen=True, kw_only=True)
class Logged:
    """One request as it came over the wire."""

    at: float
    kind: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Told:
    """A wait that somebody was told: `key` is the route, or `*` for everything."""

    at: float
    key: str
    wait_s: float


@dataclass
class Window:
    """A fixed window of a rate limit."""

    limit: int
    per_s: float
    _began: dict[str, float] = field(default_factory=dict)
    _taken: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def take(self, key: str, now: float) -> float:
        """Count one request: 0, or the seconds to wait."""
        if now >= self._began.get(key, now - self.per_s) + self.per_s:
            self._began[key], self._taken[key] = now, 0
        if self._taken[key] >= self.limit:
            return self._began[key] + self.per_s - now
        self._taken[key] += 1
        return 0.0

    def remaining(self, key: str) -> int:
        """What is left of the window that runs."""
        return self.limit - self._taken[key]

    def reset_after(self, key: str, now: float) -> float:
        """Seconds until the window that runs is over."""
        return max(0.0, self._began.get(key, now) + self.per_s - now)


@dataclass
class Service(ABC):
    """One server. `script` holds the next faults of each kind of request: `send`, `read`, `typing`, `other`."""

    clock: Callable[[], float] = time.time
    route_limit: Window | None = None
    global_limit: Window | None = None
    log: Path | None = None
    requests: list[Logged] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    port: int = 0
    script: dict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    fault_of: Callable[[Logged], Fault | None] | None = None
    """Draws a fault for a request that the script says nothing about."""
    late_s: float = 2.0
    _release: asyncio.Event = field(default_factory=asyncio.Event)
    _runner: web.AppRunner | None = None

    def play(self, *faults: Fault, kind: str = "send") -> None:
        """Act so on the next requests of this kind."""
        self.script[kind].extend(faults)

    def release(self) -> None:
        """Let every request go on that is stalled now."""
        self._release.set()
        self._release.clear()

    def of_kind(self, kind: str) -> list[Logged]:
        """The requests of one kind, in the order in which they came."""
        return [request for request in self.requests if request.kind == kind]

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"http://127.0.0.1:{self.port}"

    # what a channel says

    @abstractmethod
    def kind_of(self, method: str, path: str) -> str:
        """What a request is about."""

    @abstractmethod
    def answer(self, request: Logged, query: Mapping[str, str]) -> web.Response:
        """Judge a request by the channel's rules and let it have its effect."""

    def failed(self) -> web.Response:
        """The channel's own word for a failure of its own."""
        return web.json_response({"message": "internal error"}, status=500)

    # running

    async def start(self) -> Self:
        """Listen; after `stop` on the same port again."""
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def stop(self) -> None:
        """Refuse connections from now on."""
        self._release.set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self._release.clear()

    async def __aenter__(self) -> Self:
        """Start."""
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        await self.stop()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        path = request.rel_url.raw_path
        logged = Logged(
            at=self.clock(),
            kind=self.kind_of(request.method, path),
            method=request.method,
            path=path,
            headers=dict(request.headers),
            body=body,
        )
        self.requests.append(logged)
        if self.log is not None:
            line = {"at": logged.at, "kind": logged.kind, "method": logged.method, "path": path, "body": body.decode()}
            with self.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        waiting = self.script[logged.kind]
        fault = waiting.popleft() if waiting else self.fault_of(logged) if self.fault_of is not None else None
        if fault is None:
            return self.answer(logged, request.query)
        return await self._go_wrong(request, logged, fault)

    async def _go_wrong(self, request: web.Request, logged: Logged, fault: Fault) -> web.StreamResponse:
        if isinstance(fault, Canned):
            if isinstance(fault.body, str):
                return web.Response(status=fault.status, text=fault.body, headers=fault.headers)
            return web.json_response(fault.body, status=fault.status, headers=fault.headers)
        answer = self.answer(logged, request.query) if fault in AFTER else None
        if fault in {Act.STALL_BEFORE, Act.STALL_AFTER}:
            await self._release.wait()
            return answer or self.answer(logged, request.query)
        if fault is Act.LATE:
            await asyncio.sleep(self.late_s)
            return self.answer(logged, request.query)
        if fault in {Act.RESET_BEFORE, Act.RESET_AFTER} and request.transport is not None:
            request.transport.abort()
        if fault is Act.GARBAGE_AFTER:
            return web.Response(status=200, text="<html>a gateway says hello</html>", content_type="text/html")
        if fault is Act.CUT_AFTER and answer is not None:
            return await self._cut(request, answer)
        if fault is Act.REDIRECT:
            return web.Response(status=307, headers={"Location": f"{self.url}{logged.path}"})
        return self.failed()

    async def _cut(self, request: web.Request, answer: web.Response) -> web.StreamResponse:
        body = answer.body if isinstance(answer.body, bytes) else b""
        cut = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"})
        cut.content_length = len(body)
        await cut.prepare(request)
        await cut.write(body[: len(body) // 2])
        if request.transport is not None:
            request.transport.abort()
        return cut

    # rate limits

    def over_limit(self, request: Logged, route: str) -> Told | None:
        """Count a request against the limits of its route and of everything; the wait when it is too much."""
        for key, window in (("*", self.global_limit), (route, self.route_limit)):
            wait_s = window.take(key, request.at) if window is not None else 0.0
            if wait_s:
                told = Told(at=request.at, key=key, wait_s=wait_s)
                self.told.append(told)
                return told
        return None

    def unheeded(self, *, grace_s: float, route_of: Callable[[Logged], str]) -> list[Logged]:
        """Sends that came while everybody had been told to wait; within `grace_s` of the word they were under way already."""
        return [
            request
            for request in self.of_kind("send")
            if any(
                told.key in {"*", route_of(request)} and told.at + grace_s < request.at < told.at + told.wait_s - 0.01
                for told in self.told
            )
        ]
