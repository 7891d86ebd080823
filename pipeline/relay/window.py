"""The defer window: frames that wait until what comes before them in the output is told.

A call that the gateway answers, or one that has no name yet, holds its place in the output. While any does, frames of its index
and of later ones wait, and so do frames without an index. What is released comes out in one order: by index, those without one last,
in order of arrival within an index.
"""

from pipeline.limits import Limits


class Window:
    """The held indexes and the frames that wait; a frame is its type and its JSON without a number."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held: set[int] = set()
        self._boundary = 0
        self._waiting: dict[int | None, list[tuple[str, bytes]]] = {}
        self._entries = 0
        self._bytes = 0

    @property
    def held(self) -> list[int]:
        """The held places, in order."""
        return sorted(self._held)

    @property
    def is_open(self) -> bool:
        """Whether anything is held."""
        return bool(self._held)

    @property
    def first(self) -> int:
        """The first place that is held."""
        return self._boundary

    def hold(self, index: int) -> None:
        """Hold a place."""
        self._held.add(index)
        self._boundary = min(self._held)

    def defers(self, index: int | None) -> bool:
        """Whether a frame of this index, or of none, has to wait."""
        return index is None or index >= self._boundary

    def put(self, index: int | None, kind: str, data: bytes) -> str | None:
        """Let a frame wait, and return the bound that it exceeds. One too many still waits: the turn ends for it, and
        nothing of it is lost.
        """
        self._waiting.setdefault(index, []).append((kind, data))
        self._entries += 1
        self._bytes += len(data)
        if self._entries > self._limits.deferred_entries:
            return "deferred_entries"
        return "deferred_bytes" if self._bytes > self._limits.deferred_bytes else None

    def release(self, index: int) -> list[tuple[str, bytes]]:
        """Give a place free; the frames that need not wait any more."""
        self._held.discard(index)
        if not self._held:
            free: list[int | None] = [*sorted(place for place in self._waiting if place is not None)]
            if None in self._waiting:
                free.append(None)
        else:
            self._boundary = min(self._held)
            free = [*sorted(place for place in self._waiting if place is not None and place < self._boundary)]
        released = [frame for place in free for frame in self._waiting.pop(place)]
        self._entries -= len(released)
        self._bytes -= sum(len(data) for _, data in released)
        return released
