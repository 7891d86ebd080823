"""Deltas that are like one before pass without being asked about anew: whatever lies between them, the events are the same."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.events import TextDelta
from pipeline.limits import Limits
from pipeline.normalize.responses import routes
from tests.pipeline.normalize.streams import (
    CREATED,
    Frame,
    added,
    arguments,
    body,
    call,
    completed,
    delta,
    done,
    message,
    run,
    statuses,
    text_done,
    up,
)


def streamed(*frames: Frame, limits: Limits | None = None) -> list[TextDelta]:
    events = run(body(added(message()), *frames), limits=limits)
    return [event for event in events if isinstance(event, TextDelta)]


def test_what_goes_with_a_text_is_its_own() -> None:
    besides: list[dict[str, Any]] = [
        {"logprobs": [{"token": "a"}], "obfuscation": "x"},
        {"logprobs": [], "obfuscation": "yy"},
        {"logprobs": [], "obfuscation": "yy"},
        {"logprobs": [True], "obfuscation": "z"},
        {"logprobs": [1], "obfuscation": "z"},
        {"logprobs": [1]},
        {"logprobs": [2]},
        {"obfuscation": "z"},
        {"obfuscation": "zz"},
        {},
    ]
    told = streamed(*(delta(str(number)) | beside for number, beside in enumerate(besides)))
    assert [event.text for event in told] == [str(number) for number in range(len(besides))]
    wires = [{name: value for name, value in (event.wire or {}).items() if name in besides[0]} for event in told]
    assert [repr(wire) for wire in wires] == [repr(beside) for beside in besides]


def test_members_that_stay_the_same_are_held_once() -> None:
    told = streamed(*(delta(text) for text in "abcd"))
    assert len({id(event.wire) for event in told[1:]}) == 1


def test_what_is_nested_too_deep_is_malformed_wherever_it_comes() -> None:
    deep: Any = []
    for _ in range(140):
        deep = [deep]
    events = run(
        body(added(message()), *(delta("x") | {"logprobs": []} for _ in "123"), delta("y") | {"logprobs": deep})
    )
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "xxx"
    assert len(statuses(events, "malformed")) == 1


@pytest.mark.parametrize("odd", [b'"\xff"', b'"\\ud83d"'])
def test_what_goes_with_a_text_may_be_spoiled_within(odd: bytes) -> None:
    first = body(added(message()), *(delta(text) | {"logprobs": []} for text in "ab"))
    spoiled = body(delta("c") | {"logprobs": ["?"]}).replace(b'"?"', odd)
    told = [event for event in run(first + spoiled + body(delta("d"), completed())) if isinstance(event, TextDelta)]
    assert [event.text for event in told] == ["a", "b", "c", "d"]
    assert (told[2].wire or {})["logprobs"] == ["\ufffd"]


def test_bounds_hold_for_deltas_that_are_alike() -> None:
    told = streamed(*(delta("word") for _ in range(9)), limits=Limits(item_text_chars=20))
    assert len(told) == 6


def test_an_upstream_that_names_items_anew_with_each_delta_is_not_remembered_for_ever() -> None:
    told = streamed(*(delta("x", item_id=f"m{number}") for number in range(200)))
    assert [event.wire["item_id"] for event in told if event.wire is not None] == [f"m{n}" for n in range(200)]


def test_a_delta_without_its_items_id_is_asked_about_each_time() -> None:
    assert [event.text for event in streamed(*(delta(text, item_id="") for text in "abc"))] == ["a", "b", "c"]


def test_a_delta_without_a_type_is_asked_about_each_time() -> None:
    named = json.dumps(delta("x", item_id="m.delta") | {"type": ""})
    lines = "".join(f"event: response.{kind}.delta\ndata: {named}\n\n" for kind in ("output_text",) * 3 + ("refusal",))
    told = run(body(added(message("m.delta"))) + lines.encode())
    assert [event.track for event in told if isinstance(event, TextDelta)] == ["text", "text", "text", "refusal"]


FRAMES: list[Frame] = [
    CREATED,
    added(message()),
    added(message("m2"), 1),
    added(call()),
    added(call("f2", "c2"), 1),
    added({"type": "hologram", "id": "h"}),
    delta("a"),
    delta("b"),
    delta("c", 1, "m2"),
    delta("d", 1, "m1"),
    delta("e", None),
    delta("f", None, content=None),
    delta("g", content=1),
    delta("h", item_id="m2"),
    delta("i") | {"sequence_number": None},
    delta("j") | {"sequence_number": 7},
    delta("k") | {"sequence_number": "7"},
    delta("l") | {"extra": 1},
    delta("m") | {"defects": []},
    delta("n") | {"obfuscation": "x"},
    delta("o") | {"obfuscation": None},
    up("output_text.delta", item_id="m1", content_index=0, delta=5),
    up("reasoning_text.delta", item_id="m1", content_index=0, delta="r"),
    up("refusal.delta", item_id="m1", content_index=0, delta="no"),
    up("reasoning_summary_text.delta", item_id="m1", summary_index=0, delta="s"),
    arguments("{"),
    arguments("}"),
    arguments("[", 1, "f2"),
    arguments("x", item_id="m1"),
    up("content_part.added", item_id="m1", content_index=1, part={"type": "output_text", "text": ""}),
    text_done("ab"),
    done(message()),
    done(call()),
    {"type": "keepalive"},
    {"type": "error", "message": "late"},
]


@given(st.lists(st.sampled_from(FRAMES), max_size=30))
def test_what_lies_between_deltas_is_heeded(frames: list[Frame]) -> None:
    data = body(*frames, completed())
    told = run(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes, "MARK", b"\0")  # no delta is alike
        assert told == run(data)
