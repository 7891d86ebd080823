"""The Chat Completions adapter: texts and their kinds, what rides beside, how a turn ends."""

import json
from typing import Any

import pytest

from pipeline.events import TextDelta, TurnCompleted, TurnFailed
from pipeline.limits import Limits
from tests.pipeline.normalize.chat_streams import (
    DONE,
    STOP,
    body,
    chunk,
    defects,
    read,
    rest,
    run,
    text,
    tool,
    wires,
)

Json = dict[str, Any]


def test_an_item_begins_whenever_the_kind_of_output_changes() -> None:
    think = chunk({"reasoning_content": "Hm"})
    assert read(think, text("A"), text("B"), think, chunk({"refusal": "No"}), STOP, DONE) == [
        "d 0.0 reasoning 'Hm'",
        "f 0.0 reasoning 'Hm'",
        "d 1.0 text 'A'",
        "d 1.0 text 'B'",
        "f 1.0 text 'AB'",
        "d 2.0 reasoning 'Hm'",
        "f 2.0 reasoning 'Hm'",
        "d 3.1 refusal 'No'",
        "f 3.1 refusal 'No'",
        "done completed",
    ]


def test_text_and_refusal_are_parts_of_one_message() -> None:
    assert read(text("A"), chunk({"refusal": "No"}), text("B"), STOP, DONE)[:3] == [
        "d 0.0 text 'A'",
        "d 0.1 refusal 'No'",
        "d 0.0 text 'B'",
    ]


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning": "x", "reasoning_content": "x"},
        {"reasoning": "x", "reasoning_details": [{"type": "reasoning.text", "text": "x"}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "x"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "x"}], "closed": True}]},
        {"content": [{"type": "thinking", "thinking": "x"}]},
        {"reasoning_content": "", "reasoning": "x"},
    ],
)
def test_reasoning_is_read_from_one_source_and_never_twice(delta: Json) -> None:
    assert [line for line in read(chunk(delta), STOP, DONE) if line.startswith("d 0")] == ["d 0.0 reasoning 'x'"]


def test_reasoning_that_differs_under_another_name_rides_beside() -> None:
    events = run(body(chunk({"reasoning_content": "a", "reasoning": "b"}), STOP, DONE))
    assert {"delta": {"reasoning": "b"}} in wires(events)
    events = run(body(chunk({"reasoning": "a", "reasoning_details": [{"type": "t", "data": "secret"}]}), STOP, DONE))
    assert {"delta": {"reasoning_details": [{"type": "t", "data": "secret"}]}} in wires(events)


def test_what_stays_the_same_is_told_once_and_what_changes_is_told_again() -> None:
    frames = [
        chunk({"role": "assistant", "content": "A"}, provider="p1", citations=["u"]),
        chunk({"role": "assistant", "content": "B"}, provider="p1", citations=["u"], service_tier=None),
        chunk({"role": "tool", "content": "C"}, provider="p2", citations=[]),
    ]
    a, b, c = [event.wire for event in run(body(*frames, STOP, DONE)) if isinstance(event, TextDelta)]
    assert (a, b) == (None, None)
    assert c == {"chunk": {"provider": "p2"}, "delta": {"role": "tool"}}


def test_a_frame_without_an_event_of_its_own_is_carried_by_a_status() -> None:
    filtered = chunk({}, choice={"content_filter_results": {"hate": {}}})
    filtered["choices"][0].pop("delta")
    (carried,) = rest(run(body(text("A"), filtered, STOP, DONE)))
    assert carried["choice"] == {"content_filter_results": {"hate": {}}}
    images = {"images": [{"type": "image_url", "image_url": {"url": "data:x"}}]}
    assert rest(run(body(text("A"), chunk(images), STOP, DONE))) == [{"delta": images}]


def test_log_probabilities_go_with_their_text() -> None:
    tokens = [{"token": "A", "logprob": -1.0, "bytes": [65], "top_logprobs": []}]
    events = run(body(chunk({"content": "A"}, choice={"logprobs": {"content": tokens, "refusal": None}}), STOP, DONE))
    assert wires(events)[1] == {"logprobs": tokens}
    refused = chunk({"refusal": "A"}, choice={"logprobs": {"content": None, "refusal": tokens}})
    assert wires(run(body(refused, STOP, DONE)))[1] == {"choice": {"logprobs": {"refusal": tokens}}}


def test_annotations_have_the_public_form_and_wait_for_no_text_in_vain() -> None:
    nested = {"type": "url_citation", "url_citation": {"url": "u", "title": "t"}}
    flat = {"type": "url_citation", "url": "u", "title": "t"}
    assert wires(run(body(chunk({"content": "A", "annotations": [nested]}), STOP, DONE)))[1] == {"annotation": flat}
    assert rest(run(body(chunk({"annotations": [nested]}), STOP, DONE))) == [{"delta": {"annotations": [flat]}}]


def test_other_choices_are_ignored_by_name_and_all_of_the_first_are_read() -> None:
    both = chunk({"content": "A"})
    both["choices"].append({"delta": {"tool_calls": tool(0, "k", "f", "{}")["choices"][0]["delta"]["tool_calls"]}})
    both["choices"].append({"index": 1, "delta": {"content": "other"}})
    events = run(body(both, STOP, DONE))
    assert "choice_ignored" in defects(events)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["A", "{}"]


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ("stop", "done completed"),
        ("eos", "done completed"),
        ("LENGTH", "done incomplete max_output_tokens"),
        ("model_length", "done incomplete max_output_tokens"),
        ("content_filter", "done incomplete content_filter"),
        ("error", "fail upstream_error"),
        ("insufficient_system_resource", "fail upstream_insufficient_system_resource"),
    ],
)
def test_the_finish_reason_says_how_it_ended_once_the_stream_has(reason: str, end: str) -> None:
    assert read(chunk({"content": "A"}, finish=reason), chunk(finish="stop"), DONE)[-1] == end
    assert read(chunk({"content": "A"}, finish=reason))[-1] == end


def test_the_terminal_has_the_usage_in_public_form_and_as_it_came() -> None:
    raw = {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "total_tokens": 9,
        "prompt_cache_hit_tokens": 2,
        "completion_tokens_details": {"reasoning_tokens": 1},
        "cost": 0.5,
    }
    for frame in (
        chunk(usage=raw),
        chunk(choice={"usage": raw}),
        chunk(x_groq={"id": "q", "usage": raw}),
        {"choices": [], "usage": raw},
    ):
        end = run(body(text("A"), frame, STOP, DONE))[-1]
        assert isinstance(end, TurnCompleted)
        assert end.usage == {
            "input_tokens": 5,
            "input_tokens_details": {"cached_tokens": 2},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 1},
            "total_tokens": 9,
        }
        assert end.wire is not None
        assert end.wire["usage"] == raw


@pytest.mark.parametrize(
    ("frame", "code", "message"),
    [
        (chunk({"content": ""}, error={"code": 502, "message": "gone"}), "502", "gone"),
        (chunk({}, choice={"error": {"code": 429, "message": "slow"}}), "429", "slow"),
        ({"error": "just words"}, "upstream_error", "just words"),
        ({"object": "error", "message": "bad", "code": 400}, "400", "bad"),
        ({"type": "error", "error": {"type": "overloaded", "message": "x"}}, "overloaded", "x"),
    ],
)
def test_an_error_anywhere_ends_the_turn_and_keeps_the_text(frame: Json, code: str, message: str) -> None:
    end = run(body(text("A"), frame, text("late"), DONE))[-1]
    assert isinstance(end, TurnFailed)
    assert (end.error.code, end.error.message) == (code, message)
    assert read(text("A"), frame)[:2] == ["d 0.0 text 'A'", "f 0.0 text 'A'"]


def test_an_error_beside_the_events_explains_a_cut() -> None:
    end = run(body(text("A")) + b'error: {"code":400,"message":"too long"}\n\n')[-1]
    assert isinstance(end, TurnFailed)
    assert (end.error.code, (end.wire or {})["body"]) == ("400", 'error: {"code":400,"message":"too long"}')
    assert isinstance(run(b"Bad Gateway, says the proxy\n")[-1], TurnFailed)


def test_a_whole_answer_is_the_whole_turn() -> None:
    message = {
        "role": "assistant",
        "content": "Hi",
        "tool_calls": [{"id": "k", "function": {"name": "f", "arguments": "{}"}}],
    }
    answer = {
        "id": "c",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    data = json.dumps(answer).encode()
    events = run(data)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hi", "{}"]
    assert isinstance(events[-1], TurnCompleted)
    assert defects(events) == ["not_a_stream"]
    assert isinstance(run(b'{"error":{"message":"no","type":"t"}}')[-1], TurnFailed)
    end = run(b'{"detail":"Not Found"}')[-1]
    assert isinstance(end, TurnFailed)
    assert end.error.message == "Not Found"


def test_the_servers_own_copy_is_compared_and_never_told_twice() -> None:
    def copied(words: str, so_far: str) -> Json:
        return chunk({"content": words}, choice={"message": {"role": "assistant", "content": so_far}})

    assert "s mismatch" not in read(copied("A", "A"), copied("B", "AB"), text("C"), STOP, DONE)
    assert "s mismatch" in read(copied("A", "A"), copied("B", "AX"), STOP, DONE)


def test_a_conforming_stream_has_no_defects() -> None:
    frames: list[Json | str] = [
        chunk({"role": "assistant", "content": "A"}),
        tool(0, "k", "f", ""),
        tool(0, None, None, "{}"),
        STOP,
        DONE,
    ]
    assert defects(run(body(*frames))) == []
    assert defects(run(body(text("A"), STOP))) == ["terminal_missing"]
    assert defects(run(body(text("A"), DONE))) == ["finish_missing"]


def test_the_bound_on_input_that_waits_for_its_name() -> None:
    end = run(body(tool(0, "k", None, "x" * 9), DONE), Limits(held_input_chars=8))[-1]
    assert isinstance(end, TurnFailed)
    assert end.error.code == "held_input_chars"
