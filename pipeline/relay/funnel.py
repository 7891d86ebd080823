"""The one way into the public stream. A frame's number is given here, at emission, and nowhere else."""

from typing import Any

import msgspec

from pipeline.limits import Limits
from pipeline.output import Frame
from pipeline.relay.window import Window

_OURS = ("defects", "error_event")  # what our own stages wrote beside the upstream's members
_PADDING = "obfuscation"  # random text that hides how long a delta's text is, another for each
_GAP = msgspec.Raw(b"\0")  # a byte that JSON has nowhere
_encode = msgspec.json.Encoder().encode


class Form(msgspec.Struct, frozen=True, gc=False):
    """The frame of a text's deltas, but for the text, the number and what pads the text; `wire` is what it was made of."""

    wire: dict[str, Any] | None
    like: bytes
    """The wire's bytes, without its padding."""
    kind: str
    index: int
    head: bytes
    behind: bytes | None
    """What stands between the padding and the text; None where there is no padding."""
    tail: bytes

    def fits(self, wire: dict[str, Any] | None) -> bool:
        """Whether it is the same for this event: equal to the last byte, since True equals 1 and is not the same."""
        if wire is None or (self.behind is not None) is not (type(wire.get(_PADDING)) is str):
            return False
        return _encode(wire if self.behind is None else {**wire, _PADDING: ""}) == self.like

    def before(self, wire: dict[str, Any] | None) -> bytes:
        """What stands before the text."""
        if self.behind is None or wire is None:
            return self.head
        return self.head + _encode(wire[_PADDING]) + self.behind


def form_of(wire: dict[str, Any] | None, members: dict[str, Any]) -> Form:
    """The form of frames with these members; that of `delta` is the text."""
    _mend(members)
    members.pop("sequence_number", None)
    kind, index = _name(members["type"]), members["output_index"]
    after: dict[str, Any] = {}
    while (last := members.popitem())[0] != "delta":
        after[last[0]] = last[1]
    tail = b"," + _encode(dict(reversed(after.items())))[1:-1] if after else b""
    if wire is None or type(members.get(_PADDING)) is not str:
        return Form(wire, _encode(wire), kind, index, _encode(members)[:-1] + b',"delta":', None, tail)
    members[_PADDING] = _GAP
    head, _, behind = _encode(members)[:-1].partition(b"\0")
    return Form(wire, _encode({**wire, _PADDING: ""}), kind, index, head, behind + b',"delta":', tail)


class Funnel:
    """Numbers frames 0..N; `out` holds those that nobody has taken yet. Muted, it counts nothing and makes nothing."""

    def __init__(self, *, muted: bool = False) -> None:
        self.number = 0
        self.out: list[Frame] = []
        self.window: Window | None = None
        self.exceeded: str | None = None  # the bound that the waiting frames outgrew
        self._muted = muted

    def emit_upstream(self, wire: dict[str, Any], restored: dict[str, Any], *, at_once: bool = False) -> None:
        """Pass an upstream's event: its own members, and over them what the fold restored or renamed."""
        self.emit_mended({**wire, **restored}, at_once=at_once)

    def emit_mended(self, members: dict[str, Any], *, at_once: bool = False) -> None:
        """Pass an upstream's event whose members are mended already; they become the frame's."""
        _mend(members)
        if self.window is None or at_once:
            self._emit(members)
        else:
            self.emit_local(members)

    def emit_delta(self, form: Form, text: str, wire: dict[str, Any] | None) -> None:
        """Pass a text in its form."""
        window = self.window
        if window is not None and window.defers(form.index):
            data = form.before(wire) + _encode(text) + form.tail + b"}"
            self.exceeded = window.put(form.index, form.kind, data) or self.exceeded
        elif not self._muted:
            number = self.number
            head = form.head if form.behind is None else form.before(wire)
            parts = (head, _encode(text), form.tail, number)
            self.out.append(Frame(number, form.kind, b'%b%b%b,"sequence_number":%d}' % parts))
            self.number = number + 1

    def emit_local(self, members: dict[str, Any], *, at_once: bool = False) -> None:
        """Emit an event of ours; `members` becomes the frame's. `at_once`: it waits for nothing."""
        window = self.window
        if window is None or at_once or not window.defers(members.get("output_index")):
            self._emit(members)
            return
        members.pop("sequence_number", None)
        data = _encode(members)
        self.exceeded = window.put(members.get("output_index"), _name(members["type"]), data) or self.exceeded

    def _emit(self, members: dict[str, Any]) -> None:
        if self._muted:
            return
        number = self.number
        members["sequence_number"] = number
        kind = members["type"]
        self.out.append(Frame(number, _name(kind), _encode(members)))
        self.number = number + 1

    def hold(self, index: int, limits: Limits) -> None:
        """Let frames of this index and of later ones wait."""
        if self.window is None:
            self.window = Window(limits)
        self.window.hold(index)

    def release(self, index: int) -> None:
        """Let them go, in their order, as far as nothing else holds them."""
        if self.window is None:
            return
        for kind, data in self.window.release(index):
            if self._muted:
                continue
            self.out.append(Frame(self.number, kind, data[:-1] + b',"sequence_number":%d}' % self.number))
            self.number += 1
        if not self.window.is_open:
            self.window = None


def _mend(members: dict[str, Any]) -> None:
    for name in _OURS:
        members.pop(name, None)
    if members.get("error"):  # the official SDK ends a stream at it with an exception
        members["upstream_error"] = members.pop("error")


def _name(kind: str) -> str:
    """The type as the line of a server-sent event can hold it."""
    return kind if kind.isprintable() else ""
