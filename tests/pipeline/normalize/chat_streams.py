"""Chat Completions streams for tests: short builders of chunks, and the adapter run over them."""

import json
from typing import Any

from pipeline.events import Event, Status
from pipeline.limits import Limits
from pipeline.normalize.chat import ChatAdapter
from pipeline.normalize.stamp import Stamp
from scripts.conformance import notation
from scripts.order import breaches

Json = dict[str, Any]
STOP: Json = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
DONE = "[DONE]"


def chunk(delta: Json | None = None, *, finish: str | None = None, choice: Json | None = None, **top: Any) -> Json:
    entry: Json = {"index": 0, "delta": delta or {}, "finish_reason": finish} | (choice or {})
    return {"id": "c", "model": "m", "choices": [entry], **top}


def text(words: str) -> Json:
    return chunk({"content": words})


def tool(index: int | None = 0, call_id: str | None = None, name: str | None = None, arguments: Any = None) -> Json:
    """One piece of a call; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    entry = {key: value for key, value in (("index", index), ("id", call_id)) if value is not None}
    return chunk({"tool_calls": [{**entry, "function": function}]})


def body(*frames: Json | str) -> bytes:
    lines = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in frames]
    return "".join(f"data: {line}\n\n" for line in lines).encode()


def run(data: bytes, limits: Limits | None = None) -> list[Event]:
    adapter = ChatAdapter(stamp=Stamp(at=1), limits=limits)
    events = adapter.feed(data) + adapter.close()
    assert breaches(events) == []
    return events


def read(*frames: Json | str, limits: Limits | None = None) -> list[str]:
    """What a stream becomes, in the corpus's notation."""
    return notation(run(body(*frames), limits), "chat")


def calls(*frames: Json | str) -> list[str]:
    """What becomes of a stream of calls that ends well."""
    return [line for line in read(*frames, STOP, DONE) if not line.startswith("done")]


def wires(events: list[Event]) -> list[Json]:
    return [wire for event in events if (wire := getattr(event, "wire", None))]


def rest(events: list[Event]) -> list[Json]:
    """What the statuses `metadata` carry."""
    return [event.wire or {} for event in events if isinstance(event, Status) and event.name == "metadata"]


def defects(events: list[Event]) -> list[str]:
    return [one["code"] for wire in wires(events) for one in wire.get("defects", ())]
