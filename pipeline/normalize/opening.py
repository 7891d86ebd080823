"""How a body begins: a stream of events, or one JSON value in place of it, which some servers answer with."""

from pipeline.normalize.sse import BOM

_SPACES = 256  # bytes of white space that are kept: some servers write blank lines for as long as their answer takes


class Opening:
    """Holds the first bytes back until one that is no white space says what the body is."""

    def __init__(self) -> None:
        self.is_known = False
        self.is_json = False
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Take bytes; give those that are free to be read."""
        held = self._held + data
        mark = BOM if held.startswith(BOM) else b""
        begun = held[len(mark) :].lstrip()
        spaces = held[len(mark) : len(held) - len(begun)]
        self._held = mark + spaces[-_SPACES:] + begun
        if not begun or BOM.startswith(held):
            return b""
        self.is_known = True
        self.is_json = begun[:1] in {b"{", b"["}
        return self.close()

    def close(self) -> bytes:
        """The body has ended: give what is held back."""
        held, self._held = self._held, b""
        return held
