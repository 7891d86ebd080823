"""A whole turn through servers that are reached otherwise than by a plain address and as everybody: TLS, a least user, sentinels."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ledger.keys import Keyspace
from ledger.rights import acl_rule
from ledger.turns import read_turn
from tests.fleet.crashing import CARRIERS, FIRST_GATE, SECOND_GATE, Told, stage
from tests.support.environment import without_settings
from tests.support.fleet import Fleet
from tests.support.receivers import Receiver
from tests.support.sentinel import Watched
from tests.support.servers import Cluster, Server
from tests.support.tls import Authority, TlsServer, tls_cluster, tls_watched
from tests.support.upstream import Upstream, text
from tests.support.waiting import wait_until
from workers.cli import ROLES, run_role
from workers.commands.index import build

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No configuration but what the test sets."""
    without_settings(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return monkeypatch


async def doctor(monkeypatch: pytest.MonkeyPatch, **settings: object) -> dict[str, dict[str, Any]]:
    """What the doctor finds, by what it checked."""
    for name, value in settings.items():
        monkeypatch.setenv(f"FOLDLINE_REDIS_{name.upper()}", str(value))
    result = await asyncio.to_thread(CliRunner().invoke, build(run_role, ROLES), ["doctor", "--json"])
    return {finding["check"]: finding for finding in json.loads(result.stdout)["findings"]}


async def operate(monkeypatch: pytest.MonkeyPatch, url: str, fleet: Fleet, turn: str) -> None:
    """Every command of an operator, as the user of the address."""
    monkeypatch.setenv("FOLDLINE_REDIS_URL", url)
    monkeypatch.setenv("FOLDLINE_REDIS_PARTITIONS", str(fleet.keys.partitions))
    part = (await fleet.parts(turn))[0].id
    commands = (
        ["turns"], ["turn", turn], ["refold", turn], ["keys", "add", "acme"], ["keys", "list"], ["shadow", "set", "acp", "shadow"],
        ["shadow", "set", "acp", "default"], ["shadow", "modes"], ["shadow", "report"], ["ledger", "list", "--state", "sent"],
        ["ledger", "list"], ["ledger", "show", part], ["ledger", "purge", "--state", "sent"], ["forget", "--tenant", "test"],
    )  # fmt: skip
    for words in commands:
        result = await asyncio.to_thread(CliRunner().invoke, build(run_role, ROLES), [*words, "--json"])
        assert result.exit_code == 0, (words, result.output)
    assert await fleet.run(read_turn(fleet.keys, turn)) is None


def doors_of_the_fleet(server: Server) -> set[int]:
    """The ports of the server that processes of the fleet are connected to."""
    with server.client() as client:
        names = ("foldline-ingest", "foldline-fold", "foldline-delivery", "foldline-gateway", "foldline-lease")
        return {int(row["laddr"].rpartition(":")[2]) for row in client.client_list() if row["name"].startswith(names)}


async def at_the_door(server: Server) -> None:
    """Wait until the fleet is connected to the server, after whatever was done to it, and see that it is by the one port that it may use."""
    found: set[int] = set()

    def is_there() -> bool:
        found.update(doors_of_the_fleet(server))
        return bool(found)

    await wait_until(is_there, f"the fleet at {server.door}", 20)
    assert found == {server.door}


async def refused(fleet: Fleet, role: str, **environ: str) -> str:
    """Start a role that ends because the server cannot be worked on; what it says."""
    worker = await fleet.start(role, environ=environ, wait=False)
    assert await worker.exited() == 78
    return worker.tail()


@pytest.mark.parametrize("asks_certificates", [False, True])
async def test_a_turn_is_carried_through_tls(
    asks_certificates: bool, undisturbed: Told, tmp_path: Path, alone: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "ca")
    with TlsServer(authority, asks_certificates=asks_certificates) as server:
        environ = {"FOLDLINE_REDIS_URL": server.tls_url, "FOLDLINE_REDIS_CA_FILE": str(authority.file)}
        if asks_certificates:
            cert, key = authority.issue("fleet")
            environ |= {"FOLDLINE_REDIS_CERT_FILE": str(cert), "FOLDLINE_REDIS_KEY_FILE": str(key)}
        async with stage(server, tmp_path, environ=environ) as s:
            for role in (*CARRIERS, "gateway"):
                await s.fleet.start(role)
            assert await s.told(await s.submit()) == undisturbed
        with server.client() as client:
            ports = {row["laddr"] for row in client.client_list() if row["name"].startswith("foldline-")}
        assert ports <= {f"127.0.0.1:{server.tls_port}", f"127.0.0.1:{server.port}"}


async def test_a_server_whose_certificate_nobody_vouches_for_is_not_spoken_to(
    tmp_path: Path, alone: pytest.MonkeyPatch
) -> None:
    with TlsServer(Authority(tmp_path / "ca")) as server:
        other = Authority(tmp_path / "other").file
        told = await doctor(alone, url=server.tls_url, ca_file=other)
    assert told["server"]["level"] == "error"
    assert "certificate verify failed" in told["server"]["found"].lower()


async def test_a_turn_is_carried_by_the_least_user_that_the_doctor_prints(
    undisturbed: Told, tmp_path: Path, alone: pytest.MonkeyPatch
) -> None:
    with Server(aof=True) as server:
        rule = (await doctor(alone, url=server.url))["acl"]["found"]
        assert rule == acl_rule(Keyspace(), cluster=False, durable="none")
        with server.client() as client:
            client.execute_command(*rule.replace("PASSWORD", "word").split())
        url = f"redis://foldline:word@127.0.0.1:{server.port}/0"
        async with stage(server, tmp_path, environ={"FOLDLINE_REDIS_URL": url}) as s:
            with server.client() as client:  # from here on there is no other way in for the fleet
                client.execute_command("ACL", "LOG", "RESET")
            for role in (*CARRIERS, "gateway"):
                await s.fleet.start(role)
            turn = await s.submit()
            assert await s.told(turn) == undisturbed
            await operate(alone, url, s.fleet, turn)
            with server.client() as client:
                denied = {row["object"] for row in client.acl_log()}
            assert denied <= {"client|setinfo"}, "the client's own introduction, which it does without"
            assert (await doctor(alone, url=url))["rights"]["level"] == "ok"


@asynccontextmanager
async def on_cluster(cluster: Cluster, folder: Path, environ: dict[str, str]) -> AsyncIterator[tuple[Fleet, Receiver]]:
    """A fleet on a cluster, which carries a text from one upstream to one receiver."""
    async with (
        Upstream(text("Of many nodes.", pieces=3)) as upstream,
        Receiver() as receiver,
        Fleet(
            cluster.url,
            folder,
            upstreams={"sample": {"base_url": upstream.base_url}},
            targets={"hook": {"channel": "webhook", "url": receiver.url}},
            cluster=True,
            environ=environ,
        ) as fleet,
    ):
        for role in (*CARRIERS, "gateway"):
            await fleet.start(role)
        yield fleet, receiver


async def test_a_turn_is_carried_on_a_cluster_by_the_least_user(tmp_path: Path) -> None:
    rule = acl_rule(Keyspace(), cluster=True, durable="none").replace("PASSWORD", "word")
    with Cluster() as cluster:
        for node in cluster.servers:
            with node.client() as client:
                client.execute_command(*rule.split())
        environ = {"FOLDLINE_REDIS_URL": f"redis://foldline:word@127.0.0.1:{cluster.servers[0].port}/0"}
        async with on_cluster(cluster, tmp_path, environ) as (fleet, receiver):
            assert (await fleet.settled(await fleet.submit(targets=["hook"]))).state == "completed"
            assert [body["text"] for body in receiver.texts] == ["Of many nodes."]
        for node in cluster.servers:
            with node.client() as client:
                assert {row["object"] for row in client.acl_log()} <= {"client|setinfo"}


async def test_a_turn_is_carried_on_a_cluster_through_tls(tmp_path: Path, alone: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path / "ca")
    with tls_cluster(authority) as cluster:
        first = cluster.servers[0]
        settings = {"url": f"rediss://127.0.0.1:{first.door}/0", "ca_file": str(authority.file)}
        environ = {f"FOLDLINE_REDIS_{name.upper()}": value for name, value in settings.items()}
        async with on_cluster(cluster, tmp_path, environ) as (fleet, receiver):
            turns = [
                await fleet.submit(targets=["hook"], session=f"s{number}", turn_hex=f"{number:024x}")
                for number in range(6)
            ]
            for turn in turns:
                assert (await fleet.settled(turn)).state == "completed"
            assert [body["text"] for body in receiver.texts] == ["Of many nodes."] * len(turns)
            for node in cluster.servers:
                await at_the_door(node)
        told = await doctor(alone, cluster="true", partitions=fleet.keys.partitions, **settings)
        assert told["server"]["level"] == "ok"


@pytest.mark.parametrize("lacking", ["xgroup|create", "publish"])
async def test_a_right_that_is_missing_is_named_before_anything_begins(
    lacking: str, tmp_path: Path, alone: pytest.MonkeyPatch
) -> None:
    name = lacking.upper().replace("|", " ")
    with Server(aof=True) as server:
        with server.client() as client:
            rule = acl_rule(Keyspace(), cluster=False, durable="none").replace("PASSWORD", "word")
            client.execute_command(*rule.split(), f"-{lacking}")
        url = f"redis://foldline:word@127.0.0.1:{server.port}/0"
        async with stage(server, tmp_path, environ={"FOLDLINE_REDIS_URL": url}) as s:
            for role in (*CARRIERS, "gateway"):
                assert f"the server's user may not: {name}" in await refused(s.fleet, role)
        told = (await doctor(alone, url=url))["rights"]
        assert told["level"] == "error"
        assert name in told["found"]
        with server.client() as client:
            assert client.dbsize() == 0


@pytest.mark.parametrize("config_is_forbidden", [False, True])
async def test_a_server_that_evicts_is_refused_by_every_role_with_the_reason(
    config_is_forbidden: bool, tmp_path: Path
) -> None:
    with Server("--maxmemory-policy", "volatile-ttl") as server:
        url = server.url
        if config_is_forbidden:
            with server.client() as client:
                client.execute_command("ACL", "SETUSER", "some", "on", ">word", "~*", "&*", "+@all", "-config")
            url = f"redis://some:word@127.0.0.1:{server.port}/0"
        async with stage(server, tmp_path, environ={"FOLDLINE_REDIS_URL": url}) as s:
            for role in (*CARRIERS, "gateway"):
                assert "maxmemory-policy is volatile-ttl" in await refused(s.fleet, role)


@pytest.mark.parametrize("by_tls", [False, True])
async def test_a_fleet_behind_sentinels_goes_on_at_the_promoted_replica(
    by_tls: bool, undisturbed: Told, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "ca") if by_tls else None
    with Watched() if authority is None else tls_watched(authority) as watched:
        environ = {"FOLDLINE_REDIS_URL": watched.url, "FOLDLINE_REDIS_CONNECT_TIMEOUT_MS": "500"}
        if authority is not None:
            environ["FOLDLINE_REDIS_CA_FILE"] = str(authority.file)
        async with stage(watched.master, tmp_path, url=watched.url, environ=environ) as s:
            s.upstream.pause_before(FIRST_GATE)
            workers = [await s.fleet.start(role) for role in (*CARRIERS, "gateway")]
            turn = await s.submit()
            await s.fleet.framed(turn, FIRST_GATE)
            await wait_until(watched.is_copied, "the replica to have everything", 20)
            await asyncio.to_thread(watched.fail_over)  # the old master lives on and refuses writes
            s.upstream.pause_before(SECOND_GATE)
            s.upstream.release()
            await s.fleet.framed(turn, SECOND_GATE, 60)
            await wait_until(watched.is_copied, "the replica to have everything", 20)
            await asyncio.to_thread(watched.kill_master)
            s.upstream.release()
            told = await s.told(turn)
            assert (told.frames, told.applied) == (undisturbed.frames, undisturbed.applied)
            assert all(worker.is_alive for worker in workers), "nobody had to be started again"
            if by_tls:
                await at_the_door(watched.master)
