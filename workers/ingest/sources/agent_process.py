"""An agent's process: started behind a warden in a session of its own, with the allowed environment and no other.

Authority: the ingest process that started it; it ends with that process, by the kernel's word, and takes along everything it
started itself (see `workers.runtime.warden`). Its standard error is read to the end and only its last bytes are kept.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from workers.config import UpstreamConfig
from workers.runtime import warden

READ_BYTES = 64 * 1024
STDERR_BYTES = 4 * 1024
"""Kept of what an agent writes to its standard error: enough for its last words."""
ENDED_BY_US = frozenset({0, 128 + signal.SIGTERM})
"""Exit codes of an agent that left, or that we ended."""
WARDEN_KILLED = -signal.SIGKILL
"""The exit code of a warden that somebody killed, who is not us."""
KILLED_S = 30.0
"""For a warden to end everything; it takes moments, and is waited for longer only where it is not there any more."""
LEAVE_S = 2.0
"""For an agent whose turn has ended, to leave by itself when its input closes."""


class AgentProcess:
    """One running agent."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._errors = b""
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, upstream: UpstreamConfig, environ: Mapping[str, str]) -> Self:
        """Start the configured command; raises OSError where its folder is not there."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", str(Path(warden.__file__)), str(os.getpid())),
            *upstream.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=upstream.cwd,
            env={name: environ[name] for name in upstream.env_allow if name in environ},
            start_new_session=True,
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """The warden's process id, which is that of its session and group."""
        return self._process.pid

    @property
    def last_words(self) -> str:
        """The end of what the agent wrote to its standard error."""
        return self._errors.decode("utf-8", "replace")

    async def read(self) -> bytes:
        """Wait for some of the agent's output; empty when it has closed it."""
        if self._process.stdout is None:
            return b""
        return await self._process.stdout.read(READ_BYTES)

    async def write(self, data: bytes) -> None:
        """Write to the agent's input; raises ConnectionError when it has gone."""
        if self._process.stdin is None:
            raise ConnectionResetError
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def leave(self, *, at_once: bool) -> int:
        """End the agent and everything that it started; return its exit code."""
        with contextlib.suppress(OSError, RuntimeError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        draining = asyncio.create_task(self._drain())  # a process counts as ended when its pipes are empty
        if not at_once:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self._process.wait()
        self.kill()
        code = WARDEN_KILLED
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILLED_S):
                code = await self._process.wait()
        if code == WARDEN_KILLED:  # the agent went with it; what the agent started did not, and may hold the pipes
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            draining.cancel()
            self._listening.cancel()
        await asyncio.wait({draining, self._listening})
        return code

    def kill(self) -> None:
        """End it now, without waiting: for a process that itself is about to end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    async def _listen(self) -> None:
        errors = self._process.stderr
        while errors is not None and (chunk := await errors.read(READ_BYTES)):
            self._errors = (self._errors + chunk)[-STDERR_BYTES:]

    async def _drain(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # the latter where somebody reads still
            while await self.read():
                pass
