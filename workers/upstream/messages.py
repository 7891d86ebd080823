"""A request of the Responses shape as a Messages body.

`instructions` and leading system messages become `system`. Thinking goes back under the signature that it came with: the public
stream has that as a reasoning item's `encrypted_content`. The wire demands `max_tokens`; a request that has no limit gets one.
"""

import re
from typing import Any

import msgspec

from pipeline.normalize.messages.shape import REDACTED
from workers.upstream.reading import Members, UnsupportedError, bound_to, kept_here

Json = dict[str, Any]
MAX_TOKENS = 8192
"""Sent where the client sets no limit, because the wire demands one."""
SAME = ("temperature", "top_p", "top_k", "stop_sequences", "thinking")
"""Members that the wire has under the same name."""
EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})
CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_DATA_URL = re.compile(r"data:([\w.+/-]+);base64,(.*)", re.DOTALL)


def translate(request: Members) -> Json:
    """Write the whole body."""
    request.default("include", ["reasoning.encrypted_content"])  # always there
    kept_here(request)
    body: Json = {"stream": True}
    if "model" in request:
        body["model"] = request.word("model")
    limit = request.take("max_output_tokens")
    body["max_tokens"] = MAX_TOKENS if limit is None else limit
    body |= _conversation(request)
    for name in SAME:
        if name in request:
            body[name] = request.take(name)
    names = {request.word(name) for name in ("safety_identifier", "user") if name in request}
    if len(names) > 1:
        raise UnsupportedError(
            "user", "user and safety_identifier name two users, and the wire messages has room for one"
        )
    if names:
        body["metadata"] = {"user_id": names.pop()}
    request.default("service_tier", "auto")
    _tools(request, body)
    _output(request, body)
    request.finish()
    return body


def _conversation(request: Members) -> Json:
    made = _Conversation()
    if "instructions" in request:
        made.system.append({"type": "text", "text": request.word("instructions")})
    if isinstance(given := request.take("input"), str):
        made.say("user", [{"type": "text", "text": given}])
    elif given is not None:
        for item in Members({"input": given}, "", request.wire).items("input"):
            made.add(item)
            item.finish_item()
    return {**({"system": made.system} if made.system else {}), "messages": made.messages}


class _Conversation:
    """The messages as they grow; what follows under one role is one message."""

    def __init__(self) -> None:
        self.system: list[Json] = []
        self.messages: list[Json] = []

    def say(self, role: str, blocks: list[Json]) -> None:
        """Add blocks under a role."""
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": role, "content": blocks})

    def add(self, item: Members) -> None:
        """Add one item of the input."""
        kind = item.word("type", "message")
        if kind == "message":
            self._message(item)
        elif kind == "function_call":
            call = {"id": item.word("call_id"), "name": item.word("name"), "input": _object(item)}
            self.say("assistant", [{"type": "tool_use", **call}])
        elif kind == "function_call_output":
            output = item.take("output")
            content = output if isinstance(output, str) else _blocks(item, "output", output, "user")
            self.say("user", [{"type": "tool_result", "tool_use_id": item.word("call_id"), "content": content}])
        elif kind == "reasoning":
            self.say("assistant", [_thinking(item)])
        else:
            item.refuse("type", kind)

    def _message(self, item: Members) -> None:
        role = item.word("role")
        content = item.take("content")
        if isinstance(content, str):
            blocks = [{"type": "text", "text": content}]
        else:
            blocks = _blocks(item, "content", content, role)
        if role in {"system", "developer"}:
            if self.messages:
                item.refuse("role", f"a {role} message stands before all others there")
            self.system += blocks
        elif role in {"user", "assistant"}:
            self.say(role, blocks)
        else:
            item.refuse("role", role)


def _object(item: Members) -> Any:
    """A call's arguments, which the wire has as an object and not as its text."""
    text = item.word("arguments")
    try:
        value = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        value = None
    if not isinstance(value, dict):
        item.refuse("arguments", "they are no JSON object")
    return value


def _thinking(item: Members) -> Json:
    text = "".join(item.texts("content"))
    summary = item.texts("summary")
    if "encrypted_content" not in item:
        item.refuse("type", "reasoning without encrypted_content, which is its signature")
    signature = item.word("encrypted_content")
    if signature.startswith(REDACTED):
        return {"type": "redacted_thinking", "data": signature.removeprefix(REDACTED)}
    return {"type": "thinking", "thinking": text or "\n\n".join(summary), "signature": signature}


def _blocks(item: Members, name: str, value: Any, role: str) -> list[Json]:
    return [_block(part, role) for part in Members({name: value}, item.path, item.wire).items(name)]


def _block(part: Members, role: str) -> Json:
    """One part of a message's content."""
    kind = part.word("type")
    made: Json
    if kind in {"input_text", "output_text", "text"}:
        made = {"type": "text", "text": part.word("text")}
    elif kind == "refusal" and role == "assistant":
        made = {"type": "text", "text": part.word("refusal")}
    elif kind == "input_image" and role == "user" and "image_url" in part:
        part.default("detail", "auto")
        made = {"type": "image", "source": _source(part, "image_url")}
    elif kind == "input_file" and role == "user" and ("file_data" in part or "file_url" in part):
        made = {"type": "document", "source": _source(part, "file_data" if "file_data" in part else "file_url")}
        if "filename" in part:
            made["title"] = part.word("filename")
    else:
        part.refuse("type", f"{kind} of a message of {role}")
    part.finish_item()
    return made


def _source(part: Members, name: str) -> Json:
    url = part.word(name)
    if (match := _DATA_URL.fullmatch(url)) is not None:
        return {"type": "base64", "media_type": match[1], "data": match[2]}
    if not url.startswith(("http://", "https://")):
        part.refuse(name, "a data URL in base64 or a link is expected")
    return {"type": "url", "url": url}


def _tools(request: Members, body: Json) -> None:
    tools = [_tool(tool) for tool in request.items("tools")]
    parallel = request.take("parallel_tool_calls")
    choice = request.take("tool_choice")
    if not tools:
        if choice not in (None, "auto", "none"):
            request.refuse("tool_choice", "there are no tools")
        return
    body["tools"] = tools
    made = _choice(choice, request.wire)
    if parallel is False and made.get("type") != "none":
        made = {"type": "auto", **made, "disable_parallel_tool_use": True}
    if made:
        body["tool_choice"] = made


def _tool(tool: Members) -> Json:
    kind = tool.word("type")
    if kind != "function":
        tool.refuse("type", kind)
    made: Json = {"name": tool.word("name")}
    if "description" in tool:
        made["description"] = tool.take("description")
    parameters = tool.take("parameters")
    made["input_schema"] = {"type": "object", "properties": {}} if parameters is None else parameters
    if "strict" in tool and tool.take("strict"):
        made["strict"] = True
    tool.finish()
    return made


def _choice(choice: Any, wire: str) -> Json:
    if choice is None:
        return {}
    if isinstance(choice, str) and choice in CHOICES:
        return {"type": CHOICES[choice]}
    members = Members(choice, "tool_choice", wire)
    if (kind := members.word("type")) != "function":
        members.refuse("type", kind)
    made = {"type": "tool", "name": members.word("name")}
    members.finish()
    return made


def _output(request: Members, body: Json) -> None:
    """How hard to think, and the form of the answer."""
    config: Json = {}
    reasoning = request.object("reasoning")
    if "effort" in reasoning:
        effort = reasoning.word("effort")
        if effort not in EFFORTS:
            reasoning.refuse("effort", effort)
        config["effort"] = effort
    reasoning.finish()
    text = request.object("text")
    given = text.object("format")
    kind = given.word("type", "text")
    if kind == "json_schema":
        config["format"] = {"type": kind, "schema": bound_to(given)}
    elif kind != "text":
        given.refuse("type", kind)
    given.finish()
    text.finish()
    if config:
        body["output_config"] = config
