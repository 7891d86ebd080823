"""Blocks for a terminal: the Markdown as it is, one part a block."""

from pipeline.output import Block
from pipeline.project.messages import is_shown
from pipeline.project.parts import Channel, Part, Profile

CONTENT_TYPE = "text/markdown; charset=utf-8"


def project(block: Block, profile: Profile) -> list[Part]:  # noqa: ARG001 - a console shows every target alike
    """Show the block as it is read, its note on a line of its own, and its separator, so that the parts one behind the other read well."""
    if not is_shown(block):
        return []
    markers = block.markers
    note = f"\n[{markers['note']}]" if markers.get("note") else ""
    end = block.separator or ("\n" if note or block.closer else "")  # nothing is glued to a note, nor to a fence's end
    body = f"{markers.get('boundary', '')}{block.body}{note}{end}"
    return [Part(ordinal=0, body=body, content_type=CONTENT_TYPE)]


CHANNEL = Channel(project=project, content_type=CONTENT_TYPE, note="no limit: one part a block")
