"""A request of the Responses shape as the prompt of an ACP agent: its content blocks, and the session that it goes on in.

An agent keeps its own conversation, its own instructions, tools and model: a request that sets one of those is refused by name.
`previous_response_id`, which is the agent's session by the time that it comes here, is loaded again before the prompt.
"""

import re
from typing import Any

from workers.upstream.reading import Members, kept_here

Json = dict[str, Any]
_DATA_URL = re.compile(r"data:([\w.+/-]+);base64,(.*)", re.DOTALL)


def translate(request: Members) -> Json:
    """Write the prompt."""
    body: Json = {}
    if "previous_response_id" in request:
        body["session"] = request.word("previous_response_id")
    kept_here(request)
    request.take("model")  # it has chosen the agent already
    if isinstance(given := request.take("input"), str):
        prompt = [{"type": "text", "text": given}]
    else:
        prompt = []
        for item in Members({"input": given if given is not None else []}, "", request.wire).items("input"):
            prompt += _message(item)
            item.finish_item()
    if not prompt:
        request.refuse("input", "there is nothing in it to prompt with")
    request.default("parallel_tool_calls", True)
    request.default("service_tier", "auto")
    request.default("tool_choice", "auto")
    request.default("tools", [])
    request.finish()
    return {**body, "prompt": prompt}


def _message(item: Members) -> list[Json]:
    if (kind := item.word("type", "message")) != "message":
        item.refuse("type", kind)
    if (role := item.word("role")) != "user":
        item.refuse("role", f"{role}: an agent keeps the conversation itself")
    content = item.take("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_block(part) for part in Members({"content": content}, item.path, item.wire).items("content")]


def _block(part: Members) -> Json:
    """One content block of the prompt."""
    kind = part.word("type")
    made: Json
    if kind in {"input_text", "text"}:
        made = {"type": "text", "text": part.word("text")}
    elif kind == "input_image" and "image_url" in part:
        part.default("detail", "auto")
        mime, data = _data(part, "image_url")
        made = {"type": "image", "mimeType": mime, "data": data}
    elif kind == "input_audio":
        audio = part.object("input_audio")
        made = {"type": "audio", "mimeType": f"audio/{audio.word('format')}", "data": audio.word("data")}
        audio.finish()
    elif kind == "input_file" and "file_url" in part:
        url = part.word("file_url")
        made = {"type": "resource_link", "uri": url, "name": part.word("filename", url.rpartition("/")[2] or url)}
    elif kind == "input_file" and "file_data" in part:
        mime, data = _data(part, "file_data")
        resource = {"uri": f"attachment:{part.word('filename', 'file')}", "mimeType": mime, "blob": data}
        made = {"type": "resource", "resource": resource}
    else:
        part.refuse("type", kind)
    part.finish_item()
    return made


def _data(part: Members, name: str) -> tuple[str, str]:
    match = _DATA_URL.fullmatch(part.word(name))
    if match is None:
        part.refuse(name, "a data URL in base64 is expected")
    return match[1], match[2]
