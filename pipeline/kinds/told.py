"""Tools that were told of without their items: by a wire that does not speak of items, or by whoever answers for the gateway."""

from typing import Any

import msgspec

from pipeline.kinds.slot import Json, Slot


def mcp_blank(slot: Slot) -> Json:
    """A tool that somebody else runs, under the name that was told."""
    return {"name": slot.name or "", "server_label": "upstream", "arguments": ""}


def mcp_result(item: Json, output: Any, failed: bool) -> Json:
    """What the tool gave back, or why it could not."""
    text = words(output)
    return {**item, "output": None if failed else text, "error": (text or "failed") if failed else None}


def code_blank(_slot: Slot) -> Json:
    """Code of which nothing is known yet."""
    return {"code": "", "container_id": "", "outputs": []}


def code_asked(item: Json, asked: str) -> Json:
    """The code, which a call of a function holds under that name."""
    code = member_of(asked, "code", "input")
    return {**item, "code": asked if code is None else code}


def code_result(item: Json, output: Any, failed: bool) -> Json:  # noqa: ARG001  a column of the table
    """What the code printed."""
    text = words(output)
    return {**item, "outputs": [{"type": "logs", "logs": text}] if text else []}


def search_asked(item: Json, asked: str) -> Json:
    """A search tells what it looked for, a fetch what it opened, as far as its input says so."""
    query, url = member_of(asked, "query"), member_of(asked, "url")
    if query is None and url is not None:
        return {**item, "action": {"type": "open_page", "url": url}}
    return {**item, "action": {"type": "search", "query": query or ""}}


def search_result(item: Json, output: Any, failed: bool) -> Json:  # noqa: ARG001  a column of the table
    """The links that were found."""
    found = output if isinstance(output, list) else []
    links = [one["url"] for one in found if isinstance(one, dict) and isinstance(one.get("url"), str)]
    action = item.get("action")
    if not links or not isinstance(action, dict) or action.get("type") != "search":
        return item
    return {**item, "action": {**action, "sources": [{"type": "url", "url": link} for link in links]}}


def files_asked(item: Json, asked: str) -> Json:
    """A search in files tells what it looked for."""
    members = _members(asked)
    queries = members.get("queries")
    if not isinstance(queries, list):
        queries = [members.get("query")]
    return {**item, "queries": [query for query in queries if isinstance(query, str)]}


def files_result(item: Json, output: Any, failed: bool) -> Json:  # noqa: ARG001  a column of the table
    """The places that were found."""
    return {**item, "results": [one for one in output if isinstance(one, dict)]} if isinstance(output, list) else item


def tools_result(item: Json, output: Any, failed: bool) -> Json:
    """The tools of a server, or why it could not list them."""
    if failed:
        return {**item, "error": words(output) or "failed"}
    return {**item, "tools": output if isinstance(output, list) else []}


def member_of(text: str, *names: str) -> str | None:
    """The first of these members of a JSON object that is a string."""
    members = _members(text)
    return next((members[name] for name in names if isinstance(members.get(name), str)), None)


def words(output: Any) -> str:
    """A tool's output as text: text as it came, blocks of text joined, anything else as JSON."""
    if isinstance(output, str):
        return output
    blocks = output if isinstance(output, list) else [output]
    texts = []
    for block in blocks:
        inner = block.get("content") if isinstance(block, dict) and block.get("type") == "content" else block
        text = inner.get("text") if isinstance(inner, dict) and inner.get("type") == "text" else None
        if not isinstance(text, str):
            return "" if output is None else msgspec.json.encode(output).decode()
        texts.append(text)
    return "\n".join(texts)


def _members(text: str) -> Json:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
