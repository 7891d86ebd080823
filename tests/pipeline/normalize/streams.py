"""Responses streams for tests: short builders of upstream events, and the adapter run over them."""

import json
from collections.abc import Iterable
from typing import Any

from pipeline.events import Event, Status
from pipeline.limits import Limits
from pipeline.normalize.responses import ResponsesAdapter
from pipeline.normalize.stamp import Stamp
from scripts.conformance import notation

Frame = dict[str, Any]
CREATED: Frame = {"type": "response.created", "response": {"id": "r1", "status": "in_progress", "output": []}}
IN_PROGRESS: Frame = {"type": "response.in_progress", "response": {"id": "r1", "status": "in_progress"}}


def up(kind: str, index: int | None = 0, **members: Any) -> Frame:
    frame: Frame = {"type": f"response.{kind}"}
    if index is not None:
        frame["output_index"] = index
    return frame | members


def message(item_id: str = "m1", *texts: str, **members: Any) -> Frame:
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "in_progress", "content": parts} | members


def call(item_id: str = "f1", call_id: str = "c1", arguments: str = "", **members: Any) -> Frame:
    return {"type": "function_call", "id": item_id, "call_id": call_id, "name": "f", "arguments": arguments} | members


def added(item: Frame, index: int | None = 0) -> Frame:
    return up("output_item.added", index, item=item)


def done(item: Frame, index: int | None = 0) -> Frame:
    return up("output_item.done", index, item={**item, "status": "completed"})


def delta(text: str, index: int | None = 0, item_id: str | None = "m1", content: int | None = 0) -> Frame:
    frame = up("output_text.delta", index, delta=text)
    if item_id is not None:
        frame["item_id"] = item_id
    if content is not None:
        frame["content_index"] = content
    return frame


def text_done(text: str, index: int | None = 0, item_id: str = "m1", content: int = 0) -> Frame:
    return up("output_text.done", index, item_id=item_id, content_index=content, text=text)


def arguments(text: str, index: int | None = 0, item_id: str = "f1") -> Frame:
    return up("function_call_arguments.delta", index, item_id=item_id, delta=text)


def completed(*output: Frame, **members: Any) -> Frame:
    response = {"id": "r1", "status": "completed", "output": list(output)} | members
    return {"type": "response.completed", "response": response}


def body(*frames: Frame | str) -> bytes:
    """Write frames as a server would; a text stands for a data line as it is."""
    written = []
    for frame in frames:
        if isinstance(frame, str):
            written.append(f"data: {frame}\n\n")
        else:
            written.append(f"event: {frame.get('type')}\ndata: {json.dumps(frame, ensure_ascii=False)}\n\n")
    return "".join(written).encode()


def run(data: bytes, limits: Limits | None = None, cuts: Iterable[int] = ()) -> list[Event]:
    """Feed a body cut at the places given, and close it."""
    adapter = ResponsesAdapter(stamp=Stamp(at=7), limits=limits)
    bounds = [0, *sorted(cut for cut in cuts if cut <= len(data)), len(data)]
    events = [event for a, b in zip(bounds, bounds[1:], strict=False) for event in adapter.feed(data[a:b])]  # noqa: RUF007
    events += adapter.close()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert adapter.ended
    return events


def read(*frames: Frame | str, limits: Limits | None = None) -> list[str]:
    """What a stream becomes, in the corpus's notation; the same at every byte."""
    data = body(*frames)
    events = run(data, limits)
    assert run(data, limits, range(len(data))) == events
    return notation(events)


def defects(events: Iterable[Event]) -> list[tuple[str, str]]:
    """The code and path of every defect that was told."""
    wires = [getattr(event, "wire", None) or {} for event in events]
    return [(one["code"], one["path"]) for wire in wires if isinstance(wire, dict) for one in wire.get("defects", ())]


def statuses(events: Iterable[Event], name: str) -> list[Status]:
    return [event for event in events if isinstance(event, Status) and event.name == name]
