"""Clients of the ledger as small models: they keep what a real process keeps in memory, and nothing else.

A call may be answered, or executed with its answer lost: then the client knows nothing and has to run the very same call again.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ledger import log, ownership, turns
from ledger.commands import Call, SyncScripts
from ledger.keys import Keyspace
from ledger.log import CommitStatus, PublishStatus, TakeStatus
from ledger.records import BlockRecord, LogEntry, TurnState, position_key
from ledger.turns import Claimed, ClaimStatus

T = TypeVar("T")
PARTITION = 3
LEASE_MS = 600_000


def event(seq: int, by: str, *, end: bool) -> str:
    """One made-up event."""
    return json.dumps({"seq": seq, "by": by, "end": end}, separators=(",", ":"))


def batch_of(texts: Sequence[str]) -> str:
    """The form in which events travel."""
    return "[" + ",\n".join(texts) + "]"


def apart(entry: LogEntry) -> list[str]:
    """The events of a log entry."""
    return entry.events[1:-1].split(",\n")


def is_end(text: str) -> bool:
    """Whether an event is a terminal."""
    return bool(json.loads(text)["end"])


@dataclass
class Wire:
    """A connection that may lose answers."""

    client: Any
    keys: Keyspace

    def ask(self, call: Call[T], *, lose: bool = False) -> T | None:
        """Run a call; None when its answer is lost."""
        reply = SyncScripts(self.client).run(call)
        return None if lose else reply


@dataclass
class Claim:
    """A turn that an ingest process holds, with the events it has not seen acknowledged."""

    token: str
    next: int
    unacknowledged: list[str] = field(default_factory=list)


class Ingest:
    """An ingest process."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.wire = wire
        self.name = name
        self.claims: dict[str, Claim] = {}
        self.claiming: dict[str, str] = {}
        self.nonces = 0

    def claim(self, turn: str, *, lose: bool) -> None:
        """Claim a turn, under the same nonce until an answer comes."""
        if turn not in self.claiming:
            self.nonces += 1
            self.claiming[turn] = f"{self.name}{self.nonces}"
        nonce = self.claiming[turn]
        entry = self.wire.client.hget(self.wire.keys.turn(turn), "entry")
        call = turns.claim_turn(self.wire.keys, turn, entry=entry, worker=self.name, nonce=nonce, lease_ms=LEASE_MS)
        reply = self.wire.ask(call, lose=lose)
        if reply is None:
            return
        del self.claiming[turn]
        if isinstance(reply, Claimed):
            self.claims[turn] = Claim(reply.token, reply.next_seq)

    def publish(self, turn: str, fresh: int, *, end: bool, lose: bool) -> None:
        """Publish what is unacknowledged together with new events."""
        claim = self.claims[turn]
        kept = claim.unacknowledged
        if not (kept and is_end(kept[-1])):
            kept += [event(claim.next + len(kept), claim.token, end=False) for _ in range(fresh)]
            if end:
                kept.append(event(claim.next + len(kept), claim.token, end=True))
        if not kept:
            return
        terminal = "completed" if is_end(kept[-1]) else None
        call = log.publish(
            self.wire.keys,
            turn,
            token=claim.token,
            producer=log.INGEST,
            first_seq=claim.next,
            events_json=batch_of(kept),
            n=len(kept),
            terminal=terminal,
        )
        reply = self.wire.ask(call, lose=lose)
        if reply is None:
            return
        match reply.status:
            case PublishStatus.OK | PublishStatus.ALREADY | PublishStatus.OVERLAP:
                claim.unacknowledged = kept[reply.next - claim.next :]
                claim.next = reply.next
            case PublishStatus.STALE | PublishStatus.ENDED:
                del self.claims[turn]
            case _:
                raise AssertionError(f"a producer that keeps to the rules met {reply}")

    def renew(self, turn: str) -> None:
        """Renew a claim."""
        call = turns.renew_turn(self.wire.keys, turn, token=self.claims[turn].token, lease_ms=LEASE_MS)
        reply = self.wire.ask(call)
        if reply is not None and reply.status != ClaimStatus.OK:
            del self.claims[turn]

    def release(self, turn: str, *, lose: bool) -> None:
        """Give a claim up; the process forgets it when it knows."""
        call = turns.release_turn(self.wire.keys, turn, token=self.claims[turn].token)
        if self.wire.ask(call, lose=lose) is not None:
            del self.claims[turn]


@dataclass
class Folded:
    """What an owner's memory holds of a turn."""

    frames: int = 0
    blocks: int = 0
    own: int = 0
    ended: bool = False
    tail: str = ""

    def feed(self, entry: LogEntry) -> tuple[list[str], list[BlockRecord]]:
        """Fold an entry: a frame for each event, a block for each that ends its entry."""
        texts = apart(entry)
        self.tail = entry.id
        self.ended = is_end(texts[-1])
        self.frames += len(texts)
        self.blocks += 1
        if entry.producer == log.FOLD:
            self.own = entry.seq + entry.n
        block = BlockRecord(opener="", text=texts[-1], closer="", separator="", markers="{}")
        return [f"data: {text}\n\n" for text in texts], [block]


class Owner:
    """A fold worker."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.wire = wire
        self.name = name
        self.nonces = 0
        self.raising = ""
        self.forget()

    def forget(self) -> None:
        """Lose the partition."""
        self.token = ""
        self.position = self.after = "0-0"
        self.held: list[LogEntry] = []
        self.turns: dict[str, Folded] = {}
        self.kept: tuple[Call[log.CommitReply], str] | None = None
        self.appending: Call[log.PublishReply] | None = None

    def raise_(self, *, lose: bool) -> None:
        """Try to own the partition, under the same nonce until an answer comes; then rebuild and adopt."""
        if not self.raising:
            self.nonces += 1
            self.raising = f"{self.name}{self.nonces}"
        call = ownership.raise_owner(
            self.wire.keys,
            role="fold",
            partition=PARTITION,
            worker=self.name,
            nonce=self.raising,
            lease_ms=LEASE_MS,
        )
        reply = self.wire.ask(call, lose=lose)
        if reply is None:
            return
        self.raising = ""
        if isinstance(reply, ownership.NotFree):
            return
        self.forget()
        self.token = reply.token
        self.position = self.after = reply.log_position
        for turn in reply.inflight:
            self.rebuild(turn)
        self.wire.ask(log.adopt(self.wire.keys, PARTITION, token=self.token, consumer=self.name))

    def rebuild(self, turn: str) -> None:
        """Fold a turn's entries again, up to the committed position."""
        keys = self.wire.keys
        known: list[str] = self.wire.client.lrange(keys.entries(turn), 0, -1)
        ids = [one for one in known if position_key(one) <= position_key(self.position)]
        entries = self.wire.ask(log.read_entries(keys, PARTITION, ids))
        record = self.wire.ask(turns.read_turn(keys, turn))
        assert entries is not None
        assert record is not None
        assert len(entries) == len(ids), "an entry of a turn in flight was trimmed"
        folded = self.turns[turn] = Folded()
        for entry in entries:
            folded.feed(entry)
        assert (folded.frames, folded.blocks) == (record.frames_next, record.blocks_next)

    def take(self, count: int, *, lose: bool) -> None:
        """Take entries."""
        call = log.take_log(
            self.wire.keys, PARTITION, token=self.token, consumer=self.name, after=self.after, count=count
        )
        reply = self.wire.ask(call, lose=lose)
        if reply is None:
            return
        assert reply.status != TakeStatus.ROLLED_BACK
        if reply.status == TakeStatus.STALE:
            self.forget()
        elif reply.entries:
            self.held += reply.entries
            self.after = reply.entries[-1].id

    def commit(self, count: int, *, lose: bool) -> None:
        """Commit some of the entries, by the same call until an answer comes."""
        if self.kept is None:
            if not (self.held and self.token):
                return
            batch, self.held = self.held[:count], self.held[count:]
            self.kept = self.fold(batch), batch[-1].id
        call, last = self.kept
        reply = self.wire.ask(call, lose=lose)
        if reply is None:
            return
        assert reply.status != CommitStatus.MISMATCH, reply
        if reply.status == CommitStatus.STALE:
            self.forget()
        else:
            self.position, self.kept = last, None

    def fold(self, batch: list[LogEntry]) -> Call[log.CommitReply]:
        """Fold entries into effects."""
        effects: dict[str, tuple[int, int, list[str], list[BlockRecord]]] = {}
        for entry in batch:
            folded = self.turns.setdefault(entry.turn, Folded())
            one = effects.setdefault(entry.turn, (folded.frames, folded.blocks, [], []))
            frames, blocks = folded.feed(entry)
            one[2].extend(frames)
            one[3].extend(blocks)
        commits = [
            log.TurnCommit(
                turn=turn,
                frames_next=frames_next,
                frames=len(frames),
                sse="".join(frames),
                blocks_next=blocks_next,
                blocks=blocks,
                digest="d",
                fold_version=1,
                state=TurnState.COMPLETED if self.turns[turn].ended else TurnState.RUNNING,
            )
            for turn, (frames_next, blocks_next, frames, blocks) in effects.items()
        ]
        return log.commit(
            self.wire.keys,
            log.Commit(
                partition=PARTITION,
                token=self.token,
                prev=self.position,
                last=batch[-1].id,
                commit_id=f"{self.token}/{batch[-1].id}",
                entries=[entry.id for entry in batch],
                events=sum(entry.n for entry in batch),
                turns=commits,
                retention_ms=3_600_000,
            ),
        )

    def append(self, turn: str, *, end: bool, lose: bool) -> None:
        """Append an own event after the last entry that was folded, by the same call until an answer comes."""
        if self.appending is None:
            folded = self.turns.get(turn, Folded())
            first = folded.own
            self.appending = log.append_if_tail(
                self.wire.keys,
                turn,
                token=self.token,
                tail=folded.tail,
                first_seq=first,
                events_json=batch_of([event(first, "fold", end=end)]),
                n=1,
                terminal="failed" if end else None,
            )
        reply = self.wire.ask(self.appending, lose=lose)
        if reply is None:
            return
        self.appending = None
        assert reply.status not in {PublishStatus.CONFLICT, PublishStatus.GAP, PublishStatus.OVERLAP}, reply
        if reply.status == PublishStatus.STALE:
            self.forget()
