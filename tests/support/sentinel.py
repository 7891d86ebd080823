"""A master, a replica and a sentinel that watches them: real servers, with short times."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from tests.support.rollback import repoint
from tests.support.servers import Server, free_port, server_binary
from tests.support.waiting import wait_until_sync

SERVICE = "fleet"


class Watched:
    """Two servers, the first of them the master at the beginning, and their sentinel."""

    def __init__(
        self,
        make: Callable[[], Server] = Server,
        *,
        tls_port: int | None = None,
        options: Mapping[str, str] | None = None,
        binary: str | None = None,
    ) -> None:
        """`make` makes a server; `tls_port`: where the sentinel speaks TLS; `options`: more of its configuration; `binary`: its program."""
        self.servers = (make(), make())
        self.port = free_port()
        self._tls_port = tls_port
        self._options = dict(options or {})
        self._binary = binary or server_binary()
        self._folder = Path(tempfile.mkdtemp(prefix="foldline-sentinel-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients ask for the master."""
        if self._tls_port is not None:
            return f"rediss+sentinel://127.0.0.1:{self._tls_port}/{SERVICE}/0"
        return f"redis+sentinel://127.0.0.1:{self.port}/{SERVICE}/0"

    @property
    def master(self) -> Server:
        """The server that the sentinel names now."""
        with self._ask() as sentinel:
            port = int(sentinel.sentinel_get_master_addr_by_name(SERVICE)[1])
        return next(server for server in self.servers if server.door == port)

    @property
    def replica(self) -> Server:
        """The other one."""
        return next(server for server in self.servers if server.port != self.master.port)

    def is_copied(self) -> bool:
        """Whether the replica has everything that the master has."""
        with self.master.client() as client:
            info: dict[str, Any] = client.info("replication")
        copy = info.get("slave0", {})
        return bool(copy.get("state") == "online" and copy.get("offset") == info["master_repl_offset"])

    def fail_over(self) -> None:
        """Have the master and the replica change places, both of them running; returns when it is done."""
        replica = self.replica
        with self._ask() as sentinel:
            sentinel.execute_command("SENTINEL", "FAILOVER", SERVICE)
        self._wait_for_master(replica)
        old = self.replica
        wait_until_sync(lambda: _role(old) == "slave", "the old master to follow the new one", timeout_s=30)

    def kill_master(self) -> None:
        """End the master by SIGKILL and return when the other has been promoted."""
        master, replica = self.master, self.replica
        master.kill()
        self._wait_for_master(replica)

    def _wait_for_master(self, server: Server) -> None:
        wait_until_sync(
            lambda: self.master is server and _role(server) == "master", "the replica to be promoted", timeout_s=40
        )

    def _ask(self) -> redis.Redis:
        return redis.Redis(port=self.port, decode_responses=True, socket_timeout=10)

    def __enter__(self) -> Self:
        for server in self.servers:
            server.start()
        repoint(self.servers[1], self.servers[0])
        file = self._folder / "sentinel.conf"
        file.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self._folder}\n"
            + "".join(f"{name} {value}\n" for name, value in self._options.items())
            + f"sentinel monitor {SERVICE} 127.0.0.1 {self.servers[0].door} 1\n"
            f"sentinel down-after-milliseconds {SERVICE} 1000\nsentinel failover-timeout {SERVICE} 5000\n"
        )
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen([self._binary, str(file), "--sentinel"], stdout=log, stderr=log)
        wait_until_sync(self._knows_both, "the sentinel to know master and replica", timeout_s=40)
        return self

    def _knows_both(self) -> bool:
        try:
            with self._ask() as sentinel:
                replicas = sentinel.sentinel_slaves(SERVICE)
        except redis.RedisError:
            return False
        return len(replicas) == 1 and not replicas[0]["is_sdown"] and self.is_copied()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=20)
        for server in self.servers:
            server.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _role(server: Server) -> str:
    with server.client() as client:
        return str(client.role()[0])
