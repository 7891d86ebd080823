"""How fast to send: places for concurrent attempts in this process, and each account's rate budget, which all processes share.

The budget is taken before the intent, so that waiting for it never looks like an attempt.
"""

import asyncio

from ledger import delivery
from ledger.commands import Scripts
from ledger.keys import Keyspace
from workers.config import TargetConfig

CONCURRENT_SENDS = 64
"""Attempts of one process at once: each is one socket; more would only queue behind the receivers."""


class Pace:
    """Places and budgets of one process."""

    def __init__(self, scripts: Scripts, keys: Keyspace, *, places: int = CONCURRENT_SENDS) -> None:
        self._scripts = scripts
        self._keys = keys
        self._places = places
        self._taken = 0
        self._waiting: set[asyncio.Event] = set()

    @property
    def free(self) -> int:
        """Places that are left."""
        return self._places - self._taken

    def take_place(self) -> bool:
        """Take a place for one lane, if there is one."""
        if self._taken >= self._places:
            return False
        self._taken += 1
        return True

    def give_place(self) -> None:
        """Give it back."""
        self._taken -= 1
        for bell in self._waiting:
            bell.set()
        self._waiting.clear()

    def ring_when_free(self, bell: asyncio.Event) -> None:
        """Set the event once, as soon as a place is given back."""
        self._waiting.add(bell)

    async def wait_ms(self, name: str, target: TargetConfig) -> int:
        """Take one send of the target's account: 0, or how long to wait."""
        call = delivery.budget_take(
            self._keys, account_of(name, target), rate_per_s=target.rate_per_s, burst=target.burst
        )
        return await self._scripts.run(call)

    async def hold(self, name: str, target: TargetConfig, wait_ms: int) -> None:
        """Let nobody send for the target's account for a while."""
        await self._scripts.run(delivery.budget_hold(self._keys, account_of(name, target), wait_ms=wait_ms))


def account_of(name: str, target: TargetConfig) -> str:
    """Whose budget a target draws on."""
    return target.account or name
