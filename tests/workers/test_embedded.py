"""The embedded server: one owner per folder, its data kept, nothing left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.waiting import wait_until_sync
from workers.embedded import EmbeddedServer, EmbeddedServerError, ask, ping, server_program

OWNER = """
import sys, signal
from pathlib import Path
from workers.embedded import EmbeddedServer
print(EmbeddedServer(Path(sys.argv[1])).start().pid, flush=True)
signal.pause()
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def server(data: Path) -> Iterator[EmbeddedServer]:
    embedded = EmbeddedServer(data)
    yield embedded
    embedded.stop()


def start_owner(data: Path) -> tuple[subprocess.Popen[str], int]:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(data)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    return owner, int(owner.stdout.readline())


def end(owner: subprocess.Popen[str]) -> None:
    owner.kill()
    owner.wait()
    assert owner.stdout is not None
    owner.stdout.close()


def test_it_answers_on_loopback_and_is_gone_after_stop(server: EmbeddedServer) -> None:
    running = server.start()
    assert running.url == f"redis://127.0.0.1:{running.port}/0"
    assert ping(running.port)
    server.stop()
    assert not ping(running.port)
    assert not psutil.pid_exists(running.pid)


def test_it_never_evicts_and_writes_an_append_only_file(server: EmbeddedServer) -> None:
    port = server.start().port
    assert "noeviction" in ask(port, "CONFIG", "GET", "maxmemory-policy")
    assert "yes" in ask(port, "CONFIG", "GET", "appendonly")


def test_the_next_start_has_the_data_and_the_port_of_the_last(server: EmbeddedServer, data: Path) -> None:
    port = server.start().port
    assert ask(port, "SET", "word", "kept").startswith("+OK")
    server.stop()
    again = EmbeddedServer(data)
    try:
        assert again.start().port == port
        assert "kept" in ask(port, "GET", "word")
    finally:
        again.stop()


def test_a_second_owner_of_the_folder_is_refused_by_the_first_ones_number(server: EmbeddedServer, data: Path) -> None:
    server.start()
    with pytest.raises(EmbeddedServerError, match=f"in use by process {os.getpid()}"):
        EmbeddedServer(data).start()


def test_the_server_ends_with_its_killed_owner(data: Path) -> None:
    owner, pid = start_owner(data)
    end(owner)
    wait_until_sync(
        lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie", "the server is gone"
    )


def test_a_paused_server_left_by_a_killed_owner_is_stopped_and_its_data_served(
    server: EmbeddedServer, data: Path
) -> None:
    owner, pid = start_owner(data)
    port = int((data / "server.port").read_text())
    assert ask(port, "SET", "word", "kept").startswith("+OK")
    os.kill(pid, signal.SIGSTOP)
    end(owner)
    running = server.start()
    assert running.pid != pid
    assert "kept" in ask(running.port, "GET", "word")
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie"


def test_a_pid_file_that_names_somebody_elses_process_harms_nobody(server: EmbeddedServer, data: Path) -> None:
    data.mkdir()
    bystander = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        (data / "server.pid").write_text(str(bystander.pid))
        server.start()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_data_that_another_program_wrote_is_said_to_be_so(server: EmbeddedServer, data: Path) -> None:
    files = data / "appendonlydir"
    files.mkdir(parents=True)
    (files / "appendonly.aof.manifest").write_text("file appendonly.aof.1.base.rdb seq 1 type b\n")
    (files / "appendonly.aof.1.base.rdb").write_bytes(b"REDIS9999")
    with pytest.raises(EmbeddedServerError, match="FOLDLINE_SERVER back, or move the folder away"):
        server.start()


def test_a_server_that_cannot_start_says_why(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_SERVER", "false")
    with pytest.raises(EmbeddedServerError, match="did not start"):
        server.start()


def test_a_named_program_that_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_SERVER", "no-such-program")
    with pytest.raises(EmbeddedServerError, match="no-such-program"):
        server_program()


def test_nothing_answers_on_a_closed_port() -> None:
    assert ask(1, "PING") == ""
