"""What a command that asks the fleet needs: the configuration, a connection, and one way to end in words.

A command is a guest: it opens one connection, asks, and closes it. Where no server is configured and this folder has an embedded
one running, that is the server meant.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from msgspec.structs import replace

from ledger.commands import CLIENT_ERRORS, Scripts, translate
from ledger.errors import LedgerError, Unavailable
from ledger.keys import Keyspace
from workers.config import Config, ConfigError, Loaded, load_with_sources
from workers.embedded import ping
from workers.streams.connection import AsyncClient, connect

T = TypeVar("T")

DATA = Path(".foldline")
PORT_FILE = "server.port"
URL_VARIABLE = "FOLDLINE_REDIS_URL"
EXIT_FAILED = 1
EXIT_REFUSED = 2  # also what typer answers to a wrong command line
EXIT_CONFIG = 78  # EX_CONFIG of sysexits.h: nothing is tried again until somebody edits the configuration


@dataclass(frozen=True)
class Ledger:
    """A connection to the fleet's server, with the names of its keys."""

    scripts: Scripts
    keys: Keyspace
    client: AsyncClient
    config: Config


def fail(message: str, code: int = EXIT_FAILED) -> NoReturn:
    """End the command with words on stderr."""
    sys.stderr.write(f"foldline: {message}\n")
    raise SystemExit(code)


def read_settings(environ: Mapping[str, str] | None = None) -> Loaded:
    """Read the configuration with its sources; ends the command in words when it cannot be used."""
    env = dict(os.environ if environ is None else environ)
    try:
        loaded = load_with_sources(None, env)
        port = embedded_port()
        if port is not None and _is_default(loaded, "redis.url"):
            loaded = _with_embedded(load_with_sources(None, {**env, URL_VARIABLE: f"redis://127.0.0.1:{port}/0"}))
    except ConfigError as error:
        fail(str(error), EXIT_CONFIG)
    return loaded


def read_config() -> Config:
    """Read the configuration; ends the command in words when it cannot be used."""
    return read_settings().config


def server_is_configured() -> bool:
    """Whether a file or a variable names the server, so that none needs to be embedded."""
    try:
        return not _is_default(load_with_sources(None, os.environ), "redis.url")
    except ConfigError as error:
        fail(str(error), EXIT_CONFIG)


def embedded_port(data: Path = DATA) -> int | None:
    """The port of this folder's embedded server, when it answers."""
    try:
        port = int((data / PORT_FILE).read_text())
    except (OSError, ValueError):
        return None
    return port if ping(port, timeout_s=0.5) else None


@asynccontextmanager
async def open_ledger(config: Config) -> AsyncIterator[Ledger]:
    """Connect to the fleet's server for one command."""
    client = connect(config.redis, name="cli")
    try:
        if config.redis.cluster:
            await _discover(client)
        keys = Keyspace(config.redis.prefix, config.redis.partitions)
        yield Ledger(Scripts(client), keys, client, config)
    finally:
        await client.aclose()


async def _discover(client: AsyncClient) -> None:
    """Let a cluster's client find the nodes before several calls at once do, and close each other's connections by it."""
    try:
        await client.initialize()
    except CLIENT_ERRORS as error:
        raise translate("CLUSTER SLOTS", error) from error


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work; the ledger's errors end it in words."""
    try:
        return asyncio.run(work)
    except Unavailable as error:
        fail(f"the server does not answer ({error}); `foldline up` starts one here, FOLDLINE_REDIS_URL names another")
    except LedgerError as error:
        fail(f"{type(error).__name__}: {error}")
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _with_embedded(loaded: Loaded) -> Loaded:
    """Name the embedded server's own file as the source of its address."""
    settings = [
        replace(setting, source=str(DATA / PORT_FILE)) if setting.source == URL_VARIABLE else setting
        for setting in loaded.settings
    ]
    return replace(loaded, settings=settings)


def _is_default(loaded: Loaded, key: str) -> bool:
    return any(setting.key == key and setting.source == "default" for setting in loaded.settings)
