"""Blocks for Matrix: the content of an `m.room.message` event, `body` plain and `formatted_body` HTML.

The body is that content as JSON, with the same bytes at every repeat; it mentions nobody (`m.mentions` is empty).
"""

from pipeline.output import Block
from pipeline.project.parts import Channel, Part, Profile

CONTENT_TYPE = "application/json"


def project(block: Block, profile: Profile) -> list[Part]:  # noqa: ARG001 - until it is rendered
    """Make the messages of a block."""
    if block.markers.get("suppressed") or not block.text.strip():
        return []
    return [Part(ordinal=0, body=block.body, content_type=CONTENT_TYPE)]


CHANNEL = Channel(
    project=project,
    content_type=CONTENT_TYPE,
    limit=4_000,
    unit="utf16",
    max_lines=None,
    note="formatted_body: 4,000 characters, far below an event's 65,536 bytes",
)
