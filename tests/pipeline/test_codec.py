"""Events to JSON and back; what is no event is refused with where and why."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.codec import _classify, decode, decode_batch, encode, encode_batch
from pipeline.errors import Diagnostic, EventRefused
from pipeline.events import (
    BlockFinal,
    ErrorInfo,
    Event,
    Status,
    Target,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)

EXAMPLES: list[Event] = [
    TurnStarted(
        seq=0,
        at=1,
        fold=1,
        runtime="subagent",
        wire="responses",
        turn="3-abc",
        session="s",
        parent="3-def",
        upstream="main",
        model="m",
        settings={"block_chars": 2000},
        targets=[Target(channel="webhook", name="ops", recipient="r")],
        tools={"search": "gateway"},
        limits={"turn_items": 10},
        round=1,
        response={"metadata": {"a": "b"}},
    ),
    TextDelta(seq=1, at=2, item=0, content=3, track="text", text="line\nline \u2028 é😀", wire={"logprobs": []}),
    BlockFinal(seq=2, at=2, item=0, content=3, track="summary", text=""),
    ToolStarted(seq=3, at=2, item=1, call_id="c", name="f", kind="function"),
    ToolFinished(seq=4, at=2, item=1, call_id="c", status="completed", input="{}", output={"a": [1, None]}),
    Status(seq=5, at=2, name="unknown", item=1, content=0, detail=[1.5], wire={"type": "x", "n": {"m": True}}),
    TurnCompleted(seq=6, at=3, outcome="incomplete", usage={"total_tokens": 3}, incomplete_details={"reason": "r"}),
    TurnFailed(seq=6, at=3, error=ErrorInfo(code="c", message="m", type="t", param="p")),
    TurnCancelled(seq=6, at=3, reason="asked"),
]

DELTA: dict[str, Any] = {
    "type": "text_delta",
    "seq": 7,
    "at": 2,
    "item": 0,
    "content": 0,
    "track": "text",
    "text": "hi",
}
STARTED: dict[str, Any] = {
    "type": "turn_started",
    "seq": 0,
    "at": 1,
    "contract": 1,
    "fold": 1,
    "runtime": "main",
    "wire": "responses",
    "turn": "t-1",
    "session": "s",
}


def without(event: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in names}


def refusal(data: bytes | str | dict[str, Any] | list[Any]) -> Diagnostic:
    with pytest.raises(EventRefused) as refused:
        decode(data if isinstance(data, bytes | str) else json.dumps(data), turn="t-9", producer="ingest")
    return refused.value.diagnostic


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    assert decode(encode(event)) == event
    assert decode(encode(event).decode()) == event
    assert b"\n" not in encode(event)


def test_a_batch_comes_back_as_it_was_one_event_in_a_line() -> None:
    batch = encode_batch(EXAMPLES)
    assert decode_batch(batch) == EXAMPLES
    assert json.loads(batch)
    lines = batch[1:-1].split(",\n")
    assert [decode(line) for line in lines] == EXAMPLES
    assert encode(EXAMPLES[1]).decode() in batch
    assert decode_batch(encode_batch([])) == []


@given(st.text(), st.dictionaries(st.text(), st.text() | st.integers(-(2**63), 2**64 - 1) | st.none(), max_size=3))
def test_any_text_comes_back(text: str, wire: dict[str, Any]) -> None:
    event = TextDelta(seq=1, at=2, item=0, content=0, track="text", text=text, wire=wire)
    assert decode(encode(event)) == event


def one_of(words: str) -> str:
    return " | ".join(words.split())


TYPES = one_of(
    "turn_started text_delta block_final tool_started tool_finished status turn_completed turn_failed turn_cancelled"
)

MALFORMED: dict[str, tuple[Any, str, str, str, str, int | None]] = {
    "nothing": (b"", "json_malformed", "$", "JSON", "", None),
    "cut": (b'{"type":"status"', "json_malformed", "$", "JSON", '{"type":"status"', None),
    "trailing text": (b"{} {}", "json_malformed", "$", "JSON", "{} {}", None),
    "invalid utf-8": (b'{"type":"\xff"}', "json_malformed", "$", "JSON", '{"type":"\ufffd"}', None),
    "byte order mark": (b"\xef\xbb\xbf{}", "json_malformed", "$", "JSON", "\ufeff{}", None),
    "half a pair": (b'{"type":"\\ud800"}', "json_malformed", "$", "JSON", '{"type":"\\ud800"}', None),
    "no finite number": (b'{"type":"status","seq":1e999}', "json_malformed", "$", "JSON", "", None),
    "list": ([], "wrong_type", "$", "object", "[]", None),
    "null": (b"null", "wrong_type", "$", "object", "null", None),
    "text": (b'"status"', "wrong_type", "$", "object", '"status"', None),
    "no type": (without(DELTA, "type"), "type_missing", "$.type", TYPES, "nothing", 7),
    "unknown type": (DELTA | {"type": "text"}, "type_unknown", "$.type", TYPES, '"text"', 7),
    "type of a number": (DELTA | {"type": 5}, "wrong_type", "$.type", "str", "5", 7),
    "missing member": (without(DELTA, "text"), "member_missing", "$.text", "a value", "nothing", 7),
    "missing seq": (without(DELTA, "seq"), "member_missing", "$.seq", "a value", "nothing", None),
    "missing at": (without(DELTA, "at"), "member_missing", "$.at", "a value", "nothing", 7),
    "unknown member": (DELTA | {"more": 1}, "member_unknown", "$.more", "no such member", "1", 7),
    "seq as text": (DELTA | {"seq": "7"}, "wrong_type", "$.seq", "int", '"7"', None),
    "seq as truth": (DELTA | {"seq": True}, "wrong_type", "$.seq", "int", "true", None),
    "seq as fraction": (DELTA | {"seq": 1.5}, "wrong_type", "$.seq", "int", "1.5", None),
    "seq null": (DELTA | {"seq": None}, "wrong_type", "$.seq", "int", "null", None),
    "seq below zero": (DELTA | {"seq": -1}, "value_out_of_range", "$.seq", "int >= 0", "-1", -1),
    "seq too great": (
        DELTA | {"seq": 2**53},
        "value_out_of_range",
        "$.seq",
        "int <= 9007199254740991",
        str(2**53),
        2**53,
    ),
    "item below zero": (DELTA | {"item": -1}, "value_out_of_range", "$.item", "int >= 0", "-1", 7),
    "unknown track": (
        DELTA | {"track": "voice"},
        "value_unknown",
        "$.track",
        one_of("text reasoning summary refusal tool_input"),
        '"voice"',
        7,
    ),
    "text null": (DELTA | {"text": None}, "wrong_type", "$.text", "str", "null", 7),
    "wire as list": (DELTA | {"wire": [1]}, "wrong_type", "$.wire", "object | null", "[1]", 7),
    "unknown runtime": (
        STARTED | {"runtime": "cron"},
        "value_unknown",
        "$.runtime",
        one_of("main subagent acp"),
        '"cron"',
        0,
    ),
    "unknown contract": (STARTED | {"contract": 2}, "contract_unknown", "$.contract", "1", "2", 0),
    "target without a name": (
        STARTED | {"targets": [{"channel": "console"}]},
        "member_missing",
        "$.targets[0].name",
        "a value",
        "nothing",
        0,
    ),
    "limit as text": (STARTED | {"limits": {"a": "b"}}, "wrong_type", "$.limits[...]", "int", '{"a":"b"}', 0),
    "unknown outcome": (
        {"type": "turn_completed", "seq": 3, "at": 1, "outcome": "ok"},
        "value_unknown",
        "$.outcome",
        one_of("completed incomplete"),
        '"ok"',
        3,
    ),
    "error without a code": (
        {"type": "turn_failed", "seq": 3, "at": 1, "error": {"message": "m"}},
        "member_missing",
        "$.error.code",
        "a value",
        "nothing",
        3,
    ),
    "unknown member of an error": (
        {"type": "turn_failed", "seq": 3, "at": 1, "error": {"code": "c", "status": 500}},
        "member_unknown",
        "$.error.status",
        "no such member",
        "500",
        3,
    ),
}


@pytest.mark.parametrize(("data", "code", "path", "expected", "found", "seq"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_event_is_refused_with_where_and_why(
    data: Any, code: str, path: str, expected: str, found: str, seq: int | None
) -> None:
    diagnostic = refusal(data)
    assert (diagnostic.code, diagnostic.path, diagnostic.expected) == (code, path, expected)
    assert diagnostic.found.startswith(found)
    assert (diagnostic.turn, diagnostic.producer, diagnostic.seq) == ("t-9", "ingest", seq)


def test_nesting_past_the_interpreter_is_refused() -> None:
    assert refusal(b'{"type":"status","seq":1,"at":1,"name":"n","detail":' + b"[" * 5000).code == "json_malformed"


def test_the_found_piece_is_short() -> None:
    assert len(refusal(DELTA | {"item": "x" * 10_000}).found) < 200


def test_a_batch_says_which_event_was_refused() -> None:
    batch = json.dumps([DELTA, DELTA | {"seq": 8, "track": "voice"}])
    with pytest.raises(EventRefused) as refused:
        decode_batch(batch, turn="t", producer="p")
    assert refused.value.diagnostic.path == "$[1].track"
    assert refused.value.diagnostic.found == '"voice"'
    assert refused.value.diagnostic.seq == 8


@pytest.mark.parametrize(
    ("batch", "code", "path"),
    [
        ("{}", "wrong_type", "$"),
        ("[{}", "json_malformed", "$"),
        (json.dumps([STARTED | {"contract": 9}]), "contract_unknown", "$[0].contract"),
        (json.dumps([DELTA, 5]), "wrong_type", "$[1]"),
    ],
)
def test_a_malformed_batch_is_refused(batch: str, code: str, path: str) -> None:
    with pytest.raises(EventRefused) as refused:
        decode_batch(batch)
    assert (refused.value.diagnostic.code, refused.value.diagnostic.path) == (code, path)


def test_a_fault_in_words_that_we_do_not_know_is_still_refused_by_name() -> None:
    assert _classify("Something new is wrong", "$.x") == ("event_invalid", "$.x", "Something new is wrong")


def test_a_bound_below_one_is_refused_by_its_place() -> None:
    with pytest.raises(EventRefused) as refused:
        decode(
            b'{"type":"turn_started","seq":0,"at":0,"fold":1,"runtime":"main","wire":"w","turn":"0-0","session":"s",'
            b'"limits":{"item_contents":0}}'
        )
    assert refused.value.diagnostic.path == "$.limits[...]"
    assert ">= 1" in refused.value.diagnostic.expected
