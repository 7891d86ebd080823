"""Each refusal of the strict grammar, from one change to a conforming stream; lenient reads every one of them."""

import copy
from collections.abc import Callable

import pytest

from pipeline.errors import WireError
from pipeline.events import ErrorInfo, Event, Status, TurnCompleted, TurnFailed
from pipeline.turn import Validation, decode
from pipeline.validate import GRAMMAR, Validator
from tests.pipeline.staged import started
from tests.pipeline.streams import TURN, Json, body, message, opening, response, run, whole_turn

Change = Callable[[list[Json]], None]


def at(events: list[Json], kind: str) -> int:
    return next(index for index, event in enumerate(events) if event["type"] == kind)


def no_created(events: list[Json]) -> None:
    del events[0]


def no_in_progress(events: list[Json]) -> None:
    del events[1]


def in_progress_late(events: list[Json]) -> None:
    events[1], events[2] = events[2], events[1]


def other_response(events: list[Json]) -> None:
    events[1]["response"]["id"] = "resp_other"


def wrong_status(events: list[Json]) -> None:
    events[-1]["response"]["status"] = "in_progress"


def no_terminal(events: list[Json]) -> None:
    del events[-1]


def after_the_end(events: list[Json]) -> None:
    events.append({"type": "response.brand_new"})


def item_never_done(events: list[Json]) -> None:
    del events[at(events, "response.output_item.done")]


def done_without_added(events: list[Json]) -> None:
    del events[at(events, "response.output_item.added")]


def done_twice(events: list[Json]) -> None:
    index = at(events, "response.output_item.done")
    events.insert(index, copy.deepcopy(events[index]))


def delta_of_another_id(events: list[Json]) -> None:
    events[at(events, "response.output_text.delta")]["item_id"] = "msg_other"


def done_of_another_id(events: list[Json]) -> None:
    events[at(events, "response.output_item.done")]["item"]["id"] = "rs_other"


def unknown_kind(events: list[Json]) -> None:
    for event in events:
        if event.get("item", {}).get("type") == "web_search_call":
            event["item"]["type"] = "hologram"


def terminal_lists_less(events: list[Json]) -> None:
    events[-1]["response"]["output"].pop()


def terminal_lists_another_order(events: list[Json]) -> None:
    events[-1]["response"]["output"].reverse()


def terminal_repeats_an_id(events: list[Json]) -> None:
    output = events[-1]["response"]["output"]
    output[1] = {**output[1], "id": output[0]["id"]}


def call_id_changes(events: list[Json]) -> None:
    output = events[-1]["response"]["output"]
    output[3] = {**output[3], "call_id": "call_other"}


def no_delta_member(events: list[Json]) -> None:
    del events[at(events, "response.output_text.delta")]["delta"]


REFUSALS: list[tuple[Change, str]] = [
    (no_created, "lifecycle_order"),
    (no_in_progress, "lifecycle_order"),
    (in_progress_late, "lifecycle_order"),
    (other_response, "response_id_changed"),
    (wrong_status, "status_mismatch"),
    (no_terminal, "terminal_missing"),
    (after_the_end, "after_terminal"),
    (item_never_done, "items_unfinished"),
    (unknown_kind, "kind_unsupported"),
    (terminal_lists_less, "terminal_output_mismatch"),
    (terminal_lists_another_order, "terminal_output_mismatch"),
    (terminal_repeats_an_id, "item_repeated"),
    (call_id_changes, "call_id_changed"),
    (no_delta_member, "member_missing"),
    (delta_of_another_id, "identity_mismatch"),
    (done_of_another_id, "identity_mismatch"),
    (done_without_added, ""),
    (done_twice, ""),
]


@pytest.mark.parametrize(("change", "code"), REFUSALS, ids=lambda value: getattr(value, "__name__", value))
def test_strict_refuses_by_name_what_lenient_reads(change: Change, code: str) -> None:
    events = copy.deepcopy(whole_turn())
    change(events)
    with pytest.raises(WireError) as refused:
        run(events, Validation.STRICT)
    diagnostic = refused.value.diagnostic
    assert not code or diagnostic.code == code
    assert diagnostic.turn == TURN
    decoded = run(events)
    assert decoded.payload.status == ("failed" if change is no_terminal else "completed")


def test_strict_refuses_a_malformed_frame() -> None:
    data = body(opening()) + b"data: {not json\n\n" + body(whole_turn()[2:])
    with pytest.raises(WireError) as refused:
        decode([data], "responses", Validation.STRICT, turn=TURN)
    assert refused.value.diagnostic.code == "malformed_frame"
    assert decode([data], "responses", turn=TURN).payload.status == "completed"


def test_strict_takes_a_queued_response_and_a_failure_right_after_created() -> None:
    created, in_progress = opening()
    queued = {"type": "response.queued", "response": response("queued")}
    end = {"type": "response.completed", "response": response("completed", [message(0, ["Hi"])[1]])}
    run([created, queued, in_progress, *message(0, ["Hi"])[0], end], Validation.STRICT)
    failed = {"type": "response.failed", "response": response("failed", error={"code": "x", "message": "y"})}
    run([created, failed], Validation.STRICT)


def test_the_grammar_ends_only_in_the_three_terminals() -> None:
    ends = {kind for (_, kind), stage in GRAMMAR.items() if stage.value == "ended"}
    assert ends == {"response.completed", "response.incomplete", "response.failed"}


# The grammar by itself, over events that no adapter of ours would make of a stream


def status(name: str, number: int | None = None, **wire: object) -> Status:
    return Status(seq=7, at=0, name=name, item=number, wire=wire)


def strict(*events: Event, wire: str = "canonical") -> Validator:
    validator = Validator(TURN, Validation.STRICT)
    for event in [started(wire=wire), *events]:
        validator.check(event)
    return validator


def lifecycle(kind: str, **more: object) -> Status:
    return status("x", type=f"response.{kind}", response={"id": "r", **more})


BEGUN = (lifecycle("created"), lifecycle("in_progress"))
FAILED = TurnFailed(seq=9, at=0, error=ErrorInfo(code="upstream_truncated"))
DONE = TurnCompleted(seq=9, at=0, outcome="completed")


def item(word: str, number: int | None, **members: object) -> Status:
    return status("x", number, type=f"response.output_item.{word}", item=members)


ODD: list[tuple[tuple[Event, ...], str]] = [
    ((status("x", type="response.created"),), "member_missing"),
    ((*BEGUN, item("added", 0, type="message", id="a"), item("added", 0, type="message", id="b")), "item_repeated"),
    (
        (*BEGUN, item("added", 0, type="message", id="a"), item("done", 0, type="reasoning", id="a")),
        "identity_mismatch",
    ),
    ((*BEGUN, FAILED), "terminal_missing"),
    ((*BEGUN, TurnFailed(seq=9, at=0, error=ErrorInfo(code="x"), wire={"type": "error"})), "terminal_missing"),
    ((*BEGUN, DONE, status("x", type="response.brand_new")), "after_terminal"),
    ((status("malformed"),), "malformed_frame"),
    ((status("x", defects=["odd"]),), "defect"),
]


@pytest.mark.parametrize(("events", "code"), ODD)
def test_the_grammar_refuses_by_itself(events: tuple[Event, ...], code: str) -> None:
    with pytest.raises(WireError) as refused:
        strict(*events)
    assert (refused.value.diagnostic.code, refused.value.diagnostic.turn) == (code, TURN)


def test_the_grammar_takes_what_says_nothing_of_a_rule() -> None:
    strict(*BEGUN, item("added", None, type="message"), item("added", 0, id="no kind"), item("done", None, id="a"))
    strict(*BEGUN, status("x", type="response.output_item.added", item="none"))
    strict(*BEGUN, status("x"), status("x", defects=7), TurnFailed(seq=9, at=0, error=ErrorInfo(code="timeout")))
    output = [{"type": "compaction", "id": 7, "encrypted_content": ""}]
    ended = lifecycle("completed", output=output)
    strict(*BEGUN, item("added", 0, type="compaction", id="c"), item("done", 0, type="compaction", id="c"), ended)


def test_other_wires_have_their_own_grammar_and_one_end() -> None:
    strict(status("x", type="response.brand_new"), DONE, wire="chat")


def test_lenient_takes_everything() -> None:
    Validator(TURN, Validation.LENIENT).check(status("malformed"))
