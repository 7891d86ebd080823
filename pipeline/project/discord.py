"""Blocks for Discord: its own dialect of Markdown, in messages of 2,000 UTF-16 units and 17 lines.

The body is the message's `content`. Mentions are neutral: a zero-width space stands behind the at sign of everyone and here, and within a mention by id.
"""

from pipeline.output import Block
from pipeline.project.parts import Channel, Part, Profile

CONTENT_TYPE = "text/markdown; variant=discord; charset=utf-8"


def project(block: Block, profile: Profile) -> list[Part]:  # noqa: ARG001 - until it is rendered
    """Make the messages of a block."""
    if block.markers.get("suppressed") or not block.text.strip():
        return []
    return [Part(ordinal=0, body=block.body, content_type=CONTENT_TYPE)]


CHANNEL = Channel(
    project=project,
    content_type=CONTENT_TYPE,
    limit=2_000,
    unit="utf16",
    max_lines=17,
    note="content of a message: 2,000 characters; 17 lines are what a client shows without folding",
)
