"""Bytes to server-sent events, to the rules of the WHATWG HTML standard ("Server-sent events", parsing an event stream),
at any cut of the bytes.

A line ends at CRLF, LF or CR and nowhere else; a CR that ends a chunk ends its line at once, and an LF that follows it is
part of it. One leading byte order mark is dropped. Data that is empty dispatches nothing. Text is UTF-8, bad bytes are
replaced; since most data is JSON, `data` stays bytes until somebody asks for `text`.

Departures, because our upstream is a model's server and not a page's:
- At the end of the body a pending event counts if its data is `[DONE]` or a whole JSON value, even on an unterminated last
  line: several servers end so. A JSON text that was cut never parses, so nothing false is let through.
- Lines of unknown fields are kept aside up to a bound, as `leftover`: some servers write `error: {…}` as a field, or a
  bare JSON error.
- A data line that begins with `{`, or is `[DONE]`, after one that ends with `}` begins an event of its own: some gateways
  write no blank lines. No JSON text has such a place, so several data lines of one text still become one event.
- Lines and events have bounds; past one, `exceeded` names it and the splitter takes no more.
"""

import re

from msgspec import DecodeError, Struct, json

from pipeline.limits import Limits

BOM = b"\xef\xbb\xbf"
DONE = b"[DONE]"
MAX_RETRY_DIGITS = 12  # milliseconds; more digits are no waiting time but an attack on int()
# A whole event of the commonest form, its name and its data; else any one line. Every byte up to the last LF is in some match.
_EVENT_OR_LINE = re.compile(rb"(?:event:([^\n]++)\n)?data: ?(\{[^\n]*+)\n\n|([^\n]*+)\n")


class SseEvent(Struct, frozen=True, gc=False):
    """One dispatched event; `event` is empty where the stream named none."""

    data: bytes
    event: str = ""
    id: str = ""

    @property
    def text(self) -> str:
        """The data as text, bad bytes replaced."""
        return self.data.decode("utf-8", "replace")

    @property
    def name(self) -> str:
        """The event's type as a browser would see it."""
        return self.event or "message"


class SseSplitter:
    """Holds one body's unfinished line and event between two reads."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.exceeded: str | None = None
        self.retry_ms: int | None = None
        self.last_id = ""
        self.leftover: list[bytes] = []
        self._left_at_done: int | None = None
        self._limits = limits or Limits()
        self._unchecked = min(self._limits.sse_line_bytes, self._limits.sse_event_bytes - 1)  # so short exceeds nothing
        self._leftover_room = self._limits.leftover_bytes
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self._after_cr = False
        self._first = True
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._event = b""
        self._id = ""

    @property
    def left_before_done(self) -> list[bytes]:
        """What was left over before `[DONE]`, wherever the bytes were cut; all of it while there was none."""
        return self.leftover[: self._left_at_done]

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take bytes; give the events that they complete."""
        if self.exceeded is not None or not data:
            return []
        if self._after_cr:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        if b"\r" in data:
            self._after_cr = data[-1:] == b"\r"
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        end = data.rfind(b"\n")
        if end < 0:
            self._keep(data)
            return []
        head = data[: end + 1]
        if self._tail:
            self._tail.append(head)
            head = b"".join(self._tail)
            self._tail.clear()
            self._tail_bytes = 0
        if self._first:
            self._first = False
            head = head.removeprefix(BOM)
        events: list[SseEvent] = []
        if len(head) > self._unchecked:
            self._lines(head[:-1].split(b"\n"), events)
        else:
            self._events(head, events)
        if self.exceeded is None:
            self._keep(data[end + 1 :])
        return events

    def close(self) -> list[SseEvent]:
        """The body has ended: give the pending event if it is whole."""
        if self.exceeded is not None:
            return []
        events: list[SseEvent] = []
        if self._tail:
            last = b"".join(self._tail)
            self._tail.clear()
            self._lines([last.removeprefix(BOM) if self._first else last], events)
        if self._data and self.exceeded is None:
            data = b"\n".join(self._data)
            if data.strip() == DONE or _is_json(data):
                events.append(self._dispatch(data))
        return events

    def _keep(self, rest: bytes) -> None:
        if not rest:
            return
        self._tail.append(rest)
        self._tail_bytes += len(rest)
        if self._tail_bytes > self._limits.sse_line_bytes:
            self._exceed("sse_line_bytes")

    def _exceed(self, limit: str) -> None:
        self.exceeded = limit
        self._tail.clear()
        self._data.clear()

    def _events(self, head: bytes, events: list[SseEvent]) -> None:
        """Interpret whole lines that exceed nothing. An event of the commonest form is taken in one step, where none is pending."""
        pending = bool(self._data or self._event)
        told, name = b"", ""
        for event, data, line in _EVENT_OR_LINE.findall(head):
            if data and not pending:
                if event != told:
                    told, name = event, event.removeprefix(b" ").decode("utf-8", "replace")
                events.append(SseEvent(data, name, self._id))
                self.last_id = self._id
                continue
            if data:
                self._lines([b"event:" + event, b"data:" + data, b""] if event else [b"data:" + data, b""], events)
            else:
                self._lines([line], events)
            pending = bool(self._data or self._event)
            if self.exceeded is not None:
                break

    def _lines(self, lines: list[bytes], events: list[SseEvent]) -> None:
        """Interpret lines, one by one."""
        data, bound = self._data, self._limits.sse_line_bytes
        for line in lines:
            if not line:
                if data:
                    events.append(self._dispatch(data[0] if len(data) == 1 else b"\n".join(data)))
                else:
                    self.last_id = self._id
                    self._event = b""
            elif len(line) > bound:
                self._exceed("sse_line_bytes")
                break
            elif line.startswith(b"data:"):
                value = line[6:] if line[5:6] == b" " else line[5:]
                if data and (value[:1] == b"{" or value == DONE) and data[-1].rstrip()[-1:] == b"}":
                    events.append(self._dispatch(data[0] if len(data) == 1 else b"\n".join(data)))
                data.append(value)
                self._data_bytes += len(value) + 1
                if self._data_bytes > self._limits.sse_event_bytes:
                    self._exceed("sse_event_bytes")
                    break
            elif line.startswith(b"event:"):
                self._event = line[7:] if line[6:7] == b" " else line[6:]
            elif line[:1] != b":":
                self._field(line)
                if self.exceeded is not None:
                    break

    def _dispatch(self, data: bytes) -> SseEvent:
        if self._left_at_done is None and data[:1] != b"{" and data.strip() == DONE:
            self._left_at_done = len(self.leftover)
        event = SseEvent(data, self._event.decode("utf-8", "replace") if self._event else "", self._id)
        self.last_id = self._id
        self._event = b""
        self._data.clear()
        self._data_bytes = 0
        return event

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._data_bytes += 1
            if self._data_bytes > self._limits.sse_event_bytes:
                self._exceed("sse_event_bytes")
        elif name == b"event":
            self._event = value
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif name == b"retry":
            if value.isdigit() and len(value) <= MAX_RETRY_DIGITS:
                self.retry_ms = int(value)
        else:
            self._leftover_room -= len(line) + 1  # once it does not fit, nothing later does: no holes in a text
            if self._leftover_room >= 0:
                self.leftover.append(line)


def _is_json(data: bytes) -> bool:
    try:
        json.decode(data)
    except (DecodeError, RecursionError):
        return False
    return True
