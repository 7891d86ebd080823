"""How commands speak: a table for people, one JSON document for programs. Nothing but the answer goes to stdout."""

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from workers.runtime.clock import SystemClock

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

UNITS_MS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms"))
When = Callable[[int], str | None]
"""Writes a time of the server, in ms; None for not yet."""

WIDE = 200  # columns of a table that goes to a file or pipe: nothing is folded there


def show_json(value: Any) -> None:
    """Print one JSON document on one line."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def show_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool, empty: str) -> None:
    """Print a listing: an array of objects, or a table of the named columns, or the word for nothing."""
    if as_json:
        show_json(list(rows))
        return
    if not rows:
        sys.stdout.write(f"{empty}\n")
        return
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in {"turn", "part"})
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    console().print(table)


def show_record(record: Mapping[str, Any], *, as_json: bool) -> None:
    """Print one thing: an object, or a line for each of its members that says something."""
    if as_json:
        show_json(record)
        return
    width = max((len(name) for name in record), default=0)
    for name, value in record.items():
        if value not in (None, "", {}, []):
            sys.stdout.write(f"{name:<{width}}  {_cell(value)}\n")


def console() -> Console:
    """A console on stdout that writes plain, unfolded text when nobody looks."""
    made = Console(highlight=False, markup=False, soft_wrap=not sys.stdout.isatty())
    if not sys.stdout.isatty():
        made.width = WIDE
    return made


def moment(at_ms: int) -> str | None:
    """A time of the server as people write it; None for not yet."""
    if not at_ms:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age(ms: int) -> str:
    """How long that is, in the largest unit of which it is two or more, as `--older-than` reads it."""
    unit, name = next(((unit, name) for unit, name in UNITS_MS if ms >= 2 * unit), UNITS_MS[-1])
    return f"{ms // unit}{name}"


def times(*, as_json: bool) -> When:
    """How a listing writes the server's times: for programs the moment alone, for people with its distance from now."""
    if as_json:
        return moment
    now = SystemClock().now_ms()

    def told(at_ms: int) -> str | None:
        at = moment(at_ms)
        return at and (f"{at} ({age(now - at_ms)} ago)" if at_ms <= now else f"{at} (in {age(at_ms - now)})")

    return told


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
