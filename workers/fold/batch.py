"""A batch: whole log entries and everything that came of them, on its way to becoming one commit."""

from dataclasses import dataclass, field

from ledger.log import Commit
from ledger.records import LogEntry
from workers.fold.live import Effects, Live


@dataclass
class Batch:
    """Entries after ``prev``, folded and not yet committed."""

    prev: str
    entries: list[str] = field(default_factory=list)
    events: int = 0
    parts: dict[str, tuple[Live, Effects]] = field(default_factory=dict)

    @property
    def last(self) -> str:
        """The position after the commit."""
        return self.entries[-1] if self.entries else self.prev

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not self.entries and not self.parts

    @property
    def size(self) -> int:
        """Roughly the bytes of frames and blocks."""
        return sum(effects.size for _, effects in self.parts.values())

    @property
    def writes(self) -> int:
        """Roughly the commands that the commit runs."""
        return len(self.entries) + sum(4 + len(effects.blocks) for _, effects in self.parts.values())

    def effects_on(self, live: Live) -> Effects:
        """Where the turn's output of this batch goes."""
        part = self.parts.get(live.turn)
        if part is None:
            part = self.parts[live.turn] = (live, live.begin())
        return part[1]

    def add(self, entry: LogEntry, events: int) -> None:
        """Count an entry as folded."""
        self.entries.append(entry.id)
        self.events += events

    def build(self, partition: int, *, token: str, commit_id: str, retention_ms: int) -> Commit:
        """The batch as one commit; its turns' states are as they are now, so nothing may be folded before it is built."""
        return Commit(
            partition=partition,
            token=token,
            prev=self.prev,
            last=self.last,
            commit_id=commit_id,
            entries=self.entries,
            events=self.events,
            turns=[live.commit_of(effects) for live, effects in self.parts.values()],
            retention_ms=retention_ms,
        )
