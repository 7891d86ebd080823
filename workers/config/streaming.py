"""The streaming settings of a deployment: ``[streaming]``, and tables for a runtime, a channel or an account that stand over it.

A request's own settings stand over all of them; then account, channel, runtime, ``[streaming]``, defaults. Which settings there are and how they
are merged and clamped is the core's; here is where they are read from.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pipeline.project.registry import CHANNELS
from pipeline.settings import KEYS, Resolved, SettingError, check, resolve_layers

NAME = "streaming"
RUNTIMES = ("main", "subagent", "acp")
_KNOWN = {"runtime": RUNTIMES, "channel": tuple(CHANNELS), "account": ()}


class StreamingConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a turn's text becomes blocks: for all, by runtime, by channel, by account of a target."""

    defaults: dict[str, Any] = {}
    runtime: dict[str, dict[str, Any]] = {}
    channel: dict[str, dict[str, Any]] = {}
    account: dict[str, dict[str, Any]] = {}


def members(body: Mapping[str, Any], source: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every setting of the file's section, checked; SettingError names file, key and value of what cannot be used."""
    flat = {key: value for key, value in body.items() if key not in _KNOWN}
    check(flat, f"{source}: {NAME}")
    for key, value in flat.items():
        yield (NAME, "defaults", key), value
    for kind, known in _KNOWN.items():
        tables = body.get(kind, {})
        if not isinstance(tables, dict):
            raise SettingError(f"{source}: {NAME}", kind, f" = {tables!r}: a table is expected")
        for name, layer in tables.items():
            where = f"{source}: {NAME}.{kind}"
            if known and name not in known:
                raise SettingError(where, name, f": unknown {kind}; one of {', '.join(known)} is expected")
            if not isinstance(layer, dict):
                raise SettingError(where, name, f" = {layer!r}: a table is expected")
            check(layer, f"{where}.{name}")
            for key, value in layer.items():
                yield (NAME, kind, name, key), value


def spelled(key: tuple[str, ...]) -> str:
    """Return a setting's key as it stands in the file."""
    return ".".join(part for part in key if part != "defaults")


def rows(config: StreamingConfig) -> Iterator[tuple[str, Any]]:
    """Every setting that was said, by its key."""
    for key, value in config.defaults.items():
        yield f"{NAME}.{key}", value
    for kind in _KNOWN:
        for name, layer in getattr(config, kind).items():
            for key, value in layer.items():
                yield f"{NAME}.{kind}.{name}.{key}", value


def resolved(
    config: StreamingConfig,
    *,
    runtime: str,
    channel: str = "",
    account: str = "",
    request: Mapping[str, Any] | None = None,
) -> Resolved:
    """Merge the layers that hold for a turn. Each is named as in the file; a request's are `settings`."""
    layers = [
        ("settings", request or {}),
        (f"{NAME}.account.{account}", config.account.get(account, {})),
        (f"{NAME}.channel.{channel}", config.channel.get(channel, {})),
        (f"{NAME}.runtime.{runtime}", config.runtime.get(runtime, {})),
        (NAME, config.defaults),
    ]
    return resolve_layers(layers)


def names(rest: str) -> bool:
    """Whether a variable's name, behind the section's, is a setting for all."""
    return rest in KEYS
