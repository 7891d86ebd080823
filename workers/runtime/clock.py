"""The only reader of clocks. Wall time is for records that people read; leases are measured by the boot clock.

The boot clock goes on while a machine or process is suspended, so a holder that was paused sees that its lease is over.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """What code that needs time is given."""

    def now_ms(self) -> int:
        """Wall time, in unix milliseconds."""
        ...

    def boottime_ms(self) -> int:
        """Milliseconds since boot, suspension included; never steps."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Wall time, in unix milliseconds."""
        return time.time_ns() // 1_000_000

    def boottime_ms(self) -> int:
        """Milliseconds since boot, suspension included; never steps."""
        return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000


_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def perf_s() -> float:
    """A stopwatch reading in seconds, for metrics alone."""
    return time.perf_counter()
