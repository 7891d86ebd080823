"""Items, calls and responses, told by producers that have no frames of their own: the public stream is whole."""

from typing import Any

import pytest

from pipeline.errors import WireError
from pipeline.events import ErrorInfo, Event, Status, ToolFinished, TurnCompleted, TurnFailed
from pipeline.turn import Turn, Validation
from tests.pipeline.staged import started, told
from tests.pipeline.streams import TURN, Json, data_of
from tests.pipeline.test_turn_properties import check_public
from tests.pipeline.turn.events import answer, call, delta, final, fold, item, output_of, status

# -- items and calls


def test_an_item_that_was_not_told_as_anything_is_a_message() -> None:
    assert output_of(status("item_started"))[0]["type"] == "message"
    assert output_of(status("item_started", item=None)) == []
    assert output_of(status("item_started", wire=item("reasoning", id="r")), status("item_started"))[0]["id"] == "r"


def test_an_item_that_was_guessed_from_its_text_keeps_its_kind() -> None:
    output = output_of(delta("Hi"), status("item_started", wire=item("reasoning")))
    assert [one["type"] for one in output] == ["message"]


def test_an_end_needs_an_item() -> None:
    assert output_of(status("item_finished", item=None), status("item_finished", item=3), answer(4)) == []
    assert output_of(status("item_finished", wire=item("compaction", id="c")))[0]["id"] == "c"
    twice = [status("item_finished", wire=item("compaction", id=name)) for name in ("c", "d")]
    assert [one["id"] for one in output_of(*twice)] == ["c"]
    other = output_of(
        status("item_started", wire=item("compaction", id="c")), status("item_finished", wire=item("program"))
    )
    assert [one["type"] for one in other] == ["compaction"]


def test_input_before_its_call_is_told_when_the_call_is() -> None:
    frames, output, _ = fold(
        delta('{"a"', track="tool_input"), delta(":1}", track="tool_input"), call(), answer(text='{"a":1}')
    )
    assert told(frames) == [
        "output_item.added 0",
        "function_call_arguments.delta 0",
        "function_call_arguments.delta 0",
        "function_call_arguments.done 0",
        "output_item.done 0",
    ]
    assert output[0]["arguments"] == '{"a":1}'
    lone = output_of(delta("{}", track="tool_input"), final("{}", track="tool_input"))
    assert lone == []  # a call that nobody ever named is none


def test_input_of_an_unknown_call_is_known_by_its_end() -> None:
    output = output_of(
        delta("{}", track="tool_input"), answer(text="{}", wire=item("function_call", name="f", arguments=""))
    )
    assert [(one["type"], one["name"], one["arguments"]) for one in output] == [("function_call", "f", "{}")]


@pytest.mark.parametrize(
    ("finished", "text"),
    [
        (status("input_finished", detail='{"b":2}'), '{"b":2}'),
        (status("input_finished"), '{"a":1}'),
        (status("input_finished", wire={"arguments": "{}"}), "{}"),
    ],
)
def test_the_whole_input_is_told_once(finished: Status, text: str) -> None:
    frames, _, _ = fold(call(), delta('{"a":1}', track="tool_input"), finished, finished, answer(text="{}"), finished)
    dones = [frame["arguments"] for frame in frames if frame["type"].endswith("arguments.done")]
    assert dones == [text]
    assert fold(status("input_finished", item=None), status("input_finished", item=7))[0] == []


def test_input_of_a_kind_that_streams_none_is_kept_and_not_shown() -> None:
    frames, output, _ = fold(
        call(kind="web_search"), delta('{"query":"q"}', track="tool_input"), status("input_finished"), answer(text='{"query":"q"}')
    )  # fmt: skip
    assert told(frames) == ["output_item.added 0", "output_item.done 0"]
    assert output[0]["action"] == {"type": "search", "query": "q"}


def test_a_call_without_any_input_has_none() -> None:
    frames, output, _ = fold(
        call(), answer(), call(1, kind="mcp"), answer(1, output="ok"), call(2, kind="shell"), answer(2)
    )
    assert [frame["type"] for frame in frames if "arguments" in frame["type"]] == []
    assert [one.get("arguments") for one in output] == ["", "", None]


def test_a_tool_that_failed_says_so_as_its_kind_can() -> None:
    failed = ToolFinished(seq=1, at=0, item=0, call_id="k0", status="failed", output="why")
    assert output_of(call(), failed)[0]["status"] == "incomplete"
    shown = output_of(call(kind="mcp"), failed)[0]
    assert (shown["status"], shown["error"]) == ("failed", "why")


def test_a_whole_item_at_an_end_begins_without_what_only_its_end_tells() -> None:
    whole = item("function_call", id="fc_x", name="f", call_id="k", arguments="{}")
    frames, _, _ = fold(call(wire=whole), answer(text="{}", wire=whole))
    assert (frames[0]["item"]["arguments"], frames[0]["item"]["status"]) == ("", "in_progress")
    for kind, status_of in (("web_search_call", "in_progress"), ("reasoning", None)):
        shown = item(kind, id="x", **({"status": "completed"} if status_of else {}))
        event = status("item_started", wire=shown)
        assert fold(event, status("item_finished", wire=shown))[0][0]["item"].get("status") == status_of


def test_call_ids_that_are_none_are_made_and_others_left_out() -> None:
    shown = output_of(status("item_started", wire=item("compaction", call_id=7)))[0]
    assert "call_id" not in shown or shown["call_id"] is None
    taken = output_of(
        call(wire=item("function_call", id=f"fc_{TURN}_1")), answer(), call(1, wire=item("function_call", id=None)), answer(1)
    )  # fmt: skip
    assert [one["id"] for one in taken] == [f"fc_{TURN}_1", f"fc_{TURN}_1_"]


@pytest.mark.parametrize(
    ("limits", "events", "code"),
    [
        ({"item_contents": 1}, [delta("a"), delta("b", content=1)], "item_contents"),
        ({"turn_text_chars": 3}, [delta("ab"), delta("cd", item=1)], "turn_text_chars"),
    ],
)
def test_a_bound_that_is_exceeded_ends_the_turn_by_its_name(
    limits: dict[str, int], events: list[Event], code: str
) -> None:
    turn = Turn(TURN)
    frames = [frame for event in [started(limits=limits), *events] for frame in turn.push(event).frames]
    check_public(frames)
    assert (turn.error or {})["code"] == code


# -- calls that wait for their names


def test_a_place_is_kept_once_and_for_a_new_item_alone() -> None:
    unnamed = status("unnamed", detail={"kind": "custom_tool_call"})
    frames, output, _ = fold(
        unnamed, unnamed, status("unnamed", item=None), status("unnamed", item=1, detail=7), delta("Hi", item=2)
    )
    assert [one["type"] for one in output] == ["custom_tool_call", "function_call", "message"]
    assert told(frames)[0] == "output_item.added 0"


# -- the response


def test_what_a_wire_without_responses_knows_of_one_is_shown() -> None:
    turn = Turn(TURN)
    turn.push(started(response={"previous_response_id": "resp_p"}))
    known = {"response": {"id": "up", "model": "m-2", "status": 7}}
    frames = turn.push(status("upstream_started", None, wire=known)).frames
    shown = data_of(frames)[0]["response"]
    assert (shown["model"], shown["status"], shown["previous_response_id"]) == ("m-2", "in_progress", "resp_p")
    assert turn.upstream_id == "up"
    waits = turn.push(status("queued", None, wire=None)).frames
    assert data_of(waits)[0]["response"]["status"] == "queued"
    turn.push(status("in_progress", None, wire={"type": "response.in_progress", "response": {"id": "up"}}))
    assert turn.push(status("queued", None)).frames == []
    details = {"reason": "max_output_tokens"}
    end = TurnCompleted(
        seq=9, at=0, outcome="incomplete", incomplete_details=details, wire={"response": {"id": "late"}}
    )
    assert data_of(turn.push(end).frames)[-1]["response"]["incomplete_details"] == details


def test_an_upstreams_id_may_come_with_its_end() -> None:
    turn = Turn(TURN)
    turn.push(started())
    turn.push(TurnCompleted(seq=9, at=0, outcome="completed", wire={"response": {"id": "late"}}))
    assert turn.upstream_id == "late"


def test_other_events_pass_with_their_names_mended_or_are_left_out() -> None:
    def passed(name: str, item: int | None, content: int | None = None, **wire: Any) -> list[Json]:
        frames, _, _ = fold(delta("Hi"), call(1, kind="mcp"), status(name, item, content, wire=wire))
        new = [frame for frame in frames if frame["type"] == wire.get("type")]
        return new if wire.get("type") else []

    assert passed("failed", 1, type="response.mcp_call.failed")[0]["item_id"] == f"mcp_{TURN}_1"
    assert passed("unknown", 1, type="response.brand_new") == [
        {"type": "response.brand_new", "output_index": 1, "sequence_number": 6}
    ]
    assert passed("unknown", 9, type="response.brand_new", output_index=4)[0].get("output_index") is None
    assert passed("unknown", None, type="response.brand_new", output_index=4)[0].get("output_index") is None
    assert passed("mark", 1, 3, type="response.brand_new")[0]["content_index"] == 3
    assert passed("mark", 1, 3, type="response.reasoning_summary_mark")[0]["summary_index"] == 3
    assert passed("searching", 9, type="response.web_search_call.searching") == []
    assert passed("unknown", None, type="response.web_search_call.searching") == []
    assert passed("in_progress", 1, type="response.mcp_call.in_progress")
    assert passed("unknown", None, type="response.refusal.delta") == []  # broken: nobody could read it
    assert passed("unknown", None, type="") == []
    assert passed("unknown", None) == []
    assert fold(status("unknown", None))[0] == []
    odd = fold(status("unknown", None, wire={"type": "odd\nname"}))[0]
    assert odd[0]["type"] == "odd\nname"


def test_progress_announces_the_item_that_it_is_about() -> None:
    mark = status("mark", 0, wire={"type": "response.brand_new", "item_id": "x"})
    frames, _, _ = fold(delta("{", track="tool_input"), call(), mark)
    assert frames[-2]["item_id"] == f"fc_{TURN}_0"


def test_a_form_that_no_rule_foresaw_ends_this_turn_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for policy in Validation:
        turn = Turn(TURN, validation=policy)
        turn.push(started(wire="chat"))
        monkeypatch.setattr(turn._fold, "delta", lambda _: 1 / 0)
        if policy is Validation.STRICT:
            with pytest.raises(WireError) as refused:
                turn.push(delta("Hi"))
            assert refused.value.diagnostic.code == "unreadable_event"
        else:
            frames = turn.push(delta("Hi")).frames
            assert (turn.error or {})["code"] == "unreadable_event"
            assert told(data_of(frames)) == ["created", "failed"]


def test_a_failure_in_the_upstreams_words_keeps_them() -> None:
    turn = Turn(TURN)
    turn.push(started())
    error = {"code": "boom", "message": "m", "more": 1}
    end = TurnFailed(seq=9, at=0, error=ErrorInfo(code="boom"), wire={"response": {"id": "up", "error": error}})
    assert data_of(turn.push(end).frames)[-1]["response"]["error"] == error
