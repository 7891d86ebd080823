"""What a conforming Responses upstream said must reach the client as it was said: frame by frame, member by member.

Written from the documented rewrites, not from the core: the number of a frame, the id of the response, and the output of a response
object are the stream's own; every other member of every event, known or not, is the upstream's.
"""

import json
from typing import Any

from pipeline.turn import Decoded

OURS = frozenset({"id", "output"})


def upstream_events(data: bytes) -> list[dict[str, Any]]:
    """The events of a body whose data lines are whole, read by hand."""
    lines = (
        line.rstrip(b"\r").removeprefix(b"data:").strip() for line in data.split(b"\n") if line.startswith(b"data:")
    )
    return [json.loads(line) for line in lines if line and line != b"[DONE]"]


def unlike(data: bytes, decoded: Decoded) -> list[str]:
    """The frames that are not what the upstream said; empty when all of it came through."""
    given = upstream_events(data)
    shown = [json.loads(frame.data) for frame in decoded.frames]
    found = [] if len(given) == len(shown) else [f"{len(shown)} frames for {len(given)} events"]
    for number, (event, frame) in enumerate(zip(given, shown, strict=False)):
        members = sorted(name for name in event.keys() | frame.keys() if _plain(event, name) != _plain(frame, name))
        if members:
            found.append(f"frame {number} ({event.get('type')}) differs in {', '.join(members)}")
    return found


def _plain(event: dict[str, Any], name: str) -> Any:
    value = event.get(name)
    if name == "sequence_number":
        return None
    if name == "response" and isinstance(value, dict):
        return {member: inner for member, inner in value.items() if member not in OURS}
    return value
