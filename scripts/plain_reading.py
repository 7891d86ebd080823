"""What recorded streams say, read as plainly as can be and by none of our own code: for holding the adapters against it.

Each wire has one function: bytes to `Said`. They know recordings, not every stream there could be.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class Said:
    """The texts of a stream by track, each in order, and the tools that it names; inputs are read where they stream."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    inputs: str = ""
    tools: list[str] = field(default_factory=list)


def gemini(data: bytes) -> Said:
    """Read the first candidate's parts of every data line."""
    said = Said()
    for line in re.split(rb"\r\n|\n|\r", data):
        frame = _object(line.removeprefix(b"data:")) if line.startswith(b"data:") else None
        for candidate in (frame or {}).get("candidates", [])[:1]:
            for part in candidate.get("content", {}).get("parts", []):
                if part.get("thought"):
                    said.reasoning += part.get("text", "")
                else:
                    said.text += part.get("text", "")
                if name := part.get("functionCall", {}).get("name"):
                    said.tools.append(name)
                if "executableCode" in part:
                    said.tools.append("code_execution")
    return said


def acp(data: bytes) -> Said:
    """Read the chunks of every update; a tool counts once between two stops."""
    said = Said()
    seen: set[str] = set()
    for line in data.split(b"\n"):
        message = _object(line) or {}
        params = message.get("params", {})
        update = params.get("update", {})
        if "stopReason" in message.get("result", {}):
            seen.clear()
        text = update.get("content", {}).get("text", "") if isinstance(update.get("content"), dict) else ""
        if update.get("sessionUpdate") == "agent_message_chunk":
            said.text += text
        elif update.get("sessionUpdate") == "agent_thought_chunk":
            said.reasoning += text
        tool = params.get("toolCall") or (update if "toolCallId" in update else None)
        if tool is not None and tool["toolCallId"] not in seen:
            seen.add(tool["toolCallId"])
            said.tools.append(tool["title"])
    return said


def chat(data: bytes) -> Said:
    """Read the first choice's delta of every chunk, or its message where it has no delta."""
    said = Said()
    named: set[str] = set()
    for chunk in _frames(data):
        for choice in chunk.get("choices") or []:
            if choice.get("index") not in {0, None}:
                continue
            delta = choice["delta"] if isinstance(choice.get("delta"), dict) else choice.get("message") or {}
            details = "".join(
                one.get("text") or one.get("summary") or "" for one in delta.get("reasoning_details") or []
            )
            said.reasoning += delta.get("reasoning_content") or delta.get("reasoning") or details
            content = delta.get("content")
            for part in content if isinstance(content, list) else [content]:
                if isinstance(part, dict) and part["type"] == "thinking":
                    said.reasoning += "".join(inner["text"] for inner in part["thinking"])
                elif part:
                    said.text += part["text"] if isinstance(part, dict) else part
            said.refusal += delta.get("refusal") or ""
            for call in delta.get("tool_calls") or []:
                function = call.get("function") or {}
                said.inputs += function.get("arguments") or ""
                if function.get("name") and call["id"] not in named:
                    named.add(call["id"])
                    said.tools.append(function["name"])
    return said


def messages(data: bytes) -> Said:
    """Read the text of every block's start and of its deltas."""
    said = Said()
    members = {"text": "text", "thinking": "reasoning", "partial_json": "inputs"}
    for frame in _frames(data):
        held = frame.get(
            {"content_block_start": "content_block", "content_block_delta": "delta"}.get(frame["type"], "")
        )
        for member, track in members.items():
            if isinstance(held, dict) and isinstance(held.get(member), str):
                setattr(said, track, getattr(said, track) + held[member])
        if isinstance(held, dict) and held["type"].endswith("tool_use"):
            said.tools.append(held["name"])
    return said


def _frames(data: bytes) -> Iterator[Json]:
    """The JSON objects of an event stream, up to its sentinel."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    for block in re.split(r"(?:\r\n|\n|\r){2,}", text):
        lines = [line[5:] for line in re.split(r"\r\n|\n|\r", block) if line.startswith("data:")]
        joined = "\n".join(line.removeprefix(" ") for line in lines)
        if joined == "[DONE]":
            return
        if (frame := _object(joined.encode())) is not None:
            yield frame


def _object(data: bytes) -> Json | None:
    try:
        value = json.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


READERS: dict[str, Callable[[bytes], Said]] = {"chat": chat, "messages": messages, "gemini": gemini, "acp": acp}
