"""The rules of the Responses stream, one by one: what strict refuses and by which code, and what lenient makes of the same.

The numbers are those of the two lists of rules that the grammar was built from: `strict n` refuses, `lenient n` tolerates.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.errors import WireError
from pipeline.events import Status
from pipeline.normalize.responses.tables import PROGRESS, REQUIRED
from pipeline.turn import Decoded, Validation, decode
from tests.pipeline.kinds.test_table import whole_turn as turn_of
from tests.pipeline.streams import (
    TURN,
    Json,
    body,
    call,
    data_of,
    message,
    opening,
    reasoning,
    response,
    run,
    whole_turn,
)
from tests.pipeline.test_turn_properties import check_public

Events = list[Json]


def end(*items: Json, status: str = "completed", **more: Any) -> Json:
    return {"type": f"response.{status}", "response": response(status, list(items), **more)}


def fresh(events: Events) -> Events:
    """A copy that shares nothing within itself, as what was read from bytes does not."""
    made: Events = json.loads(json.dumps(events))
    return made


TEXT, ITEM = message(0, ["H", "i"])
CALL, CALLED = call(0, ['{"a"', ":1}"])
THOUGHT, _ = reasoning(0, ["T"])


def text_turn(*, at: int | None = None, put: Json | None = None, drop: int | None = None) -> Events:
    """A turn of one message: created, in_progress, added, part added, two deltas, text done, part done, done, completed."""
    events = fresh([*opening(), *TEXT, end(ITEM)])
    if at is not None and put is not None:
        events.insert(at, put)
    if drop is not None:
        del events[drop]
    return events


def changed(events: Events, index: int, path: str, value: Any = None, *, remove: bool = False) -> Events:
    """Events with one member of one of them changed or removed."""
    events = fresh(events)
    holder: Any = events[index]
    *way, last = path.split(".")
    for step in way:
        holder = holder[int(step) if isinstance(holder, list) else step]
    if remove:
        del holder[last]
    else:
        holder[int(last) if isinstance(holder, list) else last] = value
    return events


WHOLE = text_turn()
CALL_TURN = [*opening(), *CALL, end(CALLED)]
DELTA, TEXT_DONE, PART_DONE, DONE, END = 4, 6, 7, 8, 9
UNKNOWN = {"type": "response.brand_new", "x": 1}
KEEPALIVE = {"type": "keepalive"}
RENAMED = {**CALLED, "call_id": "call_other"}

STRICT: list[tuple[str, Events, str]] = [
    ("strict 2: no type", changed(WHOLE, DELTA, "type", remove=True), "type_missing"),
    ("strict 2: an empty type", changed(WHOLE, DELTA, "type", ""), "type_missing"),
    ("strict 2: a type that is no string", changed(WHOLE, DELTA, "type", 7), "type_missing"),
    ("strict 4: created is completed", changed(WHOLE, 0, "response.status", "completed"), "status_mismatch"),
    ("strict 4: in_progress is queued", changed(WHOLE, 1, "response.status", "queued"), "status_mismatch"),
    ("strict 4: completed is failed", changed(WHOLE, END, "response.status", "failed"), "status_mismatch"),
    ("strict 4: failed is completed", [*WHOLE[:-1], {"type": "response.failed", "response": response("completed")}], "status_mismatch"),
    ("strict 5: an unknown kind", json.loads(json.dumps(WHOLE).replace('"message"', '"hologram"')), "kind_unsupported"),
    ("strict 5: the older name of a kind", [*opening(), {"type": "response.output_item.added", "output_index": 0, "item": {"id": "m", "type": "mcp_tool_call"}}], "kind_unsupported"),
    ("strict 6: a message without content", changed(WHOLE, DONE, "item.content", remove=True), "item_invalid"),
    ("strict 6: a part without a type", changed(WHOLE, DONE, "item.content.0", {"text": "Hi"}), "item_invalid"),
    ("strict 6: arguments that are an object", changed(CALL_TURN, -2, "item.arguments", {}), "item_invalid"),
    ("strict 7: created is not first", text_turn(drop=0), "lifecycle_order"),
    ("strict 7: an item before in_progress", text_turn(drop=1), "lifecycle_order"),
    ("strict 7: an unknown event before in_progress", text_turn(at=1, put=UNKNOWN), "lifecycle_order"),
    ("strict 7: a sign of life before in_progress", text_turn(at=1, put=KEEPALIVE), "lifecycle_order"),
    ("strict 7: created again", text_turn(at=4, put=opening()[0]), "created_repeated"),
    ("strict 7: in_progress again", text_turn(at=4, put=opening()[1]), "lifecycle_order"),
    ("strict 7: another response at in_progress", changed(WHOLE, 1, "response.id", "resp_b"), "response_id_changed"),
    ("strict 7: another response at the terminal", changed(WHOLE, END, "response.id", "resp_b"), "response_id_changed"),
    ("strict 7: completed before in_progress", [opening()[0], end()], "lifecycle_order"),
    ("strict 8: an unknown event after the terminal", [*WHOLE, UNKNOWN], "after_terminal"),
    ("strict 8: a sign of life after the terminal", [*WHOLE, KEEPALIVE], "after_terminal"),
    ("strict 8: a second terminal", [*WHOLE, WHOLE[-1]], "after_terminal"),
    ("strict 9: a delta without its item", text_turn(drop=2), "no_active_item"),
    ("strict 9: a done without its item", [*opening(), CALL[-1], end(CALLED)], "item_unknown"),
    ("strict 9: a done that is repeated", text_turn(at=DONE, put=TEXT[-1]), "repeated"),
    ("strict 9: a done that conflicts", text_turn(at=END, put=changed(TEXT, -1, "item.role", "user")[-1]), "done_conflicts"),
    ("strict 9: a delta after done", text_turn(at=END, put=TEXT[2]), "item_done"),
    ("strict 9: a progress of no item", text_turn(at=2, put={"type": "response.web_search_call.searching", "output_index": 5, "item_id": "w"}), "item_unknown"),
    ("strict 10: a delta of another kind", text_turn(at=DELTA, put={**THOUGHT[2], "item_id": "msg_0"}), "kind_mismatch"),
    ("strict 10: an input of another kind", [*opening(), CALL[0], {**CALL[1], "type": "response.custom_tool_call_input.delta"}], "kind_mismatch"),
    ("strict 10: a delta under another id", changed(WHOLE, DELTA, "item_id", "msg_b"), "identity_mismatch"),
    ("strict 10: a done under another id", changed(WHOLE, DONE, "item.id", "msg_b"), "identity_mismatch"),
    ("strict 10: a done of another kind", changed(WHOLE, DONE, "item", {**CALLED, "id": "msg_0"}), "item_unknown"),
    ("strict 10: an added that is repeated", text_turn(at=3, put=TEXT[0]), "repeated"),
    ("strict 10: an index that is taken", text_turn(at=3, put=changed(message(0, ["x"], "msg_b")[0], 0, "output_index", 0)[0]), "index_reused"),
    ("strict 10: an id that is taken", text_turn(at=DONE + 1, put={**TEXT[0], "output_index": 1}), "item_repeated"),
    ("strict 11: completed with an open item", text_turn(drop=DONE), "items_unfinished"),
    ("strict 11: incomplete with an open item", [*WHOLE[:DONE], end(ITEM, status="incomplete")], "items_unfinished"),
    ("strict 11: failed with an open item", [*WHOLE[:DONE], end(ITEM, status="failed")], "items_unfinished"),
    ("strict 12: an output that is no array", changed(WHOLE, END, "response.output", {}), "terminal_output_invalid"),
    ("strict 12: an item that is no object", changed(WHOLE, END, "response.output", [7]), "terminal_output_invalid"),
    ("strict 12: an item without a kind", changed(WHOLE, END, "response.output.0.type", remove=True), "terminal_output_invalid"),
    ("strict 12: an item of an unknown kind", changed(WHOLE, END, "response.output.0.type", "hologram"), "kind_unsupported"),
    ("strict 12: an item of another kind", changed(WHOLE, END, "response.output", [CALLED]), "terminal_output_mismatch"),
    ("strict 12: an item too many", changed(WHOLE, END, "response.output", [ITEM, CALLED]), "terminal_output_mismatch"),
    ("strict 12: an item of no form", changed(WHOLE, END, "response.output.0.content", 7), "item_invalid"),
    ("strict 12: two items under one id", [*turn_of(["compaction", "program"])[:-1], end({**turn_of(["compaction"])[-2]["item"]}, {**turn_of(["program"])[-2]["item"]})], "item_repeated"),
    ("strict 13: a call id that changes at done", changed(CALL_TURN, -2, "item.call_id", "call_b"), "call_id_changed"),
    ("strict 13: a call id that changes at the terminal", [*opening(), *CALL, end(RENAMED)], "call_id_changed"),
    ("strict 13: without the terminal's output", changed(changed(CALL_TURN, -2, "item.call_id", "call_b"), -1, "response.output", remove=True), "call_id_changed"),
    ("strict 14: no terminal", text_turn(drop=END), "terminal_missing"),
]  # fmt: skip


def refused(events: Events) -> str:
    with pytest.raises(WireError) as raised:
        run(events, Validation.STRICT)
    assert raised.value.diagnostic.turn == TURN
    return raised.value.diagnostic.code


@pytest.mark.parametrize(("events", "code"), [row[1:] for row in STRICT], ids=[row[0] for row in STRICT])
def test_strict_refuses_by_name_and_lenient_keeps_the_public_stream_whole(events: Events, code: str) -> None:
    assert refused(events) == code
    check_public(run(events).frames)


# strict 1: frames that are no JSON objects
@pytest.mark.parametrize("data", [b"{not json", b"null", b"[]", b"7", b'"text"', b"{}trailing"])
def test_strict_1_refuses_a_frame_that_is_no_object_and_lenient_skips_it(data: bytes) -> None:
    stream = body(opening()) + b"data: " + data + b"\n\n" + body(WHOLE[2:])
    with pytest.raises(WireError) as raised:
        decode([stream], "responses", Validation.STRICT, turn=TURN)
    assert raised.value.diagnostic.code == "malformed_frame"
    assert data_of(decode([stream], "responses", turn=TURN).frames) == data_of(run(WHOLE).frames)


# strict 3: what an event must have, by the table of required members
_MEMBERS: dict[str, Json] = {
    "refusal.delta": {"content_index": 0, "delta": "x"},
    "refusal.done": {"content_index": 0, "refusal": "x"},
    "reasoning_text.delta": {"content_index": 0, "delta": "x"},
    "reasoning_text.done": {"content_index": 0, "text": "x"},
    "reasoning_part.added": {"content_index": 0, "part": {}},
    "reasoning_part.done": {"content_index": 0, "part": {}},
    "custom_tool_call_input.delta": {"delta": "x"},
    "custom_tool_call_input.done": {"input": "x"},
    "mcp_call_arguments.delta": {"delta": "x"},
    "mcp_call_arguments.done": {"arguments": "x"},
    "code_interpreter_call_code.delta": {"delta": "x"},
    "code_interpreter_call_code.done": {"code": "x"},
    "shell_call_command.added": {"command_index": 0, "command": ""},
    "shell_call_command.delta": {"command_index": 0, "delta": "x"},
    "shell_call_command.done": {"command_index": 0, "command": "x"},
    "apply_patch_call_operation_diff.delta": {"delta": "x"},
    "apply_patch_call_operation_diff.done": {"diff": "x"},
}
SHAPES: dict[str, Json] = {
    event["type"]: event
    for events in (
        [*opening(), {"type": "response.queued", "response": response("queued")}],
        *(made[0] for made in (message(0, ["x"]), call(0, ["{}"]), reasoning(0, ["T"]))),
        [end(status=status) for status in ("completed", "incomplete", "failed")],
        [{**end(), "type": "response.done"}],
        [{"type": f"response.{name}", "item_id": "i", "output_index": 0, **more} for name, more in _MEMBERS.items()],
        [{"type": name, "item_id": "i", "output_index": 0} for name in PROGRESS],
    )
    for event in events
}
WRONG: dict[str, list[Any]] = {
    "object": [None, 7, []],
    "index": [None, -1, 1.5, "0", 2**32],
    "string": [None, 7],
    "id": [None, "", 7],
}
CASES = [
    (kind, path, form, value)
    for kind, rules in REQUIRED.items()
    for path, form in rules
    for value in [..., *WRONG.get(form.rstrip("?").replace("item_id", "id"), [None, "odd", 7])]
]


def test_strict_3_has_an_example_of_every_event_with_a_rule() -> None:
    assert set(REQUIRED) == set(SHAPES)


@pytest.mark.parametrize(("kind", "path", "form", "value"), CASES)
def test_strict_3_refuses_a_member_that_is_missing_or_of_another_form(
    kind: str, path: str, form: str, value: object
) -> None:
    event = changed([SHAPES[kind]], 0, path, value, remove=value is ...)[0]
    before = (
        []
        if kind == "response.created"
        else opening()[: 2 if kind not in {"response.queued", "response.in_progress"} else 1]
    )
    events = [*before, event]
    if form == "id?" and value is ...:
        assert refused(events) in {"no_active_item", "item_unknown"}
        return
    if path == "item.type" and value in ("", 7, None, ...):
        assert refused(events) in {"member_missing", "member_invalid"}
        return
    expected = "member_missing" if value is ... else "index_invalid" if form == "index" else "member_invalid"
    if form[0] == "=" and isinstance(value, str):
        expected = "status_mismatch"
    assert refused(events) == expected
    run(events)


@pytest.mark.parametrize("number", [-1, 0, None, 2**63])
def test_a_sequence_number_may_be_any_integer_or_none(number: int | None) -> None:
    stream = b"".join(b"data: %b\n\n" % json.dumps({**event, "sequence_number": number}).encode() for event in WHOLE)
    assert decode([stream], "responses", Validation.STRICT).payload.status == "completed"
    odd = stream.replace(json.dumps({"sequence_number": number})[1:-1].encode(), b'"sequence_number": "7"')
    with pytest.raises(WireError) as raised:
        decode([odd], "responses", Validation.STRICT)
    assert raised.value.diagnostic.code == "sequence_invalid"


STRICT_TAKES: list[tuple[str, Events]] = [
    ("a conforming turn", whole_turn()),
    ("ids that are others at the terminal", changed(WHOLE, END, "response.output.0.id", "msg_b")),
    ("a terminal without output", changed(WHOLE, END, "response.output", remove=True)),
    ("a terminal whose output is null", changed(WHOLE, END, "response.output", None)),
    ("a terminal whose output is empty", changed(WHOLE, END, "response.output", [])),
    ("other text at the terminal", changed(WHOLE, END, "response.output.0.content.0.text", "?")),
    ("a call without a name", json.loads(json.dumps(CALL_TURN).replace('"look_up"', "null"))),
    ("a call without call ids", json.loads(json.dumps(CALL_TURN).replace('"call_0"', '""'))),
    ("a call id that changes in a failed response", [*opening(), *CALL, end(RENAMED, status="failed")]),
    ("an id that stands beside the item", changed(changed(turn_of(["web_search_call"]), 2, "item.id", None), 2, "item.item_id", "item_0")),
    ("signs of life and unknown events", [*WHOLE[:3], KEEPALIVE, UNKNOWN, *WHOLE[3:]]),
    ("a response in the background", [{"type": "response.created", "response": response("queued")}, {"type": "response.queued", "response": response("queued")}, *WHOLE[1:]]),
    ("a failure right after created", [opening()[0], end(status="failed")]),
    ("completed that is incomplete", changed(WHOLE, END, "response.status", "incomplete")),
    ("the old name of completed", changed(WHOLE, END, "type", "response.done")),
    ("items side by side", [*opening(), TEXT[0], *call(1, ["{}"])[0], *TEXT[1:], end(ITEM, call(1, ["{}"])[1])]),
]  # fmt: skip


@pytest.mark.parametrize("events", [row[1] for row in STRICT_TAKES], ids=[row[0] for row in STRICT_TAKES])
def test_strict_takes_what_no_rule_forbids_and_makes_the_same_of_it(events: Events) -> None:
    strict = run(events, Validation.STRICT)
    assert strict.frames == run(events).frames
    check_public(strict.frames)


# what lenient makes of a breach

PLAIN = run(WHOLE)


def same(decoded: Decoded) -> None:
    """Nothing of the breach is seen in public."""
    assert data_of(decoded.frames) == data_of(PLAIN.frames)


def text_and_status(text: str, status: str = "completed") -> Callable[[Decoded], None]:
    def check(decoded: Decoded) -> None:
        output = decoded.payload.response["output"]
        found = "".join(part["text"] for item in output if item["type"] == "message" for part in item["content"])
        assert (found, decoded.payload.status) == (text, status)

    return check


def kinds(*names: str) -> Callable[[Decoded], None]:
    def check(decoded: Decoded) -> None:
        assert tuple(item["type"] for item in decoded.payload.response["output"]) == names

    return check


def failed(code: str, text: str = "Hi") -> Callable[[Decoded], None]:
    def check(decoded: Decoded) -> None:
        assert decoded.payload.error is not None
        assert decoded.payload.error["code"] == code
        text_and_status(text, "failed")(decoded)

    return check


def mismatch(decoded: Decoded) -> None:
    assert any(isinstance(event, Status) and event.name == "mismatch" for event in decoded.events)
    same(decoded)


def check_call_id(decoded: Decoded) -> None:
    assert decoded.payload.response["output"][0]["call_id"] == "call_0"  # as its start was shown


def check_unknown(decoded: Decoded) -> None:
    assert {**UNKNOWN, "sequence_number": 4} in data_of(decoded.frames)


def without(events: Events, *members: str) -> Events:
    return [{name: value for name, value in event.items() if name not in members} for event in events]


LENIENT: list[tuple[str, Events, Callable[[Decoded], None]]] = [
    ("lenient 2: no created", WHOLE[1:], text_and_status("Hi")),
    ("lenient 2: no in_progress", [WHOLE[0], *WHOLE[2:]], same),
    ("lenient 2: neither", WHOLE[2:], text_and_status("Hi")),
    ("lenient 2: in_progress late", [WHOLE[0], *WHOLE[2:5], WHOLE[1], *WHOLE[5:]], same),
    ("lenient 3: another status", changed(changed(WHOLE, 0, "response.status", "odd"), 1, "response.status", 7), same),
    ("lenient 3: completed that is incomplete", changed(WHOLE, END, "response.status", "incomplete"), text_and_status("Hi", "incomplete")),
    ("lenient 4: no output index, known ids", without(WHOLE, "output_index"), same),
    ("lenient 5: two items without an index", without([*opening(), *TEXT, *message(1, ["!"])[0], end(ITEM, message(1, ["!"])[1])], "output_index"), text_and_status("Hi!")),
    ("lenient 6: neither index nor id", without(WHOLE, "output_index", "item_id"), same),
    ("lenient 7: a done without index and start", [*opening(), *without([CALL[-1]], "output_index"), end()], kinds("function_call")),
    ("lenient 8: no ids", without(WHOLE, "item_id"), same),
    ("lenient 8: an id that is learned late", changed(WHOLE, 2, "item.id", ""), text_and_status("Hi")),
    ("lenient 9: deltas before the start", [*opening(), *TEXT[2:4], TEXT[0], *TEXT[4:], end(ITEM)], text_and_status("Hi")),
    ("lenient 9: deltas without a start", [*opening(), *TEXT[2:4], end()], text_and_status("Hi")),
    ("lenient 10: a delta of another kind", text_turn(at=DELTA, put={**THOUGHT[2], "item_id": "msg_0"}), same),
    ("lenient 10: an input of another kind", [*opening(), *CALL[:2], {**CALL[1], "type": "response.mcp_call_arguments.delta"}, *CALL[2:], end(CALLED)], kinds("function_call")),
    ("lenient 11: a delta after done", text_turn(at=END, put=TEXT[2]), same),
    ("lenient 12: a done without a start", [*opening(), CALL[-1], end(CALLED)], kinds("function_call")),
    ("lenient 12: a message's done without a start", [*opening(), TEXT[-1], end(ITEM)], text_and_status("Hi")),
    ("lenient 13: a repeated done", text_turn(at=END, put=TEXT[-1]), same),
    ("lenient 13: a repeated done that says less", text_turn(at=END, put=changed(TEXT, -1, "item.role", remove=True)[-1]), same),
    ("lenient 14: a conflicting done", text_turn(at=END, put=changed(TEXT, -1, "item.role", "user")[-1]), mismatch),
    ("lenient 14: a conflicting text", text_turn(at=PART_DONE, put={**TEXT[4], "text": "Ho"}), mismatch),
    ("lenient 15: an item that is open at the end", text_turn(drop=DONE), text_and_status("Hi")),
    ("lenient 15: an item that is open at a cut", WHOLE[:DELTA + 1], failed("upstream_truncated", "H")),
    ("lenient 16: no terminal", text_turn(drop=END), failed("upstream_truncated")),
    ("lenient 17: events after the terminal", [*WHOLE, *message(1, ["late"])[0]], same),
    ("lenient 18: an output that says something else", changed(WHOLE, END, "response.output.0.content.0.text", "Ho"), text_and_status("Hi")),
    ("lenient 19: a call id that changes", [*opening(), *CALL, end(RENAMED)], check_call_id),
    ("lenient 20: an unknown event", text_turn(at=4, put=UNKNOWN), check_unknown),
    ("lenient 21: an index used again after done", [*opening(), *TEXT, *message(0, ["!"], "msg_b")[0], end(ITEM, message(0, ["!"], "msg_b")[1])], text_and_status("Hi!")),
    ("lenient 22: an error, then failed", [*WHOLE[:DONE], {"type": "error", "code": "boom", "message": "m"}, end(status="failed", error={"code": "boom", "message": "m"})], failed("boom")),
    ("lenient 22: an error alone", [*WHOLE[:DONE], {"type": "error", "error": {"code": "boom", "message": "m"}}], failed("boom")),
    ("lenient 22: an error, then completed", [*WHOLE[:DONE], {"type": "error", "code": "boom"}, WHOLE[END]], failed("boom")),
]  # fmt: skip


@pytest.mark.parametrize(("events", "check"), [row[1:] for row in LENIENT], ids=[row[0] for row in LENIENT])
def test_lenient_tolerates_and_the_public_stream_is_whole(events: Events, check: Callable[[Decoded], None]) -> None:
    decoded = run(events)
    check_public(decoded.frames)
    check(decoded)


def test_error_and_details_are_kept_from_every_terminal() -> None:
    for status in ("completed", "incomplete", "failed"):
        details, error = {"reason": "max_output_tokens"}, {"code": "x", "message": "y"}
        events = [*opening(), end(status=status, error=error, incomplete_details=details, service_tier="flex")]
        shown = run(events).payload.response
        assert (shown["error"], shown["incomplete_details"], shown["service_tier"]) == (error, details, "flex")
