"""Strict decoding of wires without response objects: a conforming stream is accepted, the first breach refused by its name."""

from pathlib import Path

import pytest

from pipeline.errors import WireError
from pipeline.turn import Validation, decode

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.mark.parametrize(
    "name",
    ["chat/text-two-calls", "chat/refusal", "chat/failed", "messages/thinking-calls", "messages/server-tools", "messages/failed", "messages/rounds"],
)  # fmt: skip
def test_a_conforming_stream_is_accepted(name: str) -> None:
    data = (GOLDEN / f"{name}.sse").read_bytes()
    assert (
        decode([data], name.partition("/")[0], Validation.STRICT).frames
        == decode([data], name.partition("/")[0]).frames
    )


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("chat/habits", "member_missing"),
        ("chat/cut", "terminal_missing"),
        ("chat/whole-answer", "not_a_stream"),
        ("messages/habits", "member_missing"),
        ("messages/whole-answer", "not_a_stream"),
    ],
)
def test_a_breach_is_refused_by_its_name(name: str, code: str) -> None:
    with pytest.raises(WireError) as refused:
        decode([(GOLDEN / f"{name}.sse").read_bytes()], name.partition("/")[0], Validation.STRICT)
    assert refused.value.diagnostic.code == code


@pytest.mark.parametrize(
    ("wire", "body", "code"),
    [
        ("chat", b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"A"}}]}\n\ndata: [DONE]\n\n', "finish_missing"),
        ("chat", b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n', "terminal_missing"),
        ("chat", b"data: gibberish\n\n", "frame_malformed"),
        ("messages", b'data: {"type":"content_block_stop","index":3}\n\n', "message_start_missing"),
    ],
)  # fmt: skip
def test_what_is_tolerated_otherwise_is_a_breach(wire: str, body: bytes, code: str) -> None:
    with pytest.raises(WireError) as refused:
        decode([body], wire, Validation.STRICT)
    assert refused.value.diagnostic.code == code
