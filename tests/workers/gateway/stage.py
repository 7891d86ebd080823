"""A gateway on a real server and a real port, and a hand that commits frames as a fold's owner does."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from ledger import access, log, ownership, turns
from ledger.access import ApiKey
from ledger.commands import Scripts
from ledger.keys import Keyspace
from ledger.log import Commit, CommitStatus, TurnCommit
from ledger.ownership import Raised
from ledger.records import TurnRecord, TurnState
from pipeline.output import Frame
from workers.config import Config, GatewayConfig, ModesConfig, RedisConfig, TargetConfig, UpstreamConfig
from workers.gateway.app import Gateway
from workers.streams.connection import AsyncClient, connect

UPSTREAMS = {
    "main": UpstreamConfig(base_url="http://127.0.0.1:9", models=["small", "large"]),
    "outside": UpstreamConfig(external=True, runtime="acp"),
    "other": UpstreamConfig(base_url="http://127.0.0.1:9", models=["odd"], gateway_tools=["lookup"]),
    "talk": UpstreamConfig(base_url="http://127.0.0.1:9", wire="chat", models=["talker"]),
}
TARGETS = {
    "log": TargetConfig(channel="console"),
    "hook": TargetConfig(channel="webhook", url="http://127.0.0.1:9/"),
    "room": TargetConfig(channel="slack", token_env="T", open_recipient=True),
}


@dataclass
class Stage:
    """What a test of the gateway works with."""

    gateway: Gateway
    http: aiohttp.ClientSession
    client: AsyncClient
    keys: Keyspace
    raised: dict[int, Raised] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.gateway.port}"

    @property
    def scripts(self) -> Scripts:
        return Scripts(self.client)

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        async with self.http.post(self.url + path, json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.http.get(self.url + path, headers=headers) as answer:
            return answer.status, await answer.json()

    async def submit(self, **request: Any) -> str:
        """Submit a turn and return its id."""
        status, body = await self.post("/v1/turns", {"request": {"input": "hi"}, "upstream": "main", **request})
        assert status == 201, body
        return str(body["id"])

    async def record(self, turn: str) -> TurnRecord:
        record = await self.scripts.run(turns.read_turn(self.keys, turn))
        assert record is not None
        return record

    async def commit(
        self,
        turn: str,
        *frames: Frame,
        state: TurnState = TurnState.RUNNING,
        hint: bool = True,
        usage: str = "",
        error: str = "",
        upstream_id: str = "",
    ) -> None:
        """Commit frames of a turn, and tell of them."""
        partition = self.keys.partition_of_turn(turn)
        if partition not in self.raised:
            call = ownership.raise_owner(
                self.keys, role="fold", partition=partition, worker="test", nonce="n", lease_ms=600_000
            )
            raised = await self.scripts.run(call)
            assert isinstance(raised, Raised)
            self.raised[partition], self.positions[partition] = raised, 0
        before = self.positions[partition]
        self.positions[partition] += 1
        position = f"{before + 1}-0"
        sse = "".join(frame.sse for frame in frames)
        batch = Commit(
            partition=partition,
            token=self.raised[partition].token,
            prev=f"{before}-0",
            last=position,
            commit_id=position,
            entries=[position],
            events=1,
            turns=[
                TurnCommit(
                    turn=turn,
                    frames_next=frames[0].number,
                    frames=len(frames),
                    sse=sse,
                    blocks_next=0,
                    digest="",
                    fold_version=1,
                    state=state,
                    usage=usage,
                    error=error,
                    upstream_id=upstream_id,
                )
            ],
            retention_ms=600_000,
        )
        reply = await self.scripts.run(log.commit(self.keys, batch))
        assert reply.status is CommitStatus.OK, reply
        if hint:
            payload = {
                "turn": turn,
                "first": frames[0].number,
                "n": len(frames),
                "sse": sse,
                "ended": state.is_terminal,
            }
            await self.scripts.run(log.hint(self.keys, partition, [json.dumps(payload)], sharded=self.gateway.sharded))

    async def add_key(self, secret: str, tenant: str) -> None:
        key = ApiKey(name=tenant, tenant=tenant, created=1)
        await self.scripts.run(access.add_key(self.keys, access.hash_key(secret), key))


@asynccontextmanager
async def stage(
    url: str, *, cluster: bool = False, modes: dict[str, Any] | None = None, **gateway: Any
) -> AsyncIterator[Stage]:
    """Start a gateway over an empty server."""
    config = Config(
        redis=RedisConfig(url=url, cluster=cluster),
        gateway=GatewayConfig(**{"port": 0, "default_upstream": "main", "poll_ms": 200, **gateway}),
        upstreams=UPSTREAMS,
        modes=ModesConfig(**(modes or {})),
        targets=TARGETS,
    )
    served = Gateway(config)
    client = connect(config.redis, name="test")
    await served.start()
    try:
        async with aiohttp.ClientSession() as http:
            yield Stage(served, http, client, Keyspace())
    finally:
        await served.stop()
        await client.aclose()


def frame(number: int, event: str, **members: Any) -> Frame:
    data = {"type": event, **members, "sequence_number": number}
    return Frame(number=number, event=event, data=msgspec.json.encode(data))


def created(turn: str) -> Frame:
    return frame(0, "response.created", response={"id": f"resp_{turn}", "object": "response", "status": "in_progress"})


def delta(number: int, text: str) -> Frame:
    return frame(number, "response.output_text.delta", item_id="msg_1", output_index=0, content_index=0, delta=text)


def ended(number: int, turn: str, status: str = "completed", **members: Any) -> Frame:
    response = {"id": f"resp_{turn}", "object": "response", "status": status, "output": [], **members}
    return frame(number, f"response.{status}", response=response)


async def read_events(answer: aiohttp.ClientResponse) -> list[str]:
    """Return the events of a stream up to its end, comments left out."""
    text = (await answer.read()).decode()
    return [part for part in text.split("\n\n") if part and not part.startswith(":")]
