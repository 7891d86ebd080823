"""`foldline --version`: what runs here, with everything that processes of different versions must agree about."""

import platform
import sys
from importlib import metadata
from typing import Annotated

import typer

from ledger.keys import SCHEMA_VERSION
from pipeline.events import CONTRACT_VERSION, FOLD_VERSION


def show_version(wanted: bool) -> None:
    """Print the versions and end."""
    if wanted:
        numbers = f"contract {CONTRACT_VERSION}, fold {FOLD_VERSION}, schema {SCHEMA_VERSION}"
        sys.stdout.write(f"foldline {metadata.version('foldline')} ({numbers}; Python {platform.python_version()})\n")
        raise typer.Exit


def every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the versions and end.")
    ] = False,
) -> None:
    """Take what may stand before any command."""
