"""An agent's lines for tests: short builders of messages, and the adapter run over them."""

import json
from collections.abc import Iterable
from typing import Any

from pipeline.events import Event
from pipeline.limits import Limits
from pipeline.normalize.acp import AcpAdapter
from pipeline.normalize.stamp import Stamp
from scripts.conformance import notation

Message = dict[str, Any]
END: Message = {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}


def update(word: str, /, **members: Any) -> Message:
    params = {"sessionId": "s1", "update": {"sessionUpdate": word} | members}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def said(text: str, kind: str = "agent_message_chunk", **members: Any) -> Message:
    return update(kind, content={"type": "text", "text": text}, **members)


def thought(text: str, **members: Any) -> Message:
    return said(text, "agent_thought_chunk", **members)


def tool(call_id: str = "k1", word: str = "tool_call", **members: Any) -> Message:
    return update(word, toolCallId=call_id, **members)


def asks(call_id: str = "k1", **members: Any) -> Message:
    call = {"toolCallId": call_id} | members
    params = {"sessionId": "s1", "options": [], "toolCall": call}
    return {"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": params}


def stop(reason: str, prompt: int | str = 3, **members: Any) -> Message:
    return {"jsonrpc": "2.0", "id": prompt, "result": {"stopReason": reason} | members}


def lines(*messages: Message | str) -> bytes:
    """Write messages as an agent does; a text stands for its line as it is."""
    written = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in messages]
    return "".join(f"{line}\n" for line in written).encode()


def run(
    data: bytes, limits: Limits | None = None, cuts: Iterable[int] = (), prompt: int | str | None = None
) -> list[Event]:
    """Feed an agent's output cut at the places given, and close it."""
    adapter = AcpAdapter(stamp=Stamp(at=7), limits=limits)
    adapter.prompt_id = prompt
    bounds = [0, *sorted(cut for cut in cuts if cut <= len(data)), len(data)]
    events = [event for a, b in zip(bounds, bounds[1:], strict=False) for event in adapter.feed(data[a:b])]  # noqa: RUF007
    events += adapter.close()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert adapter.ended
    return events


def read(*messages: Message | str, limits: Limits | None = None, prompt: int | str | None = None) -> list[str]:
    """What an agent's output becomes, in the corpus's notation; the same at every byte."""
    data = lines(*messages)
    events = run(data, limits, prompt=prompt)
    assert run(data, limits, range(len(data)), prompt) == events
    return notation(events, "acp")
