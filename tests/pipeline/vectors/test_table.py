import ast

import pytest

from tests.pipeline.vectors.table import IDS, README, ROWS, filled, located


def test_every_vector_has_its_row_and_no_other() -> None:
    assert set(ROWS) == set(IDS)


@pytest.mark.parametrize("ident", IDS)
def test_every_row_names_a_test_that_is_there_or_says_why_not(ident: str) -> None:
    found = located(ROWS[ident].test)
    if found is None:
        assert len(ROWS[ident].test) > len("n/a: because")
        return
    path, name = found
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in names


def test_the_readme_holds_the_table_as_it_is() -> None:
    text = README.read_text(encoding="utf-8")
    assert filled(text) == text
