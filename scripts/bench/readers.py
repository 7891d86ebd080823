"""The official SDKs as `scripts.bench.core` runs them: one client each, the bytes from this process, the SDK's own accumulation."""

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import openai
from openai import omit
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.lib.streaming.responses._responses import ResponseStreamState

KEY = "not a key"
URL = "http://upstream"


class Reader:
    """One SDK, reading one body after the other."""

    def __init__(self, make: Callable[[httpx2.Client], Callable[[], Iterator[Any]]]) -> None:
        self._body = b""
        self._read = make(httpx2.Client(transport=httpx2.MockTransport(self._answer)))

    def __call__(self, body: bytes) -> int:
        """Accumulate a body; return the number of the SDK's own events."""
        self._body = body
        return sum(1 for _ in self._read())

    def reach(self, body: bytes) -> tuple[int, bool]:
        """How many of its own events the SDK accumulates before it raises, and whether that is all of them."""
        self._body = body
        count = 0
        try:
            for _ in self._read():
                count += 1
        except Exception:  # noqa: BLE001  whatever the SDK's code meets in a stream that is not to its mind
            return count, False
        return count, True

    def _answer(self, _: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=self._body)


def _responses(http: httpx2.Client) -> Callable[[], Iterator[Any]]:
    client = openai.OpenAI(api_key=KEY, base_url=URL, max_retries=0, http_client=http)

    def read() -> Iterator[Any]:
        state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
        for event in client.responses.create(model="m", input="i", stream=True):
            state.handle_event(event)
            yield event

    return read


def _chat(http: httpx2.Client) -> Callable[[], Iterator[Any]]:
    client = openai.OpenAI(api_key=KEY, base_url=URL, max_retries=0, http_client=http)

    def read() -> Iterator[Any]:
        state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
        for chunk in client.chat.completions.create(model="m", messages=[], stream=True):
            state.handle_chunk(chunk)
            yield chunk

    return read


def _messages(http: httpx2.Client) -> Callable[[], Iterator[Any]]:
    client = anthropic.Anthropic(api_key=KEY, base_url=URL, max_retries=0, http_client=http)

    def read() -> Iterator[Any]:
        with client.messages.stream(model="m", messages=[], max_tokens=1) as stream:
            yield stream.get_final_message()

    return read


READERS = {"responses": Reader(_responses), "chat": Reader(_chat), "messages": Reader(_messages)}
"""By wire; the others have no official SDK that accumulates, or none that this project is built with."""
