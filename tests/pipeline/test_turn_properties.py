"""Whatever an upstream sends: the core holds its laws, and what a client reads stays whole."""

import copy
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.errors import PipelineError
from pipeline.events import Status, TextDelta
from pipeline.turn import Turn, Validation, decode
from pipeline.validate import SUPPORTED
from tests.pipeline.streams import (
    RESPONSE,
    TURN,
    Json,
    accumulate,
    body,
    data_of,
    run,
    text_of,
    whole_turn,
)

BASE = whole_turn()
JUNK = st.sampled_from(
    [None, "", 0, 1, -1, 7, True, [], {}, "zzz", {"type": "message"}, {"type": "alien", "id": "a"}, ["x"]]
)
INDEX = st.integers(0, len(BASE) - 1)
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("drop"), INDEX, st.just(0), st.none()),
        st.tuples(st.just("repeat"), INDEX, INDEX, st.none()),
        st.tuples(st.just("swap"), INDEX, INDEX, st.none()),
        st.tuples(st.just("change"), INDEX, st.integers(0, 40), JUNK),
        st.tuples(st.just("remove"), INDEX, st.integers(0, 40), st.none()),
    ),
    min_size=1,
    max_size=6,
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    found = [at] if at else []
    if isinstance(value, dict):
        for name in value:
            found += paths(value[name], (*at, name))
    elif isinstance(value, list):
        for position in range(len(value)):
            found += paths(value[position], (*at, position))
    return found


def edited(edits: list[tuple[str, int, int, Any]]) -> list[Json]:
    events = copy.deepcopy(BASE)
    for kind, first, second, value in edits:
        if first >= len(events):
            continue
        if kind == "drop":
            del events[first]
        elif kind == "repeat":
            events.insert(min(second, len(events)), copy.deepcopy(events[first]))
        elif kind == "swap" and second < len(events):
            events[first], events[second] = events[second], events[first]
        elif kind in {"change", "remove"}:
            places = paths(events[first])
            if not places:
                continue
            place = places[second % len(places)]
            holder: Any = events[first]
            for step in place[:-1]:
                holder = holder[step]
            if kind == "change":
                holder[place[-1]] = copy.deepcopy(value)
            else:
                del holder[place[-1]]
    return events


def check_public(frames: Any) -> None:
    """What every public stream keeps: numbers, one beginning, one end, whole items; and the SDK reads it."""
    data = data_of(frames)
    assert [event["sequence_number"] for event in data] == list(range(len(data)))
    types = [event["type"] for event in data]
    assert types[0] == "response.created"
    assert types.count("response.created") == 1
    assert types.count("response.in_progress") <= 1
    ends = [kind for kind in types if kind in {"response.completed", "response.incomplete", "response.failed"}]
    assert ends == [types[-1]]
    assert all(event["response"]["id"] == RESPONSE for event in data if isinstance(event.get("response"), dict))
    added = [event["output_index"] for event in data if event["type"] == "response.output_item.added"]
    done = {event["output_index"]: event["item"] for event in data if event["type"] == "response.output_item.done"}
    assert added == list(range(len(added)))
    assert sorted(done) == added
    assert data[-1]["response"]["output"] == [done[index] for index in added]
    ids = [item["id"] for item in done.values()]
    assert len(set(ids)) == len(ids)
    accumulate(frames)


@settings(max_examples=300, deadline=None)
@given(EDITS)
def test_a_broken_upstream_never_breaks_the_public_stream(edits: list[tuple[str, int, int, Any]]) -> None:
    events = edited(edits)
    decoded = run(events)
    check_public(decoded.frames)
    assert decoded.payload.error is None or decoded.payload.error["code"] != "unreadable_event"
    text = "".join(event.text for event in decoded.events if isinstance(event, TextDelta) and event.track == "text")
    assert text_of(decoded.blocks) == text
    try:
        run(events, Validation.STRICT)
    except PipelineError:
        return


@settings(max_examples=300, deadline=None)
@given(EDITS)
@example([("repeat", 11, 0, None), ("change", 0, 10, 1)])  # an item whose second text was streamed before its first
def test_our_own_strict_decoder_accepts_what_we_relay(edits: list[tuple[str, int, int, Any]]) -> None:
    decoded = run(edited(edits))
    kinds = {item["type"] for item in decoded.payload.response["output"]}
    parts = {frame["part"]["type"] for frame in data_of(decoded.frames) if frame["type"].endswith("_part.added")}
    if not kinds <= SUPPORTED or not parts <= {"output_text", "refusal", "summary_text", "reasoning_text"}:
        return  # a kind that nobody knows passes as it is, and is refused by name in strict
    if any(isinstance(event, Status) and event.name == "mismatch" for event in decoded.events):
        return  # so does a final text that contradicts its deltas
    again = decode([frame.sse.encode() for frame in decoded.frames], "responses", Validation.STRICT, turn=TURN)
    assert data_of(again.frames) == data_of(decoded.frames)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=40))
def test_the_cut_of_the_bytes_changes_nothing(sizes: list[int]) -> None:
    data = body(BASE)
    chunks: list[bytes] = []
    at = 0
    while at < len(data):
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(data[at : at + size])
        at += size
    one, other = decode([data], "responses", turn=TURN), decode(chunks, "responses", turn=TURN)
    assert (one.frames, one.blocks, one.payload) == (other.frames, other.blocks, other.payload)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(BASE)))
def test_a_turn_rebuilt_at_any_point_goes_on_byte_for_byte(restart: int) -> None:
    """Takes the fold worker's death between two events: the next one folds the log again, effects off."""
    whole = run(BASE)
    turn = Turn(TURN)
    frames = []
    for event in whole.events[:restart]:
        frames += turn.push(event).frames
    again = Turn(TURN)
    for event in whole.events[:restart]:
        again.push(event)
    for event in whole.events[restart:]:
        frames += again.push(event).frames
    assert frames == whole.frames
    assert again.finish() == whole.payload


def test_a_done_repeated_at_every_later_place_is_never_a_second_item() -> None:
    undisturbed = run(BASE)
    dones = [index for index, event in enumerate(BASE) if event["type"].endswith(".done")]
    for done in dones:
        for place in range(done + 1, len(BASE)):
            events = [*BASE[:place], copy.deepcopy(BASE[done]), *BASE[place:]]
            decoded = run(events)
            assert data_of(decoded.frames) == data_of(undisturbed.frames), (BASE[done]["type"], place)
