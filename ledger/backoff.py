"""Retry timing, pure: what to wait after which failure. Chance comes in as a number; no clock is read here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Doubling waits with jitter: `first_ms`, then twice as long each time, never above `cap_ms`.

    Jitter takes up to `spread` of the wait away, so that targets which failed together do not come back together.
    """

    first_ms: int = 1_000
    cap_ms: int = 600_000
    spread: float = 0.5

    def wait_ms(self, failures: int, *, chance: float, retry_after_ms: int | None = None) -> int:
        """How long to wait after `failures` failed attempts (1 or more), for `chance` in [0, 1).

        A channel's own Retry-After is a floor: jitter is added above it, never below.
        """
        doublings = min(max(failures, 1) - 1, 40)  # beyond 40 doublings any cap is reached; keeps the number small
        ceiling = min(self.first_ms << doublings, self.cap_ms)
        wait = max(int(ceiling * (1.0 - self.spread * chance)), 1)
        if retry_after_ms is None:
            return wait
        return retry_after_ms + int(self.first_ms * self.spread * chance)
