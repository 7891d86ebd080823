"""Messages streams for tests: short builders of events, and the adapter run over them."""

import json
from typing import Any

from pipeline.events import Event, Status
from pipeline.limits import Limits
from pipeline.normalize.messages import MessagesAdapter
from pipeline.normalize.stamp import Stamp
from scripts.conformance import notation
from scripts.order import breaches

Json = dict[str, Any]
STOP: Json = {"type": "message_stop"}


def start(message_id: str = "m1", **message: Any) -> Json:
    return {
        "type": "message_start",
        "message": {"id": message_id, "model": "m", "usage": {"input_tokens": 3}, **message},
    }


def block(index: int | None, kind: str, **members: Any) -> Json:
    place = {} if index is None else {"index": index}
    return {"type": "content_block_start", **place, "content_block": {"type": kind, **members}}


def delta(index: int | None, kind: str, **members: Any) -> Json:
    place = {} if index is None else {"index": index}
    return {"type": "content_block_delta", **place, "delta": {"type": kind, **members}}


def stop(index: int | None) -> Json:
    return {"type": "content_block_stop", **({} if index is None else {"index": index})}


def text(index: int | None, words: str) -> list[Json]:
    """A whole block of text."""
    return [block(index, "text", text=""), delta(index, "text_delta", text=words), stop(index)]


def end(reason: str | None = "end_turn", **more: Any) -> Json:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": {"output_tokens": 5}}


def body(*frames: Json | str, named: bool = True) -> bytes:
    written = []
    for frame in frames:
        if isinstance(frame, str):
            written.append(f"data: {frame}\n\n")
        else:
            name = f"event: {frame.get('type')}\n" if named else ""
            written.append(f"{name}data: {json.dumps(frame, ensure_ascii=False)}\n\n")
    return "".join(written).encode()


def run(data: bytes, limits: Limits | None = None) -> list[Event]:
    adapter = MessagesAdapter(stamp=Stamp(at=1), limits=limits)
    events = adapter.feed(data) + adapter.close()
    assert breaches(events) == []
    return events


def read(*frames: Json | str) -> list[str]:
    """What a stream becomes, in the corpus's notation."""
    return notation(run(body(*frames)), "messages")


def turn(*frames: Json) -> list[str]:
    """What the blocks of one message become."""
    lines = read(start(), *frames, end(), STOP)
    assert lines[-1] == "done completed +usage"
    return lines[:-1]


def statuses(events: list[Event], name: str) -> list[Status]:
    return [event for event in events if isinstance(event, Status) and event.name == name]


def defects(events: list[Event]) -> list[str]:
    wires = [getattr(event, "wire", None) or {} for event in events]
    return [one["code"] for wire in wires for one in wire.get("defects", ())]
