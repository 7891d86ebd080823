"""Waiting for new entries of streams, by plain blocking reads that take nothing away from anybody.

A blocked group read takes entries in its owner's name after the owner's lease is gone; so groups are read inside fenced
scripts, which do not block, and this is the bell that says when to call them. A wake-up that is lost costs one block time,
which is under a second.
"""

from workers.config import RedisConfig


class News:
    """The streams that somebody waits for, and how far each was seen.

    One task calls ``wait`` in a loop; ``watch``, ``seen`` and ``forget`` may be called by others meanwhile.
    """

    def __init__(self, config: RedisConfig, *, name: str = "news") -> None:
        raise NotImplementedError

    def watch(self, key: str, after: str) -> None:
        """Wait for entries of the stream beyond this id as well; ``0-0`` for all."""
        raise NotImplementedError

    def seen(self, key: str, entry_id: str) -> None:
        """Entries up to this one have been taken and are no news; never moves backwards."""
        raise NotImplementedError

    def forget(self, key: str) -> None:
        """Stop waiting for the stream."""
        raise NotImplementedError

    async def wait(self, timeout_ms: int | None = None) -> set[str]:
        """The watched streams that have something new; empty at the time-out or while the server is away.

        The timeout is cut to the configured block. With nothing watched it waits until something is, or the time-out.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Let go of the connections."""
        raise NotImplementedError
