"""The shape of the house: sizes, names, docstrings."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOTS = ("pipeline", "ledger", "workers", "scripts", "tests")
MODULES = sorted(path for root in ROOTS for path in Path(root).rglob("*.py"))
VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "types", "models", "manager", "misc"}
LONGEST_MODULE = 400
LONGEST_FUNCTION = 60
AT_THE_ROOT = {
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "DECISIONS.md", "CHANGELOG.md", "LICENSE", "Procfile"),
    *("pyproject.toml", "requirements.lock"),
    *ROOTS,
}


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_no_module_is_longer_than_four_hundred_lines() -> None:
    lengths = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {path: length for path, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_no_function_is_longer_than_sixty_lines() -> None:
    long = [
        f"{path}:{node.lineno} {node.name}"
        for path in MODULES
        for node in functions(parse(path))
        if (node.end_lineno or 0) - node.lineno + 1 > LONGEST_FUNCTION
    ]
    assert long == []


def test_no_module_has_a_vague_name() -> None:
    assert [str(path) for path in MODULES if path.stem in VAGUE or path.parent.name in VAGUE] == []


def test_no_module_has_the_name_of_a_standard_module() -> None:
    names = {path: path.parent.name if path.stem == "__init__" else path.stem for path in MODULES}
    # `pipeline.codec` and the like are ours; a file run by its path puts its folder first on the path, and would shadow.
    assert [str(path) for path, name in names.items() if name in sys.stdlib_module_names and name != "__main__"] == []


def test_every_module_class_and_public_function_says_what_it_is_for() -> None:
    bare: list[str] = []
    for path in MODULES:
        if path.parts[0] == "tests":
            continue
        tree = parse(path)
        if ast.get_docstring(tree) is None:
            bare.append(str(path))
        for node in tree.body:
            kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            if isinstance(node, kinds) and not node.name.startswith("_") and ast.get_docstring(node) is None:
                bare.append(f"{path}:{node.lineno} {node.name}")
    assert bare == []


def test_every_folder_of_python_files_is_a_package() -> None:
    assert {str(path.parent) for path in MODULES if not (path.parent / "__init__.py").exists()} == set()


def test_nothing_else_lies_at_the_root() -> None:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    names = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {name for name in names if not name.startswith(".")} - AT_THE_ROOT == set()


def test_no_test_sleeps() -> None:
    sleeping = [
        f"{path}:{node.lineno}"
        for path in MODULES
        if path.parts[0] == "tests" and path.parts[:2] != ("tests", "support")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"time.sleep", "asyncio.sleep", "sleep"}
        # giving the loop a turn is not waiting for a time
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    ]
    assert sleeping == []
