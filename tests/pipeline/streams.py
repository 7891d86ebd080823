"""Responses streams as tests need them: built of their events, read back by the official SDK."""

import json
import warnings
from collections.abc import Iterable
from typing import Any

from openai import omit
from openai._models import construct_type_unchecked
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent

from pipeline.output import Block, Frame
from pipeline.turn import Decoded, Validation, decode

Json = dict[str, Any]
TURN = "3-0123456789abcdef01234567"
RESPONSE = f"resp_{TURN}"


def response(status: str = "in_progress", output: list[Json] | None = None, **more: Any) -> Json:
    return {
        "id": "resp_upstream",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "model-1",
        "output": output or [],
        **more,
    }


def opening() -> list[Json]:
    return [
        {"type": "response.created", "response": response()},
        {"type": "response.in_progress", "response": response()},
    ]


def message(index: int, texts: list[str], item_id: str | None = None) -> tuple[list[Json], Json]:
    """The events of a message with one text part, and its finished item."""
    item_id = item_id or f"msg_{index}"
    place = {"item_id": item_id, "output_index": index, "content_index": 0}
    empty: Json = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    part = {**empty, "text": "".join(texts)}
    item = {"id": item_id, "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    events: list[Json] = [
        {
            "type": "response.output_item.added",
            "output_index": index,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **place, "part": empty},
        *(
            {"type": "response.output_text.delta", **place, "delta": text, "logprobs": [], "obfuscation": "x"}
            for text in texts
        ),
        {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]
    return events, item


def call(index: int, pieces: list[str], name: str = "look_up", call_id: str | None = None) -> tuple[list[Json], Json]:
    """The events of a function call, and its finished item."""
    item_id = f"fc_{index}"
    place = {"item_id": item_id, "output_index": index}
    item = {
        "id": item_id,
        "type": "function_call",
        "status": "completed",
        "call_id": call_id or f"call_{index}",
        "name": name,
        "arguments": "".join(pieces),
    }
    events: list[Json] = [
        {
            "type": "response.output_item.added",
            "output_index": index,
            "item": {**item, "status": "in_progress", "arguments": ""},
        },
        *({"type": "response.function_call_arguments.delta", **place, "delta": piece} for piece in pieces),
        {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]},
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]
    return events, item


def reasoning(index: int, texts: list[str]) -> tuple[list[Json], Json]:
    """The events of reasoning with one summary, and its finished item."""
    item_id = f"rs_{index}"
    place = {"item_id": item_id, "output_index": index, "summary_index": 0}
    part = {"type": "summary_text", "text": "".join(texts)}
    item: Json = {"id": item_id, "type": "reasoning", "summary": [part], "encrypted_content": "opaque"}
    events: list[Json] = [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, "summary": []}},
        {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}},
        *({"type": "response.reasoning_summary_text.delta", **place, "delta": text} for text in texts),
        {"type": "response.reasoning_summary_text.done", **place, "text": part["text"]},
        {"type": "response.reasoning_summary_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]
    return events, item


def search(index: int) -> tuple[list[Json], Json]:
    """The events of a web search that the upstream runs itself, and its finished item."""
    item_id = f"ws_{index}"
    place = {"item_id": item_id, "output_index": index}
    action = {"type": "search", "query": "weather"}
    item: Json = {"id": item_id, "type": "web_search_call", "status": "completed", "action": action}
    events: list[Json] = [
        {
            "type": "response.output_item.added",
            "output_index": index,
            "item": {"id": item_id, "type": "web_search_call", "status": "in_progress"},
        },
        {"type": "response.web_search_call.in_progress", **place},
        {"type": "response.web_search_call.searching", **place},
        {"type": "response.web_search_call.completed", **place},
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]
    return events, item


USAGE = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}


def whole_turn(first: Iterable[str] = ("Let me ", "see.\n\n")) -> list[Json]:
    """A conforming turn with every kind that the fold knows by itself, and one that is opaque."""
    parts = [
        reasoning(0, ["Think", "ing."]),
        message(1, list(first)),
        search(2),
        call(3, ['{"q": ', '"x"}']),
        message(4, ["The ", "answer ", "is 42."]),
    ]
    events = opening()
    for made, _ in parts:
        events += made
    output = [item for _, item in parts]
    events.append({"type": "response.completed", "response": response("completed", output, usage=USAGE)})
    return events


def body(events: Iterable[Json]) -> bytes:
    """A stream of events as an upstream sends it."""
    return b"".join(
        f"event: {event.get('type', '')}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n".encode()
        for number, event in enumerate(events)
    )


def run(events: Iterable[Json], validation: Validation = Validation.LENIENT) -> Decoded:
    return decode([body(events)], "responses", validation, turn=TURN)


def data_of(frames: Iterable[Frame]) -> list[Json]:
    return [json.loads(frame.data) for frame in frames]


def types_of(frames: Iterable[Frame]) -> list[str]:
    return [frame.event for frame in frames]


def text_of(blocks: Iterable[Block]) -> str:
    return "".join(block.text + block.separator for block in blocks)


def accumulate(frames: Iterable[Frame]) -> Any:
    """Read a public stream as the official SDK does; returns the response that it made, None without a completed one."""
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own models warn of kinds that they do not know
        for frame in frames:
            data = json.loads(frame.data)
            assert not data.get("error"), "the SDK ends a stream at such a frame"
            state.handle_event(construct_type_unchecked(type_=ResponseStreamEvent, value=data))  # type: ignore[arg-type]  # a union
    return state._completed_response
