"""Any text, cut in any way and carried over any line ends, with any line lost, repeated, moved or spoiled."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from pipeline.codec import decode as decode_event
from pipeline.codec import encode
from pipeline.errors import PipelineError
from pipeline.events import TextDelta
from pipeline.turn import Decoded, Turn, Validation, collect, decode
from tests.pipeline.kinds.items import ITEMS
from tests.pipeline.kinds.test_table import events_of
from tests.pipeline.streams import TURN, Json, call, data_of, message, opening, reasoning, response, text_of
from tests.pipeline.test_turn_properties import check_public

EXAMPLES = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PIECES = ["\r\n", "\r", "\n\n", "\n", "```\n", "```py\n", "~~~\n", "    ", "# x\n", "- a\n", "😀", "👨‍👩‍👧", "\ud83d", "\ude00", "é", "e\u0301", "\u2028", "\x00", "\ufeff", '"', "\\", "data: x\n\n", "[DONE]", ". ", "word "]  # fmt: skip


def paired(text: str) -> str:
    """The text with two halves of a pair that stand side by side as the character that they are; a half alone stays one."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=6)), max_size=25).map("".join).map(paired)
SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=12)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def cut(text: Sequence[Any], sizes: list[int]) -> list[Any]:
    pieces: list[Any] = []
    at = 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    return pieces


def turn_of(deltas: list[str], thoughts: list[str], arguments: list[str]) -> list[Json]:
    parts = [reasoning(0, thoughts), message(1, deltas), call(2, arguments), message(3, ["End."])]
    output = [item for _, item in parts]
    return [
        *opening(),
        *(event for events, _ in parts for event in events),
        {"type": "response.completed", "response": response("completed", output)},
    ]


def lines_of(events: list[Json], end: bytes = b"\n") -> list[bytes]:
    """The events as an upstream writes them, an event a piece; half a surrogate pair stands as an escape."""
    return [
        b"event: %b%bdata: %b%b%b"
        % (event["type"].encode(), end, json.dumps({**event, "sequence_number": number}).encode(), end, end)
        for number, event in enumerate(events)
    ]


def run(events: list[Json], end: bytes = b"\n") -> Decoded:
    return decode(lines_of(events, end), "responses", turn=TURN)


def output_of(decoded: Decoded) -> Any:
    return decoded.payload.response["output"]


@pytest.mark.parametrize(
    "feature",
    ["\r\n", "\r", "```\n", "~~~\n", "😀", "\u2028", "\x00", "\ud83d"],
    ids=json.dumps,
)
def test_the_strategy_draws_what_is_hard(feature: str) -> None:
    found = find(TEXTS, lambda text: feature in text, settings=settings(max_examples=5000))
    assert feature in found


def test_the_strategy_draws_pairs_that_a_cut_parts() -> None:
    text, sizes = find(
        st.tuples(TEXTS, SIZES),
        lambda drawn: any(piece.endswith("\r") for piece in cut(drawn[0], drawn[1])[:-1]) and "\r\n" in drawn[0],
        settings=settings(max_examples=5000),
    )
    assert "\r\n" in text
    assert sizes


def test_the_strategy_draws_fences_that_deltas_part_and_halves_of_pairs_at_their_ends() -> None:
    for feature in ("```", "\ud83d"):
        text, sizes = find(
            st.tuples(TEXTS, SIZES),
            lambda drawn, feature=feature: any(  # type: ignore[misc]  # bound early
                piece.endswith(feature[:1]) and not piece.endswith(feature + "\n")
                for piece in cut(*drawn)[:-1]
                if feature in drawn[0]
            ),
            settings=settings(max_examples=5000),
        )
        assert feature in text
        assert len(cut(text, sizes)) > 1


@EXAMPLES
@given(text=TEXTS, sizes=SIZES, end=ENDS)
def test_any_cut_of_the_bytes_and_any_line_end_give_the_same(text: str, sizes: list[int], end: bytes) -> None:
    events = turn_of([text], ["T"], ['{"a":', "1}"])
    whole = run(events)
    data = b"".join(lines_of(events, end))
    again = decode(cut(data, sizes), "responses", turn=TURN)
    assert (again.frames, again.blocks, again.payload) == (whole.frames, whole.blocks, whole.payload)


@EXAMPLES
@given(text=TEXTS, thought=TEXTS, sizes=SIZES)
def test_any_partition_into_deltas_gives_the_same_text_and_payload(text: str, thought: str, sizes: list[int]) -> None:
    arguments = json.dumps({"q": text.encode("utf-8", "replace").decode()})
    whole = run(turn_of([text], [thought], [arguments]))
    parts = run(turn_of(cut(text, sizes), cut(thought, sizes), cut(arguments, sizes)))
    assert output_of(parts) == output_of(whole)
    assert text_of(parts.blocks) == text_of(whole.blocks)
    assert [block.text for block in parts.blocks] == [block.text for block in whole.blocks]
    said = "".join(event.text for event in parts.events if isinstance(event, TextDelta) and event.track == "text")
    assert text_of(parts.blocks) == said


EDIT = st.tuples(
    st.sampled_from(["drop", "repeat", "move", "spoil", "split", "blank"]), st.integers(0, 60), st.integers(0, 60), st.binary(max_size=3)
)  # fmt: skip


def edited(pieces: list[bytes], edits: list[tuple[str, int, int, bytes]]) -> bytes:
    """The stream's lines with some lost, repeated, moved, and with bytes of some spoiled."""
    lines = [line for piece in pieces for line in piece.splitlines(keepends=True)]
    for kind, first, second, junk in edits:
        if not lines:
            break
        one, other = first % len(lines), second % len(lines)
        line = lines[one] or b"\n"
        if kind == "drop":
            del lines[one]
        elif kind == "repeat":
            lines.insert(other, line)
        elif kind == "move":
            lines.insert(other, lines.pop(one))
        elif kind == "spoil":
            at = other % len(line)
            lines[one] = line[:at] + junk + line[at + 1 :]
        elif kind == "split":
            lines[one] = line[: other % len(line)] + b"\n\n" + line[other % len(line) :]
        else:
            lines.insert(one, b"\n")
    return b"".join(lines)


@EXAMPLES
@given(text=TEXTS, edits=st.lists(EDIT, min_size=1, max_size=8), sizes=SIZES)
def test_spoiled_lines_raise_nothing_but_our_own_and_no_item_comes_twice(
    text: str, edits: list[tuple[str, int, int, bytes]], sizes: list[int]
) -> None:
    data = edited(lines_of(turn_of(cut(text, sizes), ["T"], ['{"a":', "1}"])), edits)
    decoded = decode([data], "responses", turn=TURN)
    check_public(decoded.frames)
    assert decoded.payload.error is None or decoded.payload.error["code"] != "unreadable_event"
    said = "".join(event.text for event in decoded.events if isinstance(event, TextDelta) and event.track == "text")
    assert text_of(decoded.blocks) == said
    try:
        decode([data], "responses", Validation.STRICT, turn=TURN)
    except PipelineError:
        return


@EXAMPLES
@given(text=TEXTS, edits=st.lists(EDIT, max_size=5), sizes=SIZES)
def test_folding_the_log_twice_gives_the_same_bytes(
    text: str, edits: list[tuple[str, int, int, bytes]], sizes: list[int]
) -> None:
    """Through the log's own form and back, and from any point on by another process."""
    data = edited(lines_of(turn_of(cut(text, sizes), ["T"], ["{}"])), edits)
    first = decode([data], "responses", turn=TURN)
    stored = [encode(event) for event in first.events]
    again = collect([decode_event(line) for line in stored])
    assert (again.frames, again.blocks, again.payload) == (first.frames, first.blocks, first.payload)
    muted = Turn(TURN, relay=False)
    blocks = [block for event in first.events for block in muted.push(event).blocks]
    assert (blocks, muted.finish().response) == (first.blocks, first.payload.response)


@pytest.mark.parametrize("kind", ITEMS)
def test_a_done_repeated_at_every_later_place_is_never_a_second_item(kind: str) -> None:
    parts = [events_of(kind, 0), message(1, ["x"])[0], events_of(kind, 2)]
    events = [*opening(), *(event for part in parts for event in part), {"type": "response.completed", "response": response("completed")}]  # fmt: skip
    undisturbed = data_of(run(events).frames)
    done = len(opening()) + len(parts[0]) - 1
    for place in range(done + 1, len(events)):
        for also in ({}, {"extra": 1}):
            repeat = {**events[done], "item": {**events[done]["item"], **also}}
            decoded = run([*events[:place], repeat, *events[place:]])
            assert data_of(decoded.frames) == undisturbed, (kind, place)


def test_json_of_any_depth_ends_the_turn_by_name_or_passes() -> None:
    for depth in (10, 1000):
        nested: Any = {"type": "response.brand_new", "x": None}
        text = json.dumps(nested).replace("null", "[" * depth + "]" * depth)
        decoded = decode([b"data: " + text.encode() + b"\n\n"], "responses", turn=TURN)
        assert decoded.payload.status == "failed"
        assert msgspec.json.decode(decoded.frames[-1].data)["response"]["error"]["code"] == "upstream_truncated"
