from typing import Any

import pytest
from msgspec.structs import replace

from pipeline.errors import MisuseError, WireError
from pipeline.events import (
    ErrorInfo,
    Event,
    Status,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from pipeline.turn import Output, Turn, Validation
from tests.pipeline.streams import (
    RESPONSE,
    TURN,
    USAGE,
    Json,
    accumulate,
    call,
    data_of,
    message,
    opening,
    response,
    run,
    text_of,
    types_of,
    whole_turn,
)

STARTED = TurnStarted(seq=0, at=1_700_000_000_000, fold=1, runtime="main", wire="responses", turn=TURN, session="s")


def started(**members: Any) -> TurnStarted:
    return replace(STARTED, **members)


def delta(text: str, item: int = 0) -> TextDelta:
    return TextDelta(seq=1, at=0, item=item, content=0, track="text", text=text)


def done(outcome: str = "completed") -> TurnCompleted:
    return TurnCompleted(seq=9, at=0, outcome=outcome, usage=USAGE)  # type: ignore[arg-type]  # one of the two


def push(*events: Event) -> tuple[Turn, Output]:
    turn, whole = Turn(TURN), Output()
    for event in events:
        made = turn.push(event)
        whole.frames += made.frames
        whole.blocks += made.blocks
    return turn, whole


def expected_of(events: list[Json]) -> list[Json]:
    """What a conforming upstream's events are in public."""
    frames = []
    for number, event in enumerate(events):
        frame = {**event, "sequence_number": number}
        if "response" in event:
            frame["response"] = {**event["response"], "id": RESPONSE}
        frames.append(frame)
    return frames


def test_frames_of_a_conforming_upstream_are_the_upstreams_own() -> None:
    events = whole_turn()
    decoded = run(events)
    assert data_of(decoded.frames) == expected_of(events)
    assert run(events, Validation.STRICT).frames == decoded.frames
    assert decoded.payload.response == data_of(decoded.frames)[-1]["response"]
    assert (decoded.payload.status, decoded.payload.upstream_id) == ("completed", "resp_upstream")
    assert (decoded.payload.usage, decoded.payload.frames) == (USAGE, len(events))


def test_the_official_sdk_accumulates_the_whole_turn() -> None:
    made = accumulate(run(whole_turn()).frames)
    assert made.id == RESPONSE
    assert made.output_text == "Let me see.\n\nThe answer is 42."
    assert [item.type for item in made.output] == [
        "reasoning",
        "message",
        "web_search_call",
        "function_call",
        "message",
    ]


def test_a_frame_is_one_server_sent_event() -> None:
    frame = run(opening()).frames[0]
    assert frame.sse == f"event: response.created\ndata: {frame.data.decode()}\n\n"
    assert "\n" not in frame.data.decode()


def test_text_is_flushed_before_a_tool_and_at_the_end() -> None:
    blocks = run(whole_turn()).blocks
    assert [block.text for block in blocks] == ["Let me see.", "The answer is 42."]
    assert text_of(blocks) == "Let me see.\n\nThe answer is 42."


def test_a_repeated_created_and_in_progress_are_told_once() -> None:
    events = [*opening(), *opening(), *message(0, ["Hi"])[0]]
    types = types_of(run(events).frames)
    assert (types.count("response.created"), types.count("response.in_progress")) == (1, 1)


def test_a_bare_delta_becomes_a_whole_item() -> None:
    turn, output = push(started(), delta("Hi"), done())
    assert types_of(output.frames) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert accumulate(output.frames).output_text == "Hi"
    payload = turn.finish()
    assert payload.response["output"][0]["id"] == f"msg_{TURN}_0"
    assert payload.response["usage"] == USAGE


def test_a_tool_told_without_the_wires_own_events_is_whole_in_public() -> None:
    _, output = push(
        started(),
        ToolStarted(seq=1, at=0, item=0, call_id="k1", name="f", kind="function"),
        ToolFinished(seq=2, at=0, item=0, call_id="k1", status="completed", input='{"a":1}'),
        done(),
    )
    assert types_of(output.frames)[2:-1] == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    made = accumulate(output.frames).output[0]
    assert made.arguments == '{"a":1}'
    assert (made.name, made.call_id, made.status) == ("f", "k1", "completed")


@pytest.mark.parametrize("item_id", [None, "", 7])
def test_an_id_that_cannot_stand_becomes_one_made_of_turn_and_item(item_id: object) -> None:
    events, _ = message(0, ["Hi"])
    events[0]["item"] = {**events[0]["item"], "id": item_id}
    frames = data_of(run([*opening(), *events]).frames)
    names = {frame.get("item_id") or frame["item"]["id"] for frame in frames[2:-1]}
    assert names == {f"msg_{TURN}_0"}


def test_ids_that_rotate_become_the_first() -> None:
    events, item = message(0, ["H", "i"])
    for number, event in enumerate(events):
        if "item_id" in event:
            event["item_id"] = f"rotating_{number}"
    events[-1] = {**events[-1], "item": {**item, "id": "rotating"}}
    decoded = run([*opening(), *events, {"type": "response.completed", "response": response("completed")}])
    names = {frame.get("item_id") or frame["item"]["id"] for frame in data_of(decoded.frames)[2:-1]}
    assert names == {"msg_0"}
    assert accumulate(decoded.frames).output_text == "Hi"


def test_repeated_ids_and_call_ids_are_told_apart() -> None:
    first, second = call(0, ["{}"], call_id="same")[0], call(1, ["{}"], call_id="same")[0]
    for event in second:
        if "item_id" in event:
            event["item_id"] = "fc_0"
        if "item" in event:
            event["item"] = {**event["item"], "id": "fc_0"}
    decoded = run([*opening(), *first, *second, {"type": "response.completed", "response": response("completed")}])
    made = accumulate(decoded.frames).output
    assert [item.id for item in made] == ["fc_0", f"fc_{TURN}_1"]
    assert [item.call_id for item in made] == ["same", f"call_{TURN}_1"]


def test_indexes_are_dense_in_order_of_appearance() -> None:
    events, item = message(5, ["Hi"], "msg_x")
    for event in events:
        if "content_index" in event:
            event["content_index"] = 1
    ends = [{"type": "response.completed", "response": response("completed", [item])}]
    decoded = run([*opening(), *events, *ends])
    frames = data_of(decoded.frames)
    assert {frame["output_index"] for frame in frames[2:-1]} == {0}
    assert {frame["content_index"] for frame in frames if "content_index" in frame} == {0}
    assert accumulate(decoded.frames).output_text == "Hi"


def test_the_previous_response_is_named_as_the_client_named_it() -> None:
    _, output = push(started(response={"previous_response_id": "resp_ours"}), delta("Hi"), done())
    shown = [frame["response"]["previous_response_id"] for frame in data_of(output.frames) if "response" in frame]
    assert set(shown) == {"resp_ours"}


def test_an_unknown_event_passes_with_its_names_mended() -> None:
    events = [
        *opening(),
        {"type": "response.brand_new", "x": 1, "response": {"id": "resp_upstream"}, "error": {"a": 1}},
    ]
    frame = data_of(run(events).frames)[2]
    assert frame == {
        "type": "response.brand_new",
        "x": 1,
        "response": {"id": RESPONSE},
        "upstream_error": {"a": 1},  # under its own name the official SDK takes it for the end
        "sequence_number": 2,
    }


def test_an_unknown_kind_of_item_passes_whole() -> None:
    item = {"id": "x_0", "type": "hologram", "status": "completed", "depth": [1, 2]}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": {"id": "x_0", "type": "hologram"}},
        {"type": "response.hologram.ready", "output_index": 0, "item_id": "x_0"},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]
    whole = [*opening(), *events, {"type": "response.completed", "response": response("completed", [item])}]
    decoded = run(whole)
    assert data_of(decoded.frames) == expected_of(whole)
    with pytest.raises(WireError) as refused:
        run(whole, Validation.STRICT)
    assert refused.value.diagnostic.code == "kind_unsupported"


def test_a_failure_before_anything_is_created_then_failed() -> None:
    turn, output = push(
        started(model="model-1"), TurnFailed(seq=1, at=0, error=ErrorInfo(code="connect_failed", message="refused"))
    )
    assert types_of(output.frames) == ["response.created", "response.failed"]
    shown = data_of(output.frames)[-1]["response"]
    assert (shown["status"], shown["error"]) == ("failed", {"code": "connect_failed", "message": "refused"})
    assert (shown["model"], shown["created_at"]) == ("model-1", 1_700_000_000)
    assert (turn.status, turn.error) == ("failed", {"code": "connect_failed", "message": "refused"})


def test_a_cancelled_turn_is_incomplete_in_public_and_keeps_its_text() -> None:
    turn, output = push(started(), delta("Half a"), TurnCancelled(seq=2, at=0, reason="client"))
    last = data_of(output.frames)[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "cancelled"}
    assert last["response"]["output"][0]["status"] == "incomplete"
    assert [block.text for block in output.blocks] == ["Half a"]
    assert turn.status == "cancelled"


def test_a_failed_turn_keeps_its_blocks() -> None:
    _, output = push(started(), delta("Half a"), TurnFailed(seq=2, at=0, error=ErrorInfo(code="x", message="y")))
    assert [block.text for block in output.blocks] == ["Half a"]
    assert data_of(output.frames)[-1]["response"]["output"][0]["content"][0]["text"] == "Half a"


@pytest.mark.parametrize(
    ("limits", "events", "code"),
    [
        ({"item_text_chars": 4}, [delta("abc"), delta("def")], "item_text_chars"),
        ({"turn_items": 1}, [delta("a"), delta("b", item=1)], "turn_items"),
    ],
)
def test_an_exceeded_bound_ends_the_turn_by_its_name_and_keeps_what_there_was(
    limits: dict[str, int], events: list[Event], code: str
) -> None:
    turn, output = push(started(limits=limits), *events, delta("more"), done())
    last = data_of(output.frames)[-1]
    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", code)
    assert turn.error is not None
    assert (turn.status, turn.error["code"]) == ("failed", code)
    assert text_of(output.blocks) == "a" if code == "turn_items" else "abc"


def test_nothing_follows_the_end() -> None:
    turn, _ = push(started(), delta("Hi"), done())
    assert turn.push(delta("late")) == Output()
    assert turn.ended
    turn.finish()
    with pytest.raises(MisuseError):
        turn.push(delta("later"))
    with pytest.raises(MisuseError):
        turn.finish()


def test_a_turn_without_its_end_is_running() -> None:
    turn, _ = push(started(), delta("Hi"))
    payload = turn.finish()
    assert (payload.status, payload.response["status"]) == ("running", "in_progress")
    assert payload.response["output"][0]["type"] == "message"


def test_a_muted_turn_makes_the_same_blocks_and_payload_and_no_frames() -> None:
    events = run(whole_turn()).events
    loud, muted = Turn(TURN), Turn(TURN, relay=False)
    blocks: list[list[Any]] = [[], []]
    for event in events:
        blocks[0] += loud.push(event).blocks
        output = muted.push(event)
        assert output.frames == []
        blocks[1] += output.blocks
    assert blocks[0] == blocks[1]
    assert loud.finish().response == muted.finish().response


def test_an_idle_event_gives_out_what_is_held() -> None:
    turn, output = push(started(settings={"min_chars": 3, "idle_ms": 700}), delta("Hello"))
    assert (turn.wants_idle_after_ms, output.blocks) == (700, [])
    blocks = turn.push(Status(seq=2, at=0, name="idle")).blocks
    assert ([block.text for block in blocks], turn.wants_idle_after_ms) == (["Hello"], None)
