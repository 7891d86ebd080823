"""The commands that read the whole fleet, on a cluster of three nodes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.environment import without_settings
from tests.support.servers import Cluster
from workers.cli import ROLES, run_role
from workers.commands.index import build

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        yield made


@pytest.fixture(autouse=True)
def only_the_cluster(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_settings(monkeypatch)
    monkeypatch.setenv("FOLDLINE_REDIS_URL", cluster.url)
    monkeypatch.setenv("FOLDLINE_REDIS_CLUSTER", "true")
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(build(run_role, ROLES), [*arguments, "--json"])
    assert result.exit_code == code, (result.output, result.exception)
    return json.loads(result.stdout)


@pytest.mark.parametrize("attempt", range(3))
def test_listings_read_every_partition_at_once(attempt: int) -> None:
    assert run("turns") == []
    assert run("ledger", "list") == []


def test_the_doctor_judges_a_cluster() -> None:
    told = run("doctor", code=1)
    errors = {finding["check"] for finding in told["findings"] if finding["level"] == "error"}
    assert errors == {"persistence"}, told
    assert any(finding["check"] == "groups" for finding in told["findings"])


def test_the_doctor_tells_that_the_server_is_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_REDIS_CLUSTER", "false")
    told = run("doctor", code=1)
    assert "it is a cluster" in {finding["found"] for finding in told["findings"]}


def test_keys_are_kept_on_a_cluster() -> None:
    made = run("keys", "add", "team")
    assert [row["id"] for row in run("keys", "list")] == [made["id"]]
    assert run("keys", "revoke", made["id"])["revoked"]
