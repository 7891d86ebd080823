"""What a projector is told about a target, and what it makes of a block.

Projection is pure: the same block and profile give the same parts, byte for byte.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.output import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The target of a projection: channel and configuration name, and whose block it is."""

    channel: str
    name: str
    turn: str
    session: str
    recipient: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What one message of a channel holds of a block; `ordinal` counts from 0 within the block."""

    ordinal: int
    body: str
    content_type: str


Projector = Callable[[Block, Profile], list[Part]]
