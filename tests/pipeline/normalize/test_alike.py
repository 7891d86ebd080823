"""Frames that differ from the one before in their text alone: whatever lies between them, the events are as if each was read whole."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.events import Event, TextDelta
from pipeline.normalize import framed
from pipeline.normalize.alike import alike
from pipeline.normalize.slots import Slot
from tests.pipeline.normalize import chat_streams as chat
from tests.pipeline.normalize import messages_streams as messages

Json = dict[str, Any]
EVENT = TextDelta(seq=0, at=0, item=0, content=0, track="text", text="word ")
SLOT = Slot(0, 0, "text")

_CHUNK = chat.chunk
CHAT: list[Json | str] = [
    *(chat.text(words) for words in ("a", "b", '"', "é", "")),
    chat.text("c") | {"usage": {"total_tokens": 1}},
    chat.text("d") | {"model": "n"},
    chat.text("m"),
    _CHUNK({"role": "assistant", "content": ""}),
    _CHUNK({"content": "e", "refusal": "no"}),
    _CHUNK({"refusal": "no"}),
    _CHUNK({"refusal": "nono"}),
    _CHUNK({"reasoning": "r"}),
    _CHUNK({"reasoning": "s"}),
    _CHUNK({"reasoning_content": "t", "reasoning": "t"}),
    _CHUNK({"reasoning_content": "tt", "reasoning": "tt"}),
    _CHUNK({"reasoning_content": "u", "reasoning": "v"}),
    *(_CHUNK({"reasoning": words, "channel": "analysis"}) for words in ("r", "s", "analysis")),
    *(_CHUNK({"reasoning": words, "reasoning_details": [{"text": "t", "type": "y"}]}) for words in ("r", "s", "t")),
    *(_CHUNK({"content": words, "copy": words}) for words in ("o", "oo")),
    *(_CHUNK({"content": words}, choice={"logprobs": {"content": [{"token": "p"}]}}) for words in ("p", "q")),
    _CHUNK({"refusal": "p"}, choice={"logprobs": {"refusal": [{"token": "p"}]}}),
    _CHUNK({"content": [{"type": "text", "text": "part"}]}),
    _CHUNK({"content": "f"}, finish="stop"),
    _CHUNK({"content": "g"}, choice={"index": 1}),
    _CHUNK({"content": "h"}, choice={"message": {"content": "ah"}}),
    _CHUNK({}, choice={"delta": None, "message": {"content": "whole"}}),
    _CHUNK({"function_call": {"name": "f", "arguments": "{"}}),
    {"id": "c", "choices": [{"index": 0, "delta": {"content": "i"}}, {"index": 1, "delta": {"content": "j"}}]},
    {"id": "c", "choices": [{"index": 1, "delta": {"content": "i"}}, {"index": 0, "delta": {"content": "j"}}]},
    {"id": "c", "choices": [None, {"index": 0, "delta": {"content": "k"}}]},
    {"id": "c", "choices": []},
    chat.tool(0, "k1", "f", ""),
    chat.tool(0, "k1", "f", "{}"),
    chat.tool(0, None, "f", "{}"),
    *(chat.tool(0, None, None, piece) for piece in ('{"', "{}", "}")),
    chat.tool(1, "k2", "g"),
    chat.tool(1, None, None, "[1"),
    chat.tool(None, None, None, "]"),
    _CHUNK(
        {"tool_calls": [{"index": 0, "function": {"arguments": "1"}}, {"index": 1, "function": {"arguments": "2"}}]}
    ),
    "[1",
    '{"id": "c", "choices": [{"index": 0, "delta": {"content": "\\u0061"}}]}',
]
MESSAGES: list[Json | str] = [
    messages.start(),
    messages.block(0, "text", text=""),
    messages.block(0, "text", text="begun"),
    messages.block(1, "tool_use", id="t", name="f", input={}),
    messages.block(2, "thinking", thinking=""),
    *(messages.delta(0, "text_delta", text=words) for words in ("a", "b", "text_delta", "")),
    messages.delta(0, "text_delta", text="c", more=1),
    messages.delta(None, "text_delta", text="d"),
    *(messages.delta(1, "input_json_delta", partial_json=piece) for piece in ("{", "}")),
    *(messages.delta(2, "thinking_delta", thinking=words) for words in ("x", "y")),
    messages.delta(2, "signature_delta", signature="s"),
    messages.delta(0, "thinking_delta", thinking="z"),
    messages.stop(0),
    messages.stop(1),
    {"type": "ping"},
    {"content_block": 1, **messages.delta(0, "text_delta", text="e")},
    *(messages.delta(0, "text_delta", text=words, mood="glad") for words in ("f", "g", "glad")),
    *(
        f'{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{text}{pad}'
        for text, pad in (
            ('"h i"', "}   }"),
            ('"} j"', "}}  "),
            ('"k"', '},"x": 1 }'),
            ('"l"', '},"x":  1}'),
            ('"m', " }}"),
        )
    ),
    "{",
]


def _same(run: Callable[[bytes], list[Event]], data: bytes) -> None:
    told = run(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framed, "alike", lambda *_: None)  # no frame is alike
        assert told == run(data)


@given(st.lists(st.sampled_from(CHAT), max_size=20))
@example([chat.text("a"), chat.text("a"), chat.text("b"), _CHUNK({"content": "f"}, finish="stop"), chat.text("b")])
@example([_CHUNK({"reasoning": words, "reasoning_details": [{"text": "t"}]}) for words in "rst"])
def test_chunks_that_are_alike_are_told_as_if_each_was_read(frames: Sequence[Json | str]) -> None:
    _same(chat.run, chat.body(*[one for frame in frames for one in (frame, frame)], chat.STOP, chat.DONE))


@given(st.lists(st.sampled_from(MESSAGES), max_size=20))
def test_deltas_that_are_alike_are_told_as_if_each_was_read(frames: Sequence[Json | str]) -> None:
    doubled = [one for frame in frames for one in (frame, frame)]
    data = messages.body(messages.start(), messages.block(0, "text", text=""), *doubled, messages.end(), messages.STOP)
    _same(messages.run, data)


def _of(frame: Json, _: TextDelta) -> list[object]:
    return [frame[name] for name in ("text", "twin") if name in frame]


@pytest.mark.parametrize(
    "data",
    [
        b'{"text":"other"}',
        b'{"text":"word ","copy":"word "}',
        b'{"copy":"word ","text":"word\\u0020"}',
        b'{"text":"word ","text":"word\\u0020"}',
        b'{"text":"word "',
    ],
)
def test_where_the_text_stands_must_be_certain(data: bytes) -> None:
    assert alike(data, "", EVENT, SLOT, _of) is None


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"a":1,"text":"x","b":2}', "x"),
        (b'{"a":1,"text": "\\u00e9" ,"b":2}', "é"),
        (b'{"a":1,"text":"","b":2}', None),
        (b'{"a":1,"text":null,"b":2}', None),
        (b'{"a":1,"text":"x","text":"y","b":2}', None),
        (b'{"a":1,"text":"\xff","b":2}', None),
        (b'{"a":1,"text":"\\ud800","b":2}', None),
        (b'{"a":2,"text":"x","b":2}', None),
        (b'{"a":1,"text":"x","b":3}', None),
        (b'{"a":1,"text":,"b":2}', None),
        (b'{"a":1,"text":"b":2}', None),
        (b'{"a":1,"text":"x","b": 2}', None),
    ],
)
def test_only_the_text_may_differ(data: bytes, text: str | None) -> None:
    known = alike(b'{"a":1,"text":"word ","b":2}', "", EVENT, SLOT, _of)
    assert known is not None
    assert known.text_in(data) == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"a":{"text":"x"}}', "x"),
        (b'{"a":{"text":"x"}    }', "x"),
        (b'{"a":{"text":" x "  } } ', " x "),
        (b'{"a":{"text":"x"},}', None),
        (b'{"a":{"text":}}', None),
        (b'{"a":{"text":"x"}', None),
    ],
)
def test_frames_may_be_padded_behind_the_text(data: bytes, text: str | None) -> None:
    known = alike(b'{"a":{"text":"word "}  }', "", EVENT, SLOT, lambda frame, _: [frame["a"]["text"]])
    assert known is not None
    assert known.text_in(data) == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"text":"x","twin":"x"}', "x"),
        (b'{"text":"\\u00e9","twin":"\\u00e9"}', "é"),
        (b'{"text":"x","twin":"\\u0078"}', None),
        (b'{"text":"x","twin":"y"}', None),
        (b'{"text":"x","twin":"xx"}', None),
        (b'{"text":"x"}', None),
    ],
)
def test_a_text_that_is_written_twice_is_one(data: bytes, text: str | None) -> None:
    known = alike(b'{"text":"word ","twin":"word "}', "", EVENT, SLOT, _of)
    assert known is not None
    assert known.text_in(data) == text


def test_what_is_told_beside_a_text_is_taken_for_the_same_once_two_texts_had_it() -> None:
    chunks = [_CHUNK({"reasoning": words, "channel": "analysis"}) for words in "efgh"]
    wires = [event.wire for event in chat.run(chat.body(*chunks)) if isinstance(event, TextDelta)]
    assert wires == [{"delta": {"channel": "analysis"}}] * 4
    assert wires[2] is wires[3]
