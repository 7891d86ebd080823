"""A request of the Responses shape as a `generateContent` body.

`instructions` and leading system messages become the system instruction. The model stands in the path and not in the body. Calls
and their results are paired by name and order; an id is sent back only where the upstream made it, because older servers refuse
one. A call's `thought_signature`, which the public stream has beside the call, goes back with it: newer models want it.
"""

import re
from typing import Any

import msgspec

from workers.upstream.reading import Members, bound_to, kept_here

Json = dict[str, Any]
SAME = ("safetySettings", "cachedContent", "labels")
"""Members that the wire has under the same name."""
SAMPLING = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_output_tokens": "maxOutputTokens",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "stop_sequences": "stopSequences",
}
LEVELS = frozenset({"minimal", "low", "medium", "high"})
CHOICES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
SERVED = {"web_search": "googleSearch", "web_search_preview": "googleSearch", "code_interpreter": "codeExecution"}
"""Tools that the upstream runs itself."""
_DATA_URL = re.compile(r"data:([\w.+/-]+);base64,(.*)", re.DOTALL)
_OUR_CALL = re.compile(r"call_(\d+|[\w-]+_\d+)")


def translate(request: Members) -> Json:
    """Write the whole body."""
    kept_here(request)
    request.take("model")
    body = _conversation(request)
    for name in SAME:
        if name in request:
            body[name] = request.take(name)
    config = {theirs: request.take(ours) for ours, theirs in SAMPLING.items() if ours in request}
    if "stop" in request:
        stop = request.take("stop")
        config["stopSequences"] = [stop] if isinstance(stop, str) else stop
    if "top_logprobs" in request:
        config |= {"responseLogprobs": True, "logprobs": request.take("top_logprobs")}
    config |= _thinking(request) | _form(request)
    if config:
        body["generationConfig"] = config
    request.default("parallel_tool_calls", True)
    request.default("service_tier", "auto")
    request.default("n", 1)
    _tools(request, body)
    request.finish()
    return body


def _conversation(request: Members) -> Json:
    made = _Conversation()
    if "instructions" in request:
        made.system.append({"text": request.word("instructions")})
    if isinstance(given := request.take("input"), str):
        made.say("user", [{"text": given}])
    elif given is not None:
        for item in Members({"input": given}, "", request.wire).items("input"):
            made.add(item)
            item.finish_item()
    return {**({"systemInstruction": {"parts": made.system}} if made.system else {}), "contents": made.contents}


class _Conversation:
    """The contents as they grow; what follows under one role is one content."""

    def __init__(self) -> None:
        self.system: list[Json] = []
        self.contents: list[Json] = []
        self._names: dict[str, str] = {}

    def say(self, role: str, parts: list[Json]) -> None:
        """Add parts under a role."""
        if self.contents and self.contents[-1]["role"] == role:
            self.contents[-1]["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": parts})

    def add(self, item: Members) -> None:
        """Add one item of the input."""
        kind = item.word("type", "message")
        if kind == "message":
            self._message(item)
        elif kind == "function_call":
            self._call(item)
        elif kind == "function_call_output":
            self._result(item)
        elif kind == "reasoning":
            self._thoughts(item)
        else:
            item.refuse("type", kind)

    def _message(self, item: Members) -> None:
        role = item.word("role")
        content = item.take("content")
        if isinstance(content, str):
            parts = [{"text": content}]
        else:
            given = Members({"content": content}, item.path, item.wire).items("content")
            parts = [_part(part, role) for part in given]
        if role in {"system", "developer"}:
            if self.contents:
                item.refuse("role", f"a {role} message stands before all others there")
            self.system += parts
        elif role in {"user", "assistant"}:
            self.say("user" if role == "user" else "model", parts)
        else:
            item.refuse("role", role)

    def _call(self, item: Members) -> None:
        call_id, name = item.word("call_id"), item.word("name")
        self._names[call_id] = name
        part: Json = {"functionCall": {"name": name, "args": _object(item), **_id(call_id)}}
        if "thought_signature" in item:
            part["thoughtSignature"] = item.word("thought_signature")
        self.say("model", [part])

    def _result(self, item: Members) -> None:
        call_id = item.word("call_id")
        name = self._names.get(call_id)
        if name is None:
            item.refuse("call_id", "no function_call before it has this id")
        output = item.take("output")
        if not isinstance(output, str):
            texts = Members({"output": output}, item.path, item.wire).items("output")
            output = "".join(_part(part, "tool")["text"] for part in texts)
        response = {"name": name, "response": {"output": output}, **_id(call_id)}
        self.say("user", [{"functionResponse": response}])

    def _thoughts(self, item: Members) -> None:
        """Thoughts are not sent back: the wire takes none but by their signatures, which stand with the calls."""
        for name in ("summary", "content", "encrypted_content"):
            item.take(name)


def _id(call_id: str) -> Json:
    """A call's id, unless we made it."""
    return {} if _OUR_CALL.fullmatch(call_id) else {"id": call_id}


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


def _part(part: Members, role: str) -> Json:
    """One part of a message's content."""
    kind = part.word("type")
    made: Json
    if kind in {"input_text", "output_text", "text"}:
        made = {"text": part.word("text")}
    elif kind == "refusal" and role == "assistant":
        made = {"text": part.word("refusal")}
    elif kind == "input_image" and role == "user" and "image_url" in part:
        part.default("detail", "auto")
        made = _media(part, "image_url")
    elif kind == "input_file" and role == "user" and "file_data" in part:
        part.take("filename")  # only a name
        made = _media(part, "file_data")
    elif kind == "input_file" and role == "user" and "file_url" in part:
        made = {"fileData": {"fileUri": part.word("file_url")}}
    elif kind == "input_audio" and role == "user":
        audio = part.object("input_audio")
        made = {"inlineData": {"mimeType": f"audio/{audio.word('format')}", "data": audio.word("data")}}
        audio.finish()
    else:
        part.refuse("type", f"{kind} of a message of {role}")
    part.finish_item()
    return made


def _media(part: Members, name: str) -> Json:
    match = _DATA_URL.fullmatch(part.word(name))
    if match is None:
        part.refuse(name, "a data URL in base64 is expected")
    return {"inlineData": {"mimeType": match[1], "data": match[2]}}


def _thinking(request: Members) -> Json:
    """How hard to think, and whether to show it."""
    config: Json = {}
    reasoning = request.object("reasoning")
    if "effort" in reasoning:
        effort = reasoning.word("effort")
        if effort == "none":
            config["thinkingBudget"] = 0
        elif effort in LEVELS:
            config["thinkingLevel"] = effort
        else:
            reasoning.refuse("effort", effort)
    if "summary" in reasoning:
        reasoning.take("summary")
        config["includeThoughts"] = True
    reasoning.finish()
    return {"thinkingConfig": config} if config else {}


def _form(request: Members) -> Json:
    """The form of the answer."""
    config: Json = {}
    text = request.object("text")
    given = text.object("format")
    kind = given.word("type", "text")
    if kind == "json_schema":
        config = {"responseMimeType": "application/json", "responseJsonSchema": bound_to(given)}
    elif kind == "json_object":
        config = {"responseMimeType": "application/json"}
    elif kind != "text":
        given.refuse("type", kind)
    given.finish()
    text.finish()
    return config


def _tools(request: Members, body: Json) -> None:
    functions: list[Json] = []
    served: list[Json] = []
    for tool in request.items("tools"):
        kind = tool.word("type")
        if kind == "function":
            functions.append(_function(tool))
        elif kind in SERVED:
            container = tool.object("container")
            container.default("type", "auto")  # where code runs is the upstream's own affair, but files are not
            container.finish()
            served.append({SERVED[kind]: {}})
        else:
            tool.refuse("type", kind)
        tool.finish()
    tools = [*([{"functionDeclarations": functions}] if functions else []), *served]
    choice = request.take("tool_choice")
    if tools:
        body["tools"] = tools
    if choice is None or (choice in {"auto", "none"} if isinstance(choice, str) and not functions else False):
        return
    if not functions:
        request.refuse("tool_choice", "there are no functions")
    body["toolConfig"] = {"functionCallingConfig": _choice(choice, request.wire)}


def _function(tool: Members) -> Json:
    made: Json = {"name": tool.word("name")}
    if "description" in tool:
        made["description"] = tool.take("description")
    if "parameters" in tool:
        made["parametersJsonSchema"] = tool.take("parameters")
    tool.default("strict", False, True)  # arguments always follow the schema as far as the model can
    return made


def _choice(choice: Any, wire: str) -> Json:
    if isinstance(choice, str) and choice in CHOICES:
        return {"mode": CHOICES[choice]}
    members = Members(choice, "tool_choice", wire)
    kind = members.word("type")
    if kind == "function":
        made: Json = {"mode": "ANY", "allowedFunctionNames": [members.word("name")]}
    elif kind == "allowed_tools":
        if (mode := members.word("mode")) not in CHOICES:
            members.refuse("mode", mode)
        made = {"mode": CHOICES[mode], "allowedFunctionNames": [_allowed(one) for one in members.items("tools")]}
    else:
        members.refuse("type", kind)
    members.finish()
    return made


def _allowed(tool: Members) -> str:
    if (kind := tool.word("type")) != "function":
        tool.refuse("type", kind)
    name = tool.word("name")
    tool.finish()
    return name
