"""A fleet in this process before upstreams of any wire, and the public streams of its turns as the official SDK reads them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI

from workers.config import Config, FoldConfig, GatewayConfig, IngestConfig, LimitsConfig, RedisConfig, UpstreamConfig
from workers.fold import worker as fold
from workers.gateway.app import Gateway
from workers.ingest import worker as ingest

Json = dict[str, Any]


@asynccontextmanager
async def wired(
    redis_url: str, upstreams: Mapping[str, UpstreamConfig], limits: LimitsConfig | None = None
) -> AsyncIterator[AsyncOpenAI]:
    """Run the three roles and hand out a client of the gateway."""
    config = Config(
        redis=RedisConfig(url=redis_url, partitions=2, block_ms=100),
        ingest=IngestConfig(lease_ms=3000, renew_ms=500, retry_base_ms=10, retry_max_ms=500),
        fold=FoldConfig(lease_ms=3000, renew_ms=500, deadline_every_ms=50),
        gateway=GatewayConfig(port=0),
        limits=limits or LimitsConfig(),
        upstreams=dict(upstreams),
    )
    stop = asyncio.Event()
    gateway = Gateway(config)
    await gateway.start()
    roles = [asyncio.ensure_future(role.run(config, stop)) for role in (ingest, fold)]
    try:
        base_url = f"http://127.0.0.1:{gateway.port}/v1"
        async with AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            yield client
    finally:
        stop.set()
        await asyncio.gather(*roles)
        await gateway.stop()


@dataclass
class Told:
    """One turn as its client was told of it."""

    events: list[Json]

    @property
    def last(self) -> Json:
        """The response of the last event."""
        response: Json = self.events[-1]["response"]
        return response

    @property
    def end(self) -> str:
        """How it ended: the last event's name, and the error's code or the reason where there is one."""
        kind = str(self.events[-1]["type"]).removeprefix("response.")
        error, details = self.last.get("error"), self.last.get("incomplete_details")
        why = (error or {}).get("code") or (details or {}).get("reason")
        return f"{kind} {why}" if why else kind

    @property
    def message(self) -> str:
        """The error's message."""
        return str((self.last.get("error") or {}).get("message", ""))

    @property
    def text(self) -> str:
        """The text of the deltas, which is also that of the last response."""
        deltas = "".join(event["delta"] for event in self.events if event["type"] == "response.output_text.delta")
        parts = [part for item in self.last["output"] for part in item.get("content") or []]
        assert deltas == "".join(part["text"] for part in parts if part["type"] == "output_text")
        return deltas

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        """Name, arguments and status of the calls of the last response."""
        return [
            (item["name"], item["arguments"], item["status"])
            for item in self.last["output"]
            if item["type"] in {"function_call", "mcp_call"}
        ]


async def told(client: AsyncOpenAI, model: str, **request: Any) -> Told:
    """Make a turn and read it to its end."""
    stream: Any = await client.responses.create(**{"model": model, "input": "Hello.", "stream": True, **request})
    events = [event.to_dict(mode="json", warnings=False) async for event in stream]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return Told(events)
