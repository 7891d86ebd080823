"""Turns of an agent through a whole ingest process on a real server: told, cancelled, crashed, drained, killed."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledger.turns import request_cancel
from pipeline.events import Status, TextDelta, ToolFinished, TurnCancelled, TurnCompleted, TurnFailed, TurnStarted
from tests.support.fleet import Fleet
from tests.support.waiting import wait_until
from tests.workers.ingest.agents import agent, gone
from tests.workers.ingest.rig import Rig, config_for
from workers.config import Config


class AgentRig(Rig):
    """Submits turns of an agent."""

    @staticmethod
    def started(turn: str) -> TurnStarted:
        return msgspec.structs.replace(Rig.started(turn), runtime="acp", wire="acp")

    async def prompt(self, text: str, number: int = 1) -> str:
        return await self.submit({"input": text}, number=number)

    async def said(self, turn: str, text: str) -> None:
        async def has_said() -> bool:
            return text in "".join(one.text for one in await self.events(turn) if isinstance(one, TextDelta))

        await wait_until(has_said, f"{turn} to say {text!r}", 60)


def config(redis_url: str, folder: Path, **changes: Any) -> Config:
    base = config_for(redis_url, "", **{name: changes.pop(name) for name in ("max_agents",) if name in changes})
    return msgspec.structs.replace(base, upstreams={"test": agent(folder, **changes)})


async def test_an_agents_turn_is_told_from_its_start_to_its_end(redis_url: str, tmp_path: Path) -> None:
    async with AgentRig(config(redis_url, tmp_path)) as rig:
        rig.start()
        turn = await rig.prompt("tool")
        end = await rig.ended(turn, 60)
        events = await rig.events(turn)
    assert isinstance(end, TurnCompleted)
    assert isinstance(events[0], TurnStarted)
    assert (events[0].runtime, events[0].wire) == ("acp", "acp")
    assert any(isinstance(event, ToolFinished) and event.status == "completed" for event in events)
    told = next(event for event in events if isinstance(event, Status) and event.name == "upstream_started")
    assert str((told.wire or {})["response"]["id"]).startswith("session-")


async def test_a_cancel_reaches_the_agent_which_ends_the_turn(redis_url: str, tmp_path: Path) -> None:
    async with AgentRig(config(redis_url, tmp_path, permission="allow")) as rig:
        rig.start()
        turn = await rig.prompt("wait")
        await rig.said(turn, "Working.")
        await rig.scripts.run(request_cancel(rig.keys, turn, grace_ms=60_000))
        end = await rig.ended(turn, 60)
        await rig.said(turn, " Stopped: cancelled.")
    assert isinstance(end, TurnCancelled)
    assert (end.wire or {})["result"] == {"stopReason": "cancelled"}


@pytest.mark.long
async def test_an_agent_that_does_not_stop_is_killed(redis_url: str, tmp_path: Path) -> None:
    async with AgentRig(config(redis_url, tmp_path, cancel_wait_ms=300)) as rig:
        rig.start()
        turn = await rig.prompt("stubborn")
        await rig.said(turn, "Going on.")
        await rig.scripts.run(request_cancel(rig.keys, turn, grace_ms=60_000))
        end = await rig.ended(turn, 60)
    assert isinstance(end, TurnCancelled)
    assert end.reason == "cancelled"


@pytest.mark.long
async def test_an_answer_that_was_done_before_the_cancel_stands(redis_url: str, tmp_path: Path) -> None:
    async with AgentRig(config(redis_url, tmp_path)) as rig:
        rig.start()
        turn = await rig.prompt("finish")
        await rig.said(turn, "All ")
        await rig.scripts.run(request_cancel(rig.keys, turn, grace_ms=60_000))
        end = await rig.ended(turn, 60)
        await rig.said(turn, "All done.")
    assert isinstance(end, TurnCompleted)


async def test_a_crash_fails_the_turn_and_keeps_what_was_said(redis_url: str, tmp_path: Path) -> None:
    async with AgentRig(config(redis_url, tmp_path)) as rig:
        rig.start()
        turn = await rig.prompt("crash")
        end = await rig.ended(turn, 60)
        await rig.said(turn, "Half a sen")
    assert isinstance(end, TurnFailed)
    assert end.error.code == "upstream_truncated"


async def test_a_program_that_is_not_there_fails_the_turn_by_name(redis_url: str, tmp_path: Path) -> None:
    async with AgentRig(config(redis_url, tmp_path, command=["/no/such/program"], connect_retries=0)) as rig:
        rig.start()
        end = await rig.ended(await rig.prompt("hi"), 60)
    assert isinstance(end, TurnFailed)
    assert end.error.code == "upstream_connect_failed"


@pytest.mark.long
async def test_turns_beyond_the_number_of_agents_wait_for_their_turn(redis_url: str, tmp_path: Path) -> None:
    async with AgentRig(config(redis_url, tmp_path, max_agents=1)) as rig:
        rig.start()
        turns = [await rig.prompt(f"long {length}", length) for length in (200, 100, 50)]
        ends = [await rig.ended(turn, 120) for turn in turns]
    assert all(isinstance(end, TurnCompleted) for end in ends)


@pytest.mark.long
async def test_a_stopped_process_leaves_no_agent(redis_url: str, tmp_path: Path) -> None:
    async with AgentRig(config(redis_url, tmp_path)) as rig:
        rig.start()
        turn = await rig.prompt("children")
        pids = await _pids(rig, turn)
        await rig.stop()
        await wait_until(lambda: gone(*pids), "the agent and its children to go")


async def test_a_killed_process_leaves_no_agent(redis_url: str, tmp_path: Path) -> None:
    upstream = msgspec.to_builtins(agent(tmp_path))
    table = {name: upstream[name] for name in ("wire", "command", "cwd", "connect_timeout_ms")}
    async with Fleet(redis_url, tmp_path, upstreams={"sample": table}) as fleet:
        ingest = await fleet.start("ingest")
        rig = AgentRig(config(redis_url, tmp_path))
        rig.keys = fleet.keys
        turn = await fleet.submit(request={"input": "children"})
        pids = await _pids(rig, turn)
        assert not any(gone(pid) for pid in pids)
        await ingest.kill()
        await wait_until(lambda: gone(*pids), "the agent and its children to go")
        await rig.client.aclose()


async def _pids(rig: Rig, turn: str) -> list[int]:
    """The processes that the test agent says it has started, and its own."""
    found: list[int] = []

    async def are_told() -> bool:
        found[:] = [int(one.text) for one in await rig.events(turn) if isinstance(one, TextDelta)]
        return len(found) == 3

    await wait_until(are_told, "the agent to tell its processes", 60)
    return found
