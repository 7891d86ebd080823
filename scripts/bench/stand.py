"""What the benches of whole processes stand on: a folder, an embedded server, and role processes that can be killed and measured."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from workers.embedded import EmbeddedServer

ROOT = Path(__file__).resolve().parents[2]


class Stand:
    """A server and processes in a folder of their own; everything ends with the block."""

    def __init__(self, config: Mapping[str, Mapping[str, Any]]) -> None:
        self.config = {name: dict(section) for name, section in config.items()}
        self._folder = tempfile.TemporaryDirectory(prefix="foldline-bench-")
        self._processes: list[subprocess.Popen[bytes]] = []
        self._server: EmbeddedServer | None = None
        self.url = ""

    def __enter__(self) -> Self:
        """Start the server, or use the one at FOLDLINE_REDIS_URL."""
        given = os.environ.get("FOLDLINE_REDIS_URL")
        if given is None:
            self._server = EmbeddedServer(self.folder / "data")
            given = self._server.start().url
        self.url = given
        self.config.setdefault("redis", {})["url"] = given
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes, then the server."""
        for process in self._processes:
            self.end(process, signal.SIGKILL)
        if self._server is not None:
            self._server.stop()
        self._folder.cleanup()

    @property
    def folder(self) -> Path:
        """Where configuration, logs and data lie."""
        return Path(self._folder.name)

    def start(self, role: str) -> subprocess.Popen[bytes]:
        """Start a process of a role with the configuration as it is now."""
        path = self.folder / "foldline.toml"
        path.write_text(_toml(self.config))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FOLDLINE_")}
        environ = {**kept, "FOLDLINE_CONFIG": str(path), "PYTHONPATH": str(ROOT)}
        with (self.folder / "roles.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "workers", role],
                env=environ,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes], signum: int = signal.SIGTERM) -> None:
        """Signal a process and wait for its end."""
        if process.poll() is None:
            process.send_signal(signum)
        process.wait(timeout=30)

    def said(self) -> str:
        """The end of what the processes logged."""
        return (self.folder / "roles.log").read_text(errors="replace")[-4000:]


def rss_kib(pid: int) -> int:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def _toml(config: Mapping[str, Mapping[str, Any]]) -> str:
    lines: list[str] = []
    for name, section in config.items():
        plain = {key: value for key, value in section.items() if not isinstance(value, dict)}
        lines += [f"[{name}]", *(f"{key} = {msgspec.json.encode(value).decode()}" for key, value in plain.items())]
        tables = {f"{name}.{key}": value for key, value in section.items() if isinstance(value, dict)}
        lines += _toml(tables).splitlines()
    return "\n".join(lines) + "\n"
