import json

from scripts.fidelity import unlike, upstream_events
from tests.pipeline.streams import Json, body, message, run, whole_turn


def differences(given: list[Json], shown: list[Json]) -> list[str]:
    return unlike(body(given), run(shown))


def test_a_conforming_turn_comes_through() -> None:
    assert differences(whole_turn(), whole_turn()) == []


def test_a_lost_frame_and_a_changed_member_are_seen() -> None:
    events = whole_turn()
    assert differences([*events, {"type": "more"}], events)[0] == f"{len(events)} frames for {len(events) + 1} events"
    other = json.loads(json.dumps(events))
    other[3]["lost"] = 1
    other[4]["item_id"] = "another"
    assert differences(other, events) == [
        f"frame 3 ({events[3]['type']}) differs in lost",
        f"frame 4 ({events[4]['type']}) differs in item_id",
    ]
    other[-1]["response"]["usage"] = None
    assert differences(other, events)[-1].endswith("(response.completed) differs in response")


def test_the_reading_knows_line_ends_and_the_sentinel() -> None:
    events, _ = message(0, ["Hi"])
    lines = b"".join(b": note\r\ndata:%b\r\n\r\n" % json.dumps(event).encode() for event in events)
    assert upstream_events(lines + b"data: [DONE]\r\n\r\n") == events
