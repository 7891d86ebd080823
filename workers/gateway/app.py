"""The gateway process: HTTP in front of the ledger."""

import asyncio

from workers.config import Config


async def run(config: Config, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then let clients go and return."""
    raise NotImplementedError
