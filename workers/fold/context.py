"""What all parts of one fold process share."""

from dataclasses import dataclass
from typing import TypeVar

from ledger.commands import Call, Scripts
from ledger.keys import Keyspace
from workers.config import Config
from workers.runtime.clock import Clock
from workers.streams.connection import AsyncClient
from workers.streams.guard import Guard
from workers.streams.news import News
from workers.streams.patience import patiently

T = TypeVar("T")

ROLE = "fold"


@dataclass(frozen=True, kw_only=True)
class Context:
    """The process: its configuration, its clients, its name."""

    config: Config
    client: AsyncClient
    scripts: Scripts
    keys: Keyspace
    clock: Clock
    guard: Guard
    news: News
    worker: str

    async def run(self, call: Call[T], /) -> T:
        """Run a ledger call until it is answered; the very same call each time."""
        return await patiently(lambda: self.scripts.run(call), what=call.name, role=ROLE, guard=self.guard)
