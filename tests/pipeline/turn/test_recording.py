"""The synchronous drivers: a recorded body, or events at hand, in one go."""

import pytest

from pipeline.codec import encode
from pipeline.errors import MisuseError, WireError
from pipeline.events import Status, TextDelta, TurnCompleted, TurnStarted
from pipeline.turn import Turn, Validation, collect, decode
from tests.pipeline.staged import started
from tests.pipeline.streams import TURN, body, message, opening, response, text_of, whole_turn


def canonical(*events: object) -> bytes:
    return b"".join(encode(event) + b"\n" for event in events)  # type: ignore[arg-type]  # events all


TEXT = TextDelta(seq=1, at=1_000, item=0, content=0, track="text", text="Half a sentence")
END = TurnCompleted(seq=2, at=9_000, outcome="completed")


def test_a_body_of_canonical_events_brings_its_own_start() -> None:
    decoded = decode([canonical(started(turn="4-x", model="m"), TEXT, END)], "canonical")
    assert isinstance(decoded.events[0], TurnStarted)
    assert (decoded.payload.response["id"], decoded.payload.response["model"]) == ("resp_4-x", "m")
    assert decoded == collect(decoded.events)


def test_settings_stand_over_those_of_the_start() -> None:
    data = [canonical(started(settings={"min_chars": 900, "idle_ms": 700}), TEXT, END)]
    start = decode(data, "canonical", settings={"min_chars": 3}).events[0]
    assert isinstance(start, TurnStarted)
    assert start.settings == {"min_chars": 3, "idle_ms": 700}
    given = decode([body(whole_turn())], "responses", settings={"min_chars": 3}).events[0]
    assert isinstance(given, TurnStarted)
    assert given.settings == {"min_chars": 3}


@pytest.mark.parametrize(("idle", "names"), [(True, ["idle"]), (False, [])])
def test_a_gap_between_events_becomes_an_idle_event_where_that_is_asked(idle: bool, names: list[str]) -> None:
    data = [canonical(started(), TEXT, END)]
    decoded = decode(data, "canonical", settings={"min_chars": 3, "idle_ms": 700}, idle=idle)
    assert [event.name for event in decoded.events if isinstance(event, Status)] == names
    assert text_of(decoded.blocks) == TEXT.text


def test_strict_refuses_what_comes_behind_the_terminal() -> None:
    events = [*opening(), *message(0, ["Hi"])[0], {"type": "response.completed", "response": response("completed")}]
    with pytest.raises(WireError) as refused:
        decode([body([*events, *opening()])], "responses", Validation.STRICT, turn=TURN)
    assert (refused.value.diagnostic.code, refused.value.diagnostic.turn) == ("after_terminal", TURN)


def test_nothing_at_all_is_a_turn_that_runs() -> None:
    decoded = collect([], turn=TURN)
    assert (decoded.frames, decoded.payload.status) == ([], "running")


def test_a_turn_is_finished_once() -> None:
    turn = Turn(TURN)
    turn.push(started())
    turn.finish()
    with pytest.raises(MisuseError):
        turn.finish()
    with pytest.raises(MisuseError):
        turn.push(started())
