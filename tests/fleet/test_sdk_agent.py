"""The example agent of the protocol's own TypeScript library, as a program that others wrote, through a whole fleet.

It reads without asking, asks before it writes, and says what came of that. It is installed by npm, from a lock with hashes.
"""

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ledger.log import entries_of, read_entries
from ledger.turns import request_cancel
from pipeline.codec import decode_batch
from pipeline.events import Event, TextDelta, ToolFinished, ToolStarted, TurnCancelled, TurnCompleted
from pipeline.turn import decode
from pipeline.validate import Validation
from tests.support.fleet import Fleet
from tests.support.receivers import Receiver
from tests.support.servers import Server
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

LOCK = Path(__file__).resolve().parents[1] / "support" / "acp_sdk"
BEGINS = "I'll help you with that. Let me start by reading some files to understand the current situation."
KNOWS = " Now I understand the project structure. I need to make some changes to improve it."
ENDS = {
    "allow": " Perfect! I've successfully updated the configuration. The changes have been applied.",
    "reject": " I understand you prefer not to make that change. I'll skip the configuration update.",
    "cancel": "",
}


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent's program; a skip, which fails under CI, where npm or what it fetches is not to be had."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder = tmp_path_factory.mktemp("acp_sdk")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCK / name, folder / name)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=2", "--fetch-timeout=20000"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm could not fetch @agentclientprotocol/sdk within two minutes: is its registry reachable?")
    if done.returncode:
        pytest.skip(f"npm could not fetch @agentclientprotocol/sdk: {done.stderr[-1500:]}")
    return folder / "node_modules/@agentclientprotocol/sdk/dist/examples/agent.js"


def upstreams(program: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """The agent under each policy."""
    base = {
        "wire": "acp",
        "command": ["node", str(program)],
        "cwd": str(folder),
        "runtime": "acp",
        "connect_timeout_ms": 60_000,
    }
    return {policy: {**base, "permission": policy} for policy in ENDS}


async def events_of(fleet: Fleet, turn: str) -> list[Event]:
    ids = await fleet.run(entries_of(fleet.keys, turn))
    entries = await fleet.run(read_entries(fleet.keys, fleet.keys.partition_of_turn(turn), ids))
    return [event for entry in entries for event in decode_batch(entry.events)]


async def test_a_whole_turn_by_each_policy_and_a_cancel(example: Path, redis_server: Server, tmp_path: Path) -> None:
    with redis_server.client() as client:
        client.flushall()
    async with Receiver() as receiver:
        targets = {"hook": {"channel": "webhook", "url": receiver.url}}
        async with Fleet(redis_server.url, tmp_path, upstreams=upstreams(example, tmp_path), targets=targets) as fleet:
            for role in ("ingest", "fold", "delivery"):
                await fleet.start(role)
            turns = {
                policy: await fleet.submit(upstream=policy, session=policy, targets=["hook"], turn_hex=f"{n:024x}")
                for n, policy in enumerate(ENDS)
            }
            stopped = await fleet.submit(upstream="allow", session="stopped", targets=["hook"], turn_hex="f" * 24)

            async def has_begun() -> bool:
                return any(isinstance(event, ToolStarted) for event in await events_of(fleet, stopped))

            await wait_until(has_begun, "the agent's first tool", 60)
            await fleet.run(request_cancel(fleet.keys, stopped, grace_ms=30_000))
            records = await asyncio.gather(*(fleet.settled(turn, 60) for turn in (*turns.values(), stopped)))
            assert [record.state for record in records] == ["completed"] * 3 + ["cancelled"]
            for policy, turn in turns.items():
                await check(fleet, receiver, policy, turn)
            await check_stopped(fleet, receiver, stopped)


async def check(fleet: Fleet, receiver: Receiver, policy: str, turn: str) -> None:
    """The log, the public stream and the messages of a turn that ended by itself."""
    events = await events_of(fleet, turn)
    ends = {event.call_id: event for event in events if isinstance(event, ToolFinished)}
    assert ends["call_1"].status == "completed"
    assert "My Project" in str(ends["call_1"].output)
    # who is not allowed says no more of the call: that nobody knows its end is what the turn's end says
    assert ends["call_2"].status == ("completed" if policy == "allow" else "unknown")
    assert isinstance(events[-1], TurnCompleted)
    words = BEGINS + KNOWS + ENDS[policy]
    assert "".join(event.text for event in events if isinstance(event, TextDelta) and event.track == "text") == words
    payload = decode([(await fleet.frames(turn)).encode()], "responses", Validation.STRICT).payload
    said = [
        part["text"] for item in payload.response["output"] if item["type"] == "message" for part in item["content"]
    ]
    assert "".join(said) == words
    bodies = [body for body in receiver.texts if body["turn"] == turn]
    assert "".join(body["text"] + body["separator"] for body in bodies) == words


async def check_stopped(fleet: Fleet, receiver: Receiver, turn: str) -> None:
    """The agent itself says that it stopped, and readers hear of it."""
    last = (await events_of(fleet, turn))[-1]
    assert isinstance(last, TurnCancelled)
    assert (last.wire or {})["result"] == {"stopReason": "cancelled"}
    bodies = [body for body in receiver.texts if body["turn"] == turn]
    assert "".join(body["text"] + body["separator"] for body in bodies) == BEGINS
