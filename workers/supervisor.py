"""The processes of one machine: starts each role, passes its output on under its name, starts it again when it dies.

For `foldline up` and for the demonstration; a deployment has its own supervisor, and this module is in nobody's way there.
Authority: the supervisor alone starts and ends its children; each is a process group of its own, so that a Ctrl-C at the
terminal reaches the supervisor and not them.
States of a child: running, waiting to start again (the wait doubles while it dies young), stopped.
Loss: a dead child costs a wait; the fleet goes on without it, and waits for a dead server. One that ends with code 78 (EX_CONFIG of sysexits.h) would
end so at every start: then all of them stop, since a fleet that lacks a role for good only looks as if it ran. Killed itself, the supervisor takes every child along: the kernel
sends them SIGKILL, which foldline's roles are built to survive.
"""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from workers.runtime.clock import SystemClock
from workers.runtime.parent import die_with_parent

FIRST_WAIT_S = 0.25  # a killed worker is back before its lease (5 s) runs out
LONGEST_WAIT_S = 10.0  # a worker that cannot start at all is tried six times a minute
LONG_LIFE_S = 20.0  # having lived so long, the next death is a new story
DRAIN_S = 10.0  # SIGTERM hands over at once; a send in flight has its own deadline of 8 s
READ_BYTES = 65_536
SERVER_POLL_S = 0.1  # how soon the death of the server is seen
LONGEST_LINE = 1_000_000  # characters; a longer line is passed on in pieces

Sink = Callable[[str, str], None]


class Server(Protocol):
    """The server that was started for the fleet, which is nobody's child process but ours."""

    def ending(self) -> int | None:
        """Return its exit code when it has died, None while it runs."""
        ...

    def revive(self) -> None:
        """Start it again where it was, with its data; returns before it answers."""
        ...


@dataclass(frozen=True, kw_only=True)
class Role:
    """One line of a Procfile: a name, the command that runs it, and how many of it."""

    name: str
    command: tuple[str, ...]
    count: int = 1


def default_roles() -> list[Role]:
    """Return foldline's four roles, one process each."""
    return [
        Role(name=name, command=(sys.executable, "-m", "workers", name))
        for name in ("ingest", "fold", "delivery", "gateway")
    ]


def read_procfile(path: Path) -> list[Role]:
    """Read `name: command` lines. `python` means the interpreter that runs us. Raises ValueError naming a bad line."""
    roles: list[Role] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, command = line.partition(":")
        words = shlex.split(command)
        if not colon or not name.strip() or not words:
            raise ValueError(f"{path}:{number}: expected `name: command`, found {line!r}")
        if words[0] in {"python", "python3"}:
            words[0] = sys.executable
        roles.append(Role(name=name.strip(), command=tuple(words)))
    return roles


def next_wait(previous_s: float, lived_s: float) -> float:
    """Decide how long to wait before a dead child is started again."""
    if lived_s >= LONG_LIFE_S:
        return FIRST_WAIT_S
    return min(LONGEST_WAIT_S, max(FIRST_WAIT_S, previous_s * 2))


class Supervisor:
    """Keeps the processes of `roles` running until told to stop, and their `server`, if it is ours. `sink` gets every line with
    the process's name. The server is started before and ended after by whoever made it.
    """

    def __init__(
        self,
        roles: Sequence[Role],
        *,
        sink: Sink,
        environ: Mapping[str, str] | None = None,
        server: Server | None = None,
    ) -> None:
        self._roles = list(roles)
        self._sink = sink
        self._server = server
        self._environ = dict(os.environ if environ is None else environ)
        self._environ["PYTHONUNBUFFERED"] = "1"
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._last_lines: dict[str, str] = {}
        self.fault: str | None = None
        """Which process found its configuration unusable, and its last words; None while none did."""
        self._clock = SystemClock()

    def pids(self) -> dict[str, int]:
        """Return the processes that run now, by name (`fold.1`)."""
        return {name: process.pid for name, process in sorted(self._running.items())}

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, by its owner or here because of a `fault`; then end every child and return. Ends them also when cancelled."""
        names = [(f"{role.name}.{index}", role) for role in self._roles for index in range(1, role.count + 1)]
        keepers = [asyncio.create_task(self._keep(name, role, stop)) for name, role in names]
        if self._server is not None:
            keepers.append(asyncio.create_task(self._keep_server(self._server, stop)))
        try:
            await stop.wait()
            await self._drain()
        finally:
            for process in self._running.values():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)

    async def _drain(self) -> None:
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await asyncio.gather(*(process.wait() for process in list(self._running.values())))

    async def _keep(self, name: str, role: Role, stop: asyncio.Event) -> None:
        wait_s = 0.0
        while not stop.is_set():
            began = self._clock.boottime_ms()
            code = await self._run_once(name, role, stop)
            if stop.is_set():
                return
            if code == os.EX_CONFIG:
                self._sink(name, f"[{_ending(code)}, an unusable configuration; everything stops]")
                words = self._last_lines.get(name, "").removeprefix("foldline: ")
                self.fault = f"{name} {_ending(code)}: {words or 'it gave no reason'}"
                stop.set()
                return
            wait_s = await self._mourn(name, code, wait_s, began, stop)

    async def _keep_server(self, server: Server, stop: asyncio.Event) -> None:
        wait_s = 0.0
        began = self._clock.boottime_ms()
        while not stop.is_set():
            if (code := server.ending()) is None:
                await asyncio.sleep(SERVER_POLL_S)
                continue
            wait_s = await self._mourn("server", code, wait_s, began, stop)
            if not stop.is_set():
                began = self._clock.boottime_ms()
                try:
                    server.revive()
                except Exception as error:  # noqa: BLE001 - told and tried again, whatever keeps it from starting
                    self._sink("server", f"[could not start: {error}]")

    async def _mourn(self, name: str, code: int, waited_s: float, began_ms: int, stop: asyncio.Event) -> float:
        """Tell of a death and wait, or until told to stop; returns how long the wait was."""
        wait_s = next_wait(waited_s, (self._clock.boottime_ms() - began_ms) / 1000)
        self._sink(name, f"[{_ending(code)}; starts again in {wait_s:g} s]")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await stop.wait()
        return wait_s

    async def _run_once(self, name: str, role: Role, stop: asyncio.Event) -> int:
        try:
            process = await asyncio.create_subprocess_exec(
                *role.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=self._environ,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        except OSError as error:
            self._sink(name, f"[could not start: {error}]")
            return 127
        self._running[name] = process
        self._last_lines.pop(name, None)
        try:
            if stop.is_set():  # told to stop while it was being started: the drain did not see it
                process.terminate()
            await self._pass_on(name, process)
            return await process.wait()
        finally:
            self._running.pop(name, None)
            if process.returncode is None:  # we are cancelled
                with contextlib.suppress(ProcessLookupError):
                    process.kill()

    async def _pass_on(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101 - asked for above
        rest = b""
        while chunk := await process.stdout.read(READ_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._tell(name, line)
        if rest:
            self._tell(name, rest)

    def _tell(self, name: str, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\r")
        self._last_lines[name] = text or self._last_lines.get(name, "")
        self._sink(name, text)


def _ending(code: int) -> str:
    return f"exited with code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
