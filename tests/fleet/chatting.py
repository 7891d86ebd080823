"""The stage of the crash tests with chat channels: turns that go to every channel at once, each with its own loopback server.

One stage stands for many cases, since starting one takes longer than most of them: every case has a session and a turn of its own, and
reads of each channel what came after its beginning.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ledger.states import State
from scripts.channels.service import Service
from tests.fleet.crashing import PIECES, WORDS
from tests.support.chats import MEDIA
from tests.support.fleet import Fleet
from tests.support.servers import Server
from tests.support.upstream import Upstream, text
from tests.support.waiting import wait_until

UNTELLABLE = "telegram"
"""The one channel that has no key and cannot be asked: what is cut there is sent at most once."""
READ_BACK = "readback"
"""A second target at Discord, whose nonces are not relied on."""
TARGETS = [*sorted(MEDIA), READ_BACK]
SHORT = {
    "FOLDLINE_DELIVERY_LEASE_MS": "1500",
    "FOLDLINE_DELIVERY_RENEW_MS": "250",
    "FOLDLINE_DELIVERY_SEND_DEADLINE_MS": "800",
    "FOLDLINE_DELIVERY_MARGIN_MS": "100",
}
"""A send that a slow machine lets time out is one more attempt by key, or unknown: the law is the same, and the wait is shorter."""


@dataclass
class Chats:
    """A fleet with its upstream and its channels."""

    fleet: Fleet
    upstream: Upstream
    servers: dict[str, Any]
    _turns: int = 0
    _begins: dict[str, int] = field(default_factory=dict)

    async def submit(self) -> str:
        """Submit the turn that every case submits, in a session of its own; `told` tells of it alone."""
        self._turns += 1
        self._begins = {name: len(texts) for name, texts in self._all().items()}
        return await self.fleet.submit(
            request={"input": "Write."},
            session=f"session {self._turns}",
            targets=TARGETS,
            turn_hex=f"{self._turns:024x}",
        )

    def told(self) -> dict[str, list[str]]:
        """What each target shows of the last turn that was submitted."""
        return {name: texts[self._begins.get(name, 0) :] for name, texts in self._all().items()}

    def _all(self) -> dict[str, list[str]]:
        shown = {name: list(server.texts(MEDIA[name].chat)) for name, server in self.servers.items()}
        return {**shown, READ_BACK: list(self.servers["discord"].texts(MEDIA["discord"].other_chat))}

    async def quiet(self, turn: str, timeout_s: float = 60) -> dict[str, list[str]]:
        """Wait until nothing of the turn is open but what nobody can know; what everybody shows."""
        await self.fleet.ended(turn)

        async def closed() -> bool:
            record = await self.fleet.turn(turn)
            parts = await self.fleet.parts(turn)
            done = [
                part.state is State.SENT or (part.target == UNTELLABLE and part.state is State.UNKNOWN)
                for part in parts
            ]
            return record.planned == record.blocks_next and len(done) > 0 and all(done)

        await wait_until(closed, f"the deliveries of {turn}", timeout_s)
        return self.told()

    async def without_delivery(self) -> None:
        """End every delivery worker, so that the next case begins with its own."""
        for worker in self.fleet.workers:
            if worker.role == "delivery" and worker.is_alive:
                if worker.is_stopped:
                    await worker.kill()
                else:
                    await worker.terminate()


@asynccontextmanager
async def chats(
    server: Server,
    folder: Path,
    *,
    rate: Mapping[str, float] = MappingProxyType({"rate_per_s": 0, "chat_rate_per_s": 0}),
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[Chats]:
    """Set up: an empty server, a gated upstream, the channels; their own rates are tried only when one is given."""
    with server.client() as client:
        client.flushall()
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(Upstream(text(WORDS, pieces=PIECES)))
        servers: dict[str, Any] = {}
        targets: dict[str, dict[str, Any]] = {}
        variables: dict[str, str] = dict(environ or {})
        for name, medium in MEDIA.items():
            service: Service = await stack.enter_async_context(medium.service())
            servers[name] = service
            variable = f"{name.upper()}_TOKEN"
            variables[variable] = medium.token
            targets[name] = {**medium.settings(service), "token_env": variable, "account": name, **rate}
        servers["discord"].shows_nonces = True
        targets[READ_BACK] = {**targets["discord"], "recipient": MEDIA["discord"].other_chat, "key_window_ms": 0}
        upstreams = {"sample": {"base_url": upstream.base_url, "side_effects": False, "read_timeout_ms": 30_000}}
        fleet = Fleet(server.url, folder, upstreams=upstreams, targets=targets, environ=variables)
        await stack.enter_async_context(fleet)
        yield Chats(fleet=fleet, upstream=upstream, servers=servers)
