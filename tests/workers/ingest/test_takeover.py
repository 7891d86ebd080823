import pytest

from pipeline.events import Event, Status, TurnStarted
from workers.ingest.takeover import MAX_RESTARTS, Plan, decide, response_of

STARTED = TurnStarted(seq=0, at=1, fold=1, runtime="main", wire="responses", turn="0-a", session="s")


def restarted(seq: int) -> Event:
    return Status(seq=seq, at=1, name="restarted")


CREATED = Status(seq=1, at=1, name="upstream_started", wire={"type": "response.created", "response": {"id": "resp_1"}})


@pytest.mark.parametrize(
    ("next_seq", "emitted", "side_effects", "plan"),
    [
        (0, [], True, Plan.START),
        (0, [], False, Plan.START),
        (1, [STARTED], False, Plan.RESTART),
        (1, [STARTED], True, Plan.LOST),
        (2, [STARTED, restarted(1)], False, Plan.RESTART),
        (2, [STARTED, CREATED], False, Plan.LOST),
        (2, [STARTED], False, Plan.LOST),
        (900, [], False, Plan.LOST),
        (MAX_RESTARTS, [STARTED, *(restarted(n) for n in range(1, MAX_RESTARTS))], False, Plan.RESTART),
        (MAX_RESTARTS + 1, [STARTED, *(restarted(n) for n in range(1, MAX_RESTARTS + 1))], False, Plan.LOST),
    ],
)
def test_a_request_is_made_again_only_if_the_log_shows_that_nothing_was_said(
    next_seq: int, emitted: list[Event], side_effects: bool, plan: Plan
) -> None:
    assert decide(next_seq, emitted, side_effects=side_effects) is plan


NAMELESS = Status(seq=1, at=1, name="upstream_started", wire={"type": "response.created", "response": {"id": None}})


@pytest.mark.parametrize(
    ("head", "ident"),
    [
        ([STARTED], None),
        ([STARTED, CREATED], "resp_1"),
        ([STARTED, restarted(1), Status(seq=2, at=1, name="upstream_started", wire=CREATED.wire)], "resp_1"),
        ([STARTED, NAMELESS], None),
        ([STARTED, Status(seq=1, at=1, name="keepalive"), CREATED], "resp_1"),
    ],
)
def test_an_upstream_is_read_again_only_if_it_told_its_responses_name(head: list[Event], ident: str | None) -> None:
    assert response_of(head) == ident
    plan = decide(99, head, side_effects=True, resumable=True)
    assert plan is (Plan.LOST if ident is None else Plan.REATTACH)
    assert decide(99, head, side_effects=True, resumable=False) is Plan.LOST
