"""Blocks for a webhook: one JSON body a block, with the same bytes at every repeat.

The separator travels in its own member, so a receiver that concatenates `text` and `separator` in order of `block`
holds the answer as it was streamed, but for white space that stands alone. `opener` and `closer` are what we say again where code or a
table was cut; a receiver that shows each block by itself puts them around `text`. No limit: a receiver takes a block whole.
"""

import msgspec

from pipeline.output import Block
from pipeline.project.messages import is_shown
from pipeline.project.parts import Channel, Part, Profile

CONTENT_TYPE = "application/json"
_ENCODER = msgspec.json.Encoder(order="sorted")


def project(block: Block, profile: Profile) -> list[Part]:
    """Make the JSON body of the block; deterministic, since its hash is compared at every send."""
    if not is_shown(block):
        return []
    body = {
        "type": "block.created",
        "turn": profile.turn,
        "session": profile.session,
        "target": profile.name,
        "recipient": profile.recipient,
        "block": block.ordinal,
        "part": 0,
        "text": block.text,
        "opener": block.opener,
        "closer": block.closer,
        "separator": block.separator,
        "markers": block.markers,
    }
    return [Part(ordinal=0, body=_ENCODER.encode(body).decode(), content_type=CONTENT_TYPE)]


def shown(body: str) -> str:
    """What the body says: the block as a reader sees it, and the note behind it."""
    told = msgspec.json.decode(body)
    note = told["markers"].get("note")
    return f"{told['opener']}{told['text']}{told['closer']}" + (f"\n[{note}]" if note else "")


CHANNEL = Channel(project=project, content_type=CONTENT_TYPE, note="no limit: one part a block", shown=shown)
