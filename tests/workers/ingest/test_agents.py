"""Real agents over their standard streams: a turn with a tool, permissions, cancels, crashes, and nothing left behind."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from structlog.testing import capture_logs

from pipeline.events import Status, TextDelta
from tests.support.waiting import wait_until
from tests.workers.ingest.agents import Reading, agent, begin, gone, whole_turn
from workers.ingest.failures import Phase, SourceError
from workers.ingest.requests import build
from workers.ingest.sources.agent_process import STDERR_BYTES
from workers.ingest.sources.agents import Agents


@pytest.fixture
async def agents() -> AsyncIterator[Agents]:
    running = Agents(2)
    yield running
    await running.close()


async def test_a_turn_with_a_tool(agents: Agents, tmp_path: Path) -> None:
    assert await whole_turn(agents, agent(tmp_path), "tool") == [
        "d 0.0 text 'Let me '",
        "d 0.0 text 'look. '",
        "f 0.0 text 'Let me look. '",
        "t+ 1 t1 Read notes read",
        "s in_progress",
        't- 1 t1 completed \'{"path":"n"}\' +output',
        "d 2.0 text 'It says notes.'",
        "f 2.0 text 'It says notes.'",
        "done completed",
    ]


@pytest.mark.parametrize(
    ("policy", "status", "answered"),
    [("allow", "completed", "yes"), ("reject", "failed", "no"), ("cancel", "failed", "cancelled")],
)
async def test_the_configuration_answers_for_us(
    agents: Agents, tmp_path: Path, policy: str, status: str, answered: str
) -> None:
    told = await whole_turn(agents, agent(tmp_path, permission=policy), "permission")
    assert told[:3] == ["t+ 0 t1 Edit notes edit", "s requires_action", f"t- 0 t1 {status} ''"]
    assert f"d 1.0 text 'Answered: {answered}.'" in told


async def test_a_cancelled_agent_ends_the_turn_itself_and_is_allowed_nothing_more(
    agents: Agents, tmp_path: Path
) -> None:
    source = await begin(agents, agent(tmp_path, permission="allow", cancel_wait_ms=1234), "wait")
    reading = Reading(source)
    await reading.until("t+ 1 t1 Work execute")
    assert source.cancel() == 1234
    assert source.cancel() == 1234
    told = await reading.whole()
    assert told[-1] == "cancelled"
    assert "d 2.0 text ' Stopped: cancelled.'" in told
    assert "t- 1 t1 cancelled ''" in told
    source.close()


@pytest.mark.long
async def test_where_nothing_is_waited_for_a_cancel_only_leaves(agents: Agents, tmp_path: Path) -> None:
    source = await begin(agents, agent(tmp_path, cancel_wait_ms=0), "stubborn")
    assert source.cancel() is None
    source.close()


async def test_a_crash_truncates_the_turn_and_its_last_words_are_logged(agents: Agents, tmp_path: Path) -> None:
    with capture_logs() as logged:
        told = await whole_turn(agents, agent(tmp_path), "crash")
        await wait_until(lambda: any(entry["event"] == "agent_failed" for entry in logged), "its end to be logged")
    assert told == ["d 0.0 text 'Half a sen'", "f 0.0 text 'Half a sen'", "fail upstream_truncated"]
    failed = next(entry for entry in logged if entry["event"] == "agent_failed")
    assert failed["code"] == 3
    assert failed["stderr"].endswith("the last words\n")
    assert len(failed["stderr"]) <= STDERR_BYTES


async def test_it_sees_the_allowed_variables_and_works_in_its_folder(
    agents: Agents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "x")
    monkeypatch.setenv("MAY_SEE", "x")
    source = await begin(agents, agent(tmp_path, env_allow=["PATH", "MAY_SEE", "NOT_SET"]), "environment")
    reading = Reading(source)
    await reading.whole()
    source.close()
    seen = json.loads("".join(event.text for event in reading.events if isinstance(event, TextDelta)))
    assert seen["cwd"] == str(tmp_path)
    assert set(seen["names"]) - {"LC_CTYPE"} == {"PATH", "MAY_SEE"}


async def test_nothing_that_it_started_stays(agents: Agents, tmp_path: Path) -> None:
    source = await begin(agents, agent(tmp_path), "children")
    reading = Reading(source)
    await reading.until(" ")
    while len(pids := [int(event.text) for event in reading.events if isinstance(event, TextDelta)]) < 3:
        await reading.one()
    assert not any(gone(pid) for pid in pids)
    assert all(os.getsid(pid) != os.getsid(0) for pid in pids)
    source.close()
    await wait_until(lambda: gone(*pids), "all of them to go")


async def test_whoever_waits_for_a_place_says_so(tmp_path: Path) -> None:
    agents, told = Agents(1), list[str]()

    @contextmanager
    def waiting() -> Iterator[None]:
        told.append("waits")
        yield
        told.append("has its place")

    upstream = agent(tmp_path)
    first = await begin(agents, upstream, "wait")
    second = asyncio.create_task(
        agents.open(upstream, build(upstream, b'{"input":"wait"}', {}), os.environ, waiting=waiting)
    )
    await wait_until(lambda: told == ["waits"], "the second to wait")
    first.close()
    (await second).close()
    assert told == ["waits", "has its place"]
    await agents.close()


@pytest.mark.long
async def test_no_more_than_so_many_run_at_once(tmp_path: Path) -> None:
    agents = Agents(1)
    first = await begin(agents, agent(tmp_path), "stubborn")
    second = asyncio.create_task(begin(agents, agent(tmp_path), "stubborn"))
    await Reading(first).until("Going on")
    assert not second.done()
    first.close()
    (await second).close()
    await agents.close()


async def test_what_it_says_before_the_prompt_is_no_part_of_the_turn(agents: Agents, tmp_path: Path) -> None:
    source = await begin(agents, agent(tmp_path), "hello there")
    reading = Reading(source)
    assert await reading.whole() == [
        "d 0.0 text 'hello '",
        "d 0.0 text 'there '",
        "f 0.0 text 'hello there '",
        "done completed",
    ]
    source.close()
    started = reading.events[0]
    assert isinstance(started, Status)
    assert (started.name, str((started.wire or {})["response"]["id"])[:8]) == ("upstream_started", "session-")


EARLY = """
import json, sys
def say(*messages):
    sys.stdout.write("".join(json.dumps({"jsonrpc": "2.0", **message}) + "\\n" for message in messages))
    sys.stdout.flush()
def text(said):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": said}}
    return {"method": "session/update", "params": {"sessionId": "s", "update": update}}
def hear():
    return json.loads(sys.stdin.readline())["id"]
say({"id": hear(), "result": {"protocolVersion": 1}})
lines = [text("past"), {"id": hear(), "result": {"sessionId": "s"}}, text("early ")]
say(*lines) if sys.argv[1] == "together" else [say(line) for line in lines]
say(text("late"), {"id": hear(), "result": {"stopReason": "end_turn"}})
sys.stdin.read()
"""


@pytest.mark.parametrize("written", ["together", "apart"])
async def test_what_stands_behind_the_answer_that_opened_the_session_is_the_turns_whenever_it_comes(
    agents: Agents, tmp_path: Path, written: str
) -> None:
    raw = agent(tmp_path, command=[sys.executable, "-S", "-c", EARLY, written])
    told = await whole_turn(agents, raw, "hi")
    assert told == ["d 0.0 text 'early '", "d 0.0 text 'late'", "f 0.0 text 'early late'", "done completed"]


@pytest.mark.long
async def test_noise_and_requests_that_we_do_not_serve(agents: Agents, tmp_path: Path) -> None:
    assert (await whole_turn(agents, agent(tmp_path), "noise"))[1] == "s unknown"
    told = await whole_turn(agents, agent(tmp_path), "read")
    assert told[:2] == ["s client_request", "d 0.0 text 'refused -32601'"]


@pytest.mark.long
async def test_an_earlier_session_is_loaded_where_the_agent_can(agents: Agents, tmp_path: Path) -> None:
    source = await begin(agents, agent(tmp_path, "--loads"), "hi", previous_response_id="session-9")
    reading = Reading(source)
    assert (await reading.whole())[0] == "d 0.0 text 'hi '"
    source.close()
    assert (getattr(reading.events[0], "wire", None) or {})["response"] == {"id": "session-9"}
    with pytest.raises(SourceError, match="upstream_request_unsupported: previous_response_id"):
        await begin(agents, agent(tmp_path), "hi", previous_response_id="session-9")


@pytest.mark.parametrize(
    ("arguments", "settings", "code", "phase"),
    [
        (("--refuse",), {}, "upstream_unauthorized", Phase.STATUS),
        (("--hang",), {"connect_timeout_ms": 300}, "upstream_connect_failed", Phase.CONNECT),
        ((), {"command": ["/no/such/program"]}, "upstream_connect_failed", Phase.CONNECT),
        ((), {"command": ["true"]}, "upstream_connect_failed", Phase.CONNECT),
        ((), {"cwd": "/no/such/folder"}, "upstream_connect_failed", Phase.CONNECT),
        ((), {"command": ["yes"]}, "upstream_connect_failed", Phase.CONNECT),
    ],
)
async def test_an_agent_that_does_not_get_ready(
    agents: Agents, tmp_path: Path, arguments: tuple[str, ...], settings: dict[str, Any], code: str, phase: Phase
) -> None:
    if settings.get("command") == ["yes"]:
        settings = {**settings, "connect_timeout_ms": 300}
    with pytest.raises(SourceError) as failed:
        await begin(agents, agent(tmp_path, *arguments, **settings), "hi")
    assert (failed.value.error.code, failed.value.phase) == (code, phase)
    assert "/no/such" not in failed.value.error.message


@pytest.mark.long
async def test_pictures_are_for_agents_that_take_them(agents: Agents, tmp_path: Path) -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    upstream = agent(tmp_path)
    with pytest.raises(SourceError, match="the agent takes no image"):
        await begin(agents, upstream, "", input=[{"role": "user", "content": [picture]}])


async def test_an_agent_that_falls_silent_is_stalled(agents: Agents, tmp_path: Path) -> None:
    source = await begin(agents, agent(tmp_path, read_timeout_ms=200), "stubborn")
    with pytest.raises(SourceError) as failed:
        await Reading(source).whole()
    assert failed.value.error.code == "upstream_stalled"
    source.close()


async def test_a_flood_on_its_standard_error_holds_up_nothing(agents: Agents, tmp_path: Path) -> None:
    upstream = agent(tmp_path)
    flooding = ["sh", "-c", 'yes "an error" | head -c 20000000 >&2 & exec "$@"', "sh", *upstream.command]
    told = await whole_turn(agents, agent(tmp_path, command=flooding), "tool")
    assert told[-1] == "done completed"
    assert (await whole_turn(agents, upstream, "hello"))[-1] == "done completed"


async def test_it_has_no_files_of_ours(agents: Agents, tmp_path: Path) -> None:
    source = await begin(agents, agent(tmp_path), "stubborn")
    reading = Reading(source)
    await reading.until("Going on")
    (itself,) = psutil.Process(source.pid).children()
    names = {str(one.readlink()) for one in Path(f"/proc/{itself.pid}/fd").iterdir()}
    assert {name.partition(":")[0] for name in names} <= {"pipe", "anon_inode", "socket"}
    assert len([name for name in names if name.startswith("pipe")]) == 3
    source.close()
