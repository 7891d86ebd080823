"""What is put back into an item that says less at its end than was streamed."""

from typing import Any

import pytest

from pipeline.kinds import KINDS
from pipeline.kinds.calls import without_quirk
from pipeline.kinds.slot import INPUT, Json, Part, Slot
from pipeline.kinds.texts import content_of


def slot_of(kind: str, *texts: tuple[str, str]) -> Slot:
    """An item with these texts streamed: track and text."""
    slot = Slot(0, kind)
    for index, (track, text) in enumerate(texts):
        part = slot.parts[track, index] = Part(slot, track, index, index, KINDS[kind].apply_delta)
        part.apply(part, text)
    return slot


def text(value: str, kind: str = "output_text") -> Json:
    return {"type": kind, "refusal" if kind == "refusal" else "text": value}


FULL: Json = {"annotations": [], "logprobs": []}


@pytest.mark.parametrize(
    ("given", "listed"),
    [
        ([text("Hi"), text("No", "refusal")], [text("Hi"), text("No", "refusal")]),
        ([text(""), text("", "refusal")], [text("Hi"), text("No", "refusal")]),
        ([{"type": "output_text"}], [text("Hi"), text("No", "refusal")]),
        ([7, text("No", "refusal")], [{**text("Hi"), **FULL}, text("No", "refusal")]),
        ([{"type": ""}, {}, {}], [{**text("Hi"), **FULL}, text("No", "refusal")]),
        ("odd", [{**text("Hi"), **FULL}, text("No", "refusal")]),
        (None, [{**text("Hi"), **FULL}, text("No", "refusal")]),
        ([{"type": "audio"}, text("Hi")], [{"type": "audio"}, text("Hi")]),
        ([text("a"), text("b"), text("")], [text("a"), text("b"), text("")]),
    ],
)
def test_a_message_gets_back_what_its_end_left_out(given: object, listed: list[Json]) -> None:
    slot = slot_of("message", ("text", "Hi"), ("refusal", "No"))
    assert KINDS["message"].apply_done(slot, {"content": given})["content"] == listed


HI, OK, NO = {**text("Hi"), **FULL}, text("OK"), text("No", "refusal")


@pytest.mark.parametrize(
    ("streamed", "given", "listed"),
    [
        (
            [("refusal", "No"), ("text", "OK")],
            [OK],
            [NO, OK],
        ),  # a text is no other track's, and stands where it was streamed
        ([("text", ""), ("refusal", "No")], [NO], [NO]),
        ([("text", "0"), ("text", "Hi")], [text("Hi")], [{**text("0"), **FULL}, text("Hi")]),
        ([("text", "Hi"), ("text", "Hi")], [text("Hi")], [text("Hi"), HI]),  # two equal texts are two
        ([("text", "Hi")], [text("Ho")], [text("Ho")]),
        ([("text", "Hi")], [NO], [NO]),
    ],
)
def test_what_an_end_lists_is_not_put_back(streamed: list[tuple[str, str]], given: object, listed: list[Json]) -> None:
    assert KINDS["message"].apply_done(slot_of("message", *streamed), {"content": given})["content"] == listed


def test_a_message_without_an_end_leaves_empty_texts_out() -> None:
    slot = slot_of("message", ("text", ""), ("text", "Hi"))
    slot.public = {"type": "message"}
    made = KINDS["message"].finalize(slot, "incomplete")
    assert made == {"type": "message", "status": "incomplete", "content": [{**text("Hi"), **FULL}]}


@pytest.mark.parametrize(
    ("item", "made"),
    [
        ({}, {"summary": [text("S", "summary_text")], "content": [text("T", "reasoning_text")]}),
        ({"content": None}, {"summary": [text("S", "summary_text")], "content": [text("T", "reasoning_text")]}),
        (
            {"summary": 7, "content": 7},
            {"summary": [text("S", "summary_text")], "content": [text("T", "reasoning_text")]},
        ),
    ],
)
def test_reasoning_gets_back_what_its_end_left_out(item: Json, made: Json) -> None:
    slot = slot_of("reasoning", ("summary", "S"), ("reasoning", "T"))
    assert KINDS["reasoning"].apply_done(slot, item) == made


def test_reasoning_of_which_nothing_was_streamed_stays_as_it_is() -> None:
    for given, made in (({}, {"summary": []}), ({"content": None}, {"summary": [], "content": None}), ({"content": 7}, {"summary": [], "content": []})):  # fmt: skip
        assert KINDS["reasoning"].apply_done(slot_of("reasoning"), given) == made


def test_reasoning_without_an_end_says_that_only_if_it_has_a_status() -> None:
    slot = slot_of("reasoning", ("reasoning", "T"))
    slot.public = {"type": "reasoning"}
    assert "status" not in KINDS["reasoning"].finalize(slot, "incomplete")
    slot.public = {"type": "reasoning", "status": "in_progress"}
    assert KINDS["reasoning"].finalize(slot, "incomplete")["status"] == "incomplete"


@pytest.mark.parametrize(
    ("raw", "streamed", "made"),
    [
        (None, "Hi", {**text("Hi"), **FULL}),
        ({**text(""), "x": 1}, "Hi", {**text("Hi"), "x": 1}),
        ({**text("Ho"), "x": 1}, "Hi", {**text("Ho"), "x": 1}),
        ({**text("Ho"), "x": 1}, "", {**text(""), **FULL}),
        ({"type": "output_text", "text": [[]]}, "Hi", text("Hi")),
        ({"type": "output_text", "text": 7}, "", text("")),
    ],
)
def test_a_part_keeps_its_own_form(raw: Json | None, streamed: str, made: Json) -> None:
    part = slot_of("message", ("text", streamed)).parts["text", 0]
    part.raw = raw
    assert content_of(part) == made


def test_a_part_that_nobody_knows_is_as_it_came() -> None:
    part = slot_of("message", ("part:audio", "")).parts["part:audio", 0]
    part.raw = {"type": "audio", "data": "x"}
    assert content_of(part) == part.raw


def test_a_message_cut_short_lists_its_parts_in_order() -> None:
    slot = slot_of("message", ("text", "Hi"), ("part:audio", ""), ("refusal", ""))
    audio = slot.parts["part:audio", 1]
    assert KINDS["message"].finalize(slot, "incomplete")["content"] == [{**text("Hi"), **FULL}]
    audio.family, audio.raw = "response.content_part", {"type": "audio"}
    assert KINDS["message"].finalize(slot, "incomplete")["content"] == [{**text("Hi"), **FULL}, audio.raw]


@pytest.mark.parametrize(
    ("streamed", "public", "item", "made"),
    [
        ("", {"name": "f", "namespace": "n"}, {}, {"name": "f", "namespace": "n", "arguments": ""}),
        ('{"a":1}', {"name": "f"}, {"name": "g", "arguments": None}, {"name": "g", "arguments": '{"a":1}'}),
        ('{}{"a":1}', {}, {}, {"arguments": '{"a":1}'}),
        ("", {"arguments": "{}"}, {}, {"arguments": "{}"}),
        ("{}", {}, {"arguments": '{"b":2}'}, {"arguments": '{"b":2}'}),
    ],
)
def test_a_call_gets_back_what_its_end_left_out(streamed: str, public: Json, item: Json, made: Json) -> None:
    slot = slot_of("function_call", (INPUT, streamed))
    slot.public = public
    assert KINDS["function_call"].apply_done(slot, item) == made


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ('{}{"a":1}', '{"a":1}'),
        (' {} \n{"a":1}', '{"a":1}'),
        ("{}", "{}"),
        ("{}x", "{}x"),
        ('{"a":1}', '{"a":1}'),
        ("", ""),
    ],
)
def test_only_an_empty_object_before_the_real_one_is_passed_over(given: str, left: str) -> None:
    assert without_quirk(given) == left


@pytest.mark.parametrize(
    ("kind", "streamed", "item", "member", "value"),
    [
        ("custom_tool_call", ["fr", "ee"], {"input": ""}, "input", "free"),
        ("mcp_call", ["{}"], {"name": "f", "server_label": "s"}, "arguments", "{}"),
        ("shell_call", ["ls", "pwd"], {"action": 7}, "action", {"commands": ["ls", "pwd"]}),
        ("shell_call", ["ls"], {"action": {"commands": ["own"]}}, "action", {"commands": ["own"]}),
        ("shell_call", [], {}, "action", {}),
        ("apply_patch_call", ["+a"], {"operation": {"path": "p"}}, "operation", {"path": "p", "diff": "+a"}),
        ("apply_patch_call", ["+a"], {}, "operation", {"diff": "+a"}),
        ("apply_patch_call", [], {"operation": None}, "operation", {}),
    ],
)
def test_streamed_input_is_put_where_its_kind_has_it(
    kind: str, streamed: list[str], item: Json, member: str, value: Any
) -> None:
    slot = slot_of(kind, *((INPUT, one) for one in streamed))
    assert KINDS[kind].apply_done(slot, item)[member] == value


def test_a_kind_that_nobody_told_in_full_begins_with_what_is_known() -> None:
    slot = Slot(0, "hologram")
    slot.name = "f"
    row = KINDS["custom_tool_call"]
    assert row.from_added(slot, {"id": "x"}) == {"type": "hologram", "status": "in_progress", "name": "f", "id": "x"}
    assert row.from_added(slot, {"type": "hologram"}) == {"type": "hologram"}
    slot.public = {"id": "x"}
    assert row.finalize(slot, "incomplete") == {"id": "x"}
    call = Slot(0, "function_call")
    assert KINDS["function_call"].from_added(call, {"id": "x"}) == {
        "type": "function_call",
        "status": "in_progress",
        "id": "x",
        "name": "",
        "arguments": "",
    }
    assert KINDS["message"].from_added(call, {})["role"] == "assistant"
