"""Every import contract is watched: one planted violation of each, in a copy of the tree, is caught.

A contract whose forbidden name is misspelt, or whose modules moved away, passes silently otherwise.
"""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOTS = ("pipeline", "ledger", "workers", "scripts", "tests")
SETTINGS: dict[str, Any] = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
CONTRACTS: dict[str, dict[str, Any]] = {contract["id"]: contract for contract in SETTINGS["contracts"]}

# contract -> (the file that gets the line, the line): what each of the contracts must catch
PLANTS: dict[str, list[tuple[str, str]]] = {
    "direction": [
        ("pipeline/errors.py", "import ledger.errors"),
        ("ledger/errors.py", "import pipeline.errors"),
        ("pipeline/errors.py", "import workers.config"),
        ("workers/__init__.py", "import scripts"),
        ("scripts/__init__.py", "import tests"),
    ],
    "pipeline-stages": [
        ("pipeline/normalize/sse.py", "import pipeline.validate"),
        ("pipeline/errors.py", "import pipeline.events"),
        ("pipeline/fold/__init__.py", "import pipeline.normalize"),
        ("pipeline/newcomer.py", '"""A module that no layer names."""'),
    ],
    "ledger-layers": [
        ("ledger/keys.py", "import ledger.commands"),
        ("ledger/errors.py", "import ledger.keys"),
        ("ledger/newcomer.py", '"""A module that no layer names."""'),
    ],
    "worker-roles": [
        ("workers/fold/worker.py", "import workers.ingest.worker"),
        ("workers/delivery/worker.py", "import workers.gateway"),
    ],
    "worker-layers": [
        ("workers/streams/news.py", "import workers.fold.worker"),
        ("workers/fold/worker.py", "import workers.cli"),
        ("workers/config/__init__.py", "import workers.observability.logs"),
        ("workers/newcomer.py", '"""A module that no layer names."""'),
    ],
    "wires-independent": [("pipeline/normalize/canonical.py", "import pipeline.normalize.responses")],
    "projectors-independent": [("pipeline/project/webhook.py", "import pipeline.project.console")],
    "channels-independent": [("workers/delivery/channels/webhook.py", "import workers.delivery.channels.console")],
    "redis-seam": [("workers/delivery/worker.py", "import redis"), ("workers/cli.py", "import redis.asyncio")],
    "lua-seam": [("ledger/log.py", "import ledger.lua")],
    "clock-seam": [("workers/fold/worker.py", "import time")],
    "entropy-seam": [("workers/fold/worker.py", "import secrets"), ("workers/gateway/app.py", "import random")],
    "uvloop-seam": [("workers/fold/worker.py", "import uvloop")],
}
FORBIDDING = {name: contract for name, contract in CONTRACTS.items() if contract["type"] == "forbidden"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources."""
    copy = tmp_path_factory.mktemp("tree")
    for root in ROOTS:
        shutil.copytree(root, copy / root, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy("pyproject.toml", copy)
    return copy


def lint(tree: Path, contract: str | None = None) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    chosen = ["--contract", contract] if contract else []
    command = [str(program), "--no-cache", "--no-logo", *chosen]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)


def test_the_tree_as_it_stands_keeps_every_contract(tree: Path) -> None:
    result = lint(tree)
    assert result.returncode == 0, result.stdout
    assert f"{len(CONTRACTS)} kept, 0 broken" in result.stdout


def test_every_contract_has_a_planted_violation() -> None:
    assert CONTRACTS.keys() == PLANTS.keys() | FORBIDDING.keys()


@pytest.mark.parametrize("contract", PLANTS)
def test_a_planted_violation_is_caught(tree: Path, contract: str) -> None:
    for name, line in PLANTS[contract]:
        result = planted(tree, name, line, contract)
        assert result.returncode == 1, f"{line!r} in {name} went unseen"
        assert "0 kept, 1 broken" in result.stdout, result.stdout


@pytest.mark.parametrize("contract", FORBIDDING)
def test_every_forbidden_name_is_caught(tree: Path, contract: str) -> None:
    (package,) = FORBIDDING[contract]["source_modules"]
    names = FORBIDDING[contract]["forbidden_modules"]
    lines = "\n".join(f"import {name}" for name in names)
    result = planted(tree, f"{package}/errors.py", lines, contract)
    unseen = [name for name in names if f"{package} is not allowed to import {name}:" not in result.stdout]
    assert unseen == [], result.stdout


def planted(tree: Path, name: str, lines: str, contract: str) -> subprocess.CompletedProcess[str]:
    """Lint the tree with these lines at the end of a file, then take them away again."""
    path = tree / name
    before = path.read_text(encoding="utf-8") if path.exists() else None
    path.write_text((before or "") + f"\n{lines}\n", encoding="utf-8")
    try:
        return lint(tree, contract)
    finally:
        path.unlink() if before is None else path.write_text(before, encoding="utf-8")
