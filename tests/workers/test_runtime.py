import asyncio
import os
import signal
import subprocess
import sys

import pytest

from tests.support.waiting import wait_until_sync
from workers.runtime import clock, entropy, failpoints
from workers.runtime.failpoints import FAILPOINTS, UnknownFailpointError
from workers.runtime.service import Services, until_set
from workers.runtime.watchdog import STALLED_EXIT, Watchdog

CHILD = """
import os, sys
from workers.runtime import failpoints
failpoints.arm(os.environ)
for _ in range(3):
    failpoints.hit("fold.before_commit")
    print("passed", flush=True)
"""


CYCLES = """
import gc, weakref
from workers.runtime.process import settle_memory
settle_memory()
class Ring:
    def __init__(self):
        self.self = self
first = weakref.ref(Ring())
made = 0
while first() is not None and made < 1_000_000:
    Ring()
    made += 1
print(gc.get_freeze_count() > 10_000, 700 < made < 1_000_000)
"""


def child(points: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD],
        env={**os.environ, "FOLDLINE_FAILPOINTS": points},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_every_point_has_an_exit_code_of_its_own() -> None:
    codes = list(FAILPOINTS.values())
    assert len(set(codes)) == len(codes)
    assert all(10 <= code <= 250 for code in codes)


@pytest.mark.parametrize(
    "text", ["fold.nowhere=exit", "fold.after_take", "fold.after_take=burn", "fold.after_take=exit@0"]
)
def test_what_is_not_registered_is_refused(text: str) -> None:
    with pytest.raises(UnknownFailpointError):
        failpoints.parse(text)


def test_an_unarmed_point_does_nothing() -> None:
    failpoints.arm({})
    failpoints.hit("fold.after_take")


def test_a_process_leaves_with_the_points_code_at_the_hit_that_was_asked_for() -> None:
    with child("fold.before_commit=exit@3") as process:
        output, _ = process.communicate(timeout=30)
    assert process.returncode == FAILPOINTS["fold.before_commit"]
    assert output.count("passed") == 2


def test_a_paused_process_stands_still_until_it_is_continued() -> None:
    with child("fold.before_commit=pause@2") as process:
        status = f"/proc/{process.pid}/stat"

        def stopped() -> bool:
            with open(status, encoding="ascii") as file:  # noqa: PTH123 - a file of the kernel
                return file.read().rsplit(")", 1)[1].split()[0] == "T"

        wait_until_sync(stopped, "the child to stop")
        os.kill(process.pid, signal.SIGCONT)
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert output.count("passed") == 3


ROLE = """
import asyncio, os, sys
from workers.config import Config
from workers.runtime import process

async def main(config, stop):
    print("ready", flush=True)
    await stop.wait()

sys.exit(process.run("fold", Config(), main))
"""


def test_sigterm_sets_the_stop_event_and_the_exit_code_is_zero() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ROLE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        log = process.stderr.read()
    assert '"event": "stopping"' in log
    assert '"role": "fold"' in log


STALL = """
import sys
from workers.config import Config, ServiceConfig
from workers.runtime import process

async def main(config, stop):
    while True:
        pass

sys.exit(process.run("fold", Config(service=ServiceConfig(stall_ms=300)), main))
"""


def test_a_process_whose_loop_stands_still_ends_and_says_where() -> None:
    done = subprocess.run([sys.executable, "-c", STALL], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == STALLED_EXIT
    assert "loop_stalled" in done.stderr
    assert "in main" in done.stderr


async def test_a_loop_that_turns_is_left_alone_and_the_watch_ends_with_it() -> None:
    watchdog = Watchdog(stall_ms=50)
    await watchdog.start()
    assert watchdog._thread is not None
    for _ in range(20):
        await asyncio.to_thread(watchdog._ended.wait, 0.01)
    await watchdog.stop()
    assert not watchdog._thread.is_alive()


def test_clocks_count_milliseconds_and_the_boot_clock_never_steps_back() -> None:
    system = clock.SystemClock()
    first = system.boottime_ms()
    assert system.boottime_ms() >= first
    assert system.now_ms() > 1_700_000_000_000
    assert clock.perf_s() > 0


def test_names_are_unique() -> None:
    assert len({entropy.nonce() for _ in range(100)}) == 100
    assert len(entropy.hex24()) == 24
    assert entropy.worker_name("fold") != entropy.worker_name("fold")
    assert 1 <= entropy.jitter(1, 2) <= 2


class Part:
    def __init__(self, name: str, log: list[str], *, breaks: bool = False) -> None:
        self.name, self.log, self.breaks = name, log, breaks

    async def start(self) -> None:
        if self.breaks:
            raise RuntimeError(self.name)
        self.log.append(f"+{self.name}")

    async def stop(self) -> None:
        self.log.append(f"-{self.name}")


async def test_services_stop_in_reverse_order() -> None:
    log: list[str] = []
    async with Services(Part("a", log), Part("b", log)):
        pass
    assert log == ["+a", "+b", "-b", "-a"]


async def test_services_that_started_are_stopped_when_a_later_one_does_not_start() -> None:
    log: list[str] = []
    with pytest.raises(RuntimeError, match="b"):
        async with Services(Part("a", log), Part("b", log, breaks=True)):
            pass
    assert log == ["+a", "-a"]


async def test_until_set_tells_a_set_event_from_a_time_out() -> None:
    event = asyncio.Event()
    assert await until_set(event, 1) is False
    event.set()
    assert await until_set(event, 1) is True


def test_what_only_cycles_hold_is_still_let_go_though_seldom_looked_for() -> None:
    told = subprocess.run([sys.executable, "-c", CYCLES], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["True", "True"]
