"""The one way into the public stream. A frame's number is given here, at emission, and nowhere else."""

from typing import Any

import msgspec

from pipeline.output import Frame

_OURS = ("defects", "error_event")  # what our own stages wrote beside the upstream's members
_ENCODER = msgspec.json.Encoder()


class Funnel:
    """Numbers frames 0..N. Muted, it counts nothing and makes nothing."""

    def __init__(self, *, muted: bool = False) -> None:
        self.number = 0
        self.out: list[Frame] = []
        self._muted = muted

    def emit_upstream(self, wire: dict[str, Any], restored: dict[str, Any]) -> None:
        """Pass an upstream's event: its own members, and over them what the fold restored or renamed."""
        members = {**wire, **restored}
        for name in _OURS:
            members.pop(name, None)
        if members.get("error"):  # the official SDK ends a stream at it with an exception
            members["upstream_error"] = members.pop("error")
        self.emit_local(members)

    def emit_local(self, members: dict[str, Any]) -> None:
        """Emit an event of ours; `members` becomes the frame's."""
        if self._muted:
            return
        number = self.number
        members["sequence_number"] = number
        kind = members["type"]
        if not kind.isprintable():
            kind = ""
        self.out.append(Frame(number, kind, _ENCODER.encode(members)))
        self.number = number + 1

    def take(self) -> list[Frame]:
        """The frames since the last take."""
        frames = self.out
        self.out = []
        return frames
