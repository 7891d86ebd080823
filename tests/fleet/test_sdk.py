"""The official OpenAI SDK in front of a whole fleet: gateway, ingest and fold in this process, a real server, a gated upstream."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from scripts.responses_stream import FunctionCall, Summary, Text
from tests.fleet.wired import wired
from tests.support.contents import contents, mentioning
from tests.support.servers import Server
from tests.support.upstream import Upstream, conversation, error, items
from tests.support.waiting import wait_until
from workers.config import UpstreamConfig

OUTPUT = (
    Summary(pieces=("First ", "think.")),
    Text(pieces=("Rivers ", "run ", "to ", "the ", "sea.")),
    FunctionCall(name="measure", pieces=('{"depth":', "12}")),
)


def fleet(redis_url: str, upstream: Upstream) -> AbstractAsyncContextManager[AsyncOpenAI]:
    """The three roles before one upstream, and a client of the gateway."""
    return wired(redis_url, {"sample": UpstreamConfig(base_url=upstream.base_url, connect_retries=0)})


async def read(stream: Any, count: int | None = None) -> list[dict[str, Any]]:
    """Read so many events, or all, as the SDK hands them out."""
    events: list[dict[str, Any]] = []
    async for event in stream:
        events.append(event.to_dict())
        if len(events) == count:
            break
    await stream.close()
    return events


async def test_a_connection_dropped_at_any_event_is_taken_up_again_without_a_difference(redis_url: str) -> None:
    async with Upstream(items(*OUTPUT)) as upstream, fleet(redis_url, upstream) as client:
        undisturbed = await read(await client.responses.create(model="sample-1", input="Hello.", stream=True))
        numbers = list(range(len(undisturbed)))
        assert [event["sequence_number"] for event in undisturbed] == numbers
        for dropped in numbers:
            # The upstream stands before its last event, so that the turn is unfinished when the connection goes.
            upstream.pause_before(numbers[-1])
            if dropped == numbers[-1]:
                upstream.release()
            stream = await client.responses.create(model="sample-1", input="Hello.", stream=True)
            before = await read(stream, dropped + 1)
            upstream.release()
            ident = before[0]["response"]["id"]
            after = await read(await client.responses.retrieve(ident, stream=True, starting_after=dropped))
            whole = await read(await client.responses.retrieve(ident, stream=True))
            assert before + after == whole
            assert [event["sequence_number"] for event in whole] == numbers
            assert [event["type"] for event in whole] == [event["type"] for event in undisturbed]


async def test_the_strict_accumulator_of_the_sdk_accepts_the_stream(redis_url: str) -> None:
    async with Upstream(items(*OUTPUT)) as upstream, fleet(redis_url, upstream) as client:
        async with client.responses.stream(model="sample-1", input="Hello.") as stream:
            async for _ in stream:
                pass
            final = await stream.get_final_response()
        assert final.output_text == "Rivers run to the sea."
        assert [item.type for item in final.output] == ["reasoning", "message", "function_call"]
        polled = await client.responses.retrieve(final.id)
        assert polled.output_text == final.output_text
        assert (polled.status, polled.usage) == ("completed", final.usage)


async def test_a_conversation_of_two_turns_with_a_function_call(redis_url: str) -> None:
    answer = conversation("get_weather", '{"city":"Bremen"}', "It rains in Bremen.")
    tools: Any = [
        {"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": None, "description": ""}
    ]
    async with Upstream(answer) as upstream, fleet(redis_url, upstream) as client:
        first = await client.responses.create(model="sample-1", input="Weather?", tools=tools)
        (call,) = first.output
        assert call.type == "function_call"
        assert (call.name, call.arguments) == ("get_weather", '{"city":"Bremen"}')
        outputs: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"}]
        second = await client.responses.create(
            model="sample-1", input=outputs, tools=tools, previous_response_id=first.id
        )
        assert second.output_text == "It rains in Bremen."
        assert second.previous_response_id == first.id
        sent = [received.body.get("previous_response_id") for received in upstream.received]
        assert sent[0] is None
        assert sent[1] not in (None, first.id), "the upstream hears its own id"
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="sample-1", input="x", previous_response_id="resp_unknown")


async def test_what_was_asked_goes_with_the_turns_end_and_the_conversation_goes_on(
    redis_server: Server, redis_url: str
) -> None:
    async with Upstream(items(*OUTPUT)) as upstream, fleet(redis_url, upstream) as client:
        upstream.pause_before(5)
        asking = asyncio.ensure_future(client.responses.create(model="sample-1", input="Where does the Lethe rise?"))
        await upstream.reached(5)
        assert {key.split(":")[2] for key in mentioning(contents(redis_server), "Lethe")} == {"turn"}
        upstream.release()
        first = await asking
        assert mentioning(contents(redis_server), "Lethe") == set()
        second = await client.responses.create(model="sample-1", input="And the Styx?", previous_response_id=first.id)
        assert second.output_text == first.output_text
        said = [received.body["input"] for received in upstream.received]
        assert said == ["Where does the Lethe rise?", "And the Styx?"]
        assert upstream.received[1].body["previous_response_id"] not in (None, first.id)
        assert mentioning(contents(redis_server), "Styx") == set()
        assert mentioning(contents(redis_server), "Rivers"), "what was answered is kept"


async def test_a_background_turn_is_polled_and_a_running_one_cancelled(redis_url: str) -> None:
    async with Upstream(items(*OUTPUT)) as upstream, fleet(redis_url, upstream) as client:
        response = await client.responses.create(model="sample-1", input="Hello.", background=True)
        assert response.status == "queued"

        async def completed() -> bool:
            return (await client.responses.retrieve(response.id)).status == "completed"

        await wait_until(completed, "the background turn ends")
        upstream.pause_before(6)
        response = await client.responses.create(model="sample-1", input="Hello.", background=True)
        await upstream.reached(6)
        cancelled = await client.responses.cancel(response.id)
        assert cancelled.status == "cancelled"
        assert (await client.responses.retrieve(response.id)).status == "cancelled"
        events = await read(await client.responses.retrieve(response.id, stream=True))
        assert events[-1]["type"] == "response.incomplete"
        assert events[-1]["response"]["incomplete_details"] == {"reason": "cancelled"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, openai.AuthenticationError),
        (429, openai.RateLimitError),
        (400, openai.BadRequestError),
        (500, openai.InternalServerError),
    ],
)
async def test_an_upstreams_refusal_reaches_a_waiting_client_as_its_own_error(
    redis_url: str, status: int, kind: type[openai.APIStatusError]
) -> None:
    async with (
        Upstream(error(status, "their_code", "in their words")) as upstream,
        fleet(redis_url, upstream) as client,
    ):
        with pytest.raises(kind, match="in their words"):
            await client.responses.create(model="sample-1", input="Hello.")
        events = await read(await client.responses.create(model="sample-1", input="Hello.", stream=True))
        assert [event["type"] for event in events] == ["response.created", "response.failed"]
