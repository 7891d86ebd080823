"""The stage of the crash tests: one turn in a fleet, an upstream gated by the test, a process that dies or freezes at a named point.

Every run submits the same turn under the same id, so that what a reader and a receiver got can be compared byte for byte with the
run that nothing disturbed.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ledger.states import State
from tests.support.fleet import Fleet
from tests.support.receivers import Receiver
from tests.support.servers import Server
from tests.support.upstream import Upstream, text
from tests.support.waiting import wait_until

WORDS = "\n\n".join(
    f"Paragraph {number} of an answer that is long enough to be cut into several blocks, and plain enough to be read."
    for number in range(8)
)
CARRIERS = ("ingest", "fold", "delivery")
"""The roles that carry a turn; readers need a gateway besides."""
PIECES = 32
EVENTS = PIECES + 8
"""created, in_progress, added, part added, the deltas, text done, part done, item done, completed."""
FIRST_GATE = 16
"""The upstream stands here, some blocks in, when the first owner is lost."""
SECOND_GATE = 28
"""And here when the process under test is: it has had new entries to take, and the turn is not finished."""


@dataclass
class Told:
    """What the readers of a turn got in the end."""

    frames: str
    applied: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)


class Stage:
    """A fleet with its upstream and its receiver."""

    def __init__(self, fleet: Fleet, upstream: Upstream, receiver: Receiver, console: Path) -> None:
        self.fleet = fleet
        self.upstream = upstream
        self.receiver = receiver
        self.console = console

    async def submit(self) -> str:
        """Submit the turn that every run submits."""
        return await self.fleet.submit(request={"input": "Write."}, targets=["hook", "board"], turn_hex="5eed" * 6)

    async def told(self, turn: str) -> Told:
        """Wait until nothing of the turn is open but what nobody can know, and read what everybody got."""
        await self.fleet.ended(turn)

        async def quiet() -> bool:
            record = await self.fleet.turn(turn)
            parts = await self.fleet.parts(turn)
            closed = {State.SENT, State.UNKNOWN}
            return record.planned == record.blocks_next and len(parts) > 0 and all(p.state in closed for p in parts)

        await wait_until(quiet, f"the deliveries of {turn}", 40)
        return Told(
            frames=await self.fleet.frames(turn),
            applied=[str(body["text"]) for body in self.receiver.texts],
            console=[shown(line) for line in self.console.read_text().splitlines()] if self.console.exists() else [],
        )

    @property
    def is_unfinished(self) -> bool:
        """Whether the upstream still holds events back."""
        return not self.upstream.received or not self.upstream.received[-1].finished


def shown(line: str) -> str:
    """What a line of the console says, without the attempt that wrote it."""
    said = json.loads(line)
    return f"{said['delivery']} {said['text']}"


@asynccontextmanager
async def stage(
    server: Server,
    folder: Path,
    *,
    url: str | None = None,
    environ: Mapping[str, str] | None = None,
    hook: Mapping[str, object] | None = None,
) -> AsyncIterator[Stage]:
    """Set up: an empty server, a gated upstream, a receiver that dedups by webhook-id, a console that is a file.

    `url`: where the fleet finds the server, when that is not its own port. `hook`: more settings of the receiver's target.
    """
    with server.client() as client:
        client.flushall()
    console = folder / "console.jsonl"
    async with Upstream(text(WORDS, pieces=PIECES)) as upstream, Receiver() as receiver:
        upstreams = {"sample": {"base_url": upstream.base_url, "side_effects": False, "read_timeout_ms": 30_000}}
        targets: dict[str, dict[str, object]] = {
            "hook": {"channel": "webhook", "url": receiver.url, **(hook or {})},
            "board": {"channel": "console", "path": str(console)},
        }
        async with Fleet(url or server.url, folder, upstreams=upstreams, targets=targets, environ=environ) as fleet:
            yield Stage(fleet, upstream, receiver, console)


async def undisturbed_run(server: Server, folder: Path) -> Told:
    """What everybody gets when nothing happens."""
    async with stage(server, folder) as s:
        for role in CARRIERS:
            await s.fleet.start(role)
        return await s.told(await s.submit())
