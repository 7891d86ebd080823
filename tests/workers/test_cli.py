"""The command line against a fleet that `foldline up` started: embedded server, four roles, one upstream, one console target."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
import redis
from typer.testing import CliRunner, Result

from scripts.sample_upstream import PARAGRAPHS
from tests.support.environment import without_settings
from tests.support.servers import free_port
from tests.support.waiting import wait_until, wait_until_sync
from workers.cli import ROLES, run_role
from workers.commands import turns as listing
from workers.commands.index import build

ROOT = Path(__file__).resolve().parents[2]
TEXT = "\n\n".join(PARAGRAPHS)
CONFIGURATION = """
[redis]
block_ms = 200
partitions = 4
[ingest]
lease_ms = 1500
renew_ms = 400
[fold]
lease_ms = 1500
renew_ms = 400
[delivery]
lease_ms = 2500
renew_ms = 400
send_deadline_ms = 1500
margin_ms = 200
[gateway]
port = {gateway}
default_upstream = "sample"
[upstreams.sample]
base_url = "http://127.0.0.1:{upstream}/v1"
side_effects = false
[targets.screen]
channel = "console"
path = "{folder}/console.jsonl"
"""


def plain_environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOLDLINE_")}
    return {**kept, "PYTHONPATH": str(ROOT)}


@dataclass
class Site:
    """A folder in which a fleet runs."""

    folder: Path
    up: subprocess.Popen[bytes]

    def run(self, *arguments: str, code: int = 0, given: str | None = None) -> Result:
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            result = CliRunner().invoke(build(run_role, ROLES), list(arguments), input=given)
        finally:
            os.chdir(before)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.run(*arguments, "--json", code=code).stdout)

    def turn(self, **wanted: str) -> str:
        """Submit a turn to the console and wait until it owes nothing more."""
        options = [word for name, value in wanted.items() for word in (f"--{name}", value)]
        turn = self.run("submit", "Hello.", "--target", "screen", *options).stdout.strip()
        wait_until_sync(lambda: self.is_settled(turn), f"{turn} to be delivered", timeout_s=30, every_s=0.05)
        return turn

    def is_settled(self, turn: str) -> bool:
        shown = self.json("turn", turn)
        return bool(shown["ended"] and shown["blocks"] == shown["planned"] and not shown["open_parts"])

    def is_whole(self) -> bool:
        """Whether every role lives and every partition has an owner."""
        told = self.doctor()
        return told.count(": 1 live") == len(ROLES) and "nobody owns" not in told

    def doctor(self) -> str:
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            return CliRunner().invoke(build(run_role, ROLES), ["doctor"]).stdout
        finally:
            os.chdir(before)

    def redis(self) -> redis.Redis:
        port = int((self.folder / ".foldline" / "server.port").read_text())
        return redis.Redis(port=port, decode_responses=True, socket_timeout=5)


def start_site(folder: Path, upstream: int) -> Site:
    text = CONFIGURATION.format(gateway=free_port(), upstream=upstream, folder=folder)
    (folder / "foldline.toml").write_text(text, encoding="utf-8")
    with (folder / "up.log").open("wb") as log:
        up = subprocess.Popen(
            [sys.executable, "-m", "workers", "up"], cwd=folder, env=plain_environ(), stdout=log, stderr=log
        )
    return Site(folder, up)


@pytest.fixture(scope="module")
def upstream() -> Iterator[int]:
    port = free_port()
    command = [sys.executable, "-m", "scripts.sample_upstream", "--port", str(port), "--delay-ms", "0"]
    process = subprocess.Popen(command, cwd=ROOT)
    yield port
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, upstream: int) -> Iterator[Site]:
    made = start_site(tmp_path_factory.mktemp("site"), upstream)
    wait_until_sync(made.is_whole, "the fleet to be whole", timeout_s=60, every_s=0.1)
    yield made
    made.up.send_signal(signal.SIGINT)
    assert made.up.wait(timeout=30) == 0, (made.folder / "up.log").read_text()


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    without_settings(monkeypatch)


def test_a_submitted_turn_is_followed_to_its_end(site: Site) -> None:
    result = site.run("submit", "Hello.", "--follow")
    assert result.stdout == TEXT + "\n"
    assert "completed" in result.stderr


def test_the_same_idempotency_key_gives_the_same_turn(site: Site) -> None:
    first = site.run("submit", "Hello.", "--key", "once").stdout
    assert site.run("submit", "Hello.", "--key", "once").stdout == first
    site.run("submit", "Something else.", "--key", "once", code=1)


def test_a_whole_request_can_be_given_on_standard_input(site: Site) -> None:
    turn = site.run("submit", "--request", "-", given='{"input": "Hello."}').stdout.strip()
    assert site.run("tail", turn).stdout == TEXT + "\n"


@pytest.mark.parametrize("wrong", [["submit"], ["submit", "x", "--request", "y"], ["submit", "--request", "/none"]])
def test_a_request_that_cannot_be_read_is_refused(site: Site, wrong: list[str]) -> None:
    site.run(*wrong, code=2)


def test_an_upstream_that_is_not_configured_is_refused_in_the_gateways_words(site: Site) -> None:
    result = site.run("submit", "Hello.", "--upstream", "nobody", code=1)
    assert "nobody" in result.stderr
    assert "under [upstreams]" in result.stderr


def test_a_turn_is_read_again_whole_or_from_a_number(site: Site) -> None:
    turn = site.turn()
    whole = [json.loads(line) for line in site.run("tail", turn, "--json").stdout.splitlines()]
    assert [frame["sequence_number"] for frame in whole] == list(range(len(whole)))
    rest = [json.loads(line) for line in site.run("tail", turn, "--json", "--after", "9").stdout.splitlines()]
    assert rest == whole[10:]
    frames = site.run("tail", turn, "--frames").stdout
    assert frames.count("\n\n") == len(whole)
    assert site.run("tail", turn, "--after", str(len(whole) - 1)).stdout == ""


def test_a_turn_that_never_was_is_an_error_everywhere(site: Site) -> None:
    for command in (["turn", "0-" + "0" * 24], ["tail", "0-" + "0" * 24], ["refold", "0-" + "0" * 24], ["turn", "x"]):
        assert site.run(*command, code=1).stderr


def test_turns_are_listed_newest_first_and_by_state(site: Site) -> None:
    turn = site.turn()
    listed = site.json("turns")
    assert listed[0]["turn"] == turn
    assert listed[0]["state"] == "completed"
    assert re.search(rf"{turn}.* \(\d+\w+ ago\)", site.run("turns").stdout)
    assert all(len(row["submitted"]) == len("2026-01-01T00:00:00.000Z") for row in listed)
    assert site.json("turns", "--state", "queued") == []
    assert len(site.json("turns", "--count", "1")) == 1
    assert "'bogus'" in site.run("turns", "--state", "bogus", code=2).stderr


def test_a_turn_is_found_by_its_state_behind_any_number_of_newer_ones(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE", 1)
    oldest, *_ = [site.turn(session="deep", key=f"deep-{number}") for number in range(3)]
    with site.redis() as client:
        client.hset(f"fl:{{{oldest.partition('-')[0]}}}:turn:{oldest}", "state", "failed")
    assert [row["turn"] for row in site.json("turns", "--state", "failed", "--count", "1")] == [oldest]


def test_one_turn_is_shown_with_its_numbers_and_parts(site: Site) -> None:
    turn = site.turn()
    shown = site.json("turn", turn)
    assert shown["state"] == "completed"
    assert shown["frames"] == len(site.run("tail", turn, "--json").stdout.splitlines())
    assert len(shown["parts"]) == shown["blocks"]
    assert shown["usage"]["output_tokens"] > 0
    assert "completed" in site.run("turn", turn).stdout


def test_deliveries_are_listed_by_turn_and_shown_one_by_one(site: Site) -> None:
    turn = site.turn()
    listed = site.json("ledger", "list", "--turn", turn)
    assert {row["state"] for row in listed} == {"sent"}
    shown = site.json("ledger", "show", listed[0]["part"])
    assert (shown["turn"], shown["state"], shown["attempts"]) == (turn, "sent", 1)
    assert "screen" in site.run("ledger", "list", "--turn", turn).stdout
    assert site.json("ledger", "list", "--turn", turn, "--state", "dead") == []
    assert site.run("ledger", "list").stdout == "no deliveries\n"
    for line in (site.folder / "console.jsonl").read_text().splitlines():
        assert json.loads(line)["text"] in TEXT


@pytest.mark.parametrize("order", [["resolve", "sent"], ["resolve", "not-sent"], ["resend"], ["requeue"], ["drop"]])
def test_an_operators_word_about_a_delivery_that_was_sent_is_refused(site: Site, order: list[str]) -> None:
    part = site.json("ledger", "list", "--turn", site.turn(key="operators"))[0]["part"]
    verb, *outcome = order
    assert "sent" in site.run("ledger", verb, part, *outcome, code=1).stderr


def test_an_unknown_delivery_is_listed_and_resolved_by_a_person(site: Site) -> None:
    turn = site.turn()
    part = site.json("ledger", "list", "--turn", turn)[0]["part"]
    name, rest = part.split("/", 1)
    with site.redis() as client:
        key = f"fl:{{{turn.partition('-')[0]}}}"
        just_now = int(client.time()[0]) * 1000
        record = f"{key}:part:{name}:{rest.replace('/', ':')}"
        client.hset(record, mapping={"state": "unknown", "attempt_at": just_now + 60_000})
        client.zadd(f"{key}:unknown", {part: 1})
    assert [row["part"] for row in site.json("ledger", "list", "--state", "unknown", code=3)] == [part]
    assert any("may or may not" in one["found"] for one in site.json("doctor")["findings"])
    assert "quarantine" in site.run("ledger", "resolve", part, "sent", code=1).stderr
    with site.redis() as client:
        client.hset(record, "attempt_at", 1)
    assert site.json("ledger", "resolve", part, "sent", "--by", "me") == {"part": part, "state": "sent"}
    assert site.json("ledger", "list", "--state", "unknown") == []


def test_a_turn_folds_again_to_the_same_bytes(site: Site) -> None:
    turn = site.turn()
    found = site.json("refold", turn)
    assert (found["result"], found["differences"]) == ("same", [])
    assert found["frames"] == site.json("turn", turn)["frames"]
    assert "same" in site.run("refold", turn).stdout


def test_other_bytes_than_the_log_gives_are_found(site: Site) -> None:
    turn = site.turn()
    with site.redis() as client:
        key = f"fl:{{{turn.partition('-')[0]}}}:block:{turn}:0"
        client.hset(key, "text", "something else")
    found = site.json("refold", turn, code=1)
    assert (found["result"], found["differences"]) == ("different", ["blocks"])
    assert '["blocks"]' in site.run("refold", turn, code=1).stdout


def test_a_turn_whose_log_is_gone_says_so(site: Site) -> None:
    turn = site.turn()
    with site.redis() as client:
        log = f"fl:{{{turn.partition('-')[0]}}}:log"
        first = client.lrange(f"fl:{{{turn.partition('-')[0]}}}:entries:{turn}", 0, 0)
        client.xdel(log, *first)
    assert site.json("refold", turn, code=1)["result"] == "log_trimmed"
    assert "log_trimmed" in site.run("refold", turn, code=1).stdout


def test_the_doctor_finds_a_sound_fleet_healthy(site: Site) -> None:
    told = site.json("doctor")
    assert told["healthy"], told
    checks = {finding["check"] for finding in told["findings"]}
    assert {"configuration", "installation", "server", "persistence", "fold", "delivery", "target screen"} <= checks
    living = {finding["check"] for finding in told["findings"] if finding["found"] == "1 live"}
    assert living == {"ingest", "fold", "delivery", "gateway"}


def test_the_configuration_is_printed_with_its_sources(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_GATEWAY_POLL_MS", "700")
    rows = {row["key"]: row for row in site.json("config")}
    assert rows["gateway.poll_ms"] == {"key": "gateway.poll_ms", "value": 700, "source": "FOLDLINE_GATEWAY_POLL_MS"}
    assert rows["redis.partitions"]["source"] == "foldline.toml"
    assert rows["gateway.host"]["source"] == "default"
    assert rows["redis.url"]["source"] == ".foldline/server.port"


def test_a_second_fleet_in_the_same_folder_is_refused(site: Site) -> None:
    command = [sys.executable, "-m", "workers", "up"]
    second = subprocess.run(command, cwd=site.folder, env=plain_environ(), capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert f"in use by process {site.up.pid}" in second.stderr


async def test_the_gateway_of_up_answers(site: Site) -> None:
    config = {row["key"]: row["value"] for row in site.json("config")}
    url = f"http://127.0.0.1:{config['gateway.port']}/healthz"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 200


async def test_up_names_the_address_that_a_browser_opens(site: Site) -> None:
    def told() -> list[str]:
        return re.findall(r"gateway\.1 +\| open (http://\S+) to watch a turn", (site.folder / "up.log").read_text())

    await wait_until(told, "the address to be named")
    async with aiohttp.ClientSession() as session, session.get(told()[-1]) as answer:
        assert answer.content_type == "text/html"


def test_nothing_is_left_of_a_fleet_whose_supervisor_is_killed(tmp_path: Path, upstream: int) -> None:
    site = start_site(tmp_path, upstream)
    wait_until_sync(lambda: len(children(site.up.pid)) == 5, "a server and four roles", timeout_s=30)
    pids = children(site.up.pid)
    site.up.kill()
    site.up.wait()
    wait_until_sync(lambda: not any(is_running(pid) for pid in pids), "all to be gone")


def children(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
