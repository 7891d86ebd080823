"""Run the ledger's operations: the only caller of Lua and the only place where an error of the client becomes one of ours.

An operation is a `Call`: a name, its keys, its arguments and how to read the reply. It is a value; making one asks nobody. Whoever
holds a client runs it, and runs the very same call again when the answer was lost: every operation is made to be repeated, so a
retry is the caller's decision and never the client's. Clients must be built with retries off.

A script is called by its SHA. When the server does not know it (a restart, a fail-over, a slot that moved), the call is made once more
with the text itself: that runs it and leaves it loaded on exactly the node that holds the keys.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Generic, Protocol, TypeVar

import redis.exceptions as redis_errors

from ledger import lua
from ledger.errors import AccessDenied, Full, LedgerError, Unavailable, UnexpectedReply

T = TypeVar("T")

_RUN: Final = re.compile(r"redis\.p?call\('([A-Z]+)'(?:, '([A-Z]+)')?")
_CONTAINERS: Final = frozenset({"XGROUP", "XINFO"})
"""Commands of which each subcommand is a right of its own."""

Argument = str | bytes | int

SLICE: Final = 1000
"""The most entries asked of a script in one call; a longer reply would hold up the server for everybody else."""


@dataclass(frozen=True)
class Call(Generic[T]):
    """One operation with its arguments: a script, or a plain command when `script` is false."""

    name: str
    keys: tuple[str, ...]
    args: tuple[Argument, ...]
    decode: Callable[[Any], T] = field(compare=False, repr=False)
    script: bool = True

    @property
    def routing_key(self) -> str:
        """The key whose slot this call belongs to."""
        return self.keys[0]

    def by_sha(self) -> tuple[Argument, ...]:
        """The command that runs this call, a script by its SHA."""
        if not self.script:
            return (self.name, *self.keys, *self.args)
        return ("EVALSHA", sha_of(self.name), len(self.keys), *self.keys, *self.args)

    def by_text(self) -> tuple[Argument, ...]:
        """The command that runs a script by its text, and leaves it loaded."""
        return ("EVAL", lua.source(self.name), len(self.keys), *self.keys, *self.args)


@cache
def sha_of(name: str) -> str:
    """The SHA by which the server knows a script."""
    return hashlib.sha1(lua.source(name).encode(), usedforsecurity=False).hexdigest()


@cache
def commands_of_scripts() -> frozenset[str]:
    """Every command that a script runs, with its subcommand where it is one: a user's rights count inside of scripts, too."""
    found: set[str] = set()
    for name in lua.names():
        for command, word in _RUN.findall(lua.source(name)):
            found.add(f"{command} {word}" if command in _CONTAINERS else command)
    return frozenset(found)


class Client(Protocol):
    """What is asked of an asynchronous client: redis-py's Redis and RedisCluster both are one."""

    def execute_command(self, *args: Any, **options: Any) -> Awaitable[Any]:
        """Send one command and wait for its reply."""
        ...


class SyncClient(Protocol):
    """What is asked of a blocking client."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command and wait for its reply."""
        ...


class Scripts:
    """Run calls over an asynchronous client."""

    def __init__(self, client: Client | Any) -> None:
        self._client: Client = client

    async def run(self, call: Call[T]) -> T:
        """Run one call; raises a LedgerError, after which the same call may be run again."""
        try:
            try:
                reply = await self._client.execute_command(*call.by_sha())
            except redis_errors.NoScriptError:
                reply = await self._client.execute_command(*call.by_text())
        except CLIENT_ERRORS as error:
            raise translate(call.name, error) from error
        return call.decode(reply)


class SyncScripts:
    """Run calls over a blocking client, for the thread that renews leases."""

    def __init__(self, client: SyncClient | Any) -> None:
        self._client: SyncClient = client

    def run(self, call: Call[T]) -> T:
        """Run one call; raises a LedgerError, after which the same call may be run again."""
        try:
            try:
                reply = self._client.execute_command(*call.by_sha())
            except redis_errors.NoScriptError:
                reply = self._client.execute_command(*call.by_text())
        except CLIENT_ERRORS as error:
            raise translate(call.name, error) from error
        return call.decode(reply)


CLIENT_ERRORS: Final = (redis_errors.RedisError, redis_errors.RedisClusterException, OSError)

_REPEAT: Final = (
    redis_errors.ConnectionError,  # refused, reset, LOADING
    redis_errors.TimeoutError,
    redis_errors.ClusterError,  # CLUSTERDOWN, MASTERDOWN
    redis_errors.RedisClusterException,  # a slot that nobody covers, nodes that cannot be reached
    redis_errors.TryAgainError,
    redis_errors.AskError,  # and MOVED
    redis_errors.ReadOnlyError,
    redis_errors.NoScriptError,  # the loaded script was flushed between two calls
    OSError,
)
_REPEAT_CODES: Final = ("BUSY ", "NOREPLICAS", "MISCONF", "UNBLOCKED", "FAILOVER", "NOTREADY")
_DENIED: Final = (
    redis_errors.AuthenticationError,
    redis_errors.AuthenticationWrongNumberOfArgsError,
    redis_errors.AuthorizationError,
    redis_errors.NoPermissionError,
)

_DENIED_IN_A_SCRIPT: Final = ("The user executing the script can't", "ACL failure in script:")
"""As servers of different versions say it; not all say which command or key it was, so `ledger.rights` finds it out beforehand."""


def translate(operation: str, error: BaseException) -> LedgerError:
    """Turn an error of the client into one of ours."""
    text = f"{operation}: {error}"
    if isinstance(error, _DENIED) or str(error).startswith(_DENIED_IN_A_SCRIPT):
        return AccessDenied(text)
    if isinstance(error, redis_errors.OutOfMemoryError):
        return Full(text)
    if isinstance(error, _REPEAT) or str(error).startswith(_REPEAT_CODES):
        return Unavailable(text)
    return UnexpectedReply(operation, str(error))
