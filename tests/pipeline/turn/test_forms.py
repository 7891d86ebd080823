"""The frames of a text's deltas have a form in common; what differs between two events stays different in their frames."""

from typing import Any

import msgspec
import pytest

from pipeline.limits import Limits
from pipeline.relay.funnel import Funnel, form_of
from pipeline.turn import Turn
from tests.pipeline.staged import started
from tests.pipeline.streams import TURN, Json
from tests.pipeline.turn.events import call, delta, fold, item, status

UP: Json = {"type": "response.output_text.delta", "item_id": "m"}


def written(*wires: Json | None) -> list[bytes]:
    """The frames of one delta for each wire, as they are written."""
    turn = Turn(TURN)
    turn.push(started())
    frames = [frame for wire in wires for frame in turn.push(delta("é", wire=wire)).frames]
    return [frame.data for frame in frames if frame.event.endswith("text.delta")]


def test_deltas_of_one_form_are_written_alike_but_for_text_and_number() -> None:
    first, second, third = written(UP, UP, dict(UP))
    assert first == (
        b'{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,'
        b'"delta":"\xc3\xa9","sequence_number":4}'
    )
    assert second == first.replace(b'"sequence_number":4', b'"sequence_number":5')
    assert third == first.replace(b'"sequence_number":4', b'"sequence_number":6')


def test_a_wire_without_events_of_its_own_has_a_form_too() -> None:
    first, second = written(None, {"logprobs": [1]})
    assert first.endswith(b'"delta":"\xc3\xa9","logprobs":[],"sequence_number":4}')
    assert second.endswith(b'"delta":"\xc3\xa9","logprobs":[1],"sequence_number":5}')


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"x": 1}, {"x": True}),
        ({"x": 1}, {"x": 1.0}),
        ({"x": [0]}, {"x": [False]}),
        ({"x": 1, "y": 2}, {"y": 2, "x": 1}),
        ({"x": 1}, {}),
        ({"error": "no"}, {"defects": []}),
        ({"delta": "no", "sequence_number": 5, "x": 1}, {"x": 1}),
        ({"obfuscation": "x"}, {"obfuscation": "é%b"}),
        ({"obfuscation": "x", "y": 1}, {"obfuscation": "x", "y": True}),
        ({"y": 1, "obfuscation": "x"}, {"obfuscation": "x", "y": 1}),
        ({"obfuscation": "x"}, {"obfuscation": 1}),
        ({"obfuscation": "x"}, {"y": 1}),
        ({"obfuscation": "x"}, {}),
        ({"obfuscation": None}, {"obfuscation": ["x"]}),
    ],
)
def test_what_differs_stays_different(one: Json, other: Json) -> None:
    alone = [written(UP | wire)[0] for wire in (one, other, one)]
    together = written(UP | one, UP | other, UP | one)
    assert [frame.rpartition(b",")[0] for frame in together] == [frame.rpartition(b",")[0] for frame in alone]
    assert [msgspec.json.decode(frame)["delta"] for frame in together] == ["é"] * 3


def test_members_behind_the_text_stay_there() -> None:
    funnel = Funnel()
    members: dict[str, Any] = {"type": "t\n", "delta": "", "output_index": 0, "a": [1], "b": {}}
    funnel.emit_delta(form_of(None, members), '"', None)
    assert funnel.out[0].event == ""
    assert funnel.out[0].data == b'{"type":"t\\n","delta":"\\"","output_index":0,"a":[1],"b":{},"sequence_number":0}'


def test_padding_is_each_deltas_own_in_the_window_too() -> None:
    wires = [{**UP, "obfuscation": words} for words in ("", "x", "\0")]
    told, held = Funnel(), Funnel()
    held.hold(0, Limits())
    form = form_of(wires[0], {**wires[0], "output_index": 0, "delta": ""})
    for funnel in (told, held):
        for wire in wires:
            assert form.fits(wire)
            funnel.emit_delta(form, "é", wire)
    held.release(0)
    assert held.out == told.out
    assert [msgspec.json.decode(frame.data)["obfuscation"] for frame in told.out] == ["", "x", "\0"]


@pytest.mark.parametrize(("muted", "made"), [(False, 2), (True, 0)])
def test_texts_wait_in_the_window_like_other_frames(*, muted: bool, made: int) -> None:
    funnel = Funnel(muted=muted)
    forms = [form_of(None, {"type": "t", "output_index": index, "delta": ""}) for index in (0, 1)]
    funnel.hold(1, Limits(deferred_entries=1))
    for form in forms:
        funnel.emit_delta(form, "x", None)
    assert (len(funnel.out), funnel.exceeded) == (made // 2, None)
    funnel.emit_delta(forms[1], "y", None)
    assert funnel.exceeded == "deferred_entries"
    funnel.release(1)
    assert len(funnel.out) == made + made // 2


def test_a_kind_whose_input_does_not_stream_shows_none_of_it() -> None:
    frames, _, _ = fold(status("item_started", wire=item("hologram", id="h")), delta("x", track="tool_input"))
    assert [frame["type"] for frame in frames] == ["response.output_item.added", "response.output_item.done"]


def test_input_that_came_before_its_call_has_the_form_of_its_own_events() -> None:
    frames, _, _ = fold(call(), delta("{", track="tool_input"), delta("}", track="tool_input", wire={"x": 1}))
    assert [frame["delta"] for frame in frames if frame["type"].endswith(".delta")] == ["{", "}"]


def test_a_wire_whose_type_is_no_word_is_no_event_of_its_own() -> None:
    assert written({"type": 7, "x": 1}) == written(None)
