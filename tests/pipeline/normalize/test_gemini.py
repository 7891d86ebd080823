"""The Gemini wire: texts, calls, code, ends and errors, as events and as an array, at any cut."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import MisuseError
from pipeline.events import BlockFinal, Status, TextDelta, ToolFinished, TurnCompleted, TurnFailed
from pipeline.limits import Limits
from pipeline.normalize.gemini import GeminiAdapter
from pipeline.normalize.stamp import Stamp
from tests.pipeline.normalize.gemini_streams import STOP, array, body, call, chunk, read, run, told


def text(said: str, **members: Any) -> dict[str, Any]:
    return {"text": said} | members


def test_text_runs_until_something_else_begins() -> None:
    events = read(
        chunk(text("Hm", thought=True)),
        chunk(text("m.", thought=True), text("Hello")),
        chunk(text(" there"), call("f", args={"a": 1})),
        chunk(text("Done"), finish="STOP"),
    )
    assert events == [
        "d 0.0 reasoning 'Hm'",
        "d 0.0 reasoning 'm.'",
        "f 0.0 reasoning 'Hmm.'",
        "d 1.0 text 'Hello'",
        "d 1.0 text ' there'",
        "f 1.0 text 'Hello there'",
        "t+ 2 call_2 f function",
        "d 2.0 tool_input '{\"a\":1}'",
        "t- 2 call_2 completed '{\"a\":1}'",
        "d 3.0 text 'Done'",
        "f 3.0 text 'Done'",
        "done completed",
    ]


def test_an_array_is_told_object_by_object() -> None:
    chunks = [chunk(text('a "brace" } \\ {')), chunk(text("b")), STOP]
    assert told(array(*chunks)) == read(*chunks)
    adapter = GeminiAdapter(stamp=Stamp())
    first = array(*chunks).split(b",\r\n")[0]
    assert any(isinstance(event, TextDelta) for event in adapter.feed(first)), "a chunk is told before the body ends"


def test_a_call_has_its_own_id_where_the_wire_gives_one() -> None:
    assert read(chunk(call("f", args={}, id="x1")), STOP)[0] == "t+ 0 x1 f function"


def test_a_name_alone_is_a_call_without_arguments() -> None:
    assert read(chunk(call("f")), STOP)[:3] == [
        "t+ 0 call_0 f function",
        "d 0.0 tool_input '{}'",
        "t- 0 call_0 completed '{}'",
    ]


def pieces(*told_pieces: tuple[str, Any, bool], more: bool = True) -> dict[str, Any]:
    kinds: dict[type, str] = {str: "stringValue", float: "numberValue", int: "numberValue", bool: "boolValue"}
    args = [
        {"jsonPath": path, ("nullValue" if value is None else kinds[type(value)]): value}
        | ({"willContinue": True} if goes_on else {})
        for path, value, goes_on in told_pieces
    ]
    return call(None, partialArgs=args) | {} if not more else call(None, partialArgs=args, willContinue=True)


def test_arguments_come_piece_by_piece() -> None:
    events = read(
        chunk(call("f", willContinue=True)),
        chunk(pieces(("$.a[0].n", "one ", True))),
        chunk(pieces(("$.a[0].n", "two", False), ("$.a[1]", None, False))),
        chunk(pieces(("$['b c'].d", True, False), ("$.e", 0.5, False))),
        chunk(call()),
        STOP,
    )
    assert events[1] == """d 0.0 tool_input '{"a":[{"n":"one two"},null],"b c":{"d":true},"e":0.5}'"""
    assert events[2].startswith("t- 0 call_0 completed")


def test_a_text_among_the_arguments_that_never_ends_is_kept() -> None:
    events = read(chunk(call("f", willContinue=True)), chunk(pieces(("$.a", "hal", True))))
    assert events[1:3] == ['d 0.0 tool_input \'{"a":"hal"}\'', 't- 0 call_0 incomplete \'{"a":"hal"}\'']


def test_the_next_call_ends_the_one_before_it() -> None:
    events = read(chunk(call("f", willContinue=True)), chunk(call("g", args={"x": 1})), STOP)
    assert [line.split()[0] for line in events] == ["t+", "d", "t-", "t+", "d", "t-", "done"]


@pytest.mark.parametrize(
    "piece",
    [
        {"jsonPath": "a.b", "stringValue": "x"},
        {"jsonPath": "$", "stringValue": "x"},
        {"jsonPath": "$.a[999999]", "stringValue": "x"},
        {"jsonPath": "$.s.deeper", "stringValue": "x"},
        {"jsonPath": "$.s[0]", "numberValue": 1},
        {"jsonPath": "$." + ".".join("a" * 200), "numberValue": 1},
        {"jsonPath": "$.a"},
        {"stringValue": "x"},
        "x",
    ],
)
def test_a_piece_without_a_place_is_a_defect_and_the_rest_stands(piece: Any) -> None:
    good = {"jsonPath": "$.s", "stringValue": "x"}
    data = body(chunk(call("f", partialArgs=[good, piece], willContinue=True)), chunk(call()), STOP)
    events = run(data)
    assert any(isinstance(event, ToolFinished) and event.input == '{"s":"x"}' for event in events)
    wires = [getattr(event, "wire", None) or {} for event in events]
    assert [one["path"].startswith("$.partialArgs") for wire in wires for one in wire.get("defects", ())] == [True]


def test_code_and_its_result_are_one_tool() -> None:
    events = read(
        chunk({"executableCode": {"language": "PYTHON", "code": "1/0"}}),
        chunk({"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}}),
        STOP,
    )
    assert events == [
        "t+ 0 code_0 code_execution code_interpreter",
        "d 0.0 tool_input '1/0'",
        "t- 0 code_0 failed '1/0' +output",
        "done completed",
    ]


def test_a_server_tool_is_paired_by_its_id() -> None:
    events = read(
        chunk({"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"q": ["a"]}, "id": "t1"}}),
        chunk({"toolCall": {"toolType": "URL_CONTEXT", "args": {}, "id": "t2"}}),
        chunk({"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"r": 1}, "id": "t1"}}),
        STOP,
    )
    assert events == [
        "t+ 0 t1 GOOGLE_SEARCH_WEB server",
        'd 0.0 tool_input \'{"q":["a"]}\'',
        "t+ 1 t2 URL_CONTEXT server",
        "d 1.0 tool_input '{}'",
        't- 0 t1 completed \'{"q":["a"]}\' +output',
        "t- 1 t2 incomplete '{}'",
        "done completed",
    ]


def test_a_result_of_nothing_is_told_and_makes_no_tool() -> None:
    assert read(chunk({"codeExecutionResult": {"output": "2"}}), STOP) == ["s unknown", "done completed"]
    assert read(chunk(call()), STOP) == ["s ignored", "done completed"]


def test_media_end_a_text_and_are_kept_whole() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}
    data = body(chunk(text("See:")), chunk(picture), chunk(text("Nice.")), STOP)
    assert told(data)[2:5] == ["s item", "d 1.0 text 'Nice.'", "f 1.0 text 'Nice.'"]
    item = next(event for event in run(data) if isinstance(event, Status) and event.name == "item")
    assert (item.detail, item.wire) == ({"media": "image/png"}, {"part": picture})


def test_a_signature_on_an_empty_text_belongs_to_the_text_before_it() -> None:
    events = run(body(chunk(text("Hi")), chunk(text("", thoughtSignature="sig"), finish="STOP")))
    final = next(event for event in events if isinstance(event, BlockFinal))
    assert final.wire == {"part": {"thoughtSignature": "sig"}}
    events = run(body(chunk(text("", thoughtSignature="sig"), finish="STOP")))
    assert [event.name for event in events if isinstance(event, Status)] == ["upstream_started", "signature"]


def test_what_a_chunk_says_beside_its_parts_is_told_once() -> None:
    ratings = [{"category": "C", "probability": "LOW"}]
    one = chunk(text("a"))
    one["candidates"][0]["safetyRatings"] = ratings
    two = chunk(text("b"))
    two["candidates"][0]["safetyRatings"] = ratings
    two["candidates"][0]["citationMetadata"] = {"citations": []}
    events = [event for event in run(body(one, two, STOP)) if isinstance(event, TextDelta)]
    assert [event.wire for event in events] == [
        {"chunk": {"safetyRatings": ratings}},
        {"chunk": {"citationMetadata": {"citations": []}}},
    ]


def test_usage_is_written_in_the_public_streams_terms() -> None:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 3, "cachedContentTokenCount": 4}
    events = run(body(chunk(text("x"), finish="STOP", usageMetadata=usage)))
    end = events[-1]
    assert isinstance(end, TurnCompleted)
    assert end.usage == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 8,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 18,
    }
    assert (end.wire or {})["usageMetadata"] == usage


def test_the_upstreams_name_for_the_response_is_told_at_its_first_chunk() -> None:
    events = run(body(chunk(text("x"), finish="STOP", responseId="g1", modelVersion="m-1")))
    assert isinstance(events[0], Status)
    assert (events[0].name, events[0].wire) == ("upstream_started", {"response": {"id": "g1", "model": "m-1"}})


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("STOP", "done completed"),
        ("MAX_TOKENS", "done incomplete max_output_tokens"),
        ("SAFETY", "done incomplete content_filter"),
        ("RECITATION", "done incomplete content_filter"),
        ("IMAGE_SAFETY", "done incomplete content_filter"),
        ("OTHER", "done incomplete other"),
        ("NEVER_HEARD_OF", "done incomplete other"),
        ("MALFORMED_FUNCTION_CALL", "fail malformed_function_call"),
        ("UNEXPECTED_TOOL_CALL", "fail unexpected_tool_call"),
    ],
)
def test_the_last_finish_reason_is_the_end(finish: str, expected: str) -> None:
    assert read(STOP, chunk(finish=finish))[-1] == expected


def test_a_blocked_prompt_is_incomplete() -> None:
    assert read({"promptFeedback": {"blockReason": "SAFETY"}}) == ["done incomplete content_filter"]


def test_an_error_after_the_events_in_bare_lines_fails_the_turn() -> None:
    raw = '{\r\n  "error": {\r\n    "code": 503,\r\n    "message": "busy",\r\n    "status": "UNAVAILABLE"\r\n  }\r\n}'
    data = body(chunk(text("Hi")), raw)
    assert told(data)[-1] == "fail 503"
    end = run(data)[-1]
    assert isinstance(end, TurnFailed)
    assert (end.error.message, end.error.type) == ("busy", "UNAVAILABLE")


def test_after_the_error_nothing_is_told_but_counted() -> None:
    adapter = GeminiAdapter(stamp=Stamp())
    adapter.feed(body({"error": {"code": 500, "message": "x"}}, chunk(text("late")), STOP))
    assert (adapter.ended, adapter.late, adapter.close()) == (True, 2, [])


def test_other_candidates_are_told_of_and_left_out() -> None:
    other = {"candidates": [{"index": 1, "content": {"parts": [{"text": "no"}]}, "finishReason": "SAFETY"}]}
    assert read(chunk(text("yes"), finish="STOP"), other) == [
        "d 0.0 text 'yes'",
        "s ignored",
        "f 0.0 text 'yes'",
        "done completed",
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   \n\n",
        b"data: not json\n\n",
        b"{",
        b'[{"candidates":',
        b"data: [1]\r\n\r\n",
        b"\xef\xbb\xbf",
        b"data: [DONE]\n\n",
        b'data: {"candidates":7}\n\n',
        b'data: {"candidates":[7]}\n\n',
        b'data: {"candidates":[{"content":7}]}\n\n',
        b'data: {"candidates":[{"content":{"parts":7}}]}\n\n',
        b'data: {"candidates":[{"content":{"parts":[7,{"text":7}]},"finishReason":7}],"usageMetadata":7}\n\n',
    ],
)
def test_a_body_without_an_end_is_truncated(data: bytes) -> None:
    assert told(data)[-1] == "fail upstream_truncated"


@pytest.mark.parametrize(
    ("limits", "data"),
    [
        (Limits(sse_line_bytes=100), body(chunk(text("x" * 200)))),
        (Limits(json_body_bytes=100), array(chunk(text("x" * 200)))),
        (Limits(item_text_chars=100), body(chunk(text("x" * 60)), chunk(text("x" * 60)))),
        (Limits(turn_text_chars=100), body(chunk(text("x" * 60)), chunk(text("x" * 60, thought=True)))),
        (Limits(turn_items=3), body(*[chunk(call("f", args={})) for _ in range(4)])),
        (Limits(item_text_chars=100), body(chunk(call("f", args={"a": "x" * 200})))),
    ],
)
def test_a_bound_ends_the_turn_by_its_name(limits: Limits, data: bytes) -> None:
    events = run(data, limits)
    end = events[-1]
    assert isinstance(end, TurnFailed)
    assert getattr(limits, end.error.code) in {100, 3}


def test_it_is_fed_and_closed_once() -> None:
    adapter = GeminiAdapter(stamp=Stamp())
    adapter.close()
    with pytest.raises(MisuseError):
        adapter.feed(b"")
    with pytest.raises(MisuseError):
        adapter.close()


WHOLE = body(
    chunk(text("Grüße 🌍\u2028", thought=True), responseId="g1"),
    chunk(text("é" * 5), call("f", args={"ü": "🌍"})),
    chunk(call("g", willContinue=True)),
    chunk(pieces(("$.a", "ü", True))),
    chunk(pieces(("$.a", "x", False), more=False)),
    chunk({"executableCode": {"code": "1"}}, {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
    STOP,
)


@settings(max_examples=80, deadline=None)
@given(st.sets(st.integers(0, len(WHOLE)), max_size=30))
def test_the_cuts_change_nothing(cuts: set[int]) -> None:
    assert run(WHOLE, cuts=cuts) == run(WHOLE)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=8), st.integers(1, 50))
def test_noise_never_raises_and_ends_the_turn_once(edits: list[tuple[int, int]], step: int) -> None:
    data = bytearray(WHOLE)
    for place, value in edits:
        data[place] = value
    events = run(bytes(data))
    assert run(bytes(data), cuts=range(0, len(data), step)) == events
    ends = [event for event in events if isinstance(event, TurnCompleted | TurnFailed)]
    assert ends == events[-1:]


MEMBERS = (
    *("candidates", "content", "parts", "text", "thought", "functionCall", "name", "args", "id", "index", "type"),
    *("partialArgs", "willContinue", "jsonPath", "stringValue", "finishReason", "usageMetadata", "error", "output"),
    *("executableCode", "codeExecutionResult", "promptFeedback", "inlineData", "toolCall", "toolResponse"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "x", "STOP", "$.a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(MEMBERS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(JSON, max_size=4))
def test_no_shape_of_json_raises(frames: list[Any]) -> None:
    shaped = [{"candidates": [{"content": {"parts": [one]}}]} for one in frames]
    for data in (body(*frames, STOP), body(*shaped, STOP), body(*[{"candidates": [one]} for one in frames], STOP)):
        events = run(data)
        assert all("type" not in (getattr(event, "wire", None) or {}) for event in events)
