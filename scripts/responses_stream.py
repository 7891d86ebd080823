"""Compose the Responses streams that our sample and test upstreams send: complete lifecycles, deterministic ids.

An answer is a list of output items; `compose` gives its wire events in order, `sse` the bytes of one. Ids derive from the
request alone, so that a request made again (after a take-over, or in a second run) is answered byte for byte alike.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec

CREATED_AT = 1_750_000_000
"""A fixed second: a clock in the answer would make two runs differ."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """A message item: its text in the pieces that are streamed."""

    pieces: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A reasoning item with one summary part."""

    pieces: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class FunctionCall:
    """A function call item: its arguments in the pieces that are streamed."""

    name: str
    pieces: Sequence[str]


Item = Text | Summary | FunctionCall


def cut(text: str, pieces: int) -> list[str]:
    """Cut a text into so many pieces of nearly equal length, none empty unless the text is shorter."""
    pieces = max(1, min(pieces, len(text) or 1))
    edges = [len(text) * number // pieces for number in range(pieces + 1)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


def words(text: str) -> list[str]:
    """Cut a text before each word, as models send it."""
    pieces: list[str] = []
    start = 0
    for position in range(1, len(text)):
        if text[position] == " " and text[position - 1] != " ":
            pieces.append(text[start:position])
            start = position
    pieces.append(text[start:])
    return pieces


def response_id(request: Mapping[str, Any]) -> str:
    """Derive the id of the answer from the request."""
    return f"resp_up_{_digest(request)}"


def compose(request: Mapping[str, Any], items: Sequence[Item]) -> list[dict[str, Any]]:
    """Give the wire events of an answer, from `response.created` to `response.completed`."""
    response = _response(request)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        {"type": "response.in_progress", "response": {**response, "status": "in_progress"}},
    ]
    output: list[dict[str, Any]] = []
    for index, item in enumerate(items):
        for event in _item_events(index, item, _digest(request)):
            events.append(event)
            if event["type"] == "response.output_item.done":
                output.append(event["item"])
    written = sum(len(item.pieces) for item in items)
    final = {**response, "status": "completed", "output": output, "usage": _usage(request, written)}
    events.append({"type": "response.completed", "response": final})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def whole(request: Mapping[str, Any], items: Sequence[Item]) -> dict[str, Any]:
    """Give the same answer as one response object, for a request that asks for no stream."""
    response: dict[str, Any] = compose(request, items)[-1]["response"]
    return response


def sse(event: Mapping[str, Any]) -> bytes:
    """Encode one wire event as the bytes of a server-sent event."""
    return f"event: {event['type']}\ndata: ".encode() + msgspec.json.encode(event) + b"\n\n"


def _digest(request: Mapping[str, Any]) -> str:
    return sha256(msgspec.json.encode(request, order="sorted")).hexdigest()[:24]


def _response(request: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": response_id(request),
        "object": "response",
        "created_at": CREATED_AT,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "max_output_tokens": request.get("max_output_tokens"),
        "model": request.get("model") or "sample-1",
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": request.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": request.get("tool_choice", "auto"),
        "tools": request.get("tools", []),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "metadata": request.get("metadata", {}),
    }


def _usage(request: Mapping[str, Any], written: int) -> dict[str, Any]:
    read = len(msgspec.json.encode(request.get("input", ""))) // 4 + 1
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }


def _item_events(index: int, item: Item, digest: str) -> Iterator[dict[str, Any]]:
    match item:
        case Text():
            return _message(index, item, f"msg_up_{digest}_{index}")
        case Summary():
            return _reasoning(index, item, f"rs_up_{digest}_{index}")
        case FunctionCall():
            return _function_call(index, item, f"fc_up_{digest}_{index}", f"call_{digest}_{index}")


def _message(index: int, item: Text, item_id: str) -> Iterator[dict[str, Any]]:
    place = {"item_id": item_id, "output_index": index, "content_index": 0}
    shell = {"id": item_id, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    text = "".join(item.pieces)
    yield {"type": "response.output_item.added", "output_index": index, "item": shell}
    yield {"type": "response.content_part.added", **place, "part": part}
    for piece in item.pieces:
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": {**part, "text": text}}
    done = {**shell, "status": "completed", "content": [{**part, "text": text}]}
    yield {"type": "response.output_item.done", "output_index": index, "item": done}


def _reasoning(index: int, item: Summary, item_id: str) -> Iterator[dict[str, Any]]:
    place = {"item_id": item_id, "output_index": index, "summary_index": 0}
    shell: dict[str, Any] = {"id": item_id, "type": "reasoning", "summary": []}
    text = "".join(item.pieces)
    yield {"type": "response.output_item.added", "output_index": index, "item": shell}
    yield {"type": "response.reasoning_summary_part.added", **place, "part": {"type": "summary_text", "text": ""}}
    for piece in item.pieces:
        yield {"type": "response.reasoning_summary_text.delta", **place, "delta": piece}
    yield {"type": "response.reasoning_summary_text.done", **place, "text": text}
    part = {"type": "summary_text", "text": text}
    yield {"type": "response.reasoning_summary_part.done", **place, "part": part}
    yield {"type": "response.output_item.done", "output_index": index, "item": {**shell, "summary": [part]}}


def _function_call(index: int, item: FunctionCall, item_id: str, call_id: str) -> Iterator[dict[str, Any]]:
    place = {"item_id": item_id, "output_index": index}
    shell = {
        "id": item_id,
        "type": "function_call",
        "status": "in_progress",
        "call_id": call_id,
        "name": item.name,
        "arguments": "",
    }
    arguments = "".join(item.pieces)
    yield {"type": "response.output_item.added", "output_index": index, "item": shell}
    for piece in item.pieces:
        yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
    yield {"type": "response.function_call_arguments.done", **place, "arguments": arguments}
    done = {**shell, "status": "completed", "arguments": arguments}
    yield {"type": "response.output_item.done", "output_index": index, "item": done}
