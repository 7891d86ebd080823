"""What a runner needs of an upstream that is open, whatever it is reached through."""

from typing import Protocol

from pipeline.normalize.registry import Adapter


class Source(Protocol):
    """An answer that is being read."""

    def introduce(self, adapter: Adapter) -> None:
        """Tell the adapter what only this answer's reader knows."""
        ...

    async def read(self) -> bytes:
        """Wait for the next bytes; empty at the end. Raises SourceError."""
        ...

    def cancel(self) -> int | None:
        """Tell the upstream to stop, and say how many ms it may take to end the answer itself; None where it cannot be told."""
        ...

    def close(self) -> None:
        """Stop reading, whatever is still to come."""
        ...
