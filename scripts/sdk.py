"""Bodies as the official SDKs read them, each with its own decoder and its own accumulation, in one form to compare.

The SDK's client gets its bytes through a transport in this process; everything above the socket is its own.
"""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx2
import openai
from openai import omit
from openai._models import construct_type_unchecked
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent

from pipeline.errors import WireError
from pipeline.events import Event, TextDelta, ToolFinished, ToolStarted, TurnCompleted, TurnFailed
from pipeline.output import Frame
from pipeline.turn import Decoded, Validation, decode

Call = tuple[str, str, str]
KEY = "not a key"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What somebody made of a body: its texts, its calls as (id, name, input), why it stopped and what it cost."""

    text: str = ""
    refusal: str = ""
    calls: list[Call] = field(default_factory=list)
    stop: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)


def ours(wire: str, decoded: Decoded) -> Reading:
    """What we make of a turn, in the same form."""
    return _of_response(decoded.payload.response) if wire == "responses" else _of_events(decoded.events)


def _of_response(response: Mapping[str, Any]) -> Reading:
    parts = [part for item in response["output"] for part in item.get("content") or []]
    calls = [
        (item["call_id"], item["name"], item.get("arguments", item.get("input", "")))
        for item in response["output"]
        if item["type"] in {"function_call", "custom_tool_call"}
    ]
    return Reading(
        text="".join(part["text"] for part in parts if part["type"] == "output_text"),
        refusal="".join(part["refusal"] for part in parts if part["type"] == "refusal"),
        calls=calls,
        stop=response["status"],
        usage=response.get("usage") or {},
    )


def _of_events(events: Iterable[Event]) -> Reading:
    texts = {"text": "", "refusal": ""}
    names: dict[int, str] = {}
    calls: list[Call] = []
    stop: str | None = None
    usage: dict[str, Any] = {}
    for event in events:
        match event:
            case TextDelta(track=track, text=text) if track in texts:
                texts[track] += text
            case ToolStarted(item=item, name=name, kind=kind) if kind != "mcp":  # their input no SDK gathers
                names[item] = name
            case ToolFinished(item=item, call_id=call_id, input=text) if item in names:
                calls.append((call_id, names[item], text or ""))
            case TurnCompleted(wire=wire) | TurnFailed(wire=wire) if wire:
                stop, usage = wire.get("finish_reason") or wire.get("stop_reason"), wire.get("usage") or {}
    return Reading(text=texts["text"], refusal=texts["refusal"], calls=calls, stop=stop, usage=usage)


def chat(body: bytes) -> Reading:
    """Read a Chat Completions stream as the openai SDK does."""
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    client = openai.OpenAI(api_key=KEY, base_url="http://upstream", max_retries=0, http_client=_client(body))
    with client, client.chat.completions.create(model="m", messages=[], stream=True) as stream:
        for chunk in stream:
            with _quietly():
                state.handle_chunk(chunk)
    made = state.current_completion_snapshot
    message = made.choices[0].message
    calls = [(call.id, call.function.name, call.function.arguments or "") for call in message.tool_calls or []]
    usage = made.usage.to_dict(exclude_unset=True) if made.usage else {}
    return Reading(
        text=message.content or "",
        refusal=message.refusal or "",
        calls=calls,
        stop=made.choices[0].finish_reason,
        usage=usage,
    )


def messages(body: bytes) -> Reading:
    """Read a Messages stream as the anthropic SDK does."""
    client = anthropic.Anthropic(api_key=KEY, base_url="http://upstream", max_retries=0, http_client=_client(body))
    with client, client.messages.stream(model="m", messages=[], max_tokens=1) as stream, _quietly():
        made = stream.get_final_message()
    calls = [
        (block.id, block.name, json.dumps(block.input, ensure_ascii=False))
        for block in made.content
        if block.type in {"tool_use", "server_tool_use"}
    ]
    text = "".join(block.text for block in made.content if block.type == "text")
    return Reading(text=text, calls=calls, stop=made.stop_reason, usage=made.usage.to_dict(exclude_unset=True))


def responses(body: bytes) -> Reading:
    """Read a Responses stream as the openai SDK does; one that does not complete it accumulates to nothing."""
    client = openai.OpenAI(api_key=KEY, base_url="http://upstream", max_retries=0, http_client=_client(body))
    with client, client.responses.create(model="m", input="", stream=True) as stream:
        made = accumulate(stream)
    with _quietly():
        return _of_response(made.to_dict(exclude_unset=True))


READERS: dict[str, Callable[[bytes], Reading]] = {"chat": chat, "messages": messages, "responses": responses}
AGREES, NOTHING, DIFFERS = "sdk reads the same", "sdk makes nothing of it", "sdk reads otherwise"
_EMPTY = "the SDK believes the terminal's empty output, not what was streamed"
_RENAMED = "the SDK believes the terminal, which gives calls other ids than they were streamed under"
DIFFER = {
    "minimal/chat/frame-bom.sse": "the SDK loses the first event behind a byte order mark",
    "minimal/chat/frame-last-event-no-blank.sse": "the SDK drops a whole last event that lacks its blank line",
    "minimal/chat/tool-no-id.sse": "the SDK leaves the call without an id",
    "minimal/messages/spliced-message-start.sse": "the SDK joins two messages",
    "minimal/responses/after-terminal.sse": _EMPTY,
    "minimal/responses/data-only-with-done.sse": _EMPTY,
    "minimal/responses/done-only-text.sse": _EMPTY,
    "minimal/responses/text.sse": _EMPTY,
    "minimal/responses/tool-args-in-added.sse": _EMPTY,
    "minimal/responses/unknown-event.sse": _EMPTY,
    "responses/agenticapi-tool-call-auto-qwen-qwen3-30b-a3b-fp8-t1.sse": _RENAMED,
    "responses/agenticapi-tool-call-required-qwen-qwen3-30b-a3b-fp8-t1.sse": _RENAMED,
    "responses/agenticapi-vllm-named-fncall.sse": _RENAMED,
    "responses/agenticapi-vllm-required-two-fncalls.sse": _RENAMED,
}
"""Streams that the SDKs of these versions read otherwise, and why theirs is not the better reading."""


def agreement(file: str, wire: str, data: bytes, decoded: Decoded) -> tuple[str, list[str]]:
    """How the wire's own SDK reads a body, and what it reads differently. Where it makes nothing of it there is nothing to compare."""
    try:
        theirs = READERS[wire](data)
    except Exception:  # noqa: BLE001  the SDKs raise whatever their code meets in a stream that is not to their mind
        return NOTHING, []
    found = differences(theirs, ours(wire, decoded))
    if file in DIFFER:
        return DIFFERS, [] if found else ["it is listed as a difference and is none"]
    return AGREES, found


OPAQUE = "kind_unsupported"
"""What strict says of an item that nobody knows, and that lenient has passed on as it came."""


def public_faults(decoded: Decoded) -> Iterator[str]:
    """What keeps the public stream from being one: the SDK's accumulation and our own strict decoder take all of it."""
    try:
        made = public(decoded.frames)
    except Exception as refused:  # noqa: BLE001  as above
        yield f"the SDK refuses the public stream: {refused!r}"
        return
    with _quietly():
        texts = [texts_of(decoded.payload.response["output"]), texts_of(made.to_dict()["output"]) if made else None]
    if made is not None and texts[0] != texts[1]:
        yield f"the SDK reads {texts[1]} in the public stream instead of {texts[0]}"
    try:
        again = decode(["".join(frame.sse for frame in decoded.frames).encode()], "responses", Validation.STRICT)
    except WireError as refused:
        if refused.diagnostic.code != OPAQUE:
            yield f"the strict decoder refuses the public stream: {refused}"
        return
    spoken = [_spoken(decoded.events), _spoken(again.events)]
    if spoken[0] != spoken[1]:
        yield f"the public stream says {spoken[1]} instead of {spoken[0]}"


def texts_of(output: Any) -> list[Any]:
    """The kinds, texts and arguments of a response's output: what two readings of it must share."""
    return [
        [
            item["type"],
            [part.get("text") or part.get("refusal") for part in item.get("content") or []],
            item.get("arguments"),
        ]
        for item in output
    ]


def _spoken(events: Iterable[Event]) -> dict[str, str]:
    said = {"text": "", "reasoning": "", "refusal": ""}
    for event in events:
        if isinstance(event, TextDelta) and event.track in said:
            said[event.track] += event.text
    return said


def public(frames: Iterable[Frame]) -> Any:
    """Read a public stream as the openai SDK does; returns the response that it made, None without a completed one."""
    return accumulate(map(_event, frames))


def _event(frame: Frame) -> Any:
    data = json.loads(frame.data)
    if data.get("error"):
        raise ValueError("the SDK ends a stream at a frame with an error")
    return construct_type_unchecked(type_=ResponseStreamEvent, value=data)  # type: ignore[arg-type]  # a union, which the SDK builds all the same


def accumulate(events: Iterable[Any]) -> Any:
    """Accumulate the SDK's events as it does itself; returns the completed response, None where there is none."""
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    with _quietly():
        for event in events:
            state.handle_event(event)
    return state._completed_response  # noqa: SLF001  the accumulated response has no public name before the end


def differences(theirs: Reading, own: Reading) -> list[str]:
    """What an SDK and we read differently. Inputs are compared as JSON, usage by the numbers that both tell."""
    found = [
        f"{name}: {getattr(own, name)!r} instead of {getattr(theirs, name)!r}"
        for name in ("text", "refusal", "stop")
        if getattr(own, name) != getattr(theirs, name)
    ]
    if [_loaded(call) for call in own.calls] != [_loaded(call) for call in theirs.calls]:
        found.append(f"calls: {own.calls} instead of {theirs.calls}")
    numbers = {name: value for name, value in theirs.usage.items() if isinstance(value, int)}
    told = {name: own.usage.get(name) for name in numbers}
    if told != numbers:
        found.append(f"usage: {told} instead of {numbers}")
    return found


def _loaded(call: Call) -> tuple[Any, ...]:
    try:
        return call[0], call[1], json.loads(call[2] or "{}")
    except (ValueError, TypeError):  # an input that the SDK took as it came: cut, or no text at all
        return call


def _client(body: bytes) -> httpx2.Client:
    headers = {"content-type": "text/event-stream"}
    return httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=body)))


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the warnings of the SDKs' own models, which do not know every kind that there is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
