"""Walking over all keys of a pattern: for an operator's command that must find what no index holds any more, never for a loop of the fleet."""

from collections.abc import AsyncIterator
from typing import Any

from ledger.commands import CLIENT_ERRORS, translate
from workers.streams.connection import AsyncClient

COUNT = 1_000
"""Keys that a server looks at in one step: it serves others between two steps."""


async def keys_like(client: AsyncClient, pattern: str) -> AsyncIterator[str]:
    """Every key that is there all the while, once or more, on a cluster of every node; others may or may not come."""
    scanning: Any = client.scan_iter(match=pattern, count=COUNT)
    try:
        async for key in scanning:
            yield key
    except CLIENT_ERRORS as error:
        raise translate("SCAN", error) from error
