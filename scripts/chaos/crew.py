"""The fleet's processes: some of every role, each behind a proxy of its own, started again when it ends, however it ended."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.chaos.journal import Journal
from scripts.chaos.proxy import Proxy
from scripts.ports import free_port

ROLES = ("ingest", "fold", "delivery", "gateway")
ROOT = Path(__file__).resolve().parents[2]
BACK_S = (0.1, 1.5)
"""How long a process that ended stays away."""
STOP_S = 30.0


@dataclass
class Slot:
    """The place of one process: its proxy, its port, and who is there now."""

    name: str
    role: str
    proxy: Proxy
    port: int
    process: subprocess.Popen[bytes] | None = None
    frozen: bool = False
    expected: bool = False
    """Whether its end is our doing."""

    @property
    def is_alive(self) -> bool:
        """Whether a process is there that has not ended."""
        return self.process is not None and self.process.poll() is None


class Crew:
    """All processes. `run` keeps them there until cancelled."""

    def __init__(self, folder: Path, server_port: int, environ: Mapping[str, str], chance: random.Random) -> None:
        self.slots: list[Slot] = []
        self.unexpected = 0
        self._folder = folder
        self._server_port = server_port
        self._environ = environ
        self._chance = chance
        self._journal = Journal(folder / "processes.jsonl")
        self._keeping: list[asyncio.Task[None]] = []

    async def start(self, *, each: int) -> None:
        """Start so many of every role."""
        for role in ROLES:
            for number in range(each):
                proxy = Proxy(self._server_port)
                await proxy.start()
                slot = Slot(name=f"{role}-{number}", role=role, proxy=proxy, port=free_port())
                self.slots.append(slot)
                self._keeping.append(asyncio.create_task(self._keep(slot)))

    async def stop(self) -> None:
        """End everything in order; what does not end is killed."""
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        for slot in self.slots:
            self.resume(slot)
            if slot.process is not None and slot.is_alive:
                slot.process.terminate()
        for slot in self.slots:
            if slot.process is not None:
                try:
                    await asyncio.to_thread(slot.process.wait, STOP_S)
                except subprocess.TimeoutExpired:
                    slot.process.kill()
            await slot.proxy.stop()
        self._journal.close()

    def alive(self, *roles: str) -> list[Slot]:
        """The slots of these roles (all by default) in which somebody is."""
        return [slot for slot in self.slots if slot.is_alive and (not roles or slot.role in roles)]

    def kill(self, slot: Slot) -> None:
        """SIGKILL."""
        self._end(slot, signal.SIGKILL)

    def terminate(self, slot: Slot) -> None:
        """SIGTERM, as a deploy does it."""
        self._end(slot, signal.SIGTERM)

    def freeze(self, slot: Slot) -> None:
        """SIGSTOP."""
        if slot.process is not None and slot.is_alive:
            slot.process.send_signal(signal.SIGSTOP)
            slot.frozen = True

    def resume(self, slot: Slot) -> None:
        """SIGCONT."""
        if slot.process is not None and slot.frozen and slot.is_alive:
            slot.process.send_signal(signal.SIGCONT)
        slot.frozen = False

    def _end(self, slot: Slot, signum: signal.Signals) -> None:
        if slot.process is not None and slot.is_alive:
            slot.expected = True
            slot.process.send_signal(signum)

    async def _keep(self, slot: Slot) -> None:
        while True:
            self._launch(slot)
            process = slot.process
            assert process is not None  # just launched
            while process.poll() is None:  # noqa: ASYNC110 - a process that ends rings no bell
                await asyncio.sleep(0.02)
            slot.frozen = False
            self._journal.write(slot=slot.name, pid=process.pid, code=process.returncode, expected=slot.expected)
            self.unexpected += not slot.expected
            slot.expected = False
            await asyncio.sleep(self._chance.uniform(*BACK_S))

    def _launch(self, slot: Slot) -> None:
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FOLDLINE_")},
            **self._environ,
            "PYTHONPATH": str(ROOT),
            "FOLDLINE_REDIS_URL": f"redis://127.0.0.1:{slot.proxy.port}/0",
        }
        if slot.role == "gateway":
            environ["FOLDLINE_GATEWAY_PORT"] = str(slot.port)
        with (self._folder / f"{slot.name}.log").open("ab") as log:
            slot.process = subprocess.Popen(
                [sys.executable, "-m", "workers", slot.role],
                cwd=self._folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
