"""What the ledger stores of turns, entries, frames and blocks, as read back. Payloads (events, requests, frames) stay opaque text.

A record carries the version it was written in, `v`; one of another version is refused rather than guessed at.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ledger.errors import SchemaMismatch
from ledger.replies import as_entries, as_pairs

RECORD_VERSION: Final = 1
"""Version of the stored hashes of turns and blocks."""

LIVE: Final = "live"
"""The mode of a turn that is delivered."""
SHADOW: Final = "shadow"
"""The mode of a turn of which foldline records what it would deliver, while another path delivers it."""

START: Final = "0-0"
"""The position before the first entry of a stream."""


class TurnState(StrEnum):
    """Where a turn stands, as far as its effects are committed."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether the turn's last frame is stored."""
        return self not in {TurnState.QUEUED, TurnState.RUNNING}


@dataclass(frozen=True, kw_only=True)
class TurnRecord:
    """A turn's hash. Numbers of time are unix milliseconds of the server; 0 and "" mean not yet."""

    id: str
    state: TurnState
    tenant: str
    runtime: str
    session: str
    upstream: str
    request: str
    """What the upstream is asked, as JSON; "" once the turn has ended."""
    started: str
    targets: str
    serial: bool
    mode: str
    """`live` or `shadow`; decided when the turn was submitted."""
    parent: str
    parent_call: str
    entry: str
    """Id of the turn's entry in `requests`; "" when an external producer carries it."""
    external_token: str
    ingest_token: str
    ingest_worker: str
    ingest_epoch: int
    """How often the turn was claimed."""
    ingest_lease_until: int
    next: Mapping[str, int]
    """The next sequence number of each producer."""
    tail: str
    """Id of the turn's last log entry."""
    frames_next: int
    blocks_next: int
    notes_next: int
    """How many notes the turn's parent was told."""
    notes_unheard: int
    """How many of them came after the parent's end."""
    digest: str
    fold_version: int
    quarantined: str
    """The log entry from which on the turn's events are not fed to the fold any more; "" when there is none."""
    cancel: bool
    ended: str
    """Kind of the first terminal accepted into the log, before it is folded."""
    usage: str
    error: str
    upstream_id: str
    planned: int
    open_parts: int
    bytes: int
    submitted_at: int
    started_at: int
    last_event_at: int
    ended_at: int

    @classmethod
    def from_hash(cls, fields: Mapping[str, str]) -> "TurnRecord":
        """Read a stored hash; SchemaMismatch when another version wrote it."""
        check_version("turn record", fields)

        def text(name: str) -> str:
            return fields.get(name, "")

        def number(name: str) -> int:
            return int(fields.get(name) or 0)

        return cls(
            id=text("id"),
            state=TurnState(text("state")),
            tenant=text("tenant"),
            runtime=text("runtime"),
            session=text("session"),
            upstream=text("upstream"),
            request=text("request"),
            started=text("started"),
            targets=text("targets"),
            serial=text("serial") == "1",
            mode=text("mode") or LIVE,
            parent=text("parent"),
            parent_call=text("parent_call"),
            external_token=text("external_token"),
            entry=text("entry"),
            ingest_token=text("ingest_token"),
            ingest_worker=text("ingest_worker"),
            ingest_epoch=number("ingest_epoch"),
            ingest_lease_until=number("ingest_lease_until"),
            next={name.removeprefix("next:"): int(value) for name, value in fields.items() if name.startswith("next:")},
            tail=text("tail"),
            frames_next=number("frames_next"),
            blocks_next=number("blocks_next"),
            notes_next=number("notes_next"),
            notes_unheard=number("notes_unheard"),
            digest=text("digest"),
            fold_version=number("fold_version"),
            quarantined=text("quarantined"),
            cancel=text("cancel") == "1",
            ended=text("ended"),
            usage=text("usage"),
            error=text("error"),
            upstream_id=text("upstream_id"),
            planned=number("planned"),
            open_parts=number("open_parts"),
            bytes=number("bytes"),
            submitted_at=number("submitted_at"),
            started_at=number("started_at"),
            last_event_at=number("last_event_at"),
            ended_at=number("ended_at"),
        )


@dataclass(frozen=True, kw_only=True)
class LogEntry:
    """One batch of events in a partition's log."""

    id: str
    turn: str
    producer: str
    seq: int
    n: int
    events: str

    @classmethod
    def from_fields(cls, entry_id: str, fields: Mapping[str, str]) -> "LogEntry":
        """Read one stream entry."""
        return cls(
            id=entry_id,
            turn=fields["turn"],
            producer=fields["producer"],
            seq=int(fields["seq"]),
            n=int(fields["n"]),
            events=fields["events"],
        )


@dataclass(frozen=True, kw_only=True)
class FrameEntry:
    """The frames of one commit: numbers `first` to `first + n - 1`, concatenated as SSE text."""

    id: str
    first: int
    n: int
    sse: str

    @property
    def last(self) -> int:
        """The number of the entry's last frame."""
        return self.first + self.n - 1

    @classmethod
    def from_fields(cls, entry_id: str, fields: Mapping[str, str]) -> "FrameEntry":
        """Read one stream entry."""
        return cls(id=entry_id, first=int(fields["first"]), n=int(fields["n"]), sse=fields["sse"])


@dataclass(frozen=True, kw_only=True)
class BlockRecord:
    """A stored block. Markers are JSON."""

    opener: str
    text: str
    closer: str
    separator: str
    markers: str

    @classmethod
    def from_hash(cls, fields: Mapping[str, str]) -> "BlockRecord":
        """Read a stored hash; SchemaMismatch when another version wrote it."""
        check_version("block record", fields)
        return cls(
            opener=fields["opener"],
            text=fields["text"],
            closer=fields["closer"],
            separator=fields["separator"],
            markers=fields["markers"],
        )


@dataclass(frozen=True, kw_only=True)
class Positions:
    """A partition's `committed` hash."""

    log: str
    taken: str
    blocks: str
    commit: str
    published: int
    folded: int
    suspect: str
    full: bool

    @property
    def lag(self) -> int:
        """Events that are in the log and not folded."""
        return self.published - self.folded

    @classmethod
    def from_hash(cls, fields: Mapping[str, str]) -> "Positions":
        """Read a stored hash; an absent one is a partition that nothing has happened in."""
        return cls(
            log=fields.get("log", START),
            taken=fields.get("taken", START),
            blocks=fields.get("blocks", START),
            commit=fields.get("commit", ""),
            published=int(fields.get("published", 0)),
            folded=int(fields.get("folded", 0)),
            suspect=fields.get("suspect", ""),
            full=fields.get("full") == "1",
        )


@dataclass(frozen=True, kw_only=True)
class OwnerRecord:
    """A partition's owner in one role."""

    epoch: int
    token: str
    worker: str
    lease_until: int

    @classmethod
    def from_hash(cls, fields: Mapping[str, str]) -> "OwnerRecord":
        """Read a stored hash; an absent one is a partition that nobody has owned."""
        return cls(
            epoch=int(fields.get("epoch", 0)),
            token=fields.get("token", ""),
            worker=fields.get("worker", ""),
            lease_until=int(fields.get("lease_until", 0)),
        )


def check_version(what: str, fields: Mapping[str, str]) -> None:
    """Refuse a record that another version wrote."""
    found = fields.get("v", "")
    if found != str(RECORD_VERSION):
        raise SchemaMismatch(what, expected=f"version {RECORD_VERSION}", found=f"version {found or 'none'}")


def log_entries(reply: Any) -> list[LogEntry]:
    """Read a reply of log entries."""
    return [LogEntry.from_fields(entry_id, fields) for entry_id, fields in as_entries(reply)]


def frame_entries(reply: Any) -> list[FrameEntry]:
    """Read a reply of frame entries."""
    return [FrameEntry.from_fields(entry_id, fields) for entry_id, fields in as_entries(reply)]


def turn_record(reply: Any) -> TurnRecord | None:
    """Read a reply of a turn's hash; None when there is no such turn."""
    fields = as_pairs(reply)
    return TurnRecord.from_hash(fields) if fields else None


def position_key(entry_id: str) -> tuple[int, int]:
    """A stream id as the pair of numbers it is; texts of ids must never be compared."""
    milliseconds, _, sequence = entry_id.partition("-")
    return int(milliseconds), int(sequence or 0)
