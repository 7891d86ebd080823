"""The Messages adapter: blocks and what becomes of them, messages and how they end."""

import json
from typing import Any

import pytest

from pipeline.events import TextDelta, ToolFinished, ToolStarted, TurnCompleted, TurnFailed
from pipeline.limits import Limits
from tests.pipeline.normalize.messages_streams import (
    STOP,
    block,
    body,
    defects,
    delta,
    end,
    read,
    run,
    start,
    statuses,
    stop,
    text,
    turn,
)

Json = dict[str, Any]


def test_a_block_is_an_item_and_ends_at_its_stop() -> None:
    assert turn(*text(0, "A"), *text(1, "B")) == [
        "d 0.0 text 'A'",
        "f 0.0 text 'A'",
        "d 1.0 text 'B'",
        "f 1.0 text 'B'",
    ]


def test_the_type_rules_and_the_name_stands_in_for_it() -> None:
    frames = [start(), *text(0, "A"), end(), STOP]
    assert run(body(*frames, named=False)) == run(body(*frames))
    nameless = [{key: value for key, value in frame.items() if key != "type"} for frame in frames]
    data = b"".join(
        f"event: {frame['type']}\ndata: {json.dumps(one)}\n\n".encode()
        for frame, one in zip(frames, nameless, strict=True)
    )
    assert [event.text for event in run(data) if isinstance(event, TextDelta)] == ["A"]
    assert defects(run(data)) == ["type_missing"]


def test_events_without_an_index_are_of_the_open_block() -> None:
    assert turn(*text(None, "A"), *text(None, "B"))[2:] == ["d 1.0 text 'B'", "f 1.0 text 'B'"]


def test_thinking_ends_with_its_signature_as_the_item_that_a_client_sends_back() -> None:
    frames = [
        block(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Hm."),
        delta(0, "signature_delta", signature="si"),
        delta(0, "signature_delta", signature="gn"),
        stop(0),
        block(1, "redacted_thinking", data="xyz"),
        stop(1),
    ]
    told = statuses(run(body(start(), *frames, end(), STOP)), "item_finished")
    assert [(one.wire or {})["item"]["encrypted_content"] for one in told] == ["sign", "redacted_thinking:xyz"]


def test_a_call_takes_what_was_streamed_else_what_its_block_began_with() -> None:
    whole = block(0, "tool_use", id="k", name="f", input={"a": "ø"}, caller={"type": "direct"})
    assert turn(whole, stop(0)) == ["t+ 0 k f function", 't- 0 k completed \'{"a":"ø"}\'']
    assert turn(whole, delta(0, "input_json_delta", partial_json="{}"), stop(0))[-1] == "t- 0 k completed '{}'"
    assert turn(block(0, "tool_use", id="k", name="f", input={}), stop(0))[-1] == "t- 0 k completed '{}'"
    cut = delta(0, "input_json_delta", partial_json='{"a')
    assert turn(block(0, "tool_use", id="k", name="f"), cut, stop(0))[-1] == "t- 0 k incomplete '{\"a'"
    started = next(event for event in run(body(start(), whole)) if isinstance(event, ToolStarted))
    assert started.wire == {"content_block": {"caller": {"type": "direct"}}}


def test_a_servers_call_ends_with_its_result() -> None:
    result = [{"type": "web_search_result", "url": "u"}]
    events = run(
        body(
            start(),
            block(0, "server_tool_use", id="s", name="web_search", input={}),
            delta(0, "input_json_delta", partial_json='{"query":"q"}'),
            stop(0),
            block(1, "web_search_tool_result", tool_use_id="s", content=result),
            stop(1),
            end(),
            STOP,
        )
    )
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert (finished.item, finished.status, finished.input, finished.output) == (
        0,
        "completed",
        '{"query":"q"}',
        result,
    )
    assert statuses(events, "input_finished")[0].detail == '{"query":"q"}'
    assert statuses(events, "item") == []


@pytest.mark.parametrize(
    ("opening", "status"),
    [
        ({"content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}}, "failed"),
        ({"content": "x", "is_error": True}, "failed"),
        ({"content": []}, "completed"),
    ],
)
def test_a_result_says_whether_its_call_failed(opening: Json, status: str) -> None:
    use = block(0, "mcp_tool_use", id="s", name="ask", server_name="house", input={"n": 1})
    lines = turn(use, stop(0), block(1, "mcp_tool_result", tool_use_id="s", **opening), stop(1))
    assert lines == ["t+ 0 s ask mcp", f"t- 0 s {status} '{{\"n\":1}}' +output"]


def test_a_result_of_a_call_that_was_not_here_passes_whole() -> None:
    result = {"tool_use_id": "of an earlier turn", "content": "x"}
    (told,) = statuses(run(body(start(), block(0, "bash_tool_result", **result), stop(0), end())), "item")
    assert told.wire == {"content_block": {"type": "bash_tool_result", **result}}


def test_two_calls_of_a_server_under_one_id_both_end() -> None:
    use = [block(0, "server_tool_use", id="s", name="x", input={}), stop(0)]
    again = [block(1, "server_tool_use", id="s", name="x", input={}), stop(1)]
    assert [line for line in turn(*use, *again) if line[:2] == "t-"] == [
        "t- 0 s completed '{}'",
        "t- 1 s completed '{}'",
    ]


def test_a_servers_tool_is_never_of_a_kind_that_clients_answer() -> None:
    for name in ("function", "custom", ""):
        assert turn(block(0, "server_tool_use", id="s", name=name, input={}), stop(0))[0] == f"t+ 0 s {name} server"


def test_citations_are_annotations_on_the_whole_text_of_their_block() -> None:
    link = {"type": "web_search_result_location", "url": "u", "title": "T", "cited_text": "c"}
    page = {"type": "page_location", "document_index": 0, "cited_text": "c"}
    events = run(
        body(
            start(),
            block(0, "text", text="", citations=[]),
            delta(0, "citations_delta", citation=link),
            delta(0, "text_delta", text="Hello"),
            delta(0, "citations_delta", citation=page),
            stop(0),
            end(),
        )
    )
    first, second = statuses(events, "annotation")
    assert first.wire == {
        "delta": {"type": "citations_delta", "citation": link},
        "annotation": {"type": "url_citation", "url": "u", "title": "T", "start_index": 0, "end_index": 5},
    }
    assert (second.wire or {})["annotation"] == page


def test_what_we_do_not_know_passes_whole() -> None:
    mood = delta(0, "mood_delta", mood="x")
    events = run(body(start(), block(0, "text", text="A"), mood, stop(0), {"type": "weather", "rain": 1}, end(), STOP))
    assert [one.wire or {} for one in statuses(events, "unknown")] == [
        {"event": mood, "defects": [{"code": "delta_unknown", "path": "$.delta.type", "expected": "a delta of text", "found": '"mood_delta"'}]},
        {"event": {"type": "weather", "rain": 1}},
    ]  # fmt: skip
    assert turn(block(0, "hologram", size=3), delta(0, "text_delta", text="A"), stop(0)) == [
        "s item",
        "d 0.0 text 'A'",
        "f 0.0 text 'A'",
    ]


def test_an_index_that_is_taken_makes_another_item() -> None:
    assert turn(*text(0, "A"), *text(0, "B"))[2:] == ["d 1.0 text 'B'", "f 1.0 text 'B'"]


def test_a_second_message_goes_on_behind_the_first() -> None:
    events = run(
        body(start(), *text(0, "A"), end("end_turn"), STOP, start("m2"), *text(0, "B"), end("max_tokens"), STOP)
    )
    assert [(event.item, event.text) for event in events if isinstance(event, TextDelta)] == [(0, "A"), (1, "B")]
    (told,) = statuses(events, "round_completed")
    assert told.detail == {"stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 5}}
    final = events[-1]
    assert isinstance(final, TurnCompleted)
    assert final.incomplete_details == {"reason": "max_output_tokens"}
    assert (final.usage or {})["total_tokens"] == 16


@pytest.mark.parametrize(
    ("reason", "last"),
    [
        ("end_turn", "done completed +usage"),
        ("stop_sequence", "done completed +usage"),
        ("tool_use", "done completed +usage"),
        ("compaction", "done completed +usage"),
        ("max_tokens", "done incomplete max_output_tokens +usage"),
        ("model_context_window_exceeded", "done incomplete max_output_tokens +usage"),
        ("refusal", "done incomplete content_filter +usage"),
        ("pause_turn", "done incomplete pause_turn +usage"),
        (None, "fail upstream_truncated"),
    ],
)
def test_the_stop_reason_says_how_it_ended(reason: str | None, last: str) -> None:
    assert read(start(), *text(0, "A"), end(reason), STOP)[-1] == last


def test_the_usage_counts_what_was_cached_as_read() -> None:
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 1}
    final = run(body(start(usage=usage), *text(0, "A"), end(stop_sequence="x"), STOP))[-1]
    assert isinstance(final, TurnCompleted)
    assert final.usage == {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 5},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 17,
    }
    assert final.wire == {
        "stop_reason": "end_turn",
        "message_delta": {"stop_sequence": "x"},
        "usage": {**usage, "output_tokens": 5},
    }


def test_an_error_ends_the_turn_at_once_and_keeps_the_text() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}, "request_id": "r"}
    for frame in (error, {"error": {"type": "overloaded_error", "message": "busy"}}):
        final = run(body(start(), block(0, "text", text="A"), frame, *text(1, "late")))[-1]
        assert isinstance(final, TurnFailed)
        assert (final.error.code, final.error.message) == ("overloaded_error", "busy")
        assert (final.wire or {})["error_event"] == frame


def test_a_whole_answer_is_the_whole_turn() -> None:
    content = [{"type": "text", "text": "A"}, {"type": "tool_use", "id": "k", "name": "f", "input": {"a": 1}}]
    answer = {
        "type": "message",
        "id": "m",
        "content": content,
        "stop_reason": "tool_use",
        "usage": {"output_tokens": 2},
    }
    events = run(json.dumps(answer).encode())
    assert isinstance(events[-1], TurnCompleted)
    assert [event.input for event in events if isinstance(event, ToolFinished)] == ['{"a":1}']
    assert defects(events) == ["not_a_stream"]
    final = run(b'{"type":"error","error":{"type":"not_found_error","message":"no"}}')[-1]
    assert isinstance(final, TurnFailed)
    assert final.error.code == "not_found_error"


def test_a_message_that_starts_late_or_twice() -> None:
    assert read(*text(0, "A"), start(), end(), STOP)[-1] == "done completed +usage"
    assert "message_start_missing" in defects(run(body(*text(0, "A"), end(), STOP)))
    assert read(start(), start(), *text(0, "A"), end(), STOP)[0] == "s duplicate"
    assert read(start(), start("m2"), *text(0, "A"))[-1] == "fail spliced_stream"
    assert read()[-1] == "fail empty_stream"


def test_a_conforming_stream_has_no_defects() -> None:
    assert defects(run(body(start(), {"type": "ping"}, *text(0, "A"), end(), STOP))) == []
    assert defects(run(body(start(), *text(0, "A"), end()))) == ["terminal_missing"]
    assert "block_open" in defects(run(body(start(), *text(0, "A")[:2], *text(1, "B"), end(), STOP)))


def test_items_have_a_bound() -> None:
    final = run(body(start(), *text(0, "A"), *text(1, "B"), end(), STOP), Limits(turn_items=1))[-1]
    assert isinstance(final, TurnFailed)
    assert final.error.code == "turn_items"
