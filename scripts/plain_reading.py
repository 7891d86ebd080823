"""What recorded streams say, read as plainly as can be and by none of our own code: for holding the adapters against it.

Each wire has one function: bytes to `Said`. They know recordings, not every stream there could be.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class Said:
    """The texts of a stream by track, each in order, and the tools that it names."""

    text: str = ""
    reasoning: str = ""
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


def _object(data: bytes) -> Json | None:
    try:
        value = json.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


READERS: dict[str, Callable[[bytes], Said]] = {"gemini": gemini, "acp": acp}
