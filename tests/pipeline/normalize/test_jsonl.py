"""Lines and objects come out of bytes the same at any cut, and never beyond their bound."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.limits import Limits
from pipeline.normalize.jsonarray import ObjectSplitter
from pipeline.normalize.jsonl import LineSplitter


@given(st.lists(st.text(), max_size=8), st.lists(st.integers(1, 7), min_size=1, max_size=9))
def test_lines_come_out_whole_at_any_cut(texts: list[str], steps: list[int]) -> None:
    whole = [json.dumps(text, ensure_ascii=False) for text in texts]
    data = "\r\n".join(whole).encode()
    splitter = LineSplitter()
    found, at, turn = [], 0, 0
    while at < len(data):
        step = steps[turn % len(steps)]
        found += splitter.feed(data[at : at + step])
        at, turn = at + step, turn + 1
    assert [line.decode() for line in found + splitter.close()] == whole


def test_blank_lines_are_nothing() -> None:
    assert LineSplitter().feed(b"\n\r\n  \n1\n") == [b"1"]


@pytest.mark.parametrize("data", [b"12345678901\n", b"12345678901"])
def test_a_line_beyond_its_bound_is_named_and_ends_the_reading(data: bytes) -> None:
    splitter = LineSplitter(Limits(sse_line_bytes=10))
    assert splitter.feed(b"1\n" + data) == [b"1"]
    assert splitter.exceeded == "sse_line_bytes"
    assert splitter.feed(b"2\n") == []
    assert splitter.close() == []


VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='{}[]"\\ü🌍a'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='{"\\a'), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(alphabet='"}a'), VALUES, max_size=3), max_size=5), st.integers(1, 9))
def test_objects_of_an_array_come_out_whole_at_any_cut(values: list[dict[str, object]], step: int) -> None:
    data = json.dumps(values, indent=1).encode()
    splitter = ObjectSplitter()
    found = [one for at in range(0, len(data), step) for one in splitter.feed(data[at : at + step])]
    assert [json.loads(one) for one in found] == values
    assert splitter.rest == b""


def test_an_object_without_an_end_is_held_up_to_the_bound() -> None:
    splitter = ObjectSplitter(Limits(json_body_bytes=10))
    assert splitter.feed(b'[{"a":') == []
    assert splitter.rest == b'{"a":'
    assert splitter.feed(b"12345678") == []
    assert splitter.exceeded == "json_body_bytes"
