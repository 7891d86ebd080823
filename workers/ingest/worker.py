"""The ingest process: takes submitted turns, opens their upstreams, publishes what they say as canonical events."""

import asyncio

from workers.config import Config


async def run(config: Config, stop: asyncio.Event) -> None:
    """Ingest turns until `stop` is set, then drain: take nothing new, let running turns end, release the rest."""
    raise NotImplementedError
