"""Renewing leases on a thread and a connection of its own, so that a long rebuild or a busy loop does not lose them.

Authority: the server. Time: a lease counts from *before* the renewing request was sent, on the boot clock, plus its length;
so our view ends before the server's. Loss: only the server's ``STALE`` is one; a lease that ran out while the server was
away is renewed with the same token, if nobody has taken it. Until then ``holds`` is 0 and its holder begins nothing new.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ledger.commands import Call, SyncScripts
from ledger.errors import LedgerError
from workers.config import RedisConfig
from workers.observability import logs, metrics
from workers.runtime.clock import Clock
from workers.streams.connection import connect_sync

T = TypeVar("T")

AGAIN_MS = 100
"""Wait before a renewal that found no server is sent again, and between any two."""


@dataclass
class _Lease:
    name: str
    renew: Callable[[], Call[Any]]
    until_ms: int
    due_ms: int
    is_lost: Callable[[Any], bool]
    on_lost: Callable[[], None]
    on_reply: Callable[[Any], None] | None
    lost: bool = False


class LeaseKeeper:
    """The leases of one process, each under a name of the caller's choosing (a partition, a turn)."""

    def __init__(self, config: RedisConfig, clock: Clock, *, role: str, lease_ms: int, renew_ms: int) -> None:
        self._config = config
        self._clock = clock
        self._role = role
        self._lease_ms = lease_ms
        self._renew_ms = renew_ms
        self._leases: dict[str, _Lease] = {}
        self._wake = threading.Condition()
        self._ended = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def start(self) -> None:
        """Start the thread; callbacks will run on the calling loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=f"foldline-lease-{self._role}", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End the thread; nothing is released by it."""
        with self._wake:
            self._ended = True
            self._leases.clear()
            self._wake.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def keep(
        self,
        name: str,
        renew: Call[T] | Callable[[], Call[T]],
        *,
        taken_at_ms: int,
        is_lost: Callable[[T], bool],
        on_lost: Callable[[], None],
        on_reply: Callable[[T], None] | None = None,
    ) -> None:
        """Renew from now on. ``taken_at_ms`` is the boot clock before the request that took the lease.

        ``renew`` is the call, or makes it each time (on the thread; pure) where it tells something that changes.
        ``is_lost`` judges a reply (on the thread; pure); ``on_lost`` and ``on_reply`` run on the loop. A lost lease is dropped.
        """
        lease = _Lease(
            name=name,
            renew=(lambda: renew) if isinstance(renew, Call) else renew,
            until_ms=taken_at_ms + self._lease_ms,
            due_ms=taken_at_ms + self._renew_ms,
            is_lost=is_lost,
            on_lost=on_lost,
            on_reply=on_reply,
        )
        with self._wake:
            self._leases[name] = lease
            self._wake.notify()

    def drop(self, name: str) -> None:
        """Stop renewing; no callback of it runs afterwards."""
        with self._wake:
            self._leases.pop(name, None)

    def hurry(self, name: str) -> None:
        """Renew at once, or soon after the last renewal: what the renewal tells has changed."""
        with self._wake:
            lease = self._leases.get(name)
            if lease is not None:
                renewed_ms = lease.until_ms - self._lease_ms
                lease.due_ms = min(lease.due_ms, max(self._clock.boottime_ms(), renewed_ms + AGAIN_MS))
                self._wake.notify()

    def holds(self, name: str) -> int:
        """Milliseconds that the lease surely still has; 0 when it has run out, was lost or was never kept."""
        lease = self._leases.get(name)
        return max(0, lease.until_ms - self._clock.boottime_ms()) if lease is not None else 0

    def _run(self) -> None:
        client = connect_sync(self._config, name=f"lease-{self._role}")
        scripts = SyncScripts(client)
        try:
            while (lease := self._next()) is not None:
                self._renew(scripts, lease)
        finally:
            client.close()

    def _next(self) -> _Lease | None:
        """Wait until a lease is due; None when the thread is to end."""
        with self._wake:
            while not self._ended:
                held = (lease for lease in self._leases.values() if not lease.lost)
                lease = min(held, key=lambda each: each.due_ms, default=None)
                now = self._clock.boottime_ms()
                if lease is not None and lease.due_ms <= now:
                    return lease
                self._wake.wait(None if lease is None else (lease.due_ms - now) / 1000)
        return None

    def _renew(self, scripts: SyncScripts, lease: _Lease) -> None:
        asked_at = self._clock.boottime_ms()
        lease.due_ms = asked_at + self._renew_ms  # before the reply: who hurries meanwhile is heard
        try:
            reply = scripts.run(lease.renew())
            lost = lease.is_lost(reply)
        except LedgerError as error:
            metrics.RENEWALS.labels(role=self._role, outcome="unavailable").inc()
            logs.bind(lease=lease.name).debug("renewal_unanswered", error=str(error))
            lease.due_ms = self._clock.boottime_ms() + min(AGAIN_MS, self._renew_ms)
            return
        if lost:
            metrics.RENEWALS.labels(role=self._role, outcome="stale").inc()
            metrics.LEASES_LOST.labels(role=self._role).inc()
            lease.until_ms = 0
            lease.lost = True
            self._call(self._lost, lease)
            return
        metrics.RENEWALS.labels(role=self._role, outcome="ok").inc()
        lease.until_ms = asked_at + self._lease_ms
        if lease.on_reply is not None:
            self._call(self._reply_to, lease, reply)

    def _lost(self, lease: _Lease) -> None:
        if self._leases.get(lease.name) is lease:
            self.drop(lease.name)
            lease.on_lost()

    def _reply_to(self, lease: _Lease, reply: Any) -> None:
        if self._leases.get(lease.name) is lease and lease.on_reply is not None:
            lease.on_reply(reply)

    def _call(self, callback: Callable[..., None], *args: Any) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *args)
