"""What the server's user must be allowed: every command that foldline runs, on its own keys and channels, and nothing else.

Authority: the scripts themselves; their commands are read out of their text. The plain commands stand in `PLAIN`. A user who may not run
one of them is told which by `missing_rights`, before anything is begun: else a right that is missing would show half-way through a turn.
"""

from collections.abc import Sequence
from typing import Final

from ledger.commands import Call, commands_of_scripts
from ledger.keys import Keyspace
from ledger.replies import as_texts

PLAIN: Final = (
    "EVAL", "EVALSHA", "EXISTS", "HDEL", "HGET", "HGETALL", "HLEN", "HMGET", "HSET", "HSETNX", "INFO", "LINDEX", "LRANGE", "LREM",
    "PING", "PUBLISH", "SCAN", "SUBSCRIBE", "TIME", "UNLINK", "UNSUBSCRIBE", "XINFO GROUPS", "XLEN", "XRANGE", "XREAD", "XREVRANGE",
    "ZRANGE",
    "ZREM", "ZREVRANGE",
)  # fmt: skip
"""Run outside of scripts, by processes and by commands."""

CONNECTION: Final = ("CLIENT SETNAME", "SELECT")
"""What a connection begins with."""

ON_A_CLUSTER: Final = ("CLUSTER SLOTS", "COMMAND", "SPUBLISH", "SSUBSCRIBE", "SUNSUBSCRIBE")

WAITS: Final = {"wait": ("WAIT",), "waitaof": ("WAITAOF",), "none": ("CONFIG GET",)}
"""By `redis.durable`: how an intent waits, or how it is found out that it need not. Without the last, targets are at-least-once."""

_NOT_ASKED: Final = frozenset({"CONFIG GET", "EVAL", "EVALSHA"})


def rights(*, cluster: bool, durable: str) -> tuple[str, ...]:
    """Every command that the user must be allowed, sorted."""
    wanted = {*commands_of_scripts(), *PLAIN, *CONNECTION, *WAITS[durable]}
    if cluster:
        wanted.update(ON_A_CLUSTER)
    return tuple(sorted(wanted))


def acl_rule(keys: Keyspace, *, cluster: bool, durable: str, user: str = "foldline") -> str:
    """The command that makes the least user that foldline can work as; the password is left to the operator."""
    allowed = " ".join("+" + name.lower().replace(" ", "|") for name in rights(cluster=cluster, durable=durable))
    return f"ACL SETUSER {user} reset on >PASSWORD resetkeys ~{keys.prefix}:* resetchannels &{keys.prefix}:* -@all {allowed}"


def missing_rights(keys: Keyspace, *, cluster: bool, durable: str) -> Call[list[str]]:
    """Return what this connection's user may not, in words; AccessDenied when it may not even ask.

    Not asked for: `CONFIG GET`, without which less is promised and nothing fails, and the scripting that asks.
    """
    asked = [name for name in rights(cluster=cluster, durable=durable) if name not in _NOT_ASKED]
    return Call("check_rights", (keys.meta,), (keys.hint(0), *asked), as_texts)


def describe(missing: Sequence[str]) -> str:
    """Say in words what a user lacks."""
    return f"the server's user may not: {', '.join(missing)}"
