"""The tables of the tests' own documentation name tests that exist, and leave no vector out."""

import re
from pathlib import Path

from scripts.mutants.__main__ import MUTANTS

TESTS = Path(__file__).resolve().parents[1]
README = (TESTS / "README.md").read_text(encoding="utf-8")


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py)::(\w+)`", README))
    assert len(named) > 40
    for path, name in named:
        assert re.search(rf"^(async )?def {name}\(", (TESTS / path).read_text(encoding="utf-8"), re.MULTILINE), name


def test_every_vector_is_in_the_table_or_said_to_be_none() -> None:
    for vector in [f"LG{number}" for number in range(1, 22)] + [f"B{number}" for number in range(43, 59)]:
        assert re.search(rf"\b{vector}\b", README), vector


def test_every_planted_fault_is_in_the_table() -> None:
    assert [mutant.name for mutant in MUTANTS if f"| {mutant.name} |" not in README] == []
    assert "**nothing**" not in README
