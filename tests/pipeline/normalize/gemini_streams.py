"""Gemini streams for tests: short builders of chunks, and the adapter run over them."""

import json
from collections.abc import Iterable
from typing import Any

from pipeline.events import Event
from pipeline.limits import Limits
from pipeline.normalize.gemini import GeminiAdapter
from pipeline.normalize.stamp import Stamp
from scripts.conformance import notation

Chunk = dict[str, Any]
STOP: Chunk = {"candidates": [{"finishReason": "STOP", "index": 0}]}


def chunk(*parts: Any, finish: str | None = None, **members: Any) -> Chunk:
    candidate: Chunk = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate]} | members


def call(name: str | None = None, **members: Any) -> Chunk:
    return {"functionCall": ({"name": name} if name is not None else {}) | members}


def body(*chunks: Chunk | str, end: str = "\r\n") -> bytes:
    """Write chunks as server-sent events; a text stands for its line as it is."""
    lines = [one if isinstance(one, str) else f"data: {json.dumps(one, ensure_ascii=False)}{end}" for one in chunks]
    return "".join(line + end for line in lines).encode()


def array(*chunks: Chunk) -> bytes:
    """Write chunks as the answer without `alt=sse` has them."""
    return ("[" + ",\r\n".join(json.dumps(one, indent=2) for one in chunks) + "]").encode()


def run(data: bytes, limits: Limits | None = None, cuts: Iterable[int] = ()) -> list[Event]:
    """Feed a body cut at the places given, and close it."""
    adapter = GeminiAdapter(stamp=Stamp(at=7), limits=limits)
    bounds = [0, *sorted(cut for cut in cuts if cut <= len(data)), len(data)]
    events = [event for a, b in zip(bounds, bounds[1:], strict=False) for event in adapter.feed(data[a:b])]  # noqa: RUF007
    events += adapter.close()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert adapter.ended
    return events


def told(data: bytes, limits: Limits | None = None) -> list[str]:
    """What a body becomes, in the corpus's notation; the same at every byte."""
    events = run(data, limits)
    assert run(data, limits, range(len(data))) == events
    return notation(events, "gemini")


def read(*chunks: Chunk | str, limits: Limits | None = None) -> list[str]:
    return told(body(*chunks), limits)
