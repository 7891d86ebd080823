"""Fences: which lines open one, which close it, and how it is opened again where a block is small."""

import pytest

from pipeline.fences import cut_opener, may_open, opened_by


@pytest.mark.parametrize(
    ("line", "max_chars", "reopened"),
    [
        ("```python", 100, "```python\n"),
        ("```python", 14, "```\n"),  # with its language it would fill the block
        ("```python", 9, "```\n"),
        ("```python", 8, ""),  # not even the bare marks fit
        ("~~~~", 11, "~~~~\n"),
        ("~~~~", 10, ""),
        ("   ```\r", 100, "   ```\n"),
        ("text", 100, None),
        ("    ```", 100, None),
        ("``", 100, None),
    ],
)
def test_a_fence_is_opened_again_as_it_fits(line: str, max_chars: int, reopened: str | None) -> None:
    fence = opened_by(line, max_chars)
    assert (None if fence is None else fence.reopen) == reopened


@pytest.mark.parametrize(
    ("line", "max_chars", "reopened"),
    [("```py", 9, "```\n"), ("```py", 8, ""), ("  ~~~~~ a", 13, "~~~~~\n"), ("~~", 100, None), ("text", 100, None)],
)
def test_a_line_that_is_cut_opens_by_its_bare_marks(line: str, max_chars: int, reopened: str | None) -> None:
    fence = cut_opener(line, max_chars)
    assert (None if fence is None else fence.reopen) == reopened
    assert may_open(line) == (fence is not None)


def test_a_fence_is_closed_by_as_many_marks_of_its_own() -> None:
    fence = opened_by("````", 100)
    assert fence is not None
    assert [fence.closes(line) for line in ("````", "  ````` ", "```", "    ````", "~~~~", "```` x")] == [
        True, True, False, False, False, False
    ]  # fmt: skip
    assert [fence.may_close(line) for line in ("`", "``` ", "", "x", "    `")] == [True, True, False, False, False]
