"""Blocks for Slack: mrkdwn, `& < >` escaped.

The body is the message's `text`.
"""

from pipeline.output import Block
from pipeline.project.parts import Channel, Part, Profile

CONTENT_TYPE = "text/x-slack-mrkdwn; charset=utf-8"


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
    note="text of a message: 4,000 characters are advised, 40,000 are cut",
)
