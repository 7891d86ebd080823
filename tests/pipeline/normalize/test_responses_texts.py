"""What a stream says of each item: final words, kinds, rounds, and what is no text at all."""

from pipeline.events import BlockFinal, Status, ToolFinished, ToolStarted
from tests.pipeline.normalize.streams import (
    CREATED,
    IN_PROGRESS,
    Frame,
    added,
    body,
    completed,
    defects,
    delta,
    done,
    message,
    read,
    run,
    statuses,
    text_done,
    up,
)

HI = ["d 0.0 text 'Hi'", "f 0.0 text 'Hi'"]


def part(kind: str, index: int = 0, content: int = 0, text: str = "") -> Frame:
    return up(
        f"content_part.{kind}", index, item_id="m1", content_index=content, part={"type": "output_text", "text": text}
    )


def test_text_given_only_at_the_end_is_told_as_one_delta_first() -> None:
    assert read(added(message()), text_done("Hi"), completed())[1:3] == HI
    assert read(added(message()), part("added"), part("done", text="Hi"), completed())[1:3] == HI
    assert read(added(message()), done(message("m1", "Hi")), completed())[1:3] == HI


def test_a_text_done_twice_is_told_once() -> None:
    events = run(body(added(message()), delta("Hi"), text_done("Hi"), text_done("Hi"), text_done("Ho"), completed()))
    assert [event.text for event in events if isinstance(event, BlockFinal)] == ["Hi"]
    assert len(statuses(events, "mismatch")) == 1
    assert ("repeated", "$.type") in defects(events)


def test_an_item_is_found_by_its_id_when_its_index_was_given_to_another() -> None:
    assert read(
        added(message("a")),
        delta("A", item_id="a"),
        added({"type": "reasoning", "id": "r"}),
        delta("B", item_id="a"),
        done(message("a", "AB")),
        done({"type": "reasoning", "id": "r"}),
        done({"type": "compaction", "id": "c"}),
        completed(),
    ) == [
        "s item_started",
        "d 0.0 text 'A'",
        "s item_started",
        "d 0.0 text 'B'",
        "f 0.0 text 'AB'",
        "s item_started",
        "done completed",
    ]


def test_an_id_that_comes_late_is_learned() -> None:
    assert read(
        added(message("")), delta("A", item_id="late"), added(message("b"), 1), delta("B", None, "late"), completed()
    )[1:4] == ["d 0.0 text 'A'", "s item_started", "d 0.0 text 'B'"]
    assert "s ignored" in read(
        added(message("")), done(message("late", "A")), added(message("b"), 1), delta("B", None, "late"), completed()
    )


def test_an_empty_final_text_erases_nothing() -> None:
    assert read(added(message()), delta("Hi"), text_done(""), completed())[1:3] == HI
    assert read(added(message()), delta("Hi"), done(message("m1", "")), completed())[1:3] == HI


def test_a_final_text_that_differs_is_the_final_word_and_a_status_tells() -> None:
    assert read(added(message()), delta("Hi"), text_done("Ho"), completed())[1:4] == [
        "d 0.0 text 'Hi'",
        "f 0.0 text 'Ho'",
        "s mismatch",
    ]
    events = run(body(added(message()), delta("Hi"), text_done("Hi"), done(message("m1", "Ho")), completed()))
    assert statuses(events, "mismatch")[0].detail == {"event": "response.output_item.done", "track": "text", "chars": 2}


def test_parts_of_a_finished_message_are_matched_by_rank() -> None:
    assert read(
        added(message()), delta("A", content=1), delta("B", content=4), done(message("m1", "A", "B")), completed()
    )[1:] == ["d 0.1 text 'A'", "d 0.4 text 'B'", "f 0.1 text 'A'", "f 0.4 text 'B'", "done completed"]
    assert read(added(message()), delta("B", content=1), done(message("m1", "A", "B")), completed())[1:] == [
        "d 0.1 text 'B'",
        "d 0.0 text 'A'",
        "f 0.0 text 'A'",
        "f 0.1 text 'B'",
        "done completed",
    ]
    assert read(added(message()), delta("A", content=1), done(message("m1", "A", "B")), completed())[3:5] == [
        "f 0.0 text 'A'",
        "f 0.1 text 'B'",
    ]


def test_refusals_and_reasoning_have_their_own_tracks() -> None:
    refusal = {"type": "message", "id": "m1", "content": [{"type": "refusal", "refusal": "No"}]}
    reasoning = {
        "type": "reasoning",
        "id": "r",
        "summary": [{"type": "summary_text", "text": "S"}],
        "content": [{"type": "reasoning_text", "text": "T"}],
    }
    assert read(done(refusal), done(reasoning, 1), completed()) == [
        "s item_started",
        "d 0.0 refusal 'No'",
        "f 0.0 refusal 'No'",
        "s item_started",
        "d 1.0 summary 'S'",
        "f 1.0 summary 'S'",
        "d 1.0 reasoning 'T'",
        "f 1.0 reasoning 'T'",
        "done completed",
    ]
    assert read(
        added({"type": "reasoning", "id": "r", "summary": []}),
        up("reasoning_summary_part.added", item_id="r", summary_index=1, part={"type": "summary_text", "text": ""}),
        up("reasoning_summary_text.delta", item_id="r", summary_index=1, delta="S"),
        up("reasoning_summary_text.done", item_id="r", summary_index=1, text="S"),
        up("reasoning_summary_part.done", item_id="r", summary_index=1, part={"type": "summary_text", "text": "S"}),
        completed(),
    ) == ["s item_started", "d 0.1 summary 'S'", "f 0.1 summary 'S'", "done completed"]


def test_an_opaque_item_passes_whole() -> None:
    item = {"type": "brand_new", "id": "x", "payload": {"deep": [1]}}
    events = run(body(added(item), up("brand_new.ticked", item_id="x", n=1), done(item), completed()))
    assert [(event.name, event.item) for event in events if isinstance(event, Status)] == [
        ("item_started", 0),
        ("unknown", 0),
        ("item_finished", 0),
    ]
    assert statuses(events, "item_started")[0].wire == {"type": "response.output_item.added", "item": item}
    assert statuses(events, "unknown")[0].wire == {"type": "response.brand_new.ticked", "item_id": "x", "n": 1}


def test_an_unknown_event_without_a_known_item_keeps_its_index() -> None:
    (told,) = statuses(run(body(up("brand_new", 5, x=1), completed())), "unknown")
    assert told.item is None
    assert told.wire is not None
    assert told.wire["output_index"] == 5


def test_a_servers_own_calls_tell_their_progress_and_their_output() -> None:
    item = {"type": "web_search_call", "id": "w1", "status": "in_progress"}
    events = run(
        body(
            added(item),
            up("web_search_call.in_progress", item_id="w1"),
            up("web_search_call.searching", item_id="w1"),
            up("web_search_call.searching", None, item_id="w1"),
            up("web_search_call.completed", None),
            up("web_search_call.completed", 9, item_id="w1"),
            done(item | {"action": {"type": "search", "query": "q"}}),
            done({"type": "mcp_call", "id": "p", "name": "roll", "arguments": "{}", "output": "4", "error": None}, 1),
            done(
                {"type": "mcp_call", "id": "q", "name": "roll", "arguments": "{}", "error": "no"} | {"status": None}, 2
            ),
            completed(),
        )
    )
    names = [(event.name, event.item) for event in events if isinstance(event, Status)]
    assert names == [
        ("in_progress", 0),
        ("searching", 0),
        ("searching", 0),
        ("completed", 0),
        ("unknown", None),
    ]
    assert [(e.call_id, e.name, e.kind) for e in events if isinstance(e, ToolStarted)] == [
        ("w1", "web_search_call", "web_search"),
        ("p", "roll", "mcp"),
        ("q", "roll", "mcp"),
    ]
    assert [(e.status, e.input, e.output) for e in events if isinstance(e, ToolFinished)] == [
        ("completed", '{"type": "search", "query": "q"}', None),
        ("completed", "{}", "4"),
        ("completed", "{}", "no"),
    ]


def test_an_annotation_belongs_to_its_part() -> None:
    frame = up(
        "output_text.annotation.added", item_id="m1", content_index=0, annotation_index=0, annotation={"type": "u"}
    )
    (told,) = statuses(run(body(added(message()), delta("Hi"), frame, completed())), "annotation")
    assert (told.item, told.content) == (0, 0)
    assert told.wire == {
        "type": "response.output_text.annotation.added",
        "item_id": "m1",
        "annotation_index": 0,
        "annotation": {"type": "u"},
    }


def test_a_created_said_twice_before_any_item_begins_no_round() -> None:
    events = run(body(CREATED, CREATED, added(message()), completed()))
    assert statuses(events, "round_completed") == []
    assert ("created_repeated", "$.type") in defects(events)


def test_a_second_created_begins_a_round_that_counts_from_nothing() -> None:
    events = run(
        body(
            CREATED,
            added({"type": "reasoning", "id": "r"}),
            up("reasoning_text.delta", item_id="r", content_index=0, delta="T"),
            CREATED,
            IN_PROGRESS,
            added(message()),
            delta("Hi"),
            completed(),
        )
    )
    assert [event.name for event in events if isinstance(event, Status)] == [
        "upstream_started",
        "item_started",
        "item_finished",
        "round_completed",
        "upstream_started",
        "in_progress",
        "item_started",
        "item_finished",
    ]
    assert [(e.item, e.text) for e in events if isinstance(e, BlockFinal)] == [(0, "T"), (1, "Hi")]
    assert ("created_repeated", "$.type") in defects(events)


def test_keepalives_are_statuses() -> None:
    frame = {"type": "keepalive", "sequence_number": 3}
    (told,) = statuses(run(body(frame, completed())), "keepalive")
    assert told.wire == {"type": "keepalive"}
