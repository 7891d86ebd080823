import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.kinds.slot import Slot
from pipeline.translate.custom import CustomCall, Reader, whole_input

TEXT = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from('"\\/\b\f\n\r\t{}[],: 😀\U0010ffff\u2028\x00')), max_size=60
)
OTHERS = st.dictionaries(
    st.text(max_size=6).filter(lambda name: name != "input"),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=4), inner), max_leaves=6),
    max_size=3,
)  # fmt: skip


def pieces(text: str, sizes: list[int]) -> list[str]:
    cut: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[len(cut) % len(sizes)]
        cut.append(text[at : at + size])
        at += size
    return cut


@settings(max_examples=300, deadline=None)
@given(
    text=TEXT,
    others=OTHERS,
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 1]),
    quirk=st.sampled_from(["", "{}", " {} ", "{}{}"]),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8),
)
@example(text="😀", others={}, ascii_only=True, indent=None, quirk="{}", sizes=[1])
def test_the_text_comes_out_verbatim_at_any_cut(
    text: str, others: dict[str, Any], ascii_only: bool, indent: int | None, quirk: str, sizes: list[int]
) -> None:
    arguments = quirk + json.dumps({**others, "input": text}, ensure_ascii=ascii_only, indent=indent)
    reader = Reader()
    told = "".join(reader.feed(piece) for piece in pieces(arguments, sizes))
    assert (told, reader.found) == (text, True)
    assert whole_input(arguments) == text


@settings(max_examples=300, deadline=None)
@given(arguments=st.text('{}":,\\/inputabu0d8xc [].1-', max_size=40), sizes=st.lists(st.integers(1, 5), min_size=1))
def test_whatever_comes_instead_is_read_the_same_at_any_cut(arguments: str, sizes: list[int]) -> None:
    whole, cut = Reader(), Reader()
    assert "".join(cut.feed(piece) for piece in pieces(arguments, sizes)) == whole.feed(arguments)
    assert cut.found == whole.found
    assert isinstance(whole_input(arguments), str)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": "\\ud83d\\ude00"}', "😀"),
        ('{"input": "\\ud83d!"}', "\ufffd!"),
        ('{"input": "\\ud83d\\n"}', "\ufffd\n"),
        ('{"input": "\\ud83d\\u0041"}', "\ufffdA"),
        ('{"input": "\\ude00"}', "\ufffd"),
        ('{"input": "\\u12g4"}', "\ufffd12g4"),
        ('{"input": "\\q\\/"}', "q/"),
        ('{"input": "cut sho', "cut sho"),
        ('{"input": "cut \\u00', "cut "),
        ('{"inputs": "a", "in\\put": "b", "input": "c"}', "c"),
        ('{"a": "x\\"y", "b": {"input": "no", "c": [1, "]"]}, "d": 1, "input": "yes"}', "yes"),
        ('{"a": 1}', '{"a": 1}'),
        ('{"input": {"deep": 1}}', '{"input": {"deep": 1}}'),
        ('"only a string"', "only a string"),
        ("no JSON at all", "no JSON at all"),
        ("[1, 2]", "[1, 2]"),
        ('{"a" "b"}', '{"a" "b"}'),
        ("{}", "{}"),
        ("", ""),
    ],
)
def test_each_form_of_arguments(arguments: str, text: str) -> None:
    assert whole_input(arguments) == text


def test_half_an_escape_waits_for_its_rest() -> None:
    reader = Reader()
    told = [reader.feed(piece) for piece in ('{"in', 'put": "a\\', "n\\u00", "e9\\ud83d", "\\ud", 'e00z"', '} more"')]
    assert told == ["", "a", "\n", "é", "", "😀z", ""]


def call() -> Slot:
    slot = Slot(0, "function_call")
    slot.face = "custom_tool_call"
    slot.public = {"type": "function_call", "id": "ctc_1", "name": "patch", "arguments": "", "status": "in_progress"}
    return slot


def test_the_item_is_a_custom_call_from_its_start_to_its_end() -> None:
    slot, custom = call(), CustomCall()
    assert custom.begin(slot) == {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "name": "patch",
        "status": "in_progress",
        "input": "",
    }
    ended = custom.end(slot, {"id": "ctc_1", "arguments": '{"input": "all"}', "status": "completed", "x": 1})
    assert ended == {"type": "custom_tool_call", "id": "ctc_1", "status": "completed", "x": 1, "input": "all"}
    assert custom.end(slot, {"arguments": None})["input"] == ""


def test_the_end_tells_what_is_missing_and_what_contradicts() -> None:
    custom = CustomCall()
    assert custom.delta('{"input": "ab') == "ab"
    assert custom.finish('{"input": "abcd"}', '{"input": "ab') == ("cd", "abcd")
    assert custom.finish('{"input": "xy"}', '{"input": "ab') == (None, "xy")
