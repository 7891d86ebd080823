"""`foldline config`: every setting in force and where it came from; `foldline settings`: how a turn's text would become blocks, and why."""

import re
from typing import Annotated, Any

import typer

from pipeline.project.registry import CHANNELS
from pipeline.settings import KEYS, SettingError, read_text
from workers.commands.output import Json, show_rows
from workers.commands.session import EXIT_REFUSED, fail, read_settings
from workers.config import streaming

_PASSWORD = re.compile(r"(?<=://)([^:@/]*):[^@/]*@")


def show_config(as_json: Json = False) -> None:
    """Print every value and its source; a password in an address is hidden."""
    rows = [
        {"key": setting.key, "value": without_password(setting.value), "source": setting.source}
        for setting in read_settings().settings
    ]
    show_rows(rows, ("key", "value", "source"), as_json=as_json, empty="nothing is configured")


def without_password(value: Any) -> Any:
    """Hide the password of an address."""
    return _PASSWORD.sub(r"\1:***@", value) if isinstance(value, str) else value


def show_streaming(
    *,
    runtime: Annotated[str, typer.Option(metavar="RUNTIME", help="main, subagent or acp.")] = "main",
    channel: Annotated[str, typer.Option(metavar="CHANNEL", help="The channel of the turn's first target.")] = "",
    account: Annotated[str, typer.Option(metavar="ACCOUNT", help="Its account.")] = "",
    target: Annotated[str, typer.Option(metavar="TARGET", help="A target's name, for its channel and account.")] = "",
    given: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A request's own setting; again for more.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the streaming settings in force for a turn, each with the layer that said it."""
    loaded = read_settings()
    if target:
        known = loaded.config.targets.get(target)
        if known is None:
            fail(f"settings: no target is named {target!r}", EXIT_REFUSED)
        channel, account = channel or known.channel, account or known.account or target
    for name, value, allowed in (("runtime", runtime, streaming.RUNTIMES), ("channel", channel, tuple(CHANNELS))):
        if value and value not in allowed:
            fail(f"settings: {name} is one of {', '.join(allowed)}, not {value!r}", EXIT_REFUSED)
    try:
        made = streaming.resolved(
            loaded.config.streaming, runtime=runtime, channel=channel, account=account, request=read_given(given)
        )
    except SettingError as error:
        fail(f"settings: {error}", EXIT_REFUSED)
    files = {setting.key: setting.source for setting in loaded.settings}
    rows = [
        {
            "key": key,
            "value": made.values[key],
            "source": _source(made.sources[key], key, files),
            "said": str(said) if isinstance(said := made.said.get(key), float) else said,
        }
        for key in KEYS
    ]
    show_rows(rows, ("key", "value", "source", "said"), as_json=as_json, empty="nothing is set")


def read_given(given: list[str] | None) -> dict[str, Any]:
    """Read `KEY=VALUE` as settings; what is wrong with them is found where they are merged."""
    pairs = (piece.partition("=") for piece in given or [])
    return {key.strip(): read_text(key.strip(), text.strip()) for key, _, text in pairs}


def _source(layer: str, key: str, files: dict[str, str]) -> str:
    file = files.get(f"{layer}.{key}")
    return f"{layer} ({file})" if file else layer
