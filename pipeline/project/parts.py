"""What a projector is told about a target, and what it makes of a block.

Projection is pure: the same block and profile give the same parts, byte for byte. Parts are stored before the first of them is sent,
so a later change of a projector or of a limit meets new blocks alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pipeline.output import Block

Unit = Literal["utf16", "codepoints", "bytes"]
"""What a limit counts: UTF-16 code units, Unicode code points, or bytes of UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The target of a projection: the channel's bounds, the configuration's name for it, and whose block it is.

    `limit` bounds a part's body in `unit`, and `max_lines` its lines; None is no bound. `registry.profile_of` fills in a channel's own.
    """

    channel: str
    name: str = ""
    turn: str = ""
    session: str = ""
    recipient: str | None = None
    limit: int | None = None
    unit: Unit = "utf16"
    max_lines: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What one message of a channel holds of a block; `ordinal` counts from 0 within the block."""

    ordinal: int
    body: str
    content_type: str


Projector = Callable[[Block, Profile], list[Part]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """How a channel shows text: its projector, its bounds and where they are documented."""

    project: Projector
    content_type: str
    limit: int | None = None
    unit: Unit = "utf16"
    max_lines: int | None = None
    note: str = ""
    """What the limit counts and where it is said."""
    shown: Callable[[str], str] = str
    """What a reader is shown of a part's body, where that is not the body itself."""
