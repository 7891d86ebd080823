"""Commands that need a server and no fleet; what they say when there is none, or when the configuration is wrong."""

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis
from typer.testing import CliRunner, Result

from tests.support.environment import without_settings
from tests.support.servers import Server
from workers.cli import ROLES, run_role
from workers.commands import submit
from workers.commands.index import build
from workers.commands.session import embedded_port
from workers.commands.settings import without_password
from workers.commands.up import invitation, run_roles
from workers.supervisor import Role


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    without_settings(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FOLDLINE_REDIS_URL", redis_url)
    return redis_url


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(build(run_role, ROLES), list(arguments))
    assert result.exit_code == code, (result.output, result.exception)
    return result


def role(name: str, *, code: int, **environ: str) -> str:
    """Run a role that ends by itself; returns all that it says."""
    command = [sys.executable, "-m", "workers", name]
    done = subprocess.run(
        command, env={**os.environ, **environ}, check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def run_json(*arguments: str, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code).stdout)


def test_a_key_is_shown_once_and_only_its_hash_is_kept(server: str) -> None:
    made = run_json("keys", "add", "team", "--name", "laptop")
    listed = run_json("keys", "list")
    assert [(row["id"], row["tenant"], row["name"]) for row in listed] == [(made["id"], "team", "laptop")]
    with redis.Redis.from_url(server, decode_responses=True) as client:
        kept = client.hgetall("fl:keys")
    assert made["key"] not in json.dumps(kept)
    assert made["key"].startswith("fk-")


def test_a_key_goes_to_stdout_alone_so_that_it_can_be_piped(server: str) -> None:
    result = run("keys", "add", "team")
    assert result.stdout.strip().startswith("fk-")
    assert "shown this once" in result.stderr


def test_a_revoked_key_is_gone(server: str) -> None:
    made = run_json("keys", "add", "team")
    assert run_json("keys", "revoke", made["id"]) == {"id": made["id"], "revoked": True}
    assert "no keys" in run("keys", "list").stdout
    assert "no key starts with" in run("keys", "revoke", made["id"], code=1).stderr


def test_revoking_what_is_not_unique_revokes_nothing(server: str) -> None:
    run("keys", "add", "one")
    run("keys", "add", "two")
    assert run("keys", "revoke", "", code=1).stderr
    assert len(run_json("keys", "list")) == 2


def test_a_tenant_that_cannot_be_named_so_is_refused(server: str) -> None:
    assert "tenant" in run("keys", "add", "Not A Tenant", code=2).stderr


def test_an_empty_server_has_no_turns_and_no_deliveries(server: str) -> None:
    assert run_json("turns") == []
    assert run("turns").stdout == "no turns\n"
    assert run_json("ledger", "list") == []


def test_the_doctor_judges_an_unused_server_and_writes_nothing_to_it(server: str) -> None:
    told = run_json("doctor", code=1)
    wrong = {finding["check"] for finding in told["findings"] if finding["level"] == "error"}
    assert wrong == {"persistence"}
    with redis.Redis.from_url(server) as client:
        assert client.dbsize() == 0


def test_the_doctor_refuses_data_of_another_number_of_partitions(server: str) -> None:
    with redis.Redis.from_url(server) as client:
        client.hset("fl:meta", mapping={"schema": "1", "partitions": "8"})
    told = run_json("doctor", code=1)
    assert any("number of partitions" in finding["found"] for finding in told["findings"])


def test_the_doctor_works_without_the_right_to_ask_for_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(aof=True) as limited:
        with limited.client() as client:
            client.execute_command("ACL", "SETUSER", "some", "on", ">word", "~*", "&*", "+@all", "-config")
        monkeypatch.setenv("FOLDLINE_REDIS_URL", f"redis://some:word@127.0.0.1:{limited.port}/0")
        told = run_json("doctor")
    (persistence,) = [finding for finding in told["findings"] if finding["check"] == "persistence"]
    assert "may not be asked" in persistence["found"]


def test_the_doctor_finds_a_server_that_evicts(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server("--maxmemory-policy", "allkeys-lru", aof=True) as evicting:
        monkeypatch.setenv("FOLDLINE_REDIS_URL", evicting.url)
        told = run_json("doctor", code=1)
    assert {one["check"] for one in told["findings"] if one["level"] == "error"} == {"eviction"}


def test_a_server_that_does_not_answer_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_REDIS_URL", "redis://127.0.0.1:1/0")
    assert "does not answer" in run("doctor", code=1).stdout
    told = run("turns", code=1).stderr
    assert "the server does not answer" in told
    assert "127.0.0.1:1" in told
    assert "FOLDLINE_REDIS_URL" in told


@pytest.mark.parametrize("secret", [None, "not-of-that-form"])
def test_a_role_without_a_usable_secret_ends_in_words_with_the_configurations_code(
    folder: Path, secret: str | None
) -> None:
    lines = ["[targets.team]", 'channel = "webhook"', 'url = "http://127.0.0.1:1/"', 'secret_env = "TEAM"']
    (folder / "foldline.toml").write_text("\n".join(lines), encoding="utf-8")
    told = role("delivery", code=78, **({"TEAM": secret} if secret else {}))
    assert "targets.team.secret_env" in told
    assert "Traceback" not in told


@pytest.mark.parametrize("section", ["gateway", "service"])
def test_a_role_whose_port_is_taken_says_whose_setting_that_is(redis_url: str, section: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = {"FOLDLINE_GATEWAY_PORT": "0", f"FOLDLINE_{section.upper()}_PORT": str(port)}
        told = role("gateway", code=1, FOLDLINE_REDIS_URL=redis_url, **ports)
    assert f"{section}.port: cannot listen at 127.0.0.1:{port} (Address already in use)\n" in told
    assert "Traceback" not in told


def test_up_ends_with_the_words_of_a_role_that_cannot_use_its_configuration(redis_url: str, folder: Path) -> None:
    target = '[targets.team]\nchannel = "telegram"\ntoken_env = "TEAM_TOKEN"\nrecipient = "7"\n'
    (folder / "foldline.toml").write_text(target, encoding="utf-8")
    told = role("up", code=78, FOLDLINE_REDIS_URL=redis_url, FOLDLINE_GATEWAY_PORT="0")
    assert (
        "delivery.1 exited with code 78: targets.team.token_env: the variable TEAM_TOKEN is not set"
        in told.splitlines()[-1]
    )
    assert "starts again" not in told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            '{"host": "::", "port": 80, "event": "listening"}',
            "open http://[::1]:80/ to watch a turn; clients take http://[::1]:80/v1",
        ),
        ('{"host": "0.0.0.0", "port": 9, "event": "operations_port"}', "open http://127.0.0.1:9/metrics"),
        ('{"host": "here", "port": 9, "event": "listening_no_more"}', None),
        ('{"event": "listening"}', None),
        ("listening", None),
    ],
)
def test_an_address_that_can_be_opened_is_told_by_what_a_process_logs(line: str, told: str | None) -> None:
    assert invitation(line) == told


@pytest.mark.parametrize("address", ["here", "http://", "ftp://127.0.0.1:1", "http://127.0.0.1:port"])
def test_an_address_that_is_none_is_refused_by_every_command_that_takes_one(folder: Path, address: str) -> None:
    (folder / "events").touch()
    for command in (["submit", "hi"], ["tail", "1-a"], ["publish", "1-a", "events"]):
        assert "http://HOST:PORT is expected" in run(*command, "--gateway", address, code=2).stderr


def test_a_gateway_that_is_away_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "GIVE_UP", 3)
    monkeypatch.setattr(submit, "AGAIN_S", 0.0)
    for command in (["submit", "hi"], ["tail", "1-a"]):
        told = run(*command, "--gateway", "http://127.0.0.1:1", code=1).stderr
        assert told.count("trying again") == 1
        assert "ssl" not in told
        assert "Traceback" not in told


READERS = (
    ("decode", "{}", "--wire", "chat", "--events"),
    ("publish", "1-a", "{}", "--gateway", "http://127.0.0.1:1"),
    ("submit", "--request", "{}", "--gateway", "http://127.0.0.1:1"),
)
"""Every command that reads what its line names."""


@pytest.mark.parametrize("command", READERS, ids=[words[0] for words in READERS])
@pytest.mark.parametrize(("file", "why"), [("nowhere", "No such file"), (".", "directory")])
def test_a_file_that_cannot_be_read_is_a_wrong_command_line_found_before_anything_is_done(
    command: tuple[str, ...], file: str, why: str
) -> None:
    told = run(*(word.replace("{}", file) for word in command), code=2).stderr
    assert told.startswith(f"foldline: {command[0]}: ")
    assert why in told
    assert "127.0.0.1" not in told


@pytest.mark.parametrize("command", [*READERS, ("submit", "{}")], ids=str)
def test_standard_input_that_is_closed_is_a_wrong_command_line(command: tuple[str, ...]) -> None:
    words = [sys.executable, "-m", "workers", *(word.replace("{}", "-") for word in command)]
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *words]
    told = subprocess.run(closed, check=False, capture_output=True, text=True, timeout=60)
    assert (told.returncode, told.stdout) == (2, "")
    assert "Traceback" not in told.stderr


def test_a_text_that_is_not_utf_8_is_refused_in_words() -> None:
    result = CliRunner().invoke(build(run_role, ROLES), ["submit", "-"], input=b"caf\xe9")
    assert result.exit_code == 2
    assert "no UTF-8" in result.stderr


def test_an_unknown_key_of_the_configuration_ends_every_command_with_its_own_code(folder: Path) -> None:
    (folder / "foldline.toml").write_text("[fold]\nlaese_ms = 1\n", encoding="utf-8")
    for command in (["config"], ["turns"], ["doctor"], ["up"]):
        assert "laese_ms" in run(*command, code=78).stderr


def test_a_broken_inequality_is_told_by_the_doctor_before_it_asks_a_server(folder: Path) -> None:
    (folder / "foldline.toml").write_text("[fold]\nlease_ms = 1000\n", encoding="utf-8")
    assert "a third of fold.lease_ms" in run("doctor", code=78).stderr


def test_a_password_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_REDIS_URL", "redis://user:secret@127.0.0.1:1/0")
    assert "secret" not in run("config").stdout
    assert "secret" not in run("doctor", code=1).output
    assert without_password("redis://host/0") == "redis://host/0"


def test_an_embedded_server_that_is_gone_is_not_used(folder: Path) -> None:
    assert embedded_port() is None
    (folder / ".foldline").mkdir()
    (folder / ".foldline" / "server.port").write_text("1")
    assert embedded_port() is None


def test_processes_that_cannot_share_a_port_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_SERVICE_PORT", "9100")
    assert "service.port: the processes of up cannot share port 9100" in run("up", code=78).stderr


def test_a_server_that_other_commands_do_not_look_for_is_told_with_its_address(folder: Path) -> None:
    roles = [Role(name="ends", command=(sys.executable, "-c", "import sys; sys.exit(78)"))]
    for data, expected in ((Path("elsewhere"), 1), (Path(".foldline"), 0)):
        with pytest.raises(SystemExit), contextlib.redirect_stdout(io.StringIO()) as told:
            run_roles(roles, data)
        port = (folder / data / "server.port").read_text()
        assert told.getvalue().count(f"give them FOLDLINE_REDIS_URL=redis://127.0.0.1:{port}/0") == expected


def test_what_is_no_folder_for_the_servers_data_is_refused_in_words(folder: Path) -> None:
    (folder / "file").touch()
    for data in ("file", "file/inside"):
        assert "cannot hold the server's data: " in run("up", "--data", data, code=1).stderr


def test_an_unknown_role_in_a_procfile_is_refused(folder: Path) -> None:
    (folder / "Procfile").write_text("nonsense\n", encoding="utf-8")
    assert "expected `name: command`" in run("up", "--procfile", "Procfile", code=78).stderr
