"""Where an event belongs that does not say so, or says it wrongly; calls without names; inputs that are numbered."""

from typing import Any

import pytest

from pipeline.events import BlockFinal, TextDelta
from pipeline.normalize.responses.items import Item
from tests.pipeline.normalize.streams import (
    added,
    arguments,
    body,
    call,
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


def test_text_without_a_place_belongs_to_the_newest_item_that_has_such_text() -> None:
    events = read(added(message()), added(call(), 1), delta("Hi", None, None), done(message("m1", "Hi")), completed())
    assert "d 0.0 text 'Hi'" in events


def test_text_without_an_index_goes_on_where_its_track_was() -> None:
    thought = {"type": "reasoning", "id": "r1", "summary": []}
    place: Any = {"item_id": "r1"}
    events = run(
        body(
            added(thought),
            up("reasoning_text.delta", content_index=2, delta="T", **place),
            up("reasoning_summary_text.delta", summary_index=1, delta="S", **place),
            up("reasoning_text.delta", delta="t", **place),
            completed(),
        )
    )
    told = [(event.track, event.content, event.text) for event in events if isinstance(event, TextDelta)]
    assert told == [("reasoning", 2, "T"), ("summary", 1, "S"), ("reasoning", 2, "t")]


MARK: Any = {"item_id": "m1", "output_index": 0, "annotation": {"type": "url_citation", "url": "u"}}


def test_an_item_that_was_only_guessed_is_what_its_start_says() -> None:
    mark = up("output_text.annotation.added", **MARK)
    assert read(mark, added(call()), arguments("{}"), done(call("f1", "c1", "{}")), completed()) == [
        "s annotation",
        "t+ 0 c1 f function",
        "d 0.0 tool_input '{}'",
        "t- 0 c1 completed '{}'",
        "done completed",
    ]


def test_text_on_an_item_that_turned_out_to_have_none_waits_for_a_message() -> None:
    mark, other = up("output_text.annotation.added", **MARK), {"type": "apply_patch_call_output", "id": "a"}
    events = read(mark, added(other), delta("Hi"), done(message("m1", "Hi")), completed())
    assert [event for event in events if event[0] in "df"] == ["d 1.0 text 'Hi'", "f 1.0 text 'Hi'", "done completed"]


def test_a_done_at_the_index_of_another_item_is_that_of_its_id() -> None:
    events = read(added(message()), added(call(), 1), done(call("f1", "c1", "{}"), 0), delta("Hi"), completed())
    assert events == [
        "s item_started",
        "t+ 1 c1 f function",
        "t- 1 c1 completed '{}'",
        "d 0.0 text 'Hi'",
        "f 0.0 text 'Hi'",
        "done completed",
    ]


def test_a_repeated_done_of_a_call_is_no_second_call() -> None:
    whole = done(call("f1", "c1", "{}"))
    assert read(added(call()), whole, whole, completed()) == read(added(call()), whole, completed())


def test_a_call_without_a_name_is_told_to_wait_once() -> None:
    unnamed = added(call(name=None))
    events = run(body(unnamed, unnamed, arguments("{}"), done(call("f1", "c1", "{}")), completed()))
    (status,) = statuses(events, "unnamed")
    assert status.detail == {"kind": "function_call"}
    assert read(unnamed, unnamed, arguments("{}"), done(call("f1", "c1", "{}")), completed()) == [
        "s unnamed",
        "t+ 0 c1 f function",
        "d 0.0 tool_input '{}'",
        "t- 0 c1 completed '{}'",
        "done completed",
    ]


SHELL = {"type": "shell_call", "id": "s1", "call_id": "c1", "action": {"commands": []}}


def command(word: str, number: object = 1, **members: Any) -> dict[str, Any]:
    return up(f"shell_call_command.{word}", command_index=number, **members)


def test_numbered_inputs_are_texts_of_their_own_each_with_one_final_word() -> None:
    events = run(
        body(
            added(SHELL),
            command("added", command=""),
            command("delta", delta="ls"),
            command("done", command="ls"),
            command("done", command="ls"),
            command("delta", 0, delta="pw"),
            command("done", 0, command="pwd"),
            command("done", None, command="again"),
            done({**SHELL, "action": {"commands": ["pwd", "ls"]}}),
            command("added", 2, command=""),
            completed(),
        )
    )
    deltas = [(event.content, event.text) for event in events if isinstance(event, TextDelta)]
    finals = [(event.content, event.text) for event in events if isinstance(event, BlockFinal)]
    assert (deltas, finals) == ([(1, "ls"), (0, "pw")], [(1, "ls"), (0, "pwd")])
    codes = [code for code, _ in defects(events)]
    assert codes.count("input_mismatch") == 1
    assert {"repeated", "item_done"} <= set(codes)
    assert len(statuses(events, "input_started")) == 1


def test_an_inputs_delta_with_a_fault_is_told_with_it() -> None:
    odd = {**arguments("{}"), "sequence_number": "7"}
    events = run(body(added(call()), arguments("{"), arguments("}"), odd, completed()))
    assert ("sequence_invalid", "$.sequence_number") in defects(events)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["{", "}", "{}"]


def test_an_announced_part_that_stays_silent_takes_no_other_parts_text() -> None:
    """A finished message that lists one part lists the one that was streamed."""
    announced = [up("content_part.added", content_index=n, part={"type": "output_text", "text": ""}) for n in (0, 2)]
    for told, expected in (("Hi", []), ("Hi there", ["mismatch"])):
        events = run(body(added(message()), *announced, delta("Hi", content=1), done(message("m1", told)), completed()))
        texts = [(event.content, event.text) for event in events if isinstance(event, TextDelta)]
        finals = [(event.content, event.text) for event in events if isinstance(event, BlockFinal)]
        assert (texts, finals) == ([(1, "Hi")], [(1, told)])
        assert [status.name for status in statuses(events, "mismatch")] == expected
    both = run(body(added(message()), *announced, delta("b", content=1), done(message("m1", "a", "b")), completed()))
    assert [(one.content, one.text) for one in both if isinstance(one, BlockFinal)] == [(0, "a"), (1, "b")]


NO = {"type": "refusal", "refusal": "No"}


@pytest.mark.parametrize(
    ("texts", "listed"),
    [
        ([text_done("")], [NO]),  # the empty part is left out of the item
        ([delta("Hi")], [NO]),  # and so may be one that was not empty
        ([delta("Hi")], [NO, {"type": "output_text", "text": "Hi"}]),  # or they change places
    ],
)
def test_a_part_of_an_item_is_no_other_tracks_text(texts: list[Any], listed: list[Any]) -> None:
    refusal = up("refusal.delta", item_id="m1", content_index=1, delta="No")
    events = run(body(added(message()), *texts, refusal, done(message() | {"content": listed}), completed()))
    told = [event.text for event in events if isinstance(event, TextDelta)]
    assert sorted(told) == sorted(["No", *(frame["delta"] for frame in texts if "delta" in frame)])
    assert statuses(events, "mismatch") == []


def test_parts_of_one_track_at_one_place_are_told_apart_by_rank() -> None:
    listed = [NO, {"type": "refusal", "refusal": "Never"}]
    events = run(body(added(message()), delta("Hi"), done(message() | {"content": listed}), completed()))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hi", "No", "Never"]
    refusal = up("refusal.delta", item_id="m1", content_index=1, delta="No")
    events = run(body(added(message()), delta("Hi"), refusal, done(message() | {"content": listed}), completed()))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hi", "No", "Never"]


def test_an_item_that_was_told_of_without_its_index_is_given_it_late() -> None:
    events = run(body(delta("a", None), delta("b", 4), delta("c", 4), completed()))
    assert [(event.item, event.text) for event in events if isinstance(event, TextDelta)] == [
        (0, "a"),
        (0, "b"),
        (0, "c"),
    ]
    again = run(body(added(message(), None), done(message("m1", "a"), None), delta("b", 4), completed()))
    assert [(event.item, event.text) for event in again if isinstance(event, TextDelta)] == [(0, "a"), (4, "b")]


def test_text_without_a_place_is_not_looked_for_among_all_items_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, accepts = [0], Item.accepts

    def counted(item: Item, track: str) -> bool:
        asked[0] += 1
        return accepts(item, track)

    monkeypatch.setattr(Item, "accepts", counted)
    calls = [added(call(f"f{number}", f"c{number}"), number) for number in range(1, 300)]
    events = run(body(added(message()), *calls, *(delta("x", None, None) for _ in range(300)), completed()))
    assert sum(isinstance(event, TextDelta) and event.item == 0 for event in events) == 300
    assert asked[0] < 2000
