"""The scripts: one file per operation, loaded as text. Only `ledger.commands` may import this package.

A script's header is its contract: the first comment lines say what it does, its KEYS, ARGV, REPLY, and what a crash before or after it
means. Every script checks everything before its first write, builds no key, and answers a repeat without doing anything twice.
"""

import re
from functools import cache
from importlib.resources import files

_INCLUDE = re.compile(r"^-- include (\w+)\n", re.MULTILINE)


@cache
def source(name: str) -> str:
    """The text of one script, with the pieces that it includes: a line `-- include kinds` stands for `shared/kinds.lua`."""
    folder = files(__name__)
    text = folder.joinpath(f"{name}.lua").read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda line: folder.joinpath("shared", f"{line[1]}.lua").read_text(encoding="utf-8"), text)


@cache
def names() -> tuple[str, ...]:
    """The names of all scripts, sorted."""
    return tuple(
        sorted(file.name.removesuffix(".lua") for file in files(__name__).iterdir() if file.name.endswith(".lua"))
    )
