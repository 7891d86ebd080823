"""The fold role: owns partitions, folds their log into frames and blocks, commits them with their cause."""

import asyncio

from workers.config import Config


async def run(config: Config, stop: asyncio.Event) -> None:
    """Serve partitions until the event is set, then hand them over."""
    raise NotImplementedError
