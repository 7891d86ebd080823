"""What the tests of agents share: the test agent's configuration, and a turn read from it without a server."""

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import psutil

from pipeline.events import Event
from pipeline.normalize.acp import AcpAdapter
from pipeline.normalize.stamp import Stamp
from scripts.conformance import notation
from workers.config import UpstreamConfig
from workers.ingest.requests import build
from workers.ingest.sources.acp import AcpSource
from workers.ingest.sources.agents import Agents

SCRIPT = Path(__file__).resolve().parents[2] / "support" / "acp_agent.py"
READY_MS = 60_000  # a loaded machine takes long to start an interpreter


def agent(folder: Path, /, *arguments: str, **settings: Any) -> UpstreamConfig:
    """The test agent as an upstream."""
    members = {"cwd": str(folder), "connect_timeout_ms": READY_MS, "read_timeout_ms": READY_MS, **settings}
    return UpstreamConfig(**{"wire": "acp", "command": [sys.executable, str(SCRIPT), *arguments], **members})


async def begin(agents: Agents, upstream: UpstreamConfig, prompt: str, **request: Any) -> AcpSource:
    """Start the agent and send it a prompt."""
    body = msgspec.json.encode({"input": prompt, **request})
    return await agents.open(upstream, build(upstream, body, {}), os.environ)


class Reading:
    """The turn of an open agent."""

    def __init__(self, source: AcpSource) -> None:
        self.source = source
        self.events: list[Event] = []
        self._adapter = AcpAdapter(stamp=Stamp())
        source.introduce(self._adapter)

    @property
    def told(self) -> list[str]:
        """The events so far, as the corpus writes them."""
        return notation(self.events, "acp")

    async def until(self, text: str) -> None:
        """Read on until the agent has said a text."""
        while not any(text in line for line in self.told):
            await self.one()

    async def whole(self) -> list[str]:
        """Read to the end."""
        while not self._adapter.ended and await self.one():
            pass
        self.events += self._adapter.close()
        return self.told

    async def one(self) -> bool:
        """Read once; say whether there is more."""
        chunk = await self.source.read()
        self.events += self._adapter.feed(chunk)
        return bool(chunk)


async def whole_turn(agents: Agents, upstream: UpstreamConfig, prompt: str, **request: Any) -> list[str]:
    """One turn from its prompt to its end."""
    source = await begin(agents, upstream, prompt, **request)
    try:
        return await Reading(source).whole()
    finally:
        source.close()


def gone(*pids: int) -> bool:
    """Whether none of these processes runs any more."""
    return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)
