"""Gateways die and freeze at every named point; the client asks again elsewhere and has one turn, read once and whole."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.fleet.crashing import FIRST_GATE, Stage, stage
from tests.support.fleet import Worker
from tests.support.servers import Server
from tests.support.waiting import wait_until
from workers.runtime.failpoints import FAILPOINTS

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]

SUBMITTING = [f"gateway.{when}_{step}" for step in ("idempotency", "submit") for when in ("before", "after")]
BODY = {
    "upstream": "sample",
    "request": {"model": "sample-1", "input": "Write."},
    "session": "chat",
    "settings": {"idle_ms": 600_000},
}
KEY = {"Idempotency-Key": "one-answer"}


@pytest.fixture
async def s(redis_server: Server, tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(redis_server, tmp_path) as made:
        for role in ("ingest", "fold"):
            await made.fleet.start(role)
        yield made


async def submit(session: aiohttp.ClientSession, gateway: Worker) -> dict[str, str]:
    """Submit the one turn of these tests."""
    url = f"http://127.0.0.1:{gateway.port}/v1/turns"
    async with session.post(url, json=BODY, headers=KEY) as response:
        assert response.status in {200, 201}, await response.text()
        answer: dict[str, str] = await response.json()
        return answer


async def lost(gateway: Worker, failpoint: str, action: str) -> None:
    """Wait until the gateway is dead, or frozen."""
    if action == "exit":
        assert await gateway.exited() == FAILPOINTS[failpoint], gateway.tail()
    else:
        await gateway.frozen()


@pytest.mark.parametrize("action", ["exit", "pause"])
@pytest.mark.parametrize("failpoint", SUBMITTING)
async def test_a_submit_cut_at(failpoint: str, action: str, s: Stage, redis_server: Server, note_kill: Any) -> None:
    first = await s.fleet.start("gateway", failpoint=f"{failpoint}={action}")
    second = await s.fleet.start("gateway")
    timeout = aiohttp.ClientTimeout(total=5)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        with pytest.raises((aiohttp.ClientError, TimeoutError)):
            await submit(session, first)
        await lost(first, failpoint, action)
        note_kill(in_flight=True)
        turn = (await submit(session, second))["id"]
        if action == "pause":
            first.resume()
            assert await first.terminate() == 0, first.tail()
        await s.fleet.ended(turn)
        assert (await submit(session, second))["id"] == turn
    with redis_server.client() as client:
        assert len(client.keys("fl:{*}:turn:*")) == 1
    assert len(s.upstream.received) == 1


@pytest.mark.parametrize("action", ["exit", "pause"])
async def test_a_reader_whose_gateway_is_lost_goes_on_elsewhere(action: str, s: Stage, note_kill: Any) -> None:
    s.upstream.pause_before(FIRST_GATE)
    first = await s.fleet.start("gateway", failpoint=f"gateway.mid_stream={action}@2")
    second = await s.fleet.start("gateway")
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20, sock_read=3)) as session:
        turn = (await submit(session, second))["id"]
        got, last = await read(session, first, turn, None)
        s.upstream.release(FIRST_GATE + 4)
        more, last = await read(session, first, turn, last) if first.is_alive and not first.is_stopped else ("", last)
        await wait_until(lambda: first.is_stopped or not first.is_alive, "the gateway to be lost")
        await lost(first, "gateway.mid_stream", action)
        assert s.is_unfinished
        note_kill(in_flight=True)
        s.upstream.release()
        rest, _ = await read(session, second, turn, last)
    assert got + more + rest == await s.fleet.frames(turn)
    if action == "pause":
        first.resume()
        assert await first.terminate() == 0, first.tail()


async def read(session: aiohttp.ClientSession, gateway: Worker, turn: str, last: str | None) -> tuple[str, str | None]:
    """Read whole events until the connection ends or is silent; return their frames without ids, and the last id."""
    headers = {"Last-Event-ID": last} if last else {}
    text = ""
    try:
        async with session.get(f"http://127.0.0.1:{gateway.port}/v1/turns/{turn}/events", headers=headers) as response:
            async for chunk in response.content.iter_any():
                text += chunk.decode()
    except (aiohttp.ClientError, TimeoutError):
        pass
    whole = text[: text.rfind("\n\n") + 2] if "\n\n" in text else ""
    events = [event for event in whole.split("\n\n") if "data: " in event]
    ids = re.findall(r"^id: (.+)$", whole, flags=re.MULTILINE)
    frames = "".join(
        re.sub(r"^(id: .*|: .*|:.*|retry: .*)\n", "", event.lstrip("\n") + "\n\n", flags=re.MULTILINE)
        for event in events
    )
    return frames, ids[-1] if ids else last
