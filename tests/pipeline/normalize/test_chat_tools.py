"""Which call a piece belongs to: the rules, one by one, and what servers make of them."""

import time

from pipeline.normalize.chat.tools import Call, Calls, Piece
from tests.pipeline.normalize.chat_streams import DONE, STOP, body, calls, chunk, defects, run, text, tool


def test_a_known_id_is_its_call_whatever_the_index_says() -> None:
    assert calls(tool(0, "a", "f", "1"), tool(1, "b", "g", "2"), tool(1, "a", None, "0")) == [
        "t+ 0 a f function",
        "d 0.0 tool_input '1'",
        "t+ 1 b g function",
        "d 1.0 tool_input '2'",
        "d 0.0 tool_input '0'",
        "t- 0 a completed '10'",
        "t- 1 b completed '2'",
    ]


def test_a_late_id_is_adopted_by_the_call_that_has_neither_id_nor_arguments() -> None:
    assert calls(tool(0, None, "f"), tool(0, "a"), tool(0, None, None, "{}"))[0] == "t+ 0 a f function"


def test_a_new_id_at_a_taken_index_is_a_new_call() -> None:
    assert [line for line in calls(tool(0, "a", "f", "{}"), tool(0, "b", "g", "[]"), tool(0, None, None, " ")) if line[:2] == "t-"] == [
        "t- 0 a completed '{}'",
        "t- 1 b completed '[] '",
    ]  # fmt: skip


def test_a_name_and_arguments_after_whole_arguments_are_a_new_call() -> None:
    made = calls(tool(0, None, "f", '{"a":'), tool(0, None, "f", '"}"}'), tool(0, None, "f", "{}"))
    assert [line for line in made if line[:2] == "t-"] == [
        't- 0 call_0 completed \'{"a":"}"}\'',
        "t- 1 call_1 completed '{}'",
    ]


def test_without_an_index_a_name_begins_a_call_and_the_rest_goes_on_with_the_last() -> None:
    made = calls(
        tool(None, None, "f", "1"), tool(None, None, None, "2"), tool(None, None, "g", "3"), tool(None, "", "", "4")
    )
    assert [line for line in made if line[:2] == "t-"] == ["t- 0 call_0 completed '12'", "t- 1 call_1 completed '34'"]


def test_pieces_wait_for_the_name_and_a_call_that_never_gets_one_is_told_at_the_end() -> None:
    assert calls(tool(0, "a", None, "{"), tool(0, None, None, "}")) == [
        "t+ 0 a  function",
        "d 0.0 tool_input '{'",
        "d 0.0 tool_input '}'",
        "t- 0 a completed '{}'",
    ]


def test_a_custom_tool_and_the_old_function_call() -> None:
    custom = chunk({"tool_calls": [{"index": 0, "id": "k", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]})
    assert calls(custom)[:2] == ["t+ 0 k sh custom", "d 0.0 tool_input 'ls'"]
    old = [chunk({"function_call": {"name": "f", "arguments": ""}}), chunk({"function_call": {"arguments": "{}"}})]
    assert calls(*old) == ["t+ 0 call_0 f function", "d 0.0 tool_input '{}'", "t- 0 call_0 completed '{}'"]


def test_what_a_piece_says_beside_rides_along() -> None:
    piece = {
        "index": 0,
        "id": "k",
        "function": {"name": "f", "arguments": "{}", "mood": "x"},
        "extra_content": {"s": 1},
    }
    events = run(body(chunk({"tool_calls": [piece]}), tool(0, None, "other"), STOP, DONE))
    told = [(getattr(event, "wire", None) or {}).get("call") for event in events]
    assert {"item": 0, "extra_content": {"s": 1}, "function": {"mood": "x"}} in told
    assert {"item": 0, "name": "other"} in told


def test_calls_end_in_order_beside_text_that_came_between() -> None:
    made = calls(text("A"), tool(0, "a", "f", "{"), text("B"), tool(0, None, None, "}"), tool(1, "b", "g"))
    assert made == [
        "d 0.0 text 'A'",
        "f 0.0 text 'A'",
        "t+ 1 a f function",
        "d 1.0 tool_input '{'",
        "d 2.0 text 'B'",
        "d 1.0 tool_input '}'",
        "f 2.0 text 'B'",
        "t+ 3 b g function",
        "t- 1 a completed '{}'",
        "t- 3 b completed ''",
    ]
    assert defects(run(body(tool(None, "a", "f", "{}"), STOP, DONE))) == ["index_invalid"]


def test_whether_arguments_are_whole_is_found_out_in_one_pass() -> None:
    for pieces, whole in (
        (["{", "}"], True),
        (['{"a":"', "}", '"', "}"], True),
        (['{"a":"\\', '"}"}'], True),
        (['{"a":"\\\\', '"}'], True),
        (["{}", "{}"], False),
        (["{}", " "], True),
        (["{a}"], False),
        (["[1", "]"], True),
        ([], False),
    ):
        call = Call(0)
        for piece in pieces:
            call.slot.pieces.append(piece)
            call.is_whole  # noqa: B018  asked after each piece, as the rule does
        assert call.is_whole is whole, pieces


def test_a_call_whose_name_comes_with_every_piece_is_read_in_linear_time() -> None:
    found, began = Calls(), time.process_time()
    piece = Piece({"index": 0, "function": {"name": "f", "arguments": '{"a":"' + "x" * 50}})
    for _ in range(20_000):
        call = found.find(piece) or found.add(0)
        found.bind(call, piece)
        call.slot.pieces.append(piece.arguments)
    assert len(found.all) == 1
    assert time.process_time() - began < 10
