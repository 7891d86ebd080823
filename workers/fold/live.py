"""A turn in the memory of its partition's owner: the state machine, and how far its output has come."""

from dataclasses import dataclass, field

import msgspec

from ledger.log import FOLD, TurnCommit
from ledger.records import BlockRecord, LogEntry, TurnRecord, TurnState
from pipeline.codec import decode_batch, encode_batch
from pipeline.events import FOLD_VERSION, TERMINALS, Event, TurnStarted
from pipeline.output import Block, Output
from pipeline.settings import StreamSettings, resolve
from pipeline.turn import Turn
from workers.fold import digest, failing, remainder
from workers.fold.children import Child, can_hear

NOTE_BYTES = 512
"""Roughly the size of what a parent is told at a time."""


@dataclass
class Effects:
    """What a batch made of one turn, from the numbers at which it began."""

    frames_next: int
    blocks_next: int
    sse: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    notes_next: int = 0
    notes: list[Event] = field(default_factory=list)
    """What the turn's parent is told."""
    size: int = 0

    @property
    def records(self) -> list[BlockRecord]:
        """The blocks as the ledger takes them."""
        return [_record_of(block) for block in self.blocks]


@dataclass
class Live:
    """One unfinished turn. ``machine`` is None once its events are not fed any more."""

    turn: str
    machine: Turn | None
    frames_next: int = 0
    blocks_next: int = 0
    digest: str = digest.EMPTY
    state: TurnState = TurnState.RUNNING
    error: str = ""
    quarantined: str = ""
    tail: str = ""
    """The turn's last log entry that was folded."""
    fold_seq: int = 0
    """The next sequence number of the events that the fold itself adds."""
    submitted_at: int = 0
    idle_due_ms: int | None = None
    child: Child | None = None
    """The turn as the child that it is, if it is one."""
    settings: StreamSettings = field(default_factory=lambda: resolve({}))
    """By which the turn is ended where no machine is there to do it."""
    _last: Turn | None = None
    _last_event: Event | None = None
    """The event that the machine ended at."""

    @classmethod
    def fresh(cls, record: TurnRecord) -> "Live":
        """A turn of which nothing is folded yet."""
        is_child = can_hear(record.parent, record.id)
        return cls(
            turn=record.id,
            machine=Turn(record.id),
            fold_seq=record.next.get(FOLD, 0),
            submitted_at=record.submitted_at,
            child=Child(record.id, record.parent, record.parent_call) if is_child else None,
            settings=failing.settings_of(record.started),
        )

    @classmethod
    def committed(cls, record: TurnRecord) -> "Live":
        """A turn at the numbers that its readers and its parent were told up to, to be ended there."""
        live = cls.fresh(record)
        live.machine = None
        live.frames_next, live.blocks_next, live.digest = record.frames_next, record.blocks_next, record.digest
        live.tail = record.tail
        if live.child is not None:
            live.child.notes_next, live.child.blocks, live.child.at = (
                record.notes_next,
                record.blocks_next,
                record.last_event_at,
            )
        return live

    @classmethod
    def ended_already(cls, record: TurnRecord) -> "Live":
        """A turn that is over; what still comes of it is ignored."""
        return cls(turn=record.id, machine=None, state=record.state)

    def feed(self, entry: LogEntry, *, effects: Effects | None) -> int:
        """Fold one log entry, into ``effects`` unless it is a rebuild; the number of events in it.

        Raises whatever the core raises for events that it cannot fold; the turn is to be ended then.
        """
        self.tail = entry.id
        if entry.producer == FOLD:
            self.fold_seq = max(self.fold_seq, entry.seq + entry.n)
        machine = self.machine
        if machine is None:
            return entry.n
        made: list[tuple[Event, Output]] = []
        for event in decode_batch(entry.events, turn=entry.turn, producer=entry.producer):
            self._note(event)
            made.append((event, machine.push(event, entry.producer)))
            if machine.ended:
                self._end(machine, entry, by_itself=isinstance(event, TERMINALS))
                self._last_event = event
                break
        for event, output in made:  # only now: an entry that raised half-way leaves no output
            self._add(output, effects)
            self._tell_parent(event, output, effects)
        return entry.n

    def end_by_machine(self, code: str, *, entry: str, effects: Effects) -> bool:
        """End the turn by this name, with what its machine holds; False where no machine does it.

        Nothing from ``entry`` on may have been fed to the machine.
        """
        machine = self.machine
        if machine is None:
            return False
        try:
            output = machine.push(failing.terminal(code))
        except Exception:  # noqa: BLE001 - whatever one turn's events do to the fold costs that turn alone
            return False
        self._last = machine
        self._close(code, output, entry, effects)
        return True

    def end_as_told(self, code: str, *, entry: str, effects: Effects, told: remainder.Told) -> None:
        """End the turn by this name without a machine, at what its readers were told up to here."""
        blocks = remainder.ending(told, self.settings, code, number=self.blocks_next)
        output = failing.failure(self.turn, code, next_number=self.frames_next, blocks=blocks)
        if self.child is not None:
            self.child.recall(told.answer)
        self._close(code, output, entry, effects)

    def _close(self, code: str, output: Output, entry: str, effects: Effects) -> None:
        self._add(output, effects)
        self.machine = None
        self.state = TurnState.FAILED
        self.error = _json(failing.error_of(code))
        self.quarantined = entry
        self.idle_due_ms = None
        self._tell_parent(None, output, effects)

    def begin(self) -> Effects:
        """Effects of a new batch on this turn."""
        notes_next = self.child.notes_next if self.child is not None else 0
        return Effects(frames_next=self.frames_next, blocks_next=self.blocks_next, notes_next=notes_next)

    def commit_of(self, effects: Effects) -> TurnCommit:
        """The effects as the ledger takes them."""
        machine = self._last if self.machine is None else self.machine
        return TurnCommit(
            turn=self.turn,
            frames_next=effects.frames_next,
            frames=len(effects.sse),
            sse="".join(effects.sse),
            blocks_next=effects.blocks_next,
            blocks=effects.records,
            digest=self.digest,
            fold_version=FOLD_VERSION,
            state=self.state,
            usage=_json(machine.usage) if machine is not None and machine.usage else "",
            error=self.error,
            upstream_id=(machine.upstream_id or "") if machine is not None else "",
            quarantined=self.quarantined,
            tool_waits=self.machine is not None and self.machine.waits_for_tools,
            parent=self.child.parent if self.child is not None else "",
            notes_next=effects.notes_next,
            notes=len(effects.notes),
            notes_json=encode_batch(effects.notes) if effects.notes else "",
        )

    def _end(self, machine: Turn, entry: LogEntry, *, by_itself: bool) -> None:
        """The machine is done: by a terminal event, or because a limit ended it and producers must hear of it."""
        self.state = TurnState(machine.status)
        self.error = _json(machine.error) if machine.error else ""
        self.quarantined = "" if by_itself else entry.id
        self._last = machine
        self.machine = None

    def _add(self, output: Output, effects: Effects | None) -> None:
        self.frames_next += len(output.frames)
        self.blocks_next += len(output.blocks)
        self.digest = digest.advance(self.digest, output)
        if effects is None:
            return
        for frame in output.frames:
            text = frame.sse
            effects.sse.append(text)
            effects.size += len(text)
        for block in output.blocks:
            effects.blocks.append(block)
            effects.size += len(block.text)

    def _tell_parent(self, event: Event | None, output: Output, effects: Effects | None) -> None:
        """Note what the parent is told of an event and what it made; of None: that the turn was ended from here."""
        child = self.child
        if child is None:
            return
        notes: list[Event] = []
        if event is not None:
            child.at = event.at
            notes += child.started() if isinstance(event, TurnStarted) else []
        notes += child.progressed(output.blocks)
        if event is None or event is self._last_event:
            notes += child.ended(self.state.value, msgspec.json.decode(self.error) if self.error else None)
        if effects is not None:
            effects.notes += notes
            effects.size += NOTE_BYTES * len(notes)

    def _note(self, event: Event) -> None:
        """A turn whose record does not say so yet is told by its first event that it is a child."""
        if isinstance(event, TurnStarted) and self.child is None and can_hear(event.parent or "", self.turn):
            self.child = Child(self.turn, event.parent or "", event.parent_call or "")


def _record_of(block: Block) -> BlockRecord:
    fields = block.as_fields()
    return BlockRecord(
        opener=fields["opener"],
        text=fields["text"],
        closer=fields["closer"],
        separator=fields["separator"],
        markers=fields["markers"],
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
