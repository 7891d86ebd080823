"""A request of the Responses shape as a Chat Completions body.

`instructions` and developer messages become system messages, which every server knows. `max_output_tokens` becomes
`max_tokens`: a server that wants the newer name says so, one that knows only the old one would ignore the newer. Reasoning goes
back as `reasoning_content`, as the servers that stream it want it.
"""

from typing import Any

from workers.upstream.reading import Members, kept_here

Json = dict[str, Any]
SAME = (
    "temperature", "top_p", "parallel_tool_calls", "service_tier", "user", "safety_identifier", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention", "moderation", "seed", "stop", "presence_penalty", "frequency_penalty", "logit_bias",
)  # fmt: skip
"""Members that the wire has under the same name."""
LOGPROBS = "message.output_text.logprobs"
ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


def translate(request: Members) -> Json:
    """Write the whole body."""
    body: Json = {"stream": True, "stream_options": {"include_usage": True}}
    if (include := request.take("include")) == [LOGPROBS]:
        body["logprobs"] = True
    elif include:
        request.refuse("include", f"{LOGPROBS} alone can be asked for")
    kept_here(request)
    if "model" in request:
        body["model"] = request.word("model")
    body["messages"] = _messages(request)
    for name in SAME:
        if name in request:
            body[name] = request.take(name)
    if "max_output_tokens" in request:
        body["max_tokens"] = request.take("max_output_tokens")
    if "top_logprobs" in request:
        body |= {"logprobs": True, "top_logprobs": request.take("top_logprobs")}
    _tools(request, body)
    _text(request, body)
    reasoning = request.object("reasoning")
    if "effort" in reasoning:
        body["reasoning_effort"] = reasoning.take("effort")
    reasoning.finish()
    request.default("n", 1)
    request.finish()
    return body


def _messages(request: Members) -> list[Json]:
    made = _Messages()
    if "instructions" in request:
        made.say("system", request.word("instructions"))
    if isinstance(given := request.take("input"), str):
        made.say("user", given)
    elif given is not None:
        for item in Members({"input": given}, "", request.wire).items("input"):
            made.add(item)
            item.finish_item()
    made.end()
    return made.list


class _Messages:
    """The conversation as it grows. What one answer held, its text, thoughts and calls, is one message of the assistant."""

    def __init__(self) -> None:
        self.list: list[Json] = []
        self._answer: Json | None = None
        self._thoughts: list[str] = []

    def say(self, role: str, content: Any) -> None:
        """Add a message; an assistant's waits for the calls that belong to it."""
        if role != "assistant":
            self.end()
            self.list.append({"role": role, "content": content})
            return
        if self._answer is not None and ("content" in self._answer or "tool_calls" in self._answer):
            self.end()
        self._assistant()["content"] = content

    def add(self, item: Members) -> None:
        """Add one item of the input."""
        kind = item.word("type", "message")
        if kind == "message":
            self._message(item)
        elif kind == "function_call":
            function = {"name": item.word("name"), "arguments": item.word("arguments")}
            self._call({"id": item.word("call_id"), "type": "function", "function": function})
        elif kind == "custom_tool_call":
            custom = {"name": item.word("name"), "input": item.word("input")}
            self._call({"id": item.word("call_id"), "type": "custom", "custom": custom})
        elif kind in {"function_call_output", "custom_tool_call_output"}:
            self.end()
            output = item.take("output")
            content = output if isinstance(output, str) else _texts(item, output)
            self.list.append({"role": "tool", "tool_call_id": item.word("call_id"), "content": content})
        elif kind == "reasoning":
            self._reasoning(item)
        else:
            item.refuse("type", kind)

    def end(self) -> None:
        """The answer that was growing is whole."""
        answer, self._answer = self._answer, None
        if answer is None:
            return
        answer.setdefault("content", None)
        if self._thoughts:
            answer["reasoning_content"] = "".join(self._thoughts)
            self._thoughts = []
        self.list.append(answer)

    def _message(self, item: Members) -> None:
        role = ROLES.get(item.word("role"))
        if role is None:
            item.refuse("role")
        content = item.take("content")
        if not isinstance(content, str):
            parts = Members({"content": content}, item.path, item.wire).items("content")
            content = [_part(part, role) for part in parts]
        self.say(role, content)

    def _call(self, call: Json) -> None:
        self._assistant().setdefault("tool_calls", []).append(call)

    def _reasoning(self, item: Members) -> None:
        if self._answer is not None and ("content" in self._answer or "tool_calls" in self._answer):
            self.end()
        texts = item.texts("content")
        summary = item.texts("summary")
        if not texts and not summary:
            item.refuse("encrypted_content" if "encrypted_content" in item else "content", "there is no text in it")
        item.take("encrypted_content")  # the same thoughts once more, for another wire
        self._assistant()
        self._thoughts += texts or summary

    def _assistant(self) -> Json:
        if self._answer is None:
            self._answer = {"role": "assistant"}
        return self._answer


def _texts(item: Members, output: Any) -> list[Json]:
    return [_part(part, "tool") for part in Members({"output": output}, item.path, item.wire).items("output")]


def _part(part: Members, role: str) -> Json:
    """One part of a message's content."""
    kind = part.word("type")
    made: Json
    if kind in {"input_text", "output_text", "text"}:
        made = {"type": "text", "text": part.word("text")}
    elif kind == "refusal" and role == "assistant":
        made = {"type": "refusal", "refusal": part.word("refusal")}
    elif kind == "input_image" and role == "user" and "image_url" in part:
        image: Json = {"url": part.word("image_url")}
        if "detail" in part:
            image["detail"] = part.take("detail")
        made = {"type": "image_url", "image_url": image}
    elif kind == "input_audio" and role == "user":
        made = {"type": "input_audio", "input_audio": part.take("input_audio")}
    elif kind == "input_file" and role == "user" and "file_url" not in part:
        file = {name: part.word(name) for name in ("file_id", "file_data", "filename") if name in part}
        made = {"type": "file", "file": file}
    else:
        part.refuse("type", f"{kind} of a message of {role}")
    part.finish_item()
    return made


def _tools(request: Members, body: Json) -> None:
    tools = [_tool(tool) for tool in request.items("tools")]
    if tools:
        body["tools"] = tools
    choice = request.take("tool_choice")
    if choice is None or (not tools and choice in {"auto", "none"} if isinstance(choice, str) else False):
        return
    body["tool_choice"] = choice if isinstance(choice, str) else _choice(Members(choice, "tool_choice", request.wire))


def _tool(tool: Members) -> Json:
    kind = tool.word("type")
    if kind == "function":
        members = ("name", "description", "parameters", "strict")
        made = {"type": kind, kind: {name: tool.take(name) for name in members if name in tool}}
    elif kind == "custom":
        custom = {name: tool.take(name) for name in ("name", "description") if name in tool}
        if "format" in tool:
            custom["format"] = _format(tool.object("format"))
        made = {"type": kind, kind: custom}
    else:
        tool.refuse("type", kind)
    tool.finish()
    return made


def _format(given: Members) -> Json:
    """The form of a custom tool's input; this wire nests what the other has flat."""
    kind = given.word("type")
    grammar = {name: given.take(name) for name in ("syntax", "definition") if name in given}
    given.finish()
    return {"type": kind, **({"grammar": grammar} if grammar else {})}


def _choice(choice: Members) -> Json:
    kind = choice.word("type")
    if kind in {"function", "custom"}:
        made: Json = {"type": kind, kind: {"name": choice.word("name")}}
    elif kind == "allowed_tools":
        made = {
            "type": kind,
            kind: {"mode": choice.word("mode"), "tools": [_choice(one) for one in choice.items("tools")]},
        }
    else:
        choice.refuse("type", kind)
    choice.finish()
    return made


def _text(request: Members, body: Json) -> None:
    """The form of the answer."""
    text = request.object("text")
    if "verbosity" in text:
        body["verbosity"] = text.take("verbosity")
    given = text.object("format")
    kind = given.word("type", "text")
    if kind == "json_schema":
        members = ("name", "description", "schema", "strict")
        body["response_format"] = {"type": kind, kind: {name: given.take(name) for name in members if name in given}}
    elif kind == "json_object":
        body["response_format"] = {"type": kind}
    elif kind != "text":
        given.refuse("type", kind)
    given.finish()
    text.finish()
