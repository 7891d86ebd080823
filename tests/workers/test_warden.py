"""The warden exits as its program did, and leaves nothing running: at the program's end, at a stop, at its parent's death."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.waiting import wait_until_sync
from workers.runtime import warden

WARDEN = str(Path(warden.__file__))
STAYS = "import signal; signal.pause()"
# Starts one child in its group and one in a session of its own, tells their ids, and then does as it is told.
PARENT = f"""
import subprocess, sys, signal
for apart in (False, True):
    child = subprocess.Popen([sys.executable, "-S", "-c", {STAYS!r}], start_new_session=apart)
    print(child.pid, flush=True)
{{then}}
"""


def start(*program: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", "-S", WARDEN, str(os.getpid()), *program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", program)


def lines(process: subprocess.Popen[str], count: int) -> list[int]:
    assert process.stdout is not None
    return [int(process.stdout.readline()) for _ in range(count)]


def gone(*pids: int) -> bool:
    return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)


@pytest.mark.parametrize("code", [0, 3])
def test_it_exits_as_its_program_did_and_ends_what_that_left(code: int) -> None:
    with start(*python(PARENT.format(then=f"sys.exit({code})"))) as process:
        pids = lines(process, 2)
        assert process.wait(30) == code
    assert gone(*pids)


def test_a_stop_ends_the_program_and_all_below_it() -> None:
    with start(*python(PARENT.format(then="signal.signal(15, signal.SIG_IGN); signal.pause()"))) as process:
        pids = lines(process, 2)
        process.terminate()
        assert process.wait(30) == 128 + 15
    assert gone(*pids)


def test_its_parents_death_ends_it_and_all_below_it() -> None:
    inner = [sys.executable, "-I", "-S", WARDEN, "PARENT", *python(PARENT.format(then="signal.pause()"))]
    middle = (
        f"import os, signal, subprocess; c = {inner!r}; c[4] = str(os.getpid()); subprocess.Popen(c); signal.pause()"
    )
    with subprocess.Popen(python(middle), stdout=subprocess.PIPE, text=True) as process:
        pids = lines(process, 2)
        wardens = [child.pid for child in psutil.Process(process.pid).children()]
        assert not any(gone(pid) for pid in (*pids, *wardens))
        process.kill()
        process.wait(30)
        wait_until_sync(lambda: gone(*pids, *wardens), "all of them to go")


def test_a_parent_that_is_not_there_any_more_gets_nothing_started() -> None:
    command = [sys.executable, "-I", "-S", WARDEN, "1", "touch", "/no/such/folder/file"]
    if os.getpid() == 1:
        pytest.skip("the parent is process 1")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (128 + 15, "")


def test_a_program_that_is_not_there_is_told_as_shells_do() -> None:
    with start("/no/such/program") as process:
        assert process.wait(30) == 127
        assert process.stderr is not None
        assert "/no/such/program: No such file" in process.stderr.read()


def test_the_streams_are_the_programs_alone() -> None:
    with start("sh", "-c", "exec >&- 2>&-; sleep 60") as process:
        assert process.stdout is not None
        assert process.stdout.read() == ""  # its end is ours, though the warden lives
        assert process.poll() is None
        process.terminate()


RUNNERS = """
import os, signal
for number in range(3):
    if os.fork() == 0:
        os.setsid()
        for _ in range(2000):
            if os.fork():
                os._exit(0)
        os._exit(0)
print(os.getpid(), flush=True)
signal.pause()
"""


def test_processes_that_fork_and_leave_all_the_time_do_not_outrun_it() -> None:
    with start(*python(RUNNERS)) as process:
        lines(process, 1)
        mine = psutil.Process(process.pid)
        process.terminate()
        assert process.wait(30) == 128 + 15
    assert not mine.is_running()
