"""Reports of another path that come by a Redis stream: taken by a group, kept with their turns, settled; or set aside with the reason.

    XADD fl:{reports}:sent MAXLEN ~ 100000 * turn TURN report '{"messages": […], "total": 3}' id MINE

Authority: whoever reads is named in the group; what a reader leaves is handed to another once it has idled. Loss: a report is settled after it is
kept, and keeping it twice changes nothing, so a reader that dies between the two costs nothing.
"""

from dataclasses import dataclass
from typing import Any

from ledger.commands import Call
from ledger.keys import Keyspace
from ledger.replies import as_entries, as_int, as_texts

ASIDE_KEPT = 10_000
"""Reports that are kept aside, about: the oldest go first."""


@dataclass(frozen=True)
class ReportEntry:
    """One entry of the stream."""

    id: str
    fields: dict[str, str]


@dataclass(frozen=True)
class TakenReports:
    """Reports to be kept, and the ids of entries that were put aside at once, since they are no text."""

    entries: list[ReportEntry]
    aside: list[str]


def take_reports(keys: Keyspace, *, consumer: str, count: int, min_idle_ms: int, aside_ms: int) -> Call[TakenReports]:
    """Take reports that others have left, then new ones; those that were put aside more than `aside_ms` ago go."""

    def decode(reply: Any) -> TakenReports:
        entries = [ReportEntry(entry, fields) for entry, fields in as_entries(reply[0])]
        return TakenReports(entries, as_texts(reply[1]))

    args = (consumer, count, min_idle_ms, ASIDE_KEPT, aside_ms)
    return Call("take_reports", (keys.reports, keys.reports_aside), args, decode)


def settle_report(keys: Keyspace, entry: str, *, aside_ms: int, why: str = "") -> Call[bool]:
    """Take a report away that is kept with its turn, or put it aside for a reason and so long; False when that was done before."""
    return Call("settle_report", (keys.reports, keys.reports_aside), (entry, why, ASIDE_KEPT, aside_ms), bool)


def reports_aside(keys: Keyspace, *, count: int) -> Call[list[ReportEntry]]:
    """The latest reports that were set aside, the newest first, each with `entry` and `why`."""

    def decode(reply: Any) -> list[ReportEntry]:
        return [ReportEntry(entry, fields) for entry, fields in as_entries(reply)]

    return Call("XREVRANGE", (keys.reports_aside,), ("+", "-", "COUNT", count), decode, script=False)


def reports_waiting(keys: Keyspace) -> Call[int]:
    """How many reports nobody has settled yet."""
    return Call("XLEN", (keys.reports,), (), as_int, script=False)
