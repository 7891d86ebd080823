"""The one decision about a part, as a table."""

from typing import Any

import pytest

from ledger.parts import PartRecord, part_from_hash
from ledger.states import Operation, State
from workers.delivery.recovery import Action, Advance, Ask, Asked, Policy, Send, Wait, decide

NOW = 1_000_000
POLICY: dict[str, Any] = {
    "quarantine_ms": 1_000,
    "key_window_ms": 100_000,
    "need_ms": 100,
    "age_limit_ms": 50_000,
    "max_attempts": 5,
    "unknown_hold_ms": 3_000,
    "unknown_max_ms": 30_000,
}
BARE: dict[str, Any] = {"key_window_ms": 0}


def part(state: State, **fields: int | str) -> PartRecord:
    given: dict[str, int | str] = {
        "state": state,
        "content_type": "text/plain",
        "age_from": NOW,
        "created_at": NOW,
        "in_lane": 1,
        "token": "1:old",
    }
    record = part_from_hash("x", {name: str(value) for name, value in {**given, **fields}.items()})
    assert record is not None
    return record


def decided(record: PartRecord, *, may_age: bool = True, **policy: Any) -> Action:
    return decide(record, now_ms=NOW, token="2:new", policy=Policy(**{**POLICY, **policy}), may_age=may_age)


def operation(action: Action) -> Operation | None:
    return action.operation if isinstance(action, Advance) else None


def test_what_waits_is_sent_when_its_time_has_come() -> None:
    assert decided(part(State.PENDING)) == Send()
    assert decided(part(State.RETRY, due_at=NOW)) == Send()
    assert decided(part(State.RETRY, due_at=NOW + 7)) == Wait(ms=7)


def test_what_is_too_old_or_tried_too_often_is_given_up() -> None:
    assert operation(decided(part(State.PENDING, age_from=NOW - 50_000))) is Operation.EXPIRE
    assert operation(decided(part(State.RETRY, failures=5))) is Operation.EXPIRE
    assert operation(decided(part(State.PENDING, content_type=""))) is Operation.EXPIRE


def test_no_age_acts_after_a_disturbance() -> None:
    assert decided(part(State.PENDING, age_from=NOW - 50_000), may_age=False) == Send()
    unknown = part(State.UNKNOWN, attempt_at=NOW - 40_000, unknown_at=NOW - 40_000, in_lane=0)
    assert isinstance(decided(unknown, may_age=False, **BARE), Wait)


def test_a_retry_that_may_have_arrived_lapses_with_its_key() -> None:
    exposed = part(State.RETRY, exposed_at=NOW - 99_900)
    assert operation(decided(exposed)) is Operation.LAPSE
    assert decided(part(State.RETRY, exposed_at=NOW - 99_899)) == Send()
    assert operation(decided(part(State.RETRY, exposed_at=NOW), **BARE)) is Operation.LAPSE


def test_our_own_attempt_is_left_alone() -> None:
    assert isinstance(decided(part(State.SENDING, token="2:new", attempt_at=0)), Wait)


def test_an_older_owners_attempt_waits_for_the_quarantine() -> None:
    assert decided(part(State.SENDING, attempt_at=NOW - 999, exposed_at=NOW - 999)) == Wait(ms=1)


def test_after_it_the_key_repeats_and_without_one_it_is_unknown() -> None:
    left = part(State.SENDING, attempt_at=NOW - 1_000, exposed_at=NOW - 1_000)
    assert decided(left) == Send()
    assert operation(decided(left, **BARE)) is Operation.RECOVER
    old = part(State.SENDING, attempt_at=NOW - 1_000, exposed_at=NOW - 100_000)
    assert operation(decided(old)) is Operation.RECOVER


@pytest.mark.parametrize(
    ("fields", "policy", "expected"),
    [
        ({"attempt_at": NOW - 999}, {"on_unknown": "drop"}, None),
        ({}, {}, Operation.REKEY),
        ({"exposed_at": NOW - 100_000}, {}, Operation.STEP_ASIDE),
        ({}, {**BARE, "on_unknown": "drop"}, Operation.DROP),
        ({}, {**BARE, "on_unknown": "resend"}, Operation.RESEND),
        ({"created_at": NOW - 50_000}, {**BARE, "on_unknown": "resend"}, Operation.STEP_ASIDE),
        ({"unknown_at": NOW - 2_999}, BARE, None),
        ({}, BARE, Operation.STEP_ASIDE),
        ({"in_lane": 0}, BARE, None),
        ({"in_lane": 0, "unknown_at": NOW - 30_000}, BARE, Operation.ABANDON),
        ({"unknown_at": NOW - 30_000}, BARE, Operation.ABANDON),
    ],
)
def test_an_unknown_part_goes_by_key_then_policy_then_clock(
    fields: dict[str, int], policy: dict[str, Any], expected: Operation | None
) -> None:
    given = {"attempt_at": NOW - 4_000, "exposed_at": NOW - 4_000, "unknown_at": NOW - 4_000, **fields}
    assert operation(decided(part(State.UNKNOWN, **given), **policy)) is expected


@pytest.mark.parametrize("state", [State.SENT, State.DEAD, State.SUPPRESSED, State.ABANDONED])
def test_nothing_is_done_with_what_is_settled(state: State) -> None:
    assert isinstance(decided(part(state)), Wait)


ASKED: dict[str, Any] = {**BARE, "reconciles": True}
OLD = {"attempt_at": NOW - 4_000, "exposed_at": NOW - 4_000, "unknown_at": NOW - 4_000}


def test_a_channel_is_asked_after_the_quarantine_and_where_no_key_protects() -> None:
    unknown = part(State.UNKNOWN, **OLD)
    assert decided(unknown, **ASKED) == Ask()
    assert operation(decided(unknown, reconciles=True)) is Operation.REKEY
    assert decided(part(State.UNKNOWN, **{**OLD, "attempt_at": NOW - 999}), **ASKED) == Wait(ms=1)
    left = part(State.SENDING, attempt_at=NOW - 1_000, exposed_at=NOW - 1_000)
    assert operation(decided(left, **ASKED)) is Operation.RECOVER


def test_what_the_channel_does_not_know_waits_for_the_next_question_then_for_a_person() -> None:
    policy = Policy(**{**POLICY, **ASKED, "on_unknown": "resend"})
    fresh = part(State.UNKNOWN, **{**OLD, "unknown_at": NOW - 1_000})
    asked: dict[str, Any] = {
        "now_ms": NOW,
        "token": "2:new",
        "may_age": True,
        "asked": Asked(since=NOW - 1_000, again_at=NOW + 50),
    }
    assert decide(fresh, policy=policy, **asked) == Wait(ms=50)
    assert operation(decide(part(State.UNKNOWN, **OLD), policy=policy, **asked)) is Operation.RESEND


@pytest.mark.parametrize("on_unknown", ["hold", "resend", "drop"])
def test_whoever_takes_over_after_the_hold_asks_for_a_quarantine_before_others_go_first(on_unknown: str) -> None:
    policy = Policy(**{**POLICY, **ASKED, "on_unknown": on_unknown})
    old = part(State.UNKNOWN, **OLD)

    def after(since: int) -> Action:
        asked = Asked(since=since, again_at=NOW + 50)
        return decide(old, now_ms=NOW, token="2:new", policy=policy, may_age=True, asked=asked)

    assert after(NOW) == after(NOW - 900) == Wait(ms=50)
    assert after(NOW - 960) == Wait(ms=40)
    expected = {"hold": Operation.STEP_ASIDE, "resend": Operation.RESEND, "drop": Operation.DROP}
    assert operation(after(NOW - 1_000)) is expected[on_unknown]
