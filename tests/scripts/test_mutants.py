"""The table of planted faults fits the tree, and the tool tells a fault that is caught from one that is not.

That all of them are caught is shown by `python -m scripts.mutants`, which takes half an hour.
"""

import pytest

from scripts.mutants.__main__ import MUTANTS, ROOT, as_markdown, failed_test, plant
from scripts.mutants.mutant import Mutant


def test_every_fault_can_be_planted_and_names_tests_that_exist() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names) >= 20
    for mutant in MUTANTS:
        source = (ROOT / mutant.path).read_text(encoding="utf-8")
        assert mutant.applied(source) != source
        assert mutant.tests
        for test in mutant.tests:
            assert (ROOT / test.partition("::")[0]).exists(), test


def test_a_fault_whose_text_is_not_there_once_is_refused() -> None:
    mutant = Mutant(name="x", breaks="", path="p", edits=(("a", "b"),), tests=())
    assert mutant.applied("cat") == "cbt"
    for source in ("dog", "banana"):
        with pytest.raises(ValueError, match="not once"):
            mutant.applied(source)


def test_one_fault_is_caught_and_one_that_breaks_nothing_is_not() -> None:
    test = "tests/pipeline/test_text_identity.py"
    path = "pipeline/assemble/answer.py"
    harmless = Mutant(
        name="y", breaks="nothing", path=path, edits=(('"""The blocks of one turn', '"""Blocks'),), tests=(test,)
    )
    assert plant(harmless).caught_by == ""
    [fault] = [mutant for mutant in MUTANTS if mutant.name == "tool before text"]
    result = plant(fault)
    assert result.caught_by == f"{test}::test_the_text_before_a_tool_goes_out_before_the_tool"
    assert "| tool before text |" in as_markdown([result])


def test_a_test_that_fails_anyway_catches_nothing() -> None:
    broken = "tests/scripts/broken_on_purpose.py"
    path = "pipeline/assemble/answer.py"
    harmless = Mutant(
        name="z", breaks="nothing", path=path, edits=(('"""The blocks of one turn', '"""Blocks'),), tests=(broken,)
    )
    result = plant(harmless)
    assert result.caught_by == ""
    assert "fails without the fault" in result.words


def test_only_a_failed_test_counts() -> None:
    assert failed_test("ERROR    asyncio: a log line\n1 error") == ""
    assert failed_test("FAILED tests/a.py::test_b - assert 1") == "tests/a.py::test_b"
