"""What all parts of one delivery process share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ledger.commands import Call, Scripts
from ledger.keys import Keyspace
from workers.config import Config
from workers.delivery.channels.contract import Channel
from workers.delivery.durability import Barrier
from workers.delivery.pacing import Pace
from workers.delivery.recall import Recall
from workers.runtime.clock import Clock
from workers.streams.connection import AsyncClient
from workers.streams.guard import Guard
from workers.streams.news import News
from workers.streams.patience import patiently

T = TypeVar("T")

ROLE = "delivery"


@dataclass(frozen=True, kw_only=True)
class Context:
    """The process: its configuration, its clients, its channels, its name."""

    config: Config
    client: AsyncClient
    scripts: Scripts
    keys: Keyspace
    clock: Clock
    guard: Guard
    news: News
    pace: Pace
    channels: Mapping[str, Channel]
    barrier: Barrier
    worker: str
    recall: Recall = field(default_factory=Recall)

    async def run(self, call: Call[T], /) -> T:
        """Run a ledger call until it is answered; the very same call each time."""
        return await patiently(lambda: self.scripts.run(call), what=call.name, role=ROLE, guard=self.guard)
