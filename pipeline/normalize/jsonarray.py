"""Bytes to the objects of a JSON array, each given out as soon as it is whole; a single object counts as an array of one.

Braces are counted outside of strings, in one pass over the bytes at any cut; what stands between the objects is not read.
"""

import re

from pipeline.limits import Limits

_MARKS = re.compile(rb'["\\{}]')
_QUOTES = re.compile(rb'["\\]')


class ObjectSplitter:
    """Holds the unfinished object between two reads."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.exceeded: str | None = None
        self._bound = (limits or Limits()).json_body_bytes
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self._depth = 0
        self._quoted = False
        self._skip = False  # the next byte is escaped

    @property
    def rest(self) -> bytes:
        """What is held of an object that has not ended."""
        return b"".join(self._tail)

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; give the objects that they complete."""
        if self.exceeded is not None or not data:
            return []
        objects: list[bytes] = []
        at, start = (1, 0) if self._skip else (0, 0)
        self._skip = False
        while (found := (_QUOTES if self._quoted else _MARKS).search(data, at)) is not None:
            at = found.end()
            mark = found.group()
            if mark == b"\\":
                self._skip = self._quoted and at == len(data)
                at += self._quoted
            elif mark == b'"':
                self._quoted = self._depth > 0 and not self._quoted
            elif mark == b"{":
                if self._depth == 0:
                    start = found.start()
                self._depth += 1
            elif self._depth > 0:
                self._depth -= 1
                if self._depth == 0:
                    one = b"".join([*self._tail, data[start:at]])
                    self._tail.clear()
                    self._tail_bytes = 0
                    if len(one) > self._bound:
                        self.exceeded = "json_body_bytes"
                        return objects
                    objects.append(one)
        if self._depth > 0:
            self._tail.append(data[start:])
            self._tail_bytes += len(data) - start
            if self._tail_bytes > self._bound:
                self.exceeded = "json_body_bytes"
                self._tail.clear()
        return objects
