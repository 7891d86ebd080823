"""The sample upstream speaks the wire as the official SDK and our own adapter expect it."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from aiohttp import web
from openai.types.responses import ResponseFunctionToolCall

from pipeline.events import TextDelta, TurnCompleted
from pipeline.normalize.registry import WIRES
from pipeline.normalize.stamp import Stamp
from scripts.responses_stream import FunctionCall, Item, Summary, Text, compose, cut, sse, words
from scripts.sample_upstream import PARAGRAPHS, SampleUpstream

TOOL: Any = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}, "often": {"type": "integer"}}},
    "strict": False,
}


@pytest.fixture
async def client() -> AsyncIterator[openai.AsyncOpenAI]:
    runner = web.AppRunner(SampleUpstream(delay_ms=0).app())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as sdk:
        yield sdk
    await runner.cleanup()


async def test_the_sdk_reads_the_stream_to_the_same_text_as_the_whole_answer(client: openai.AsyncOpenAI) -> None:
    async with client.responses.stream(model="m", input="hi") as stream:
        streamed = await stream.get_final_response()
    whole = await client.responses.create(model="m", input="hi")
    assert streamed.output_text == whole.output_text == "\n\n".join(PARAGRAPHS)


async def test_the_same_request_has_the_same_answer(client: openai.AsyncOpenAI) -> None:
    first = await client.responses.create(model="m", input="hi")
    assert first == await client.responses.create(model="m", input="hi")
    assert first.id != (await client.responses.create(model="m", input="ho")).id


async def test_a_function_is_called_once_and_then_answered_in_words(client: openai.AsyncOpenAI) -> None:
    first = await client.responses.create(model="m", input="hi", tools=[TOOL])
    call = first.output[0]
    assert isinstance(call, ResponseFunctionToolCall)
    assert (call.name, call.arguments) == ("look", '{"at":"sample","often":1}')
    output: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "seen"}]
    second = await client.responses.create(model="m", input=output, previous_response_id=first.id, tools=[TOOL])
    assert second.output_text.startswith("The tool has answered")


async def test_an_unknown_conversation_is_refused(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="not found"):
        await client.responses.create(model="m", input="hi", previous_response_id="resp_nobody")


def test_our_adapter_reads_what_is_composed() -> None:
    items: list[Item] = [
        Summary(pieces=["Think", "ing."]),
        Text(pieces=words("All in words.")),
        FunctionCall(name="f", pieces=cut("{}", 1)),
    ]
    adapter = WIRES["responses"](stamp=Stamp())
    events = [event for wire in compose({"input": "hi"}, items) for event in adapter.feed(sse(wire))]
    assert adapter.ended
    assert isinstance(events[-1], TurnCompleted)
    text = "".join(event.text for event in events if isinstance(event, TextDelta) and event.track == "text")
    assert text == "All in words."
    assert not any("defects" in (event.wire or {}) for event in events if hasattr(event, "wire"))


@pytest.mark.parametrize("pieces", [1, 3, 100])
def test_cutting_loses_nothing(pieces: int) -> None:
    assert "".join(cut("some text", pieces)) == "some text"
    assert all(cut("some text", pieces))
    assert "".join(words(" a  b c ")) == " a  b c "
