"""A body that is one JSON value in place of a stream, and one that only looks so."""

import json
from typing import Any

import pytest

from pipeline.events import TurnCompleted, TurnFailed
from pipeline.limits import Limits
from scripts.conformance import notation
from tests.pipeline.normalize.streams import added, body, completed, defects, delta, message, run, statuses

RESPONSE = completed(message("m1", "Hi"), usage={"total_tokens": 3})["response"]
BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize("before", [b"", b"\n \r\n", BOM, BOM + b"\n"])
def test_a_whole_response_becomes_a_whole_turn(before: bytes) -> None:
    data = before + json.dumps(RESPONSE, indent=1).encode()
    events = run(data)
    assert notation(events) == ["s item_started", "d 0.0 text 'Hi'", "f 0.0 text 'Hi'", "done completed +usage"]
    assert run(data, cuts=range(len(data))) == events
    assert (statuses(events, "upstream_started")[0].wire or {})["response"]["id"] == "r1"
    assert defects(events)[0] == ("not_a_stream", "$")


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        ({"error": {"code": "c", "message": "m"}}, "c", "m"),
        ({"error": "m"}, "upstream_error", "m"),
        ([{"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}}], "503", "m"),
        (RESPONSE | {"status": "failed", "error": {"code": "c", "message": "m"}}, "c", "m"),
        (RESPONSE | {"status": "queued"}, "upstream_truncated", ""),
        ([], "upstream_truncated", ""),
        ({}, "upstream_truncated", ""),
        ({"output": 5, "status": "completed"}, "upstream_truncated", ""),
    ],
)
def test_any_other_json_is_a_failure(value: Any, code: str, message: str) -> None:
    told = run(json.dumps(value).encode())[-1]
    assert isinstance(told, TurnFailed)
    assert told.error.code == code
    assert told.error.message.startswith(message)


def test_a_stream_that_begins_with_a_brace_is_a_stream_after_all() -> None:
    data = b"{not json\n" + body(added(message()), delta("Hi"), completed())
    assert notation(run(data)) == ["s item_started", "d 0.0 text 'Hi'", "f 0.0 text 'Hi'", "done completed"]
    assert notation(run(b"{}" + data))[-1] == "done completed"


@pytest.mark.parametrize("spaces", [255, 256, 700])
def test_however_long_a_server_writes_blank_lines_its_whole_answer_is_one(spaces: int) -> None:
    data = b"\n" * spaces + json.dumps(RESPONSE).encode()
    for cuts in ([], [spaces], [256], range(len(data))):
        assert notation(run(data, cuts=cuts))[-2:] == ["f 0.0 text 'Hi'", "done completed +usage"]


def test_white_space_before_a_stream_is_none_of_our_business() -> None:
    data = b"\n" * 700 + body(added(message()), delta("Hi"), completed())
    for cuts in (range(0), range(len(data)), range(0, len(data), 300)):
        assert isinstance(run(data, cuts=cuts)[-1], TurnCompleted)


@pytest.mark.parametrize("data", [b"", b"\n", BOM, BOM[:1], b" " * 20])
def test_a_body_of_nothing_is_cut_short(data: bytes) -> None:
    assert notation(run(data)) == ["fail upstream_truncated"]


def test_a_json_body_is_bounded() -> None:
    data = json.dumps(RESPONSE | {"pad": "x" * 500}).encode()
    for cuts in (range(0), range(len(data))):
        assert notation(run(data, Limits(json_body_bytes=400), cuts)) == ["fail json_body_bytes"]


def test_a_json_body_nested_too_deep_is_malformed() -> None:
    data = b'{"output":' + b"[" * 200 + b"]" * 200 + b',"status":"completed"}'
    assert notation(run(data)) == ["s malformed", "fail upstream_truncated"]
