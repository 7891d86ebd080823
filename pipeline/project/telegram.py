"""Blocks for Telegram: the HTML subset of the Bot API, measured as it is sent.

The body is the message's `text` with `parse_mode` HTML; `plain_of(body)` is the same without markup, for a server that refuses it.
"""

from pipeline.output import Block
from pipeline.project.parts import Channel, Part, Profile

CONTENT_TYPE = "text/html; charset=utf-8"


def project(block: Block, profile: Profile) -> list[Part]:  # noqa: ARG001 - until it is rendered
    """Make the messages of a block."""
    if block.markers.get("suppressed") or not block.text.strip():
        return []
    return [Part(ordinal=0, body=block.body, content_type=CONTENT_TYPE)]


def plain_of(html: str) -> str:
    """Return the text of a body as it is read, without its markup."""
    return html


CHANNEL = Channel(
    project=project,
    content_type=CONTENT_TYPE,
    limit=4_096,
    unit="utf16",
    max_lines=None,
    note="text of a message: 4,096 characters; the limit is held with the markup counted",
)
