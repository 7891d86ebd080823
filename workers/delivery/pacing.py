"""How fast to send: places for concurrent attempts in this process, and the rate budgets of each account and chat, which all processes share.

A budget is taken before the intent, so that waiting for it never looks like an attempt.
"""

import asyncio

from ledger import delivery
from ledger.commands import Scripts
from ledger.keys import Keyspace
from workers.config import TargetConfig
from workers.delivery.terms import Rate, Terms

CONCURRENT_SENDS = 64
"""Attempts of one process at once: each is one socket; more would only queue behind the receivers."""

CHAT_BURST = 3
"""Sends to one chat at once, where a rate is configured for it."""
UNLIMITED = Rate(per_s=0.0, burst=1)
NO_TERMS = Terms()


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

    async def wait_ms(self, name: str, target: TargetConfig, terms: Terms = NO_TERMS, chat: str = "") -> int:
        """Take one send of the budgets of the target's account and of its chat: 0, or how long to wait.

        The chat's comes first: what waits for a chat takes nothing from the others of the account.
        """
        account = account_of(name, target)
        budgets = [(account, _rate(target.rate_per_s, target.burst, terms.account_rate))]
        if chat:
            budgets.insert(0, (chat_budget(account, chat), _rate(target.chat_rate_per_s, CHAT_BURST, terms.chat_rate)))
        for budget, rate in budgets:
            call = delivery.budget_take(self._keys, budget, rate_per_s=rate.per_s, burst=rate.burst)
            wait_ms = await self._scripts.run(call)
            if wait_ms:
                return wait_ms
        return 0

    async def hold(self, name: str, target: TargetConfig, wait_ms: int, chat: str = "") -> None:
        """Let nobody send for the target's account, or to one chat of it, for a while."""
        account = account_of(name, target)
        budget = chat_budget(account, chat) if chat else account
        await self._scripts.run(delivery.budget_hold(self._keys, budget, wait_ms=wait_ms))


def account_of(name: str, target: TargetConfig) -> str:
    """Whose budget a target draws on."""
    return target.account or name


def chat_budget(account: str, chat: str) -> str:
    """Names the budget of one chat of an account."""
    return f"{account}/{chat}"


def _rate(configured: float | None, burst: int, documented: Rate | None) -> Rate:
    if configured is not None:
        return Rate(per_s=configured, burst=burst)
    return documented or UNLIMITED
