"""The stage of the crash tests with chat channels: one turn that goes to every channel at once, each with its own loopback server."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
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


@dataclass
class Chats:
    """A fleet with its upstream and its channels."""

    fleet: Fleet
    upstream: Upstream
    servers: dict[str, Any]

    async def submit(self) -> str:
        """Submit the turn that every run submits."""
        return await self.fleet.submit(request={"input": "Write."}, targets=TARGETS, turn_hex="c4a7" * 6)

    def told(self) -> dict[str, list[str]]:
        """What each target shows."""
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


@asynccontextmanager
async def chats(
    server: Server,
    folder: Path,
    *,
    rate: Mapping[str, float] = MappingProxyType({"rate_per_s": 0, "chat_rate_per_s": 0}),
) -> AsyncIterator[Chats]:
    """Set up: an empty server, a gated upstream, the channels; their own rates are tried only when one is given."""
    with server.client() as client:
        client.flushall()
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(Upstream(text(WORDS, pieces=PIECES)))
        servers: dict[str, Any] = {}
        targets: dict[str, dict[str, Any]] = {}
        environ: dict[str, str] = {}
        for name, medium in MEDIA.items():
            service: Service = await stack.enter_async_context(medium.service())
            servers[name] = service
            variable = f"{name.upper()}_TOKEN"
            environ[variable] = medium.token
            targets[name] = {**medium.settings(service), "token_env": variable, "account": name, **rate}
        servers["discord"].shows_nonces = True
        targets[READ_BACK] = {**targets["discord"], "recipient": MEDIA["discord"].other_chat, "key_window_ms": 0}
        upstreams = {"sample": {"base_url": upstream.base_url, "side_effects": False, "read_timeout_ms": 30_000}}
        fleet = Fleet(server.url, folder, upstreams=upstreams, targets=targets, environ=environ)
        await stack.enter_async_context(fleet)
        yield Chats(fleet=fleet, upstream=upstream, servers=servers)
