"""When an intent counts: a server that forgets it after it answered would have the part sent twice.

With AOF `always` the answer says it all. Otherwise `redis.durable` has each intent wait for the disk (WAITAOF) or for a replica (WAIT)
before its socket is opened, on the connection that wrote it. With neither, the parts are labelled at-least-once.
"""

from typing import Any, Final

from ledger import delivery
from ledger.commands import Call, Scripts
from ledger.delivery import Intent
from ledger.errors import LedgerError
from ledger.parts import Reply
from ledger.replies import as_pairs
from workers.config import RedisConfig

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
WAIT_MS: Final = 1_000
"""Longest wait for the disk or the replica; then the attempt is not made, which loses nothing but time."""


class Barrier:
    """Runs intents and waits until they are durable; knows what is promised."""

    def __init__(self, config: RedisConfig, client: Any) -> None:
        self._client = client
        self._durable = config.durable
        # On a cluster the wait would go to another node than the intent: there only AOF `always` counts.
        self._waits = config.durable != "none" and not config.cluster
        self._scripts = Scripts(client)
        self._single: Any = None
        self.guarantee = AT_LEAST_ONCE

    async def start(self) -> None:
        """Find out what the server and the configuration promise."""
        if self._waits:
            self._single = self._client.client()
            self._scripts = Scripts(self._single)
            self.guarantee = EXACTLY_ONCE
        elif await self._writes_through():
            self.guarantee = EXACTLY_ONCE

    async def stop(self) -> None:
        """Close the intents' own connection."""
        if self._single is not None:
            await self._single.aclose()

    async def intent(self, call: Call[Intent]) -> Intent:
        """Run an intent."""
        return await self._scripts.run(call)

    async def is_durable(self, intent: Intent) -> bool:
        """Wait until the intent cannot be forgotten any more; False when that took too long."""
        if not self._waits or intent.reply not in {Reply.OK, Reply.ALREADY}:
            return True
        wait = delivery.wait_written if self._durable == "waitaof" else delivery.wait_copied
        try:
            return await self._scripts.run(wait(timeout_ms=WAIT_MS))
        except LedgerError:
            return False

    async def _writes_through(self) -> bool:
        """Whether the server's own settings make each answer durable; without the right to ask, it is not assumed."""
        call: Call[dict[str, str]] = Call("CONFIG", (), ("GET", "append*"), as_pairs, script=False)
        try:
            settings = await Scripts(self._client).run(call)
        except LedgerError:
            return False
        return settings.get("appendonly") == "yes" and settings.get("appendfsync") == "always"
