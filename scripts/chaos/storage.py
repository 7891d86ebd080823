"""The server under attack: writes every command through before it answers, is killed, and comes back on its own data."""

import asyncio
import signal
import subprocess
from pathlib import Path

import redis

from workers.embedded import ping, server_program
from workers.runtime.parent import die_with_parent

START_S = 60.0
POLL_S = 0.02


class Storage:
    """One server process over one folder, on one port."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"redis://127.0.0.1:{self.port}/0"

    async def start(self) -> None:
        """Start on what is there, and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [
            *server_program(),
            *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)),
            *("--appendonly", "yes", "--appendfsync", "always", "--save", "", "--maxmemory-policy", "noeviction"),
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 - one prctl call, no lock is taken
            )
        async with asyncio.timeout(START_S):
            while not (ping(self.port, timeout_s=0.2) and self._is_ours(self._process.pid)):
                if self._process.poll() is not None:
                    raise RuntimeError(f"the server ended: {(self.folder / 'log').read_text(errors='replace')[-600:]}")
                await asyncio.sleep(POLL_S)

    def _is_ours(self, pid: int) -> bool:
        """Whether it is our process that answers, and not another that came to its port."""
        with redis.Redis(port=self.port, socket_timeout=5) as client:
            try:
                return bool(client.info("server")["process_id"] == pid)
            except redis.RedisError:
                return False

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
