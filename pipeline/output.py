"""What comes out of a turn: frames for the public stream, blocks for delivery.

Values only. A frame is numbered when it is emitted and never changes again; a block is a finished piece of
channel-agnostic Markdown, and `(turn id, ordinal)` is its identity.
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One event of the public stream, numbered 0..N within its turn; `data` is its JSON.

    `event` is empty where the type cannot stand in a line of its own.
    """

    number: int
    event: str
    data: bytes

    @property
    def sse(self) -> str:
        """The frame as a server-sent event: what a client reads and what the ledger stores."""
        head = f"event: {self.event}\n" if self.event else ""
        return f"{head}data: {self.data.decode()}\n\n"


@dataclass(frozen=True, slots=True)
class Block:
    """A finished piece of text: `opener text closer` is what a reader sees, `separator` what followed it.

    `opener` and `closer` are ours (a code fence reopened or closed) and never part of the text. Markers: `suppressed`
    (text given up on purpose), `note` (a remark to show after it), `kind`.
    """

    ordinal: int
    text: str
    opener: str = ""
    closer: str = ""
    separator: str = ""
    markers: dict[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> str:
        """What a reader is shown of the block."""
        return f"{self.opener}{self.text}{self.closer}"

    def as_fields(self) -> dict[str, str]:
        """The block as the flat text fields of a Redis hash; the markers are JSON."""
        return {
            "ordinal": str(self.ordinal),
            "opener": self.opener,
            "text": self.text,
            "closer": self.closer,
            "separator": self.separator,
            "markers": msgspec.json.encode(self.markers, order="sorted").decode(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, str]) -> "Block":
        """Rebuild a block from `as_fields`."""
        return cls(
            ordinal=int(fields["ordinal"]),
            text=fields["text"],
            opener=fields.get("opener", ""),
            closer=fields.get("closer", ""),
            separator=fields.get("separator", ""),
            markers=msgspec.json.decode(fields.get("markers") or "{}"),
        )


class Output(msgspec.Struct, gc=False):
    """What one event made: frames in order, blocks in order."""

    frames: list[Frame] = []
    blocks: list[Block] = []


@dataclass(frozen=True, slots=True)
class Payload:
    """A finished turn: the public Response object, and what the turn's record keeps.

    `status` is the turn's own outcome (`completed incomplete failed cancelled`, or `running` when no terminal was
    seen); `response["status"]` is what a client of the public interface is told.
    """

    response: dict[str, Any]
    status: str
    upstream_id: str | None
    usage: dict[str, Any] | None
    error: dict[str, Any] | None
    frames: int
    blocks: int
