"""How turns of every wire fail, from an upstream's fault to what the client is told: by name, in the upstream's words, nothing lost."""

import asyncio
import sys
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.contract.speakers import SPEAKERS, Say, Step, Use
from tests.fleet.wired import told, wired
from tests.pipeline.normalize import chat_streams as chat
from tests.pipeline.normalize import gemini_streams as gemini
from tests.pipeline.normalize import messages_streams as messages
from tests.pipeline.normalize import streams as responses
from tests.support import acp_agent
from tests.support.upstream import Answerer, Ending, Upstream, error, html, json_body, raw
from workers.config import LimitsConfig, UpstreamConfig

STALL_MS = 2_000
SILENT_MS = 3_000
READY_MS = 60_000  # a loaded machine takes long to start an interpreter
PIECES = ("Half ", "a sen")
SAID = "".join(PIECES)
STEPS: list[Step] = [Say(("Let me see. ",)), Use("look", {"at": "sea"}), Say(PIECES, is_open=True)]
TOLD = "Let me see. " + SAID
CUT = '{"city": "Os'
HTTP = [wire for wire in SPEAKERS if wire not in {"acp", "canonical"}]


@dataclass(frozen=True)
class Case:
    """A fault and what becomes of it."""

    name: str
    answers: tuple[Answerer, ...]
    end: str
    message: str = ""
    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    asked: int = 1
    retries: int = 0


def cut(wire: str, ending: Ending) -> Answerer:
    """The half of an answer, and then this."""
    return raw(*SPEAKERS[wire](STEPS, "cut"), ending=ending)


def busy(wait_s: str) -> Answerer:
    return error(429, "rate_limit_exceeded", "Slow down.", retry_after=wait_s)


def everywhere(wire: str) -> Iterable[Case]:
    """The faults that every wire over HTTP can have."""
    whole = SPEAKERS[wire]([Say(("All ", "well."))], "completed")
    failed = raw(*SPEAKERS[wire](STEPS, "failed"))
    for case in (
        Case("stall", (cut(wire, "stall"),), "failed upstream_stalled", f"nothing for {STALL_MS} ms"),
        Case("reset", (cut(wire, "reset"),), "failed upstream_truncated", "closed the connection"),
        Case("cut", (cut(wire, "cut"),), "failed upstream_truncated", "closed the connection"),
        Case("end", (cut(wire, "close"),), "failed upstream_truncated"),
        Case("error", (failed,), f"failed {'500' if wire == 'gemini' else 'server_error'}", "no"),
    ):
        yield replace(case, text=TOLD, calls=(("look", CALLED[wire], "completed"),))
    calm, slow = "failed upstream_rate_limited", "Slow down."
    yield Case(
        "storm that passes", (*[busy("0.01")] * 2, raw(*whole)), "completed", text="All well.", asked=3, retries=3
    )
    yield Case("storm", (busy("0.01"),), calm, slow, asked=4, retries=3)
    yield Case("wait for a day", (busy("86400"),), calm, slow, retries=3)
    told = json_body({"error": {"code": "broken", "type": "t", "message": "It broke."}})
    yield Case("an error in place of a stream", (told,), "failed broken", "It broke.")
    page = html(200, "Come back later")
    yield Case("a page in place of a stream", (page,), "failed upstream_bad_response", "Come back later")
    yield Case("reset after the end", (raw(*whole, ending="reset"),), "completed", text="All well.")


CALLED = {wire: '{"at":"sea"}' if wire == "gemini" else '{"at": "sea"}' for wire in HTTP}
OPENED = [chat.text("Well. "), chat.tool(0, "c1", "weather", CUT)]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
BROKEN = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
CALL = responses.call("f1", "c1") | {"name": "weather"}
TOOL = messages.block(1, "tool_use", id="c1", name="weather", input={})

OWN: dict[str, list[Case]] = {
    "chat": [
        Case(
            "arguments cut by the limit",
            (raw(chat.body(*OPENED, chat.chunk(finish="length"), chat.DONE)),),
            "incomplete max_output_tokens",
            text="Well. ",
            calls=(("weather", CUT, "incomplete"),),
        ),
        Case(
            "error beside choices",
            (
                raw(
                    chat.body(
                        chat.text(SAID), chat.chunk(finish="error", error={"code": 502, "message": "Provider gone"})
                    )
                ),
            ),
            "failed 502",
            "Provider gone",
            SAID,
        ),
        Case(
            "event: error",
            (
                raw(
                    chat.body(chat.text(SAID)),
                    b'event: error\ndata: {"error":{"message":"No such tool","code":"tool_use_failed"}}\n\n',
                ),
            ),
            "failed tool_use_failed",
            "No such tool",
            SAID,
        ),
        Case(
            "done in every chunk, then cut",
            (raw(chat.body(*(chat.chunk({"content": one}, finish="stop") for one in PIECES)), ending="cut"),),
            "failed upstream_truncated",
            "closed the connection",
            SAID,
        ),
    ],
    "messages": [
        Case(
            "arguments cut by the limit",
            (
                raw(
                    messages.body(
                        messages.start(),
                        *messages.text(0, "Well. "),
                        TOOL,
                        messages.delta(1, "input_json_delta", partial_json=CUT),
                        messages.end("max_tokens"),
                        messages.STOP,
                    )
                ),
            ),
            "incomplete max_output_tokens",
            text="Well. ",
            calls=(("weather", CUT, "incomplete"),),
        ),
        Case(
            "overloaded in the stream",
            (raw(messages.body(messages.start(), *messages.text(0, SAID), OVERLOADED)),),
            "failed overloaded_error",
            "Overloaded",
            SAID,
        ),
        Case("overloaded at once", (raw(messages.body(OVERLOADED)),), "failed overloaded_error", "Overloaded"),
        Case(
            "529",
            (json_body(OVERLOADED, status=529),),
            "failed upstream_server_error",
            "Overloaded",
            asked=3,
            retries=2,
        ),
        Case(
            "refusal within the text",
            (raw(messages.body(messages.start(), *messages.text(0, SAID), messages.end("refusal"), messages.STOP)),),
            "incomplete content_filter",
            text=SAID,
        ),
    ],
    "gemini": [
        Case(
            "arguments cut",
            (
                raw(
                    gemini.body(
                        gemini.chunk({"text": "Well. "}),
                        gemini.chunk(gemini.call("weather", willContinue=True)),
                        gemini.chunk(
                            gemini.call(
                                partialArgs=[{"jsonPath": "$.city", "stringValue": "Os", "willContinue": True}],
                                willContinue=True,
                            )
                        ),
                        gemini.chunk(finish="MAX_TOKENS"),
                    )
                ),
            ),
            "incomplete max_output_tokens",
            text="Well. ",
            calls=(("weather", '{"city":"Os"}', "incomplete"),),
        ),
        Case(
            "stopped for safety",
            (raw(gemini.body(gemini.chunk({"text": SAID}), gemini.chunk(finish="SAFETY"))),),
            "incomplete content_filter",
            text=SAID,
        ),
        Case(
            "a prompt that is blocked",
            (raw(gemini.body({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})),),
            "incomplete content_filter",
        ),
        Case(
            "a call that is no call",
            (raw(gemini.body(gemini.chunk({"text": SAID}), gemini.chunk(finish="MALFORMED_FUNCTION_CALL"))),),
            "failed malformed_function_call",
            text=SAID,
        ),
        Case(
            "an error in bare lines",
            (
                raw(
                    gemini.body(gemini.chunk({"text": SAID})),
                    b'{\n "error": {\n  "code": 503,\n  "message": "Gone",\n  "status": "UNAVAILABLE"\n }\n}\n',
                ),
            ),
            "failed 503",
            "Gone",
            SAID,
        ),
        Case("503", (json_body(BROKEN, status=503),), "failed upstream_server_error", "overloaded", asked=3, retries=2),
        Case(
            "done in every chunk, then cut",
            (raw(gemini.body(*(gemini.chunk({"text": one}, finish="STOP") for one in PIECES)), ending="cut"),),
            "failed upstream_truncated",
            "closed the connection",
            SAID,
        ),
    ],
    "responses": [
        Case(
            "arguments cut",
            (
                raw(
                    responses.body(responses.CREATED),
                    responses.body(responses.added(CALL, 0)),
                    responses.body(responses.arguments(CUT, 0, "f1")),
                    ending="cut",
                ),
            ),
            "failed upstream_truncated",
            "closed the connection",
            calls=(("weather", CUT, "incomplete"),),
        ),
        Case(
            "an error and then a failure",
            (
                raw(
                    responses.body(responses.CREATED),
                    responses.body(
                        {"type": "error", "error": {"type": "t", "code": "server_error", "message": "Sorry."}}
                    ),
                    responses.body(
                        {
                            "type": "response.failed",
                            "response": {
                                "id": "r",
                                "status": "failed",
                                "error": {"code": "server_error", "message": "Sorry."},
                            },
                        }
                    ),
                ),
            ),
            "failed server_error",
            "Sorry.",
        ),
    ],
}


@pytest.mark.parametrize("wire", HTTP)
async def test_a_fault_of_an_upstream_ends_its_turn_by_name_and_costs_nothing_before_it(
    redis_url: str, wire: str
) -> None:
    cases = [*everywhere(wire), *OWN[wire]]
    async with AsyncExitStack() as stack:
        served = [await stack.enter_async_context(Upstream(*case.answers)) for case in cases]
        config = {
            f"u{number}": configured(upstream, wire=wire, connect_retries=case.retries)
            for number, (case, upstream) in enumerate(zip(cases, served, strict=True))
        }
        client = await stack.enter_async_context(wired(redis_url, config))
        found = await asyncio.gather(*(told(client, f"u{number}/m") for number in range(len(cases))))
    for case, turn, upstream in zip(cases, found, served, strict=True):
        seen = (case.name, turn.end, turn.text, tuple(turn.calls), len(upstream.received))
        assert seen == (case.name, case.end, case.text, case.calls, case.asked)
        assert case.message in turn.message, case.name


def configured(upstream: Upstream, **settings: Any) -> UpstreamConfig:
    return UpstreamConfig(**{"base_url": upstream.base_url, "read_timeout_ms": STALL_MS, **settings})


async def test_an_upstream_that_only_keeps_its_connection_ends_its_turn_by_name_and_is_left(redis_url: str) -> None:
    words = chat.body(*map(chat.text, PIECES))
    async with Upstream(raw(words, ending="comments")) as upstream:
        limits = LimitsConfig(silence_ms=SILENT_MS)
        async with wired(redis_url, {"u": configured(upstream, wire="chat")}, limits) as client:
            turn = await told(client, "u/m")
            await upstream.left()
    assert (turn.end, turn.text) == ("failed silent", SAID)
    assert "Nothing was heard" in turn.message


AGENT = Path(acp_agent.__file__)
AGENTS = [
    Case("crash", (), "failed upstream_truncated", text="Half a sen"),
    Case(
        "fail", (), "failed -32603", "the stream was disconnected", "Half a sen", (("Work", '{"n":1}', "incomplete"),)
    ),
    Case("stubborn", (), "failed upstream_stalled", f"nothing for {SILENT_MS} ms", "Going on."),
    Case("leave", (), "completed", text="Well. ", calls=(("Work", '{"n":1}', "incomplete"),)),
    Case("limit", (), "incomplete max_output_tokens", text="Half a sen"),
]


async def test_a_fault_of_an_agent_ends_its_turn_by_name_and_costs_nothing_before_it(
    redis_url: str, tmp_path: Path
) -> None:
    config = UpstreamConfig(
        wire="acp",
        command=[sys.executable, str(AGENT)],
        cwd=str(tmp_path),
        connect_timeout_ms=READY_MS,
        read_timeout_ms=SILENT_MS,
    )
    async with wired(redis_url, {"agent": config}) as client:
        found = await asyncio.gather(*(told(client, "agent/m", input=case.name) for case in AGENTS))
    for case, turn in zip(AGENTS, found, strict=True):
        seen = (case.name, turn.end, turn.text, tuple(turn.calls))
        assert seen == (case.name, case.end, case.text, case.calls)
        assert case.message in turn.message, case.name
