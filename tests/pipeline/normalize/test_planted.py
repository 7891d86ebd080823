"""A new wire is held to the contract by being listed: three are planted in a copy of the tree, and the suite finds the two bad ones."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CODE = '''"""Planted."""

from pipeline.events import Event, TextDelta
from pipeline.normalize.chat import ChatAdapter


class Good(ChatAdapter):
    """One that keeps the contract."""


class Leaky(ChatAdapter):
    """One that loses text that comes in single bytes."""

    def feed(self, data: bytes) -> list[Event]:
        return [event for event in super().feed(data) if not (isinstance(event, TextDelta) and len(data) == 1)]
'''
LISTED = """
from pipeline.normalize.planted import Good, Leaky

WIRES |= {"good": Good, "leaky": Leaky, "bare": Good}
"""
PARTS = ("pipeline", "scripts", "workers", "ledger", "tests/golden", "tests/support", "tests/pipeline/normalize")
FILES = ("pyproject.toml", "tests/__init__.py", "tests/conftest.py", "tests/pipeline/__init__.py")


def plant(at: Path) -> None:
    """Copy what the suite needs, list the wires, and give two of them golden streams."""
    for part in PARTS:
        shutil.copytree(ROOT / part, at / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy(ROOT / file, at / file)
    (at / "pipeline" / "normalize" / "planted.py").write_text(CODE)
    with (at / "pipeline" / "normalize" / "registry.py").open("a") as registry:
        registry.write(LISTED)
    for wire in ("good", "leaky"):
        (at / "tests" / "golden" / wire).mkdir()
        for name in ("text-two-calls", "refusal", "failed"):
            shutil.copy(ROOT / "tests" / "golden" / "chat" / f"{name}.sse", at / "tests" / "golden" / wire)


def test_a_wire_is_held_to_the_contract_by_being_listed(tmp_path: Path) -> None:
    plant(tmp_path)
    suite = "tests/pipeline/normalize/test_contract.py"
    picked = "good or leaky or every_wire"
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-rA",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "-k",
            picked,
            suite,
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    verdicts = re.findall(r"^(PASSED|FAILED) \S+::(\S+)", result.stdout, re.MULTILINE)
    passed = {name for verdict, name in verdicts if verdict == "PASSED"}
    failed = {name for verdict, name in verdicts if verdict == "FAILED"}
    cuts = "test_a_stream_gives_the_same_events_at_every_cut"
    assert {f"{cuts}[leaky/{name}]" for name in ("text-two-calls", "refusal", "failed")} <= failed, result.stdout
    assert {"test_every_wire_has_golden_streams_one_of_which_fails", "test_every_wire_has_a_plain_reading"} <= failed
    assert not [name for name in failed if "good" in name]
    assert len([name for name in passed if "good" in name]) >= 10
