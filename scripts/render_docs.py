"""Renders the tables of the documentation from the code, between markers in the Markdown files.

    python -m scripts.render_docs            # writes them
    python -m scripts.render_docs --check    # writes nothing; exit code 1 and the names of the files that would change

A place is marked by `<!-- generated:NAME -->` and `<!-- /generated:NAME -->`. Every table stands in some file, and every marked name
is a table; both are checked, so that no table is forgotten and none is misspelt.
"""

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from scripts import channel_tables, tables

ROOT = Path(__file__).resolve().parent.parent
FILES = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "pipeline/README.md",
    "ledger/README.md",
    "workers/README.md",
    "workers/delivery/README.md",
)
MARKED = re.compile(r"<!-- generated:([a-z-]+) -->\n(.*?)<!-- /generated:\1 -->", re.DOTALL)
OPENED = re.compile(r"<!-- generated:([a-z-]+) -->")

TABLES: Mapping[str, Callable[[], str]] = {
    "events": tables.events,
    "bounds": tables.bounds,
    "kinds": tables.kinds,
    "streaming": tables.streaming,
    "profiles": tables.profiles,
    "keys": tables.keys,
    "scripts": tables.scripts,
    "states": tables.states,
    "configuration": tables.configuration,
    "environment": tables.environment,
    "metrics": tables.metrics,
    "failpoints": tables.failpoints,
    "commands": tables.commands,
    "channels": lambda: tables.table(channel_tables.CHANNELS_HEAD, channel_tables.channels()),
    "answers": lambda: tables.table(channel_tables.ANSWERS_HEAD, channel_tables.answers()),
}


class RenderError(Exception):
    """A marker names no table, is not closed, or a table stands nowhere."""


def render(text: str, name: str) -> str:
    """Return a file's text with every marked place filled anew."""

    def fill(match: re.Match[str]) -> str:
        table = TABLES.get(match[1])
        if table is None:
            raise RenderError(f"{name}: no table is called {match[1]!r}")
        return f"<!-- generated:{match[1]} -->\n{table().rstrip()}\n<!-- /generated:{match[1]} -->"

    rendered, filled = MARKED.subn(fill, text)
    if filled != len(OPENED.findall(text)):
        raise RenderError(f"{name}: a marker is not closed")
    return rendered


def render_all(root: Path = ROOT) -> dict[Path, tuple[str, str]]:
    """Return every file with its text as it is and as it should be."""
    found: dict[Path, tuple[str, str]] = {}
    placed: set[str] = set()
    for name in FILES:
        path = root / name
        text = path.read_text(encoding="utf-8")
        placed.update(OPENED.findall(text))
        found[path] = (text, render(text, name))
    missing = sorted(TABLES.keys() - placed)
    if missing:
        raise RenderError(f"no file has a place for: {', '.join(missing)}")
    return found


def main() -> None:
    """Write the tables, or check them."""
    parser = argparse.ArgumentParser(description="renders the documentation's tables from the code")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file would change")
    options = parser.parse_args()
    try:
        found = render_all()
    except RenderError as error:
        sys.exit(f"render_docs: {error}")
    changed = {path: texts for path, texts in found.items() if texts[0] != texts[1]}
    for path, (before, after) in changed.items():
        name = str(path.relative_to(ROOT))
        if options.check:
            sys.stdout.writelines(
                difflib.unified_diff(before.splitlines(True), after.splitlines(True), name, "as rendered", n=0)
            )
        else:
            path.write_text(after, encoding="utf-8")
            print(f"rendered {name}")
    if options.check and changed:
        sys.exit("render_docs: run `python -m scripts.render_docs`")


if __name__ == "__main__":
    main()
