"""Texts and their parts, told by producers that have no frames of their own: the public stream is whole."""

from typing import Any

import pytest

from pipeline.events import Status, Track
from tests.pipeline.staged import told
from tests.pipeline.streams import text_of
from tests.pipeline.turn.events import delta, final, fold, item, output_of, status


def test_a_part_that_nobody_knows_and_that_never_ends_is_as_its_start() -> None:
    for end in ([], [status("item_finished")]):
        frames, output, _ = fold(part("part_started", "audio", id="a"), *end)
        assert [frame["part"] for frame in frames if "part" in frame] == [{"type": "audio", "id": "a"}] * 2
        assert output[0]["content"] == [{"type": "audio", "id": "a"}]
    again = fold(*(part("part_finished", "audio", data=data) for data in "xy"))[1]
    assert again[0]["content"] == [{"type": "audio", "data": "x"}]


@pytest.mark.parametrize(
    ("track", "member"), [("text", "text"), ("refusal", "refusal"), ("reasoning", "text"), ("summary", "text")]
)
def test_a_text_that_comes_as_its_final_word_alone_is_one_delta(track: Track, member: str) -> None:
    frames, output, blocks = fold(final("Hi", track=track), final("again", track=track))
    deltas = [frame["delta"] for frame in frames if frame["type"].endswith(".delta")]
    assert deltas == ["Hi"]
    shown = output[0]["summary" if track == "summary" else "content"]
    assert [part[member] for part in shown] == ["Hi"]
    assert text_of(blocks) == ("Hi" if track == "text" else "")


def test_an_empty_final_word_is_no_delta_and_erases_nothing() -> None:
    frames, output, _ = fold(delta("Hi"), final(""), final("", item=1))
    assert [frame["delta"] for frame in frames if frame["type"].endswith(".delta")] == ["Hi"]
    assert output[0]["content"][0]["text"] == "Hi"


def test_nothing_is_added_to_a_text_that_is_final_or_whose_item_is_done() -> None:
    output = output_of(
        delta("Hi"), final("Hi"), delta("!"), delta("on", content=1), status("item_finished"), delta("!", content=1), final("?", content=2)
    )  # fmt: skip
    assert [part["text"] for part in output[0]["content"]] == ["Hi", "on"]


def test_a_text_of_another_kind_than_its_item_is_left_out() -> None:
    frames, output, blocks = fold(
        delta("Hi"), delta("T", track="reasoning"), final("T", track="summary"), delta("{", track="tool_input")
    )
    assert [part["text"] for part in output[0]["content"]] == ["Hi"]
    assert text_of(blocks) == "Hi"
    assert not any("reasoning" in frame["type"] for frame in frames)


def test_text_on_an_item_of_a_kind_that_nobody_knows_is_a_message_of_its_own() -> None:
    _, output, blocks = fold(
        status("item_started", wire=item("hologram", id="h")),
        delta("Hi"),
        delta("!"),
        delta("why", track="reasoning"),
        status("item_finished", wire=item("hologram", id="h")),
    )
    assert [one["type"] for one in output] == ["hologram", "message"]
    assert output[1]["content"][0]["text"] == "Hi!"
    assert text_of(blocks) == "Hi!"


def test_text_on_an_item_whose_kind_has_none_is_left_out() -> None:
    assert [one["type"] for one in output_of(status("item_started", wire=item("compaction")), delta("Hi"))] == [
        "compaction"
    ]


# -- parts


def part(name: str, kind: str, content: int = 0, typed: bool = True, item: int | None = 0, **more: Any) -> Status:
    stem = "reasoning_summary_part" if kind == "summary_text" else "content_part"
    word = "added" if name == "part_started" else "done"
    wire = {"part": {"type": kind, **more}} | ({"type": f"response.{stem}.{word}"} if typed else {})
    return status(name, item, content, wire=wire)


def test_text_at_an_index_that_was_not_announced_belongs_to_the_part_that_was() -> None:
    frames, output, _ = fold(part("part_started", "output_text", 1, text=""), delta("Hi", content=0))
    assert [frame["content_index"] for frame in frames if "content_index" in frame] == [0] * 4
    assert output[0]["content"][0]["text"] == "Hi"


def test_a_part_of_a_form_that_cannot_be_read_is_shown_as_an_empty_one() -> None:
    frames, _, _ = fold(part("part_started", "output_text", text=7), delta("Hi"))
    assert frames[1]["part"] == {"type": "output_text", "text": "", "annotations": [], "logprobs": []}


def test_a_parts_end_keeps_its_form_and_comes_behind_its_text() -> None:
    frames, output, _ = fold(
        delta("Hi"),
        part("part_finished", "output_text", text="Hi", x=1),
        final("Hi"),
        part("part_finished", "output_text", text="Hi", x=2),
        part("part_finished", "output_text", text="Hi", x=3),
    )
    ends = [frame["part"]["x"] for frame in frames if frame["type"] == "response.content_part.done"]
    assert ends == [1]
    assert output[0]["content"][0]["x"] == 1


def test_parts_that_nobody_knows_have_places_of_their_own() -> None:
    frames, output, _ = fold(
        delta("Hi"), part("part_started", "audio", 1), part("part_finished", "audio", 1, data="x"), part("part_finished", "video", 2, typed=False)
    )  # fmt: skip
    kinds = [frame["part"]["type"] for frame in frames if "part" in frame]
    assert kinds.count("audio") == 2
    assert "video" not in kinds  # nobody told of it in the form of the public stream
    assert output[0]["content"][0]["text"] == "Hi"
    assert output[0]["content"][1:] == [{"type": "audio", "data": "x"}]
    known = fold(delta("Hi"), part("part_finished", "audio", 0, data="x"))[1]
    assert len(known[0]["content"]) == 1  # a part at a place that has text is that text's


@pytest.mark.parametrize(
    ("kind", "made"), [("summary_text", "reasoning"), ("reasoning_text", "reasoning"), ("output_text", "message"), ("", "message")]
)  # fmt: skip
def test_a_part_may_come_before_its_item(kind: str, made: str) -> None:
    assert output_of(part("part_started", kind))[0]["type"] == made


def test_a_part_of_no_item_of_a_done_one_or_of_another_kind_is_left_out() -> None:
    alone = fold(delta("Hi"), status("item_finished"))[0]
    ignored = [
        part("part_started", "output_text", item=None),
        part("part_finished", "output_text", item=None),
        part("part_started", "output_text", 1),
        part("part_finished", "output_text", 1),
    ]
    assert fold(delta("Hi"), status("item_finished"), *ignored)[0] == alone
    assert fold(delta("Hi"), part("part_started", "summary_text"), status("item_finished"))[0] == alone
    assert fold(delta("Hi"), status("part_started", wire=None), status("item_finished"))[0] == alone


def test_a_part_of_reasoning_without_a_type_is_reasoning() -> None:
    start = status("part_started", 0, 0, wire={"type": "response.reasoning_part.added", "part": {}})
    end = status("part_finished", 0, 0, wire={"type": "response.reasoning_part.done"})
    begun = status("item_started", wire=item("reasoning", id="r"))
    frames, _, _ = fold(begun, start, delta("T", track="reasoning"), final("T", track="reasoning"), end)
    shown = [frame["part"] for frame in frames if "part" in frame]
    assert shown == [{"type": "reasoning_text", "text": ""}, {"type": "reasoning_text", "text": "T"}]
    early = fold(delta("T", track="reasoning"), end)[0]  # before its text is final it ends nothing
    assert [frame["type"] for frame in early if "part" in frame] == []


def test_annotations_belong_to_their_text() -> None:
    mark = {"type": "url_citation", "url": "u"}
    kind = "response.output_text.annotation.added"
    frames, output, _ = fold(
        delta("Hi"),
        status("annotation", 0, 0, wire={"annotation": mark}),
        status("annotation", 0, 0, wire={"type": kind, "annotation": mark, "annotation_index": 1}),
        status("annotation", 0, 0),
    )
    shown = [(frame["annotation_index"], frame["annotation"]) for frame in frames if frame["type"] == kind]
    assert shown == [(0, mark), (1, mark)]
    assert output[0]["content"][0]["annotations"] == [mark, mark]


def test_an_annotation_of_nothing_is_left_out_and_one_without_an_item_passes() -> None:
    assert fold(status("annotation", 5, 0, wire={"annotation": 1}))[0] == []
    assert fold(delta("T", track="reasoning"), status("annotation", 0, 0, wire={"annotation": 1}), whole=False)[1]
    passed = fold(status("annotation", None, wire={"type": "response.brand_new", "annotation": 1}))[0]
    assert told(passed) == ["brand_new"]


def test_an_annotation_begins_the_part_that_it_is_on() -> None:
    frames, output, _ = fold(delta("Hi"), status("annotation", 0, 1, wire={"annotation": 7}))
    assert [frame["content_index"] for frame in frames if frame["type"] == "response.content_part.added"] == [0, 1]
    assert [part.get("annotations") for part in output[0]["content"]] == [[]]  # a part without text is none


def test_a_long_text_is_given_out_before_its_end() -> None:
    blocks = fold(delta("a" * 900 + "\n\n" + "b"))[2]
    assert [len(block.text) for block in blocks] == [900, 1]
