"""The supervisor: names, restarts, drains, and takes everyone along."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

import psutil
import pytest

from tests.support.waiting import wait_until, wait_until_sync
from workers.embedded import EmbeddedServer, ask, ping
from workers.supervisor import FIRST_WAIT_S, LONGEST_WAIT_S, Role, Supervisor, default_roles, next_wait, read_procfile

STAY = "import signal, sys; print('here', flush=True); signal.signal(15, lambda *_: sys.exit(0)); signal.pause()"
SUPERVISE = """
import asyncio, sys
from tests.support.waiting import wait_until
from workers.supervisor import Role, Supervisor
stay = Role(name="stay", command=(sys.executable, "-c", "import signal; signal.pause()"), count=2)
async def main():
    supervisor = Supervisor([stay], sink=lambda name, line: None)
    running = asyncio.create_task(supervisor.run(asyncio.Event()))
    await wait_until(lambda: len(supervisor.pids()) == 2, "both to run")
    print(*supervisor.pids().values(), flush=True)
    await running
asyncio.run(main())
"""


def python(name: str, program: str, count: int = 1) -> Role:
    return Role(name=name, command=(sys.executable, "-c", program), count=count)


class Run:
    """A supervisor running in the test's loop, its lines kept."""

    def __init__(self, *roles: Role) -> None:
        self.lines: list[tuple[str, str]] = []
        self.stop = asyncio.Event()
        self.supervisor = Supervisor(roles, sink=lambda name, line: self.lines.append((name, line)))

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.supervisor.run(self.stop))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        await self.task


async def test_every_line_is_passed_on_under_the_name_of_its_process() -> None:
    async with Run(python("one", "print('a'); print('b', end='')"), python("two", STAY)) as run:
        await wait_until(lambda: len(run.lines) >= 4, "all have spoken")
    assert {("one.1", "a"), ("one.1", "b"), ("two.1", "here")} <= set(run.lines)


async def test_a_killed_process_is_started_again() -> None:
    async with Run(python("stay", STAY)) as run:
        await wait_until(lambda: ("stay.1", "here") in run.lines, "it runs")
        first = run.supervisor.pids()["stay.1"]
        os.kill(first, signal.SIGKILL)
        await wait_until(lambda: run.supervisor.pids().get("stay.1", first) != first, "another runs")
    assert any("killed by SIGKILL" in line for _, line in run.lines)


async def test_a_process_that_finds_its_configuration_unusable_ends_all_of_them_with_its_words() -> None:
    refuses = python("refuses", "import sys; print('foldline: fold.lease_ms: too short'); sys.exit(78)")
    async with Run(python("stay", STAY), refuses) as run:
        await wait_until(run.task.done, "the supervisor has ended by itself")
    assert run.supervisor.fault == "refuses.1 exited with code 78: fold.lease_ms: too short"
    assert run.supervisor.pids() == {}
    assert not any("starts again" in line for _, line in run.lines)


@pytest.mark.parametrize("code", [1, 2, 77, 79])
async def test_a_process_that_ends_with_any_other_code_is_started_again(code: int) -> None:
    async with Run(python("ends", f"import sys; print('here'); sys.exit({code})")) as run:
        await wait_until(lambda: run.lines.count(("ends.1", "here")) > 1, "another has started")
    assert run.supervisor.fault is None


async def test_a_killed_server_is_started_again_on_its_port_with_its_data(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path)
    first = server.start()
    lines: list[str] = []
    stop = asyncio.Event()
    supervisor = Supervisor([], sink=lambda name, line: lines.append(f"{name} {line}"), server=server)
    running = asyncio.create_task(supervisor.run(stop))
    try:
        assert ask(first.port, "SET", "word", "kept").startswith("+OK")
        os.kill(first.pid, signal.SIGTERM)
        await wait_until(lambda: any("exited with code 0" in line for line in lines), "its end is told")
        await wait_until(lambda: "kept" in ask(first.port, "GET", "word"), "another answers")
    finally:
        stop.set()
        await running
        server.stop()
    assert not ping(first.port)


async def test_stopping_ends_every_process_in_order() -> None:
    async with Run(python("stay", STAY, count=2)) as run:
        await wait_until(lambda: run.lines.count(("stay.1", "here")) + run.lines.count(("stay.2", "here")) == 2, "up")
        pids = list(run.supervisor.pids().values())
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not any("starts again" in line for _, line in run.lines)


async def test_a_program_that_does_not_exist_is_told_and_tried_again() -> None:
    async with Run(Role(name="none", command=("/no/such/program",))) as run:
        await wait_until(lambda: any("starts again" in line for _, line in run.lines), "it was told")
    assert "could not start" in run.lines[0][1]


def test_no_process_outlives_a_killed_supervisor() -> None:
    supervisor = subprocess.Popen([sys.executable, "-c", SUPERVISE], stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    pids = [int(word) for word in supervisor.stdout.readline().split()]
    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()
    assert len(pids) == 2
    wait_until_sync(
        lambda: all(not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie" for pid in pids), "all gone"
    )


@pytest.mark.parametrize(
    ("previous", "lived", "expected"),
    [
        (0.0, 0.1, FIRST_WAIT_S),
        (FIRST_WAIT_S, 0.1, FIRST_WAIT_S * 2),
        (LONGEST_WAIT_S, 0.1, LONGEST_WAIT_S),
        (LONGEST_WAIT_S, 3600.0, FIRST_WAIT_S),
    ],
)
def test_the_wait_doubles_for_those_that_die_young(previous: float, lived: float, expected: float) -> None:
    assert next_wait(previous, lived) == expected


def test_a_procfile_names_one_role_per_line(tmp_path: Path) -> None:
    path = tmp_path / "Procfile"
    path.write_text("# roles\nfold: python -m workers fold\n\nodd: 'my program' --flag\n")
    assert read_procfile(path) == [
        Role(name="fold", command=(sys.executable, "-m", "workers", "fold")),
        Role(name="odd", command=("my program", "--flag")),
    ]


def test_a_line_that_is_no_role_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "Procfile"
    path.write_text("fold: python\nnonsense\n")
    with pytest.raises(ValueError, match=":2: expected"):
        read_procfile(path)


def test_the_procfile_of_the_checkout_is_the_default() -> None:
    assert read_procfile(Path("Procfile")) == default_roles()
