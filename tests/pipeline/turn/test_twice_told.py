"""What is told again, too late, or by somebody whose word it is not: the first word stays, and the public stream is whole."""

import pytest

from pipeline.events import BlockFinal, Event, TurnStarted
from pipeline.turn import Turn
from tests.pipeline.staged import Stage, started, told
from tests.pipeline.streams import TURN, Json, data_of, message
from tests.pipeline.test_turn_properties import check_public
from tests.pipeline.turn.events import END, answer, call, delta, final, fold, item, status

SECOND = TurnStarted(
    seq=9, at=0, fold=1, runtime="main", wire="chat", turn=TURN, session="s", tools={"f": "web_search"}, model="other"
)


@pytest.mark.parametrize("place", range(5))
def test_a_turn_starts_once(place: int) -> None:
    events: list[Event] = [started(), call(), delta("{}", track="tool_input"), answer(text="{}"), END]
    whole, again = Turn(TURN), Turn(TURN)
    frames = [frame for event in events for frame in whole.push(event).frames]
    disturbed = [*events[: place + 1], SECOND, *events[place + 1 :]]
    assert [frame for event in disturbed for frame in again.push(event).frames] == frames
    assert again.finish() == whole.finish()


def test_a_start_behind_the_first_word_says_nothing() -> None:
    turn = Turn(TURN)
    frames = [frame for event in (delta("a"), SECOND, delta("b"), END) for frame in turn.push(event).frames]
    check_public(frames)
    assert data_of(frames)[-1]["response"]["model"] == ""


def test_nothing_is_added_to_an_input_behind_its_final_word() -> None:
    whole = status("input_finished", wire={"arguments": '{"a":1}'})
    late = delta("}", track="tool_input")
    frames, output, _ = fold(call(), delta('{"a":1}', track="tool_input"), whole, late, status("item_finished"))
    assert [frame["type"].rpartition(".")[2] for frame in frames] == ["added", "delta", "done", "done"]
    assert output[0]["arguments"] == '{"a":1}'


def test_the_final_word_on_an_input_is_the_items() -> None:
    cut_short: list[Event] = [
        call(),
        delta('{"a', track="tool_input"),
        status("input_finished", detail='{"a":1}'),
        answer(text=""),
    ]
    assert fold(*cut_short)[1][0]["arguments"] == '{"a":1}'


def test_a_call_has_one_input_whatever_number_is_put_on_it() -> None:
    frames, output, _ = fold(
        call(),
        delta('{"a"', track="tool_input", content=3),
        delta(":1}", track="tool_input"),
        final('{"a":1}', track="tool_input", content=1),
        status("item_finished"),
    )
    assert [frame["type"].rpartition(".")[2] for frame in frames] == ["added", "delta", "delta", "done", "done"]
    assert output[0]["arguments"] == '{"a":1}'


def test_an_empty_final_word_erases_no_input() -> None:
    empty = status("input_finished", wire={"type": "response.function_call_arguments.done", "arguments": ""})
    frames, output, _ = fold(call(), delta("{}", track="tool_input"), empty, status("item_finished"))
    assert [frame["arguments"] for frame in frames if frame["type"].endswith("arguments.done")] == ["{}"]
    assert output[0]["arguments"] == "{}"
    frames, _, _ = fold(call(), empty, answer())
    assert [frame["arguments"] for frame in frames if frame["type"].endswith("arguments.done")] == [""]


def test_text_of_an_item_that_only_had_input_is_not_its_own() -> None:
    frames, output, blocks = fold(delta("{}", track="tool_input"), delta("Hi"), final("Hi"), call(), answer(text="{}"))
    assert [frame["type"].rpartition(".")[2] for frame in frames] == ["added", "delta", "done", "done"]
    assert ([one["type"] for one in output], blocks) == (["function_call"], [])


@pytest.mark.parametrize("kind", ["compaction", "web_search_call", "brand_new_call", "mcp_list_tools"])
def test_progress_of_an_item_that_is_not_there_is_not_told(kind: str) -> None:
    wire: Json = {"type": f"response.{kind}.in_progress", "output_index": 4, "item_id": "x"}
    assert fold(status("unknown", item=None, wire=wire))[0] == []
    assert fold(status("in_progress", item=4, wire=wire))[0] == []


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "response.output_item.done", "output_index": 0, "item": {"type": "message", "id": "m"}},
        {"type": "response.output_item.added", "item": {"type": "message", "id": "m"}},
        {"type": "response.completed", "response": {}},
        {"type": "response.output_text.delta", "delta": "x"},
        {"type": "response.mcp_call.completed", "item_id": "x", "output_index": 0},
        {"type": ""},
    ],
)
def test_whoever_answers_calls_tells_no_part_of_the_output(wire: Json) -> None:
    stage = Stage({"find": "web_search"})
    stage.open()
    stage.upstream(*message(0, ["a"])[0][:-1])
    assert stage.tool_status("any", 0, wire=wire) == []
    aside = stage.tool_status("any", 0, wire={"type": "tool.note", "output_index": 0, "text": "hm"})
    assert told(aside) == ["tool.note"]
    stage.complete()
    check_public(stage.frames)


def test_items_that_end_before_anything_else_was_told_of_them() -> None:
    kinds = ["message", "reasoning", "function_call", "compaction", "brand_new"]
    ends = [status("item_finished", item=at, wire=item(kind, id=f"i{at}")) for at, kind in enumerate(kinds)]
    assert [one["type"] for one in fold(*ends, *ends)[1]] == kinds


def test_a_final_word_on_an_input_that_says_nothing_leaves_it_to_the_item() -> None:
    silent = status("input_finished", wire={"type": "response.function_call_arguments.done"})
    frames, output, _ = fold(call(), silent, answer(text="{}", wire=item("function_call", arguments="{}")))
    assert [frame["arguments"] for frame in frames if frame["type"].endswith("arguments.done")] == ["{}"]
    assert output[0]["arguments"] == "{}"


END_OF_TURN: Json = {
    "type": "response.completed",
    "response": {},
    "part": {"type": "output_text", "text": ""},
    "annotation": {"url": "u"},
}


def test_an_event_is_shown_as_what_it_is_whatever_type_stands_beside_it() -> None:
    """A producer outside writes what it likes; the structure of the stream is not its to write."""
    frames, _, _ = fold(
        status("item_started", wire=item("message", id="m")),
        status("part_started", 0, 0, wire=END_OF_TURN),
        delta("Hi", wire=END_OF_TURN),
        status("annotation", 0, 0, wire=END_OF_TURN),
        BlockFinal(seq=1, at=0, item=0, content=0, track="text", text="Hi", wire=END_OF_TURN),
        status("part_finished", 0, 0, wire=END_OF_TURN),
        status("item_finished", 0),
        call(1),
        delta("{}", 1, track="tool_input", wire=END_OF_TURN),
        status("input_finished", 1, wire=END_OF_TURN | {"arguments": "{}"}),
        answer(1, "{}"),
    )
    assert [frame["type"].removeprefix("response.") for frame in frames] == [
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    assert not any("response" in frame for frame in frames)
