"""`foldline shadow` and `foldline publish` on a server: modes, totals, diffs; events from a file and from a pipe."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis
from redis.asyncio import Redis
from typer.testing import CliRunner, Result

from ledger.commands import SyncScripts
from ledger.keys import Keyspace, make_turn_id
from ledger.reports import settle_report, take_reports
from ledger.shadow import report_sent
from tests.support.deliveries import Desk
from tests.support.environment import without_settings
from tests.workers.gateway.stage import stage
from workers.cli import ROLES, run_role
from workers.commands.index import build
from workers.shadow.collection import Message


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> Path:
    without_settings(monkeypatch)
    monkeypatch.setenv("FOLDLINE_REDIS_URL", redis_url)
    monkeypatch.setenv("FOLDLINE_REDIS_PARTITIONS", "8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int = 0, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(build(run_role, ROLES), list(arguments), input=stdin)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def run_json(*arguments: str, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code).stdout)


def shadowed(url: str, number: int, ours: list[str], theirs: list[str] | None, runtime: str = "acp") -> str:
    """A shadowed turn with what foldline recorded and what the other path told."""

    async def make() -> str:
        async with Redis.from_url(url, decode_responses=True) as client:
            desk = Desk(client)
            desk.turn = make_turn_id(desk.p, f"{number:024x}")
            await desk.own("1:aaaa")
            targets = '[{"channel":"console","name":"hook"}]'
            await desk.open_turn(mode="shadow", runtime=runtime, targets=targets, state="completed")
            for block, text in enumerate(ours):
                part = desk.new_part(
                    block, channel="console", body=text, content_type="text/markdown", state="suppressed"
                )
                await desk.plan(part, block=block)
            await client.zadd(desk.keys.shadow(desk.p), {desk.turn: number})
            if theirs is not None:
                told = [msgspec.json.encode(Message(target="hook", text=text)).decode() for text in theirs]
                call = report_sent(desk.keys, desk.turn, dict(enumerate(told)), total=len(told), ttl_ms=60_000)
                assert (await desk.run(call)).status == "OK"
            return desk.turn

    return asyncio.run(make())


def test_reports_that_were_put_aside_are_listed_with_the_reason(redis_url: str) -> None:
    assert run("shadow", "aside").stdout == "no reports were put aside\n"
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        keys = Keyspace("fl", 8)
        entry = client.xadd(keys.reports, {"turn": "7-x", "report": "{}", "id": "mine"})
        scripts = SyncScripts(client)
        scripts.run(take_reports(keys, consumer="g", count=1, min_idle_ms=0, aside_ms=60_000))
        scripts.run(settle_report(keys, str(entry), aside_ms=60_000, why="turn_unknown: there is no turn '7-x'"))
    [row] = run_json("shadow", "aside")
    assert (row["turn"], row["id"], row["entry"], row["report"]) == ("7-x", "mine", entry, "{}")
    shown = run("shadow", "aside").stdout
    assert "turn_unknown: there is no turn '7-x'" in shown
    assert "7-x" in shown


def test_a_runtimes_mode_is_set_over_the_configuration_and_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_MODES_ACP", "shadow")
    rows = {row["runtime"]: (row["mode"], row["source"]) for row in run_json("shadow", "modes")}
    assert rows == {
        "main": ("live", "configuration"),
        "subagent": ("live", "configuration"),
        "acp": ("shadow", "configuration"),
    }
    [acp] = [row for row in run_json("shadow", "set", "acp", "live") if row["runtime"] == "acp"]
    assert (acp["mode"], acp["source"]) == ("live", "set while running")
    [acp] = [row for row in run_json("shadow", "set", "acp", "default") if row["runtime"] == "acp"]
    assert (acp["mode"], acp["source"]) == ("shadow", "configuration")


def test_what_is_no_runtime_or_mode_is_refused() -> None:
    assert "a runtime is one of" in run("shadow", "set", "robot", "live", code=2).stderr
    run("shadow", "set", "acp", "sideways", code=2)


def test_the_report_counts_every_turn_under_its_runtime(redis_url: str) -> None:
    assert run("shadow", "report").stdout == "no shadowed turns\n"
    shadowed(redis_url, 1, ["one two", "three"], ["one two", "three"])
    glued = shadowed(redis_url, 2, ["one two", "three"], ["onetwo", "three"])
    both = shadowed(redis_url, 3, ["one two", "three"], ["one two", "one two"])
    waiting = shadowed(redis_url, 4, ["one"], None)
    shadowed(redis_url, 5, ["one"], ["one"], runtime="main")
    told = run_json("shadow", "report")
    acp, main = told["totals"]
    assert acp == {
        "runtime": "acp", "turns": 4, "equal": 1, "spacing": 1, "splitting": 0, "order": 0, "missing": 1, "extra": 1,
        "unfinished": 0, "unreported": 1, "expired": 0,
    }  # fmt: skip
    assert (main["runtime"], main["turns"], main["equal"]) == ("main", 1, 1)
    assert {row["turn"]: row["verdict"] for row in told["turns"]} == {
        glued: "spacing",
        both: "missing, extra",
        waiting: "unreported",
    }
    assert [row["turns"] for row in run_json("shadow", "report", "--runtime", "main")["totals"]] == [1]
    table = run("shadow", "report").stdout
    assert "spacing" in table
    assert glued in table


def test_one_turns_diff_shows_both_sides(redis_url: str) -> None:
    turn = shadowed(redis_url, 2, ["one two", "three"], ["onetwo", "three"])
    shown = run("shadow", "show", turn).stdout
    assert "verdict  spacing" in shown
    assert "  - one two" in shown
    assert "  + onetwo" in shown
    assert run_json("shadow", "show", turn)["theirs"] == {"hook": ["onetwo", "three"]}
    assert "no turn" in run("shadow", "show", f"3-{9:024x}", code=1).stderr


def test_a_turn_that_is_delivered_here_has_nothing_to_compare(redis_url: str) -> None:
    turn = shadowed(redis_url, 2, [], None)
    with redis.Redis.from_url(redis_url) as client:
        client.hset(f"fl:{{3}}:turn:{turn}", "mode", "live")
    assert "nothing to compare" in run("shadow", "show", turn, code=1).stderr


# publish


class Served:
    """A gateway in a loop of its own, and an external turn that waits for its producer."""

    def __init__(self) -> None:
        self.url = self.turn = self.token = ""
        self.ready, self.over = threading.Event(), threading.Event()


@contextmanager
def gateway(redis_url: str) -> Iterator[Served]:
    served = Served()

    async def serve() -> None:
        async with stage(redis_url) as s:
            _, told = await s.post("/v1/turns", {"request": {}, "upstream": "outside"})
            served.url, served.turn, served.token = s.url, told["id"], told["producer"]["token"]
            served.ready.set()
            await asyncio.to_thread(served.over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert served.ready.wait(20)
        yield served
    finally:
        served.over.set()
        thread.join(20)


def line(**members: Any) -> str:
    return json.dumps({"type": "text_delta", "item": 0, "content": 0, "track": "text", "text": "a", **members})


END = json.dumps({"type": "turn_completed", "outcome": "completed"})


def publish(served: Served, *arguments: str, code: int = 0, stdin: str | None = None) -> Result:
    return run("publish", served.turn, *arguments, "--gateway", served.url, code=code, stdin=stdin)


def test_events_of_a_file_are_numbered_and_published_once_however_often(redis_url: str, folder: Path) -> None:
    numbered = [line(seq=1, at=1), line(seq=2, at=2)]
    (folder / "events").write_text("\n".join(numbered) + "\n")
    with gateway(redis_url) as served:
        assert publish(served, "events", "--token", served.token).stdout == "3\n"
        assert publish(served, "events", "--token", served.token).stdout == "3\n"  # stored already: left out
        (folder / "more").write_text("\n".join([*numbered, line(seq=3, at=3), END]))
        assert publish(served, "more").stdout == "5\n"  # without the token the turn is claimed
        with redis.Redis.from_url(redis_url, decode_responses=True) as client:
            partition = served.turn.split("-")[0]
            assert client.hget(f"fl:{{{partition}}}:turn:{served.turn}", "ended") == "turn_completed"


def test_a_line_that_is_no_event_ends_the_command_with_its_diagnostic(redis_url: str, folder: Path) -> None:
    (folder / "events").write_text(line(track="sideways") + "\n")
    (folder / "short").write_text(json.dumps({"type": "text_delta", "item": 0, "track": "text", "text": "a"}) + "\n")
    (folder / "gap").write_text(line(seq=1) + "\n" + line(seq=3) + "\n")
    with gateway(redis_url) as served:
        refused = publish(served, "events", "--token", served.token, code=2).stderr
        assert "value_unknown at $.track" in refused
        assert "line 1" in refused
        short = publish(served, "short", "--token", served.token, code=2).stderr
        assert "member_missing at $.content" in short  # and not the number, which may be left out
        assert "sequence_broken" in publish(served, "gap", "--token", served.token, code=2).stderr
        assert "No such file" in publish(served, "nowhere", "--token", served.token, code=2).stderr
