"""Bodies that come compressed although nobody asked for it: unpacked as they come, in pieces of a bounded size. Pure."""

import zlib

PIECE_BYTES = 256 * 1024
"""A small body may unpack to a huge one; so much of it is held at a time."""
GZIP_BEGINS = b"\x1f"
_GZIP, _ZLIB, _RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
READABLE = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})
"""Encodings that can be read."""


class Unpacker:
    """One body. `take` gives what there is of bytes; `more` what is left of them, to be asked for until it is empty.

    Both raise `zlib.error` for what is not packed as it says. `is_whole` tells whether the body may end here.
    """

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._left = b""
        self._stream: zlib._Decompress | None = None
        self._full = False

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return self._stream is None or self._stream.eof

    def take(self, data: bytes) -> bytes:
        """Unpack the next bytes."""
        if self._encoding in {"", "identity"}:
            return data
        self._left += data
        return self.more()

    def more(self) -> bytes:
        """Unpack on."""
        out = b""
        while (self._left or self._full) and not out:
            if self._stream is None or self._stream.eof:  # members may follow each other
                if self._stream is not None and self._left[:1] != GZIP_BEGINS:  # what stands behind the end is nothing
                    self._left = b""
                    break
                self._stream = zlib.decompressobj(_form(self._encoding, self._left[0]))
            out = self._stream.decompress(self._left, PIECE_BYTES)
            self._left = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
            self._full = len(out) == PIECE_BYTES and not self._stream.eof
        return out


def _form(encoding: str, first: int) -> int:
    """The form of packing; what calls itself deflate comes with a header of zlib's, as it should, or without one."""
    if encoding != "deflate":
        return _GZIP
    return _ZLIB if first & 0x0F == zlib.DEFLATED else _RAW
