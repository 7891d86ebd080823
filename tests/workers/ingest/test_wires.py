"""Turns of upstreams that speak another wire: asked in their own form, read in their own form, ended by their own rules."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.events import TurnCompleted, TurnFailed
from tests.support.upstream import Upstream, error, raw
from tests.workers.ingest.rig import Rig, config_for, text_of

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream() as server:
        yield server


@pytest.mark.parametrize(
    ("wire", "stream", "path", "said"),
    [
        ("chat", "text-two-calls", "/v1/chat/completions", "The harbour first. 🚢 Then the é-mails.\n\n"),
        ("messages", "thinking-calls", "/v1/messages", "I ask for the tide. 🌊"),
    ],
)
async def test_a_turn_of_another_wire(
    redis_url: str, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, wire: str, stream: str, path: str, said: str
) -> None:
    monkeypatch.setenv("TEST_UPSTREAM_KEY", "sk-very-secret")
    data = (GOLDEN / wire / f"{stream}.sse").read_bytes()
    upstream.then(raw(*(data[at : at + 50] for at in range(0, len(data), 50))))
    async with Rig(
        config_for(redis_url, upstream.base_url, wire=wire, path="", api_key_env="TEST_UPSTREAM_KEY")
    ) as rig:
        turn = await rig.submit({"model": "m", "input": "hi", "max_output_tokens": 9})
        rig.start()
        assert isinstance(await rig.ended(turn), TurnCompleted)
        assert text_of(await rig.events(turn)) == said
    (received,) = upstream.received
    assert (received.path, received.body["max_tokens"], received.body["stream"]) == (path, 9, True)
    assert "sk-very-secret" in str(dict(received.headers))


@pytest.mark.parametrize(
    ("request_", "answer", "code"),
    [
        ({"input": "hi", "max_tool_calls": 1}, raw(b""), "upstream_request_unsupported"),
        ({"input": "hi"}, error(429, "rate_limit_exceeded", "slow down"), "upstream_rate_limited"),
        ({"input": "hi"}, raw(b"data: {}\n\n", ending="reset"), "upstream_truncated"),
        ({"input": "hi"}, raw(b""), "empty_stream"),
    ],
)
async def test_how_a_turn_of_another_wire_fails(
    redis_url: str, upstream: Upstream, request_: dict[str, Any], answer: Any, code: str
) -> None:
    upstream.then(answer)
    async with Rig(config_for(redis_url, upstream.base_url, wire="chat", connect_retries=0)) as rig:
        turn = await rig.submit(request_)
        rig.start()
        last = await rig.ended(turn)
        assert isinstance(last, TurnFailed)
        assert last.error.code == code
