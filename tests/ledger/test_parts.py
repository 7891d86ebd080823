from ledger.parts import NewPart, body_hash, held_lane, part_from_hash, target_hash, webhook_id
from ledger.states import State


def new(**changes: object) -> NewPart:
    given: dict[str, object] = {
        "turn": "1-" + "a" * 24,
        "block": 2,
        "part": 1,
        "session": "s",
        "channel": "webhook",
        "target": "hook",
        "recipient": "",
        "body": "b",
        "content_type": "text/plain",
        "account": "hook",
    }
    return NewPart(**{**given, **changes})  # type: ignore[arg-type]  # gathered above


def test_a_delivery_id_names_turn_block_target_and_part() -> None:
    assert new().id == f"1-{'a' * 24}/2/{target_hash('webhook', 'hook', '')}/1"


def test_a_message_id_is_the_delivery_id_without_slashes() -> None:
    assert webhook_id("1-a/2/ff/1") == "msg_1-a.2.ff.1"


def test_recipients_are_targets_of_their_own() -> None:
    assert new(recipient="ann").target_hash != new(recipient="bob").target_hash
    assert new(recipient="ann").lane != new(recipient="bob").lane


def test_a_lane_is_of_one_session_and_target_whatever_the_turn() -> None:
    assert new(turn="1-" + "b" * 24, block=7).lane == new().lane
    assert new(session="t").lane != new().lane


def test_a_record_is_read_from_its_plain_fields() -> None:
    part = part_from_hash("x", {"state": "retry", "attempt:a": "1 5 retry", "body": "b", "in_lane": "1"})
    assert part is not None
    assert (part.state, part.attempts_made, part.in_lane) == (State.RETRY, {"a": "1 5 retry"}, True)
    assert body_hash(part.body) == new().body_hash
    assert part.webhook_id == "msg_x"
    assert part_from_hash("x", {}) is None


def test_a_holding_lane_names_its_lane_and_the_turn_that_holds() -> None:
    assert held_lane("abc:1-turn") == ("abc", "1-turn")
    assert held_lane("abc") is None
