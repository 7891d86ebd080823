"""Numbers and times of a producer's events: both come from outside, the adapters only take them."""


class Stamp:
    """The next event's number and time; whoever feeds an adapter sets `at` before each feed."""

    __slots__ = ("at", "seq")

    def __init__(self, at: int = 0, seq: int = 1) -> None:
        self.at = at
        self.seq = seq

    def next(self) -> tuple[int, int]:
        """Take the number and the time of one event."""
        seq = self.seq
        self.seq = seq + 1
        return seq, self.at
