"""What the doctor says of what was read: each judgement by values."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledger.delivery import Tally
from ledger.errors import SchemaMismatch, Unavailable
from ledger.records import OwnerRecord, Positions
from workers.commands import diagnosis
from workers.commands.diagnosis import Finding, Level
from workers.commands.probes import Fleet, Group, Installed, Partition, Server
from workers.config import Config, TargetConfig

NOW = 1_000_000
WEBHOOK_SECRET = "whsec_" + "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u"  # 24 bytes


def server(fsync: str | None = "always", **info: str) -> Server:
    sound = {
        "redis_version": "7.2.4",
        "server_name": "valkey",
        "valkey_version": "9.1.0",
        "redis_mode": "standalone",
        "maxmemory_policy": "noeviction",
        "maxmemory": "0",
        "used_memory": "1000",
        "aof_enabled": "1",
    }
    return Server(info={**sound, **info}, appendfsync=fsync, now_ms=NOW, asked_at_ms=NOW - 1, answered_at_ms=NOW + 1)


def config(**sections: object) -> Config:
    return msgspec.convert(sections, Config)


def chat(channel: str) -> dict[str, object]:
    return {"team": {"channel": channel, "token_env": "TEAM_TOKEN", "recipient": "1"}}


def webhook(**members: object) -> dict[str, object]:
    return {"team": {"channel": "webhook", "url": "http://127.0.0.1:1/", "secret_env": "TEAM", **members}}


def partition(
    number: int = 0,
    *,
    lease_until: int = NOW + 1000,
    published: int = 0,
    unknown: int = 0,
    dead: int = 0,
    lanes: int = 0,
    groups: tuple[Group, ...] = (),
    streams: frozenset[str] = frozenset(),
    suspect: str = "",
) -> Partition:
    owner = OwnerRecord(epoch=1, token="1:aa", worker="w", lease_until=lease_until)
    tally = Tally(
        now=NOW, sending=0, due=0, unknown=unknown, unknown_since=0, dead=dead, dead_since=0, lanes=lanes, late=0
    )
    positions = Positions.from_hash({"published": str(published), "suspect": suspect})
    return Partition(
        number=number,
        owners={"fold": owner, "delivery": owner},
        positions=positions,
        groups=groups,
        streams=streams,
        tally=tally,
    )


def fleet(*partitions: Partition) -> Fleet:
    return Fleet(now_ms=NOW, partitions=partitions, workers={"fold": ["a", "b"], "ingest": []})


def levels(findings: object) -> list[Level]:
    assert isinstance(findings, list)
    return [finding.level for finding in findings]


def one(found: list[Finding]) -> Finding:
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("info", "level"),
    [
        ({}, Level.OK),
        ({"valkey_version": "7.2.0"}, Level.OK),
        ({"valkey_version": "7.1.9"}, Level.ERROR),
        ({"server_name": "redis", "redis_version": "7.0.15"}, Level.OK),
        ({"server_name": "", "redis_version": "6.2.14"}, Level.ERROR),
    ],
)
def test_a_server_below_the_floor_is_an_error(info: dict[str, str], level: Level) -> None:
    assert one(list(diagnosis.version(server(**info)))).level is level


def test_a_server_that_may_evict_is_an_error_and_says_what_to_set() -> None:
    finding = one(list(diagnosis.memory(server(maxmemory_policy="allkeys-lru"))))
    assert (finding.level, finding.advice) == (Level.ERROR, "set it to noeviction")


def test_memory_past_the_producers_share_is_a_warning() -> None:
    assert one(list(diagnosis.memory(server(maxmemory="1000", used_memory="900")))).level is Level.WARNING
    assert one(list(diagnosis.memory(server(maxmemory="1000", used_memory="500")))).level is Level.OK


def test_a_server_without_an_append_only_file_is_an_error_unless_replicas_hold_the_data() -> None:
    bare = server(aof_enabled="0")
    assert one(list(diagnosis.persistence(bare, config()))).level is Level.ERROR
    replicated = server(aof_enabled="0", connected_slaves="1")
    assert one(list(diagnosis.persistence(replicated, config(redis={"durable": "wait"})))).level is Level.WARNING


def test_persistence_is_judged_without_rights_to_ask_for_settings() -> None:
    finding = one(list(diagnosis.persistence(server(fsync=None), config())))
    assert finding.level is Level.OK
    assert "may not be asked" in finding.found


def test_a_failed_write_of_the_append_only_file_is_an_error() -> None:
    assert Level.ERROR in levels(list(diagnosis.persistence(server(aof_last_write_status="err"), config())))


def test_a_bots_token_that_is_not_set_is_a_warning() -> None:
    finding = one(list(diagnosis.secrets(config(targets=chat("slack")), {})))
    assert (finding.level, finding.found) == (Level.WARNING, "TEAM_TOKEN is not set here")
    assert list(diagnosis.secrets(config(targets=chat("slack")), {"TEAM_TOKEN": "xoxb-1-a"})) == []


@pytest.mark.parametrize(
    ("targets", "secret", "level"),
    [
        (chat("telegram"), "42:AA BB", Level.ERROR),
        (chat("discord"), "https://discord.com/api/webhooks/1/hidden", Level.ERROR),
        (chat("discord"), "Bot hidden.hidden.hidden", Level.ERROR),
        (chat("slack"), "hidden", Level.WARNING),
        (webhook(), "hidden", Level.ERROR),
        (webhook(), "whsec_aGlkZGVu", Level.WARNING),
    ],
)
def test_a_secret_of_the_wrong_form_is_told_by_its_target_and_variable_alone(
    targets: dict[str, Any], secret: str, level: Level
) -> None:
    variable = targets["team"].get("token_env") or targets["team"]["secret_env"]
    finding = one(list(diagnosis.secrets(config(targets=targets), {variable: secret})))
    assert (finding.level, finding.check) == (level, "target team")
    assert variable in finding.found
    assert not any(piece in f"{finding.found} {finding.advice}" for piece in ("hidden", "aGlkZGVu", "AA", "BB"))


def test_a_key_and_a_login_of_the_wrong_form_are_told_by_their_upstream() -> None:
    way = {"base_url": "https://x", "proxy": "http://p:1", "proxy_auth_env": "LOGIN", "api_key_env": "KEY"}
    found = list(diagnosis.secrets(config(upstreams={"api": way}), {"LOGIN": "hidden", "KEY": "hidden\n"}))
    assert [(finding.level, finding.check) for finding in found] == [(Level.ERROR, "upstream api")] * 2
    assert "white space" in found[0].found
    assert "USER:PASSWORD" in found[1].found
    assert "hidden" not in str(found)


@pytest.mark.parametrize(
    ("fsync", "durable", "target", "words"),
    [
        ("everysec", "none", webhook(), "at-least-once"),
        (None, "none", webhook(), "at-least-once"),
        ("always", "none", webhook(), "exactly once"),
        ("everysec", "waitaof", webhook(), "exactly once"),
        ("always", "none", webhook(key_window_ms=1000), "at most once"),
        ("always", "none", webhook(key_window_ms=1000, policy="resend"), "at-least-once"),
        ("always", "none", {"team": {"channel": "console"}}, "at most once"),
        ("always", "none", chat("discord"), "exactly once at a receiver that remembers our keys for 120 s"),
        ("always", "none", chat("slack"), "exactly once: what a crash cuts is asked for"),
        ("always", "none", chat("telegram"), "at most once"),
        ("everysec", "none", chat("discord"), "at-least-once"),
    ],
)
def test_each_target_is_labelled_with_what_it_may_expect(
    fsync: str | None, durable: str, target: dict[str, object], words: str
) -> None:
    finding = one(list(diagnosis.durability(server(fsync=fsync), config(redis={"durable": durable}, targets=target))))
    assert words in finding.found
    assert finding.level is (Level.WARNING if words == "at-least-once" else Level.OK)


def test_a_cluster_and_its_setting_must_agree() -> None:
    assert one(list(diagnosis.cluster(server(redis_mode="cluster"), config()))).level is Level.ERROR
    assert one(list(diagnosis.cluster(server(), config(redis={"cluster": True})))).level is Level.ERROR
    assert list(diagnosis.cluster(server(), config())) == []


def test_a_clock_far_from_the_servers_is_a_warning() -> None:
    assert list(diagnosis.clock(server())) == []
    apart = Server(info={}, appendfsync=None, now_ms=NOW, asked_at_ms=NOW + 9000, answered_at_ms=NOW + 9001)
    assert one(list(diagnosis.clock(apart))).level is Level.WARNING


def test_a_secret_that_is_not_set_is_named() -> None:
    upstream = {"openai": {"base_url": "http://x", "api_key_env": "OPENAI_KEY"}}
    found = list(diagnosis.secrets(config(upstreams=upstream, targets=webhook()), {}))
    assert [finding.found for finding in found] == ["OPENAI_KEY is not set here", "TEAM is not set here"]
    assert (
        list(
            diagnosis.secrets(
                config(upstreams=upstream, targets=webhook()), {"OPENAI_KEY": "k", "TEAM": WEBHOOK_SECRET}
            )
        )
        == []
    )


def test_what_an_upstream_is_reached_by_must_be_there(tmp_path: Path) -> None:
    way = {
        "base_url": "https://x",
        "proxy": "http://p:1",
        "proxy_auth_env": "LOGIN",
        "ca_file": str(tmp_path / "ca.pem"),
    }
    known = config(upstreams={"api": way})
    assert [finding.advice for finding in diagnosis.secrets(known, {})] == [
        "set it for the ingest processes, or its proxy will refuse them"
    ]
    assert list(diagnosis.secrets(known, {"LOGIN": "a:b"})) == []
    assert one(list(diagnosis.authorities(known))).found == f"{tmp_path / 'ca.pem'} is no file here"
    (tmp_path / "ca.pem").touch()
    assert list(diagnosis.authorities(known)) == []


def test_an_agent_whose_program_or_folder_is_not_there_is_named(tmp_path: Path) -> None:
    def found(**changes: Any) -> list[str]:
        agent = {"wire": "acp", "command": ["sh"], "cwd": str(tmp_path), **changes}
        environ = {"PATH": os.environ["PATH"]}
        return [finding.found for finding in diagnosis.agents(config(upstreams={"coder": agent}), environ)]

    assert found() == []
    assert found(command=["no-such-agent"]) == ["no-such-agent is not found here"]
    assert found(env_allow=[]) == ["sh is not found here"]
    assert found(cwd="/no/such/folder") == ["/no/such/folder is no folder here"]


def test_a_fleet_without_an_upstream_is_told_that_it_accepts_nothing() -> None:
    assert one(list(diagnosis.upstreams(config()))).level is Level.WARNING
    assert list(diagnosis.upstreams(config(upstreams={"u": {"base_url": "http://x"}}))) == []


def test_an_unsigned_webhook_is_a_warning() -> None:
    assert one(list(diagnosis.secrets(config(targets=webhook(secret_env="")), {}))).level is Level.WARNING


def test_a_target_that_records_is_told_apart_from_one_that_sends() -> None:
    targets = {"room": TargetConfig(channel="discord", recipient="1", record="out.jsonl")}
    finding = one(list(diagnosis.secrets(config(targets=targets), {})))
    assert (finding.level, finding.found) == (Level.WARNING, "records into out.jsonl, and sends nothing")


def test_a_name_that_another_distribution_owns_is_an_error() -> None:
    ours = Installed(name="ledger", owners=[], file="/x/ledger/__init__.py")
    theirs = Installed(name="pipeline", owners=["foldline", "pipeline"], file="/x/pipeline/__init__.py")
    assert one(list(diagnosis.owned_names([ours]))).level is Level.OK
    assert one(list(diagnosis.owned_names([ours, theirs]))).level is Level.ERROR
    assert (
        one(list(diagnosis.owned_names([ours, Installed(name="workers", owners=[], file=None)]))).level is Level.ERROR
    )
    elsewhere = Installed(name="workers", owners=[], file="/y/workers/__init__.py")
    assert one(list(diagnosis.owned_names([ours, elsewhere]))).level is Level.ERROR


def test_a_partition_without_an_owner_is_a_warning_and_an_error_once_work_waits_there() -> None:
    def of(role: str, found: Fleet) -> list[Level]:
        return [finding.level for finding in diagnosis.fleet(found) if finding.check == role]

    assert of("delivery", fleet(partition())) == [Level.OK]
    assert of("delivery", fleet(partition(lease_until=NOW - 1))) == [Level.WARNING]
    assert of("delivery", fleet(partition(lease_until=NOW - 1, lanes=1))) == [Level.ERROR]
    assert Level.ERROR in of("fold", fleet(partition(lease_until=NOW - 1, published=3)))


def test_unknown_and_dead_deliveries_are_warnings_with_the_command_that_lists_them() -> None:
    found = [
        finding for finding in diagnosis.fleet(fleet(partition(unknown=2, dead=1))) if finding.check == "deliveries"
    ]
    assert levels(found) == [Level.WARNING, Level.WARNING]
    assert "ledger list --state unknown" in found[0].advice


def test_a_stream_without_its_group_and_a_suspect_are_told() -> None:
    group = Group(stream="log", name="fold", consumers=1, pending=4)
    found = list(
        diagnosis.fleet(fleet(partition(streams=frozenset({"log", "blocks"}), groups=(group,), suspect="0-aa")))
    )
    assert [finding.found for finding in found if finding.level is Level.WARNING] == [
        "partition 0: stream blocks has no group delivery",
        "partition 0: turn 0-aa is suspected of ending its workers",
    ]
    assert any("4 entries taken" in finding.found for finding in found)


def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    where = config(redis={"url": "redis://user:secret@host:6379/0"})
    finding = diagnosis.unreachable(Unavailable("refused"), where)
    assert "host:6379" in finding.found
    assert "secret" not in finding.found


def test_data_of_another_number_of_partitions_says_what_to_set() -> None:
    finding = diagnosis.wrong_schema(SchemaMismatch("number of partitions", expected="16", found="8"))
    assert finding.level is Level.ERROR
    assert "redis.partitions" in finding.advice
