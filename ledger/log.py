r"""A partition's log and what is made of it: publish, append, take, adopt, commit, read.

Authority: the log is the truth; `committed` says how far its effects are stored, together with them. The stream's group mirrors both for
those who look and decides nothing.
States of an entry: published, taken (handed to the owner), committed (its frames and blocks are stored).
Time: none decides here; who may act is a token.
Loss: every call may be repeated as it is. A repeated publish is ALREADY when the stored events are the same text, a repeated take returns
the same entries, a repeated commit is ALREADY by its commit id.
Failure: everything is checked before the first write, since a script that fails half-way leaves what it wrote.

Events travel as `[e1,\ne2]`: JSON holds no raw line feed, so the scripts can tell single events apart without reading them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ledger.commands import SLICE, Argument, Call
from ledger.errors import Full
from ledger.keys import Keyspace
from ledger.records import (
    RECORD_VERSION,
    BlockRecord,
    FrameEntry,
    LogEntry,
    Positions,
    TurnRecord,
    TurnState,
    frame_entries,
    log_entries,
    turn_record,
)
from ledger.replies import as_int, as_pairs, as_text, as_texts

INGEST: Final = "ingest"
"""The producer that carries an upstream's events."""
FOLD: Final = "fold"
"""The producer of the fold owner's own events; it writes by `append_if_tail` only."""


class PublishStatus(StrEnum):
    """What became of a publish."""

    OK = "OK"
    ALREADY = "ALREADY"
    STALE = "STALE"
    """Somebody else publishes for this turn now: close the upstream at once."""
    ENDED = "ENDED"
    UNKNOWN_TURN = "UNKNOWN_TURN"
    GAP = "GAP"
    """The first event is past `next`: the server lost its tail, or the caller skipped; resend from `next`."""
    OVERLAP = "OVERLAP"
    """A part of the batch is stored already: slice it at `next` and publish the rest."""
    CONFLICT = "CONFLICT"
    """Other events are stored under the same numbers."""
    TAIL_MOVED = "TAIL_MOVED"
    """`append_if_tail` only: the turn has a later log entry than the caller saw."""


@dataclass(frozen=True, kw_only=True)
class PublishReply:
    """The answer to a publish; a batch is done when `next` is past its last event."""

    status: PublishStatus
    next: int
    cancel: bool
    lag: int
    """Events of the partition that are in the log and not folded."""
    entry: str
    """Id of the new log entry; "" when none was added."""


class TakeStatus(StrEnum):
    """What became of a take or an adoption."""

    OK = "OK"
    STALE = "STALE"
    ROLLED_BACK = "ROLLED_BACK"
    """The caller is past everything that was ever handed out: the server lost its tail. Give the partition up and raise again."""


@dataclass(frozen=True, kw_only=True)
class TakeReply:
    """Entries handed to the owner, in id order."""

    status: TakeStatus
    entries: tuple[LogEntry, ...]


@dataclass(frozen=True, kw_only=True)
class AdoptReply:
    """How many pending entries this consumer has now, and up to where entries were handed out before."""

    status: TakeStatus
    pending: int
    taken: str


@dataclass(frozen=True, kw_only=True)
class TurnCommit:
    """The effects of a batch on one turn. `frames_next` and `blocks_next` are the numbers before it."""

    turn: str
    frames_next: int
    frames: int
    """How many frames `sse` holds."""
    sse: str
    blocks_next: int
    blocks: Sequence[BlockRecord] = ()
    digest: str
    fold_version: int
    state: TurnState = TurnState.RUNNING
    """A terminal one when the turn's last frame is among the frames."""
    usage: str = ""
    error: str = ""
    upstream_id: str = ""
    quarantined: str = ""
    """The entry from which on the fold ignores the turn's events; ends the turn for its producers too."""
    tool_waits: bool = False
    """Whether a tool call is open that foldline has to see answered; starts the tool time-out."""
    parent: str = ""
    """The turn whose child this one is: hears the notes. Of the same partition."""
    notes_next: int = 0
    """How many notes the parent was told before."""
    notes: int = 0
    notes_json: str = ""
    """What the parent is told now: a batch of events under the producer `child:<turn>`, from number `notes_next` on."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A batch of whole log entries, `entries`, after `prev` and up to `last`, with everything that came of them."""

    partition: int
    token: str
    prev: str
    last: str
    commit_id: str
    entries: Sequence[str]
    events: int
    """How many events the entries hold."""
    turns: Sequence[TurnCommit] = field(default=())
    retention_ms: int


class CommitStatus(StrEnum):
    """What became of a commit."""

    OK = "OK"
    ALREADY = "ALREADY"
    STALE = "STALE"
    MISMATCH = "MISMATCH"
    """The ledger stands elsewhere than the batch begins: give the partition up and raise again."""


@dataclass(frozen=True, kw_only=True)
class CommitReply:
    """The answer to a commit; for a MISMATCH, what differs: `committed`, or a turn and its field."""

    status: CommitStatus
    detail: str


def publish(
    keys: Keyspace,
    turn: str,
    *,
    token: str,
    producer: str,
    first_seq: int,
    events_json: str,
    n: int,
    terminal: str | None = None,
) -> Call[PublishReply]:
    """Add a batch of events to the log; Full when memory is short. The first terminal ends the turn."""
    _check_batch(events_json, n, producer)
    return Call(
        "publish",
        _written(keys, turn),
        (turn, token, producer, first_seq, n, events_json, terminal or ""),
        _decode_publish,
    )


def append_if_tail(
    keys: Keyspace,
    turn: str,
    *,
    token: str,
    tail: str,
    first_seq: int,
    events_json: str,
    n: int,
    terminal: str | None = None,
) -> Call[PublishReply]:
    """Add the fold owner's own events, only if `tail` is still the turn's last log entry ("" when it has none)."""
    _check_batch(events_json, n, INGEST)
    return Call(
        "append_if_tail",
        (*_written(keys, turn), keys.owner("fold", keys.partition_of_turn(turn))),
        (turn, token, tail, first_seq, n, events_json, terminal or ""),
        _decode_publish,
    )


def _written(keys: Keyspace, turn: str) -> tuple[str, ...]:
    """The keys that adding events to the log writes or looks at."""
    partition = keys.partition_of_turn(turn)
    return (
        keys.turn(turn),
        keys.log(partition),
        keys.entries(turn),
        keys.inflight(partition),
        keys.requests(partition),
        keys.deadlines(partition),
        keys.committed(partition),
    )


def _check_batch(events_json: str, n: int, producer: str) -> None:
    if n < 1 or events_json.count("\n") != n - 1 or not (events_json.startswith("[") and events_json.endswith("]")):
        msg = f"a batch of {n} events must be a JSON array of as many, one a line"
        raise ValueError(msg)
    if producer == FOLD:
        msg = "the fold's own events go by append_if_tail"
        raise ValueError(msg)


def _decode_publish(reply: Any) -> PublishReply:
    if as_text(reply[0]) == "FULL":
        raise Full("the server's memory is past the producers' share")
    return PublishReply(
        status=PublishStatus(as_text(reply[0])),
        next=as_int(reply[1]),
        cancel=as_int(reply[2]) == 1,
        lag=as_int(reply[3]),
        entry=as_text(reply[4]),
    )


def take_log(keys: Keyspace, partition: int, *, token: str, consumer: str, after: str, count: int) -> Call[TakeReply]:
    """Hand out the next entries after `after`, the last entry that the caller holds (at first the committed position).

    Entries that were handed out before and lie after `after` come again, so that neither a lost reply nor a change of owner skips any.
    """

    def decode(reply: Any) -> TakeReply:
        return TakeReply(status=TakeStatus(as_text(reply[0])), entries=tuple(log_entries(reply[1])))

    return Call(
        "take_log",
        (keys.owner("fold", partition), keys.committed(partition), keys.log(partition)),
        (token, consumer, after, count),
        decode,
    )


def adopt(keys: Keyspace, partition: int, *, token: str, consumer: str) -> Call[AdoptReply]:
    """Put all pending entries under this consumer and delete the consumers that have none; follows `raise_owner`."""

    def decode(reply: Any) -> AdoptReply:
        return AdoptReply(status=TakeStatus(as_text(reply[0])), pending=as_int(reply[1]), taken=as_text(reply[2]))

    return Call(
        "adopt_log",
        (keys.owner("fold", partition), keys.committed(partition), keys.log(partition)),
        (token, consumer),
        decode,
    )


def commit(keys: Keyspace, batch: Commit) -> Call[CommitReply]:
    """Store the effects of a batch with its position, all or nothing; keep this very call until OK or ALREADY."""
    partition = batch.partition
    names = [
        keys.owner("fold", partition),
        keys.committed(partition),
        keys.log(partition),
        keys.blocks(partition),
        keys.inflight(partition),
        keys.admitted(partition),
        keys.requests(partition),
        keys.deadlines(partition),
    ]
    args: list[Argument] = [
        batch.token,
        batch.prev,
        batch.last,
        batch.commit_id,
        batch.events,
        batch.retention_ms,
        len(batch.entries),
        *batch.entries,
        len(batch.turns),
    ]
    for turn in batch.turns:
        parent = turn.parent or turn.turn
        names += [keys.turn(turn.turn), keys.frames(turn.turn), keys.entries(turn.turn), keys.parts(turn.turn)]
        names += [keys.turn(parent), keys.entries(parent)]
        names += [keys.block(turn.turn, turn.blocks_next + index) for index in range(len(turn.blocks))]
        args += _turn_arguments(turn)
    return Call("commit", tuple(names), tuple(args), _decode_commit)


def _turn_arguments(turn: TurnCommit) -> Iterator[Argument]:
    yield from (turn.turn, turn.frames_next, turn.frames, turn.sse, turn.blocks_next, len(turn.blocks))
    yield from (turn.state.value, turn.quarantined, int(turn.tool_waits))
    yield from (turn.parent, turn.notes_next, turn.notes, turn.notes_json)
    fields: dict[str, Argument] = {"digest": turn.digest, "fold_version": turn.fold_version}
    fields |= {name: value for name in ("usage", "error", "upstream_id") if (value := getattr(turn, name))}
    yield len(fields)
    for name, value in fields.items():
        yield from (name, value)
    for block in turn.blocks:
        yield from (RECORD_VERSION, block.opener, block.text, block.closer, block.separator, block.markers)


def _decode_commit(reply: Any) -> CommitReply:
    return CommitReply(status=CommitStatus(as_text(reply[0])), detail=as_text(reply[1]))


def entries_of(keys: Keyspace, turn: str) -> Call[list[str]]:
    """Ids of all log entries of a turn, in order."""
    return Call("LRANGE", (keys.entries(turn),), (0, -1), as_texts, script=False)


def read_entries(keys: Keyspace, partition: int, ids: Sequence[str]) -> Call[list[LogEntry]]:
    """Read log entries by id, at most `commands.SLICE` in one call; trimmed ones are missing from the answer."""
    if len(ids) > SLICE:
        msg = f"at most {SLICE} entries are read in one call, not {len(ids)}"
        raise ValueError(msg)
    return Call("read_entries", (keys.log(partition),), tuple(ids), log_entries)


def read_past(
    keys: Keyspace, partition: int, turns: Sequence[str], *, upto: str, bytes_max: int
) -> Call[list[tuple[TurnRecord | None, list[LogEntry] | None]]]:
    """Read for each turn its record and, if it is not over, its log entries up to a position.

    None instead of entries: some are trimmed, or the answer has no room for them (`commands.SLICE` entries, so many bytes); they are to be
    read by `entries_of` and `read_entries` then.
    """

    def decode(reply: Any) -> list[tuple[TurnRecord | None, list[LogEntry] | None]]:
        return [(turn_record(fields), None if past is None else log_entries(past)) for fields, past in reply]

    names = [name for turn in turns for name in (keys.turn(turn), keys.entries(turn))]
    return Call("read_past", (keys.log(partition), *names), (upto, SLICE, bytes_max), decode)


def read_frames(keys: Keyspace, turn: str, *, after: int, count: int = 1000) -> Call[list[FrameEntry]]:
    """Read entries of the public stream that hold frames after number `after` (-1: all); the first may begin before."""
    args = (_holding(after), "+", "COUNT", count)
    return Call("XRANGE", (keys.frames(turn),), args, frame_entries, script=False)


def read_frames_of_size(keys: Keyspace, turn: str, *, after: int, size: int) -> Call[list[FrameEntry]]:
    """The same, as many entries as hold `size` bytes together, and two at least where there are two."""
    return Call("read_frames", (keys.frames(turn),), (_holding(after), size), frame_entries)


def _holding(after: int) -> str:
    """Where to read from for the frames after a number: an entry's id is one past its last frame."""
    return f"({after + 1}-0" if after >= 0 else "-"


def read_block(keys: Keyspace, turn: str, ordinal: int) -> Call[BlockRecord | None]:
    """Read one block; None when it is not there or has expired."""

    def decode(reply: Any) -> BlockRecord | None:
        fields = as_pairs(reply)
        return BlockRecord.from_hash(fields) if fields else None

    return Call("HGETALL", (keys.block(turn, ordinal),), (), decode, script=False)


def read_positions(keys: Keyspace, partition: int) -> Call[Positions]:
    """A partition's positions and counters."""
    return Call(
        "HGETALL",
        (keys.committed(partition),),
        (),
        lambda reply: Positions.from_hash(as_pairs(reply)),
        script=False,
    )


def hint(keys: Keyspace, partition: int, payloads: Sequence[str | bytes], *, sharded: bool = False) -> Call[int]:
    """Tell gateways of new frames, one message after the other, best effort; returns how many listened here."""
    return Call("hint", (keys.hint(partition),), ("SPUBLISH" if sharded else "PUBLISH", *payloads), as_int)
