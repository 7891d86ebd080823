"""Reading the configuration: file, environment, defaults; every value remembers where it came from."""

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from pipeline.settings import SettingError, read_text
from pipeline.settings import check as check_streaming
from workers.config import streaming
from workers.config.checks import check
from workers.config.credentials import SECRET_FIELDS
from workers.config.schema import Config, Section, TargetConfig, UpstreamConfig

FILE_NAME = "foldline.toml"
PREFIX = "FOLDLINE_"
FILE_VARIABLE = "FOLDLINE_CONFIG"
RESERVED = (
    "FOLDLINE_CONFIG",
    "FOLDLINE_FAILPOINTS",
    "FOLDLINE_SERVER",
    "FOLDLINE_CI",
    "FOLDLINE_API_KEY",
    "FOLDLINE_PRODUCER",
)
"""Variables that are no settings; so is everything that starts with FOLDLINE_TEST_ or is named as a secret's variable."""
SECRET_ENDS = tuple(f"_{field.upper()}" for _, field in SECRET_FIELDS)

TABLES: dict[str, type[Section]] = {"upstreams": UpstreamConfig, "targets": TargetConfig}
SECTIONS: dict[str, type[Section]] = {
    name: hint for name, hint in get_type_hints(Config).items() if isinstance(hint, type) and issubclass(hint, Section)
}


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the file or variable and the key."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One value in force and where it came from: ``default``, the file's path, or the variable's name."""

    key: str
    value: Any
    source: str


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration together with the source of each of its values."""

    config: Config
    settings: list[Setting]


def load(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Config:
    """Read, merge and check; raise ConfigError when anything is unknown, of the wrong type or against an inequality."""
    return load_with_sources(path, environ).config


def load_with_sources(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Loaded:
    """The same, with every value's source."""
    env = os.environ if environ is None else environ
    source, tree = _read_file(path, env)
    sources: dict[str, str] = {}
    merged: dict[str, Any] = {}
    for key, value in _flatten(tree, source):
        _put(merged, key, value)
        sources[streaming.spelled(key)] = source
    for variable, key, text in _variables(env, tree):
        _put(merged, key, _parse(key, text, variable))
        sources[streaming.spelled(key)] = variable
    config = _convert(merged, sources)
    problems = check(config)
    if problems:
        raise ConfigError("; ".join(problems))
    return Loaded(config=config, settings=list(_settings(config, sources)))


def _read_file(path: Path | None, env: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    named = path or (Path(env[FILE_VARIABLE]) if env.get(FILE_VARIABLE) else None)
    file = named or Path(FILE_NAME)
    try:
        return str(file), tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named is None:
            return str(file), {}
        raise ConfigError(f"{file}: no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from error


def _flatten(tree: dict[str, Any], source: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every known key of the file; an unknown one is refused here, where its file is known."""
    for section, body in tree.items():
        if section not in SECTIONS and section not in TABLES and section != streaming.NAME:
            raise ConfigError(f"{source}: {section}: unknown section")
        if not isinstance(body, dict):
            raise ConfigError(f"{source}: {section}: a table is expected, found {body!r}")
        if section == streaming.NAME:
            try:
                yield from streaming.members(body, source)
            except SettingError as error:
                raise ConfigError(str(error)) from None
            continue
        if section in SECTIONS:
            yield from _members(SECTIONS[section], (section,), body, source)
            continue
        for name, entry in body.items():
            if not isinstance(entry, dict):
                raise ConfigError(f"{source}: {section}.{name}: a table is expected, found {entry!r}")
            if not entry:
                raise ConfigError(f"{source}: {section}.{name}: the table is empty")
            yield from _members(TABLES[section], (section, name), entry, source)


def _members(
    struct: type[Section], at: tuple[str, ...], body: dict[str, Any], source: str
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in body.items():
        if key not in struct.__struct_fields__:
            raise ConfigError(f"{source}: {'.'.join((*at, key))}: unknown key")
        yield (*at, key), value


def _variables(env: Mapping[str, str], tree: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Every FOLDLINE_ variable as a key; one that names no setting is refused, unless it is a secret's."""
    secrets = {
        str(entry.get(field))
        for section, field in SECRET_FIELDS
        for entry in (tree.get(section) or {}).values()
        if isinstance(entry, dict)
    } | {value for name, value in env.items() if name.endswith(SECRET_ENDS)}
    for variable in sorted(env):
        if not variable.startswith(PREFIX) or variable in RESERVED or variable in secrets:
            continue
        if variable.startswith("FOLDLINE_TEST_"):
            continue
        key = _key_of(variable.removeprefix(PREFIX), tree)
        if key is None:
            raise ConfigError(f"{variable}: names no setting")
        yield variable, key, env[variable]


def _key_of(name: str, tree: dict[str, Any]) -> tuple[str, ...] | None:
    head, _, rest = name.lower().partition("_")
    if head == streaming.NAME:
        return (head, "defaults", rest) if streaming.names(rest) else None
    if head in SECTIONS:
        return (head, rest) if rest in SECTIONS[head].__struct_fields__ else None
    if head not in TABLES:
        return None
    fields = sorted(TABLES[head].__struct_fields__, key=len, reverse=True)
    for field in fields:
        if rest.endswith(f"_{field}") and len(rest) > len(field) + 1:
            plain = rest[: -len(field) - 1]
            known = {entry.replace("-", "_").lower(): entry for entry in tree.get(head) or {}}
            return head, known.get(plain, plain), field
    return None


def _hint(key: tuple[str, ...]) -> Any:
    struct = SECTIONS[key[0]] if key[0] in SECTIONS else TABLES[key[0]]
    return get_type_hints(struct)[key[-1]]


def _parse(key: tuple[str, ...], text: str, variable: str) -> Any:
    """A variable's text as the setting's type: JSON or comma-separated for lists, JSON for maps, else the text."""
    if key[0] == streaming.NAME:
        value = read_text(key[-1], text)
        try:
            check_streaming({key[-1]: value}, f"{variable}: {streaming.NAME}")
        except SettingError as error:
            raise ConfigError(str(error)) from None
        return value
    origin = get_origin(_hint(key))
    try:
        if origin is dict or (origin is list and text.lstrip().startswith("[")):
            return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{variable}: {error}") from error
    if origin is list:
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return msgspec.convert(text, _hint(key), strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{variable}: {error}") from error


def _put(tree: dict[str, Any], key: tuple[str, ...], value: Any) -> None:
    for part in key[:-1]:
        tree = tree.setdefault(part, {})
    tree[key[-1]] = value


def _convert(tree: dict[str, Any], sources: dict[str, str]) -> Config:
    try:
        return msgspec.convert(tree, Config)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$.")
        key = where.rstrip("`")
        for name, entries in tree.items():
            if name in TABLES and "[...]" in key:
                key = key.replace("[...]", "." + "|".join(entries), 1)
        origin = next((source for name, source in sources.items() if name.startswith(key)), "configuration")
        raise ConfigError(f"{origin}: {key}: {_named_choices(key, text)}") from error


def _named_choices(key: str, text: str) -> str:
    """The same, with the words that a setting knows, where it knows a few."""
    mark = "Invalid enum value "
    section, field = key.partition(".")[0], key.rpartition(".")[2]
    kind = SECTIONS.get(section) or TABLES.get(section)
    choices = get_args(get_type_hints(kind).get(field)) if kind else ()
    if not text.startswith(mark) or not choices:
        return text
    return f"one of {', '.join(choices)} is expected, found {text.removeprefix(mark)}"


def _settings(config: Config, sources: dict[str, str]) -> Iterator[Setting]:
    for section in SECTIONS:
        body = getattr(config, section)
        for field in body.__struct_fields__:
            key = f"{section}.{field}"
            yield Setting(key=key, value=getattr(body, field), source=sources.get(key, "default"))
    for key, value in streaming.rows(config.streaming):
        yield Setting(key=key, value=value, source=sources.get(key, "default"))
    for table in TABLES:
        for name, entry in getattr(config, table).items():
            for field in entry.__struct_fields__:
                key = f"{table}.{name}.{field}"
                yield Setting(key=key, value=getattr(entry, field), source=sources.get(key, "default"))
