"""What a command is given to read: a file that its line names, or `-` for standard input.

One that cannot be read is a wrong command line, whichever command it is: words on stderr, and the code of a refusal.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from workers.commands.session import EXIT_REFUSED, fail

STANDARD_INPUT = "-"


@contextmanager
def open_input(command: str, file: str) -> Iterator[BinaryIO]:
    """Open it for reading; standard input stays open afterwards."""
    if file == STANDARD_INPUT:
        yield _standard_input(command)
        return
    try:
        source = Path(file).open("rb")  # noqa: SIM115 - what goes wrong later, at a gateway say, is no fault of the file
    except OSError as error:
        fail(f"{command}: {error}", EXIT_REFUSED)
    with source:
        yield source


def read_input(command: str, file: str) -> bytes:
    """Read all of it."""
    with open_input(command, file) as source:
        try:
            return source.read()
        except OSError as error:
            fail(f"{command}: {file}: {os.strerror(error.errno or 0)}", EXIT_REFUSED)


def read_text(command: str, file: str) -> str:
    """Read all of it as UTF-8."""
    try:
        return read_input(command, file).decode()
    except UnicodeDecodeError as error:
        fail(f"{command}: {file} is no UTF-8 ({error.reason} at byte {error.start})", EXIT_REFUSED)


def _standard_input(command: str) -> BinaryIO:
    if sys.stdin is None:  # it was closed before we started
        fail(f"{command}: standard input is closed", EXIT_REFUSED)
    return sys.stdin.buffer
