"""A sample upstream that speaks the Responses stream: paragraphs of our own, word by word, with a delay between words.

For trying foldline without a provider, and for the benchmarks. It keeps the conversations of this process, so that
`previous_response_id` works, and calls the first function that it is given before it answers in words.

    python -m scripts.sample_upstream --port 8138 --delay-ms 30
"""

import argparse
import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from scripts.responses_stream import FunctionCall, Item, Summary, Text, compose, cut, sse, whole, words

PARAGRAPHS = (
    (
        "A stream of words is easy to start and hard to finish. Somewhere between the model that writes it and the person "
        "who reads it a process stops, a cable is pulled, a deploy rolls, and half a sentence is left on the screen."
    ),
    (
        "The cure is an old one: write down what happened before acting on it. Every event of this answer went into a log, "
        "in order and numbered, and everything that you see was computed from that log and nothing else."
    ),
    (
        "So a worker may die at any moment. Another takes over its partition, reads the log again from the start of this "
        "turn, arrives at the very same words, and goes on from the first one that nobody has seen yet."
    ),
    (
        "Three things make that work:\n\n"
        "- events carry numbers, so that a repeat adds nothing;\n"
        "- results are stored together with their cause, or not at all;\n"
        "- whoever lost a lease is refused, however late it wakes."
    ),
    (
        "Here is the whole idea in a few lines:\n\n"
        "```python\n"
        "for event in log:\n"
        "    output = turn.push(event)\n"
        "    commit(output, position=event.position)\n"
        "```"
    ),
    (
        "Kill one of the processes while this text is running, if you like. It will pause for a few seconds and then go on "
        "in the middle of the word where it stopped."
    ),
)

THOUGHT = "The reader wants to see a stream survive, so the answer should be long enough to kill something."


class SampleUpstream:
    """The server's state: which answers it gave, and how it paces them."""

    def __init__(self, *, delay_ms: float, repeat: int = 1) -> None:
        self._delay_s = delay_ms / 1000
        self._repeat = repeat
        self._known: set[str] = set()

    def app(self) -> web.Application:
        """Build the HTTP application."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        for prefix in ("", "/v1"):
            app.router.add_post(f"{prefix}/responses", self.respond)
        app.router.add_get("/healthz", _healthy)
        return app

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, streamed when it asks for a stream."""
        body = msgspec.json.decode(await request.read(), type=dict[str, Any])
        previous = body.get("previous_response_id")
        if previous is not None and previous not in self._known:
            message = f"Previous response with id '{previous}' not found."
            return _error(400, message, "previous_response_not_found")
        items = self.answer(body)
        events = compose(body, items)
        self._known.add(events[-1]["response"]["id"])
        if not body.get("stream"):
            return web.json_response(body=msgspec.json.encode(whole(body, items)))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):  # a client that leaves ends its own stream only
            for event in events:
                if self._delay_s and event["type"].endswith(".delta"):
                    await asyncio.sleep(self._delay_s)
                await response.write(sse(event))
            await response.write_eof()
        return response

    def answer(self, body: Mapping[str, Any]) -> list[Item]:
        """Choose the output items: a call when functions are offered and none was answered yet, else text."""
        function = next((tool for tool in body.get("tools") or [] if tool.get("type") == "function"), None)
        if function is not None and not _has_output(body.get("input")):
            arguments = msgspec.json.encode(_arguments(function)).decode()
            return [FunctionCall(name=function["name"], pieces=cut(arguments, 4))]
        paragraphs = PARAGRAPHS * self._repeat
        if _has_output(body.get("input")):
            paragraphs = ("The tool has answered, and here is what follows from it.", *paragraphs[:2])
        return [Summary(pieces=words(THOUGHT)), Text(pieces=words("\n\n".join(paragraphs)))]


def _has_output(given: Any) -> bool:
    return isinstance(given, list) and any(
        isinstance(item, dict) and item.get("type") == "function_call_output" for item in given
    )


def _arguments(function: Mapping[str, Any]) -> dict[str, Any]:
    """Fill each parameter of the function with a value of its type."""
    properties = (function.get("parameters") or {}).get("properties") or {}
    samples: dict[str, Any] = {
        "string": "sample",
        "number": 1.5,
        "integer": 1,
        "boolean": True,
        "array": [],
        "object": {},
    }
    return {name: samples.get(schema.get("type"), "sample") for name, schema in properties.items()}


def _error(status: int, message: str, code: str) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return web.json_response({"error": error}, status=status)


async def _healthy(_request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


def main() -> None:
    """Serve until a signal ends the process."""
    parser = argparse.ArgumentParser(prog="sample_upstream", description="a sample upstream of the Responses wire")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8138)
    parser.add_argument("--delay-ms", type=float, default=30.0, help="before each delta")
    parser.add_argument("--repeat", type=int, default=1, help="how often the paragraphs are sent in one answer")
    options = parser.parse_args()
    server = SampleUpstream(delay_ms=options.delay_ms, repeat=options.repeat)
    web.run_app(server.app(), host=options.host, port=options.port, print=None, access_log=None)


if __name__ == "__main__":
    main()
