"""The documentation's tables are made from the code, and stand as they would be made now."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import render_docs, tables
from scripts.render_docs import FILES, TABLES, RenderError, render


def test_every_table_stands_in_a_file_as_the_code_makes_it() -> None:
    differing = [path.name for path, (before, after) in render_docs.render_all().items() if before != after]
    assert differing == [], "run `python -m scripts.render_docs`"


def test_a_marked_place_is_filled_and_the_rest_is_kept() -> None:
    text = "before\n<!-- generated:failpoints -->\nstale words\n<!-- /generated:failpoints -->\nafter\n"
    rendered = render(text, "x.md")
    assert rendered.startswith("before\n<!-- generated:failpoints -->\n| failpoint | exit code |")
    assert rendered.endswith("<!-- /generated:failpoints -->\nafter\n")
    assert "stale words" not in rendered
    assert render(rendered, "x.md") == rendered


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<!-- generated:nothing -->\n<!-- /generated:nothing -->", "no table is called 'nothing'"),
        ("<!-- generated:keys -->\n", "not closed"),
    ],
)
def test_a_misspelt_or_open_marker_is_refused(text: str, words: str) -> None:
    with pytest.raises(RenderError, match=words):
        render(text, "x.md")


def test_a_table_without_a_place_is_refused(tmp_path: Path) -> None:
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("no markers\n", encoding="utf-8")
    with pytest.raises(RenderError, match=r"no file has a place for: .*bounds"):
        render_docs.render_all(tmp_path)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_table_has_rows_without_empty_heads(name: str) -> None:
    lines = TABLES[name]().splitlines()
    assert len(lines) > 3


def test_a_bar_in_a_cell_is_escaped() -> None:
    assert tables.table(("a",), [("x | y",)]).splitlines()[2] == "| x \\| y |"


def test_every_script_says_what_it_does_replies_and_means_in_a_crash() -> None:
    for line in tables.scripts().splitlines()[2:]:
        assert all(cell.strip() for cell in line.replace("\\|", "").split("|")[1:-1]), line


def test_check_passes_on_this_tree() -> None:
    command = [sys.executable, "-m", "scripts.render_docs", "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
