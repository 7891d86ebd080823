"""What every process does around its work: signals to a stop event, the loop, the failpoints, the title."""

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from workers.config import Config
from workers.observability import logs
from workers.runtime import failpoints
from workers.runtime.service import Services
from workers.runtime.watchdog import Watchdog

_GC_ALLOCATIONS = (
    20_000  # before the young objects are walked: a turn makes many that stay, and few that only cycles hold
)
_GC_ROUNDS = 20  # of one generation before the next older one is walked

Run = Callable[[Config, asyncio.Event], Awaitable[None]]
"""A role: runs until the event is set, then drains and returns."""


def run(role: str, config: Config, main: Run) -> int:
    """Run a role until SIGTERM or SIGINT; the exit code is 0 after a clean drain. A second signal ends it at once."""
    failpoints.arm(os.environ)
    logs.configure(config.log.level, role=role)
    set_title(f"foldline-{role}")
    settle_memory()
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_supervised(role, config, main))
    return 0


async def _supervised(role: str, config: Config, main: Run) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    log = logs.bind(role=role)

    def ask(signum: int) -> None:
        if stop.is_set():
            os._exit(128 + signum)
        log.info("stopping", signal=signal.Signals(signum).name)
        stop.set()

    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, ask, signum)
    log.info("started", pid=os.getpid())
    async with Services(Watchdog(config.service.stall_ms)):
        await main(config, stop)
    log.info("stopped")


def settle_memory() -> None:
    """Spare what was loaded from the collector of cycles, and let it look seldom at what turns make; the core is a tenth faster so."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_ALLOCATIONS, _GC_ROUNDS, _GC_ROUNDS)


def set_title(title: str) -> None:
    """Name the process for ps and top, where the system allows it (15 characters)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(title[:15], encoding="ascii")
