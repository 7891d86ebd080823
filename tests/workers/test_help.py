"""What the command line says of itself."""

import platform
import re
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from ledger.keys import SCHEMA_VERSION
from pipeline.events import CONTRACT_VERSION, FOLD_VERSION
from workers.cli import ROLES, run_role
from workers.commands.index import build

SAME = {"turn": "TURN", "file": "FILE", "count": "N", "gateway": "URL", "target": "TARGET", "session": "SESSION"}
"""What is called one way in one command is called so in all; `up --gateway` counts processes."""


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and every group of them, with its path."""
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


ALL = dict(commands(typer.main.get_command(build(run_role, ROLES))))


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "foldline")
def test_help_names_what_is_to_be_put_in_by_capitals_and_says_what_it_is(path: tuple[str, ...]) -> None:
    told = CliRunner().invoke(build(run_role, ROLES), [*path, "--help"])
    assert told.exit_code == 0
    for parameter in ALL[path].params:
        where = f"{' '.join(path)}: {parameter.name}"
        assert parameter.help, where
        if getattr(parameter, "is_flag", False):
            continue
        is_option = parameter.opts[0].startswith("-")
        if is_option and parameter.type_descriptor.is_choice:  # its words are listed, as they are typed
            assert re.search(rf"{parameter.opts[0]} <[a-z|_-]+>", told.stdout), where
            continue
        assert re.fullmatch(r"[A-Z]+(=[A-Z]+)?", parameter.metavar or ""), where
        if parameter.name in SAME and path != ("up",):
            assert parameter.metavar == SAME[parameter.name], where
    assert not re.search(r"^ +--\S+ <(str|int|path|list)", told.stdout, flags=re.MULTILINE)


def test_the_version_names_all_that_processes_must_agree_about() -> None:
    told = CliRunner().invoke(build(run_role, ROLES), ["--version"])
    assert told.exit_code == 0
    numbers = f"contract {CONTRACT_VERSION}, fold {FOLD_VERSION}, schema {SCHEMA_VERSION}"
    python = platform.python_version()
    assert told.stdout == f"foldline {metadata.version('foldline')} ({numbers}; Python {python})\n"
