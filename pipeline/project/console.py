"""Blocks for a terminal: the Markdown as it is, one part a block."""

from pipeline.output import Block
from pipeline.project.parts import Channel, Part, Profile

CONTENT_TYPE = "text/markdown; charset=utf-8"


def project(block: Block, profile: Profile) -> list[Part]:  # noqa: ARG001 - a console shows every target alike
    """Show the block's body and its note; the separator is kept, so that the texts joined read as the answer."""
    if block.markers.get("suppressed") or not (block.text.strip() or block.markers.get("note")):
        return []
    note = block.markers.get("note")
    body = block.body + (f"\n[{note}]" if note else "")
    return [Part(ordinal=0, body=body + block.separator, content_type=CONTENT_TYPE)]


CHANNEL = Channel(project=project, content_type=CONTENT_TYPE, note="no limit: one part a block")
