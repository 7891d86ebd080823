"""Shadowed turns: which runtimes are shadowed, what another path says it sent, and where such turns are found.

Authority: a turn's mode stands in its hash and never changes; `fl:modes` says what the next turn gets. So one path alone delivers a
turn, whatever is switched while it runs. Messages of the other path are opaque text under their numbers.
Loss: every call may be repeated; a report that says something else under the same number is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.commands import Argument, Call
from ledger.keys import Keyspace, digest_of
from ledger.records import LIVE, SHADOW
from ledger.replies import as_int, as_pairs, as_text, as_texts


class ReportStatus(StrEnum):
    """What became of a report."""

    OK = "OK"
    UNKNOWN_TURN = "UNKNOWN_TURN"
    NOT_SHADOW = "NOT_SHADOW"
    """The turn is delivered by foldline: nobody else may send it."""
    CONFLICT = "CONFLICT"
    OVER = "OVER"
    """A message is numbered past the total."""


@dataclass(frozen=True, kw_only=True)
class ReportReply:
    """The answer to a report; `where` is what is in the way: a number, `total`, or `report` for its own id."""

    status: ReportStatus
    where: str


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What another path has told of a turn; `total` is None while more may come."""

    messages: Mapping[int, str]
    total: int | None

    @property
    def is_whole(self) -> bool:
        """Whether all of it is told."""
        return self.total is not None and len(self.messages) == self.total


def read_mode(keys: Keyspace, runtime: str) -> Call[str]:
    """The mode that was set for a runtime while running; empty when the configuration decides."""
    return Call("HGET", (keys.modes,), (runtime,), lambda reply: as_text(reply) if reply else "", script=False)


def read_modes(keys: Keyspace) -> Call[dict[str, str]]:
    """All modes that were set while running."""
    return Call("HGETALL", (keys.modes,), (), as_pairs, script=False)


def set_mode(keys: Keyspace, runtime: str, mode: str) -> Call[int]:
    """Set a runtime's mode for turns to come."""
    if mode not in (LIVE, SHADOW):
        msg = f"a mode is {LIVE} or {SHADOW}, not {mode!r}"
        raise ValueError(msg)
    return Call("HSET", (keys.modes,), (runtime, mode), as_int, script=False)


def forget_mode(keys: Keyspace, runtime: str) -> Call[int]:
    """Let the configuration decide again."""
    return Call("HDEL", (keys.modes,), (runtime,), as_int, script=False)


def report_sent(
    keys: Keyspace, turn: str, messages: Mapping[int, str], *, total: int | None, ttl_ms: int, report_id: str = ""
) -> Call[ReportReply]:
    """Keep messages that another path sent, by their numbers; `total` once it has sent all. A report's own id stands for it alone."""
    listed = [word for number, message in messages.items() for word in (str(number), message)]
    digest = digest_of(*listed, str(total)) if report_id else ""
    args: list[Argument] = [ttl_ms, "" if total is None else total, report_id, digest]
    for number, message in messages.items():
        args += [number, message]

    def decode(reply: Any) -> ReportReply:
        return ReportReply(status=ReportStatus(as_text(reply[0])), where=as_text(reply[1]))

    return Call("report_sent", (keys.turn(turn), keys.legacy(turn)), tuple(args), decode)


def read_sent(keys: Keyspace, turn: str) -> Call[Sent]:
    """What another path has told of a turn."""

    def decode(reply: Any) -> Sent:
        fields = as_pairs(reply)
        total = fields.get("total")
        numbers = sorted(int(name) for name in fields if name.isdigit())
        return Sent(
            messages={number: fields[str(number)] for number in numbers},
            total=None if total is None else int(total),
        )

    return Call("HGETALL", (keys.legacy(turn),), (), decode, script=False)


def shadow_turns(keys: Keyspace, partition: int, *, count: int) -> Call[list[str]]:
    """The latest shadowed turns of a partition, the newest first; their records may have expired."""
    return Call("ZREVRANGE", (keys.shadow(partition),), (0, count - 1), as_texts, script=False)
