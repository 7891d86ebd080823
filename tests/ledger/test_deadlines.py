"""When a turn is ended by name: what is due, what is put off, and which time counts as nobody's silence."""

import pytest

from ledger import turns
from ledger.external import WaitStatus, first_token, note_wait
from ledger.records import START
from ledger.turns import ALWAYS_MS, ClaimStatus, Due, DueReason
from tests.ledger.conftest import LEASE_MS, Bench, effect


def due(bench: Bench, turn: str, calm_ms: int = ALWAYS_MS) -> Due | None:
    return bench.run(turns.check_deadline(bench.keys, turn, token=bench.token, calm_ms=calm_ms))


def reason(bench: Bench, turn: str, calm_ms: int = ALWAYS_MS) -> DueReason | None:
    found = due(bench, turn, calm_ms)
    return None if found is None else found.reason


def deadline(bench: Bench, turn: str) -> float:
    score: float | None = bench.client.zscore(bench.keys.deadlines(bench.partition), turn)
    assert score is not None
    return score


def hush(bench: Bench, turn: str) -> None:
    """Nothing was heard of the turn for longer than any limit."""
    for field in ("last_event_at", "claimed_at"):
        bench.lapse(bench.keys.turn(turn), field)


def renew(bench: Bench, turn: str, token: str, *, waits: bool) -> ClaimStatus:
    call = turns.renew_turn(bench.keys, turn, token=token, lease_ms=LEASE_MS, waits=waits)
    return bench.run(call).status


def limits(**changes: int) -> turns.TurnLimits:
    fields = {"queue_ms": 60_000, "turn_ms": 60_000, "silence_ms": 60_000, "tool_ms": 60_000, "bytes": 0}
    return turns.TurnLimits(**(fields | changes))


def test_nothing_is_due_before_its_time(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit()
    assert bench.run(turns.due_deadlines(bench.keys, bench.partition)) == []
    bench.client.zadd(bench.keys.deadlines(bench.partition), {turn: 1})
    assert due(bench, turn) is None
    assert bench.run(turns.due_deadlines(bench.keys, bench.partition)) == [], "put off"
    assert deadline(bench, turn) == bench.record(turn).submitted_at + 60_000


def test_a_turn_that_nobody_takes_is_due(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit(limits=limits(queue_ms=0))
    assert due(bench, turn) == Due(turn=turn, reason=DueReason.NEVER_TAKEN, tail="", next_seq=0)
    bench.claim(turn)
    assert due(bench, turn) is None, "it was taken after all"


def test_a_turn_that_its_producer_holds_from_the_start_is_looked_at_for_silence_and_not_for_being_taken(
    bench: Bench,
) -> None:
    changes = limits(silence_ms=5_000, queue_ms=40_000)
    outside, queued = bench.submit(limits=changes, external_token=first_token("aa")), bench.submit(limits=changes)
    assert deadline(bench, outside) == bench.record(outside).submitted_at + 5_000
    assert deadline(bench, queued) == bench.record(queued).submitted_at + 40_000


@pytest.mark.parametrize(("changes", "after_ms"), [({"silence_ms": 5_000}, 5_000), ({"turn_ms": 7_000}, 7_000)])
def test_a_claim_puts_the_deadline_to_the_first_silence_or_the_age(
    bench: Bench, changes: dict[str, int], after_ms: int
) -> None:
    turn = bench.submit(limits=limits(**changes))
    bench.client.zadd(bench.keys.deadlines(bench.partition), {turn: 1})
    bench.claim(turn)
    record = bench.record(turn)
    since = record.started_at if "silence_ms" in changes else record.submitted_at
    assert deadline(bench, turn) == since + after_ms


def test_a_silent_turn_is_due_at_its_tail(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit(limits=limits(silence_ms=1))
    token = bench.claim(turn).token
    entry = bench.publish(turn, token, 0).entry
    bench.commit(bench.batch(START, [entry], effect(turn)))
    hush(bench, turn)
    assert due(bench, turn) == Due(turn=turn, reason=DueReason.SILENT, tail=entry, next_seq=0)


def test_a_turn_over_its_age_is_due(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit(limits=limits(turn_ms=0))
    bench.claim(turn)
    reply = due(bench, turn)
    assert reply is not None
    assert reply.reason == DueReason.OVER_AGE


def test_a_turn_over_its_bytes_is_due_at_once(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit(limits=limits(bytes=10))
    token = bench.claim(turn).token
    bench.publish(turn, token, 0)
    assert bench.run(turns.due_deadlines(bench.keys, bench.partition)) == [turn]
    reply = due(bench, turn)
    assert reply is not None
    assert reply.reason == DueReason.OVER_BYTES


def test_a_missing_tool_is_due_and_silence_does_not_count_meanwhile(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit(limits=limits(silence_ms=0, tool_ms=1))
    token = bench.claim(turn).token
    entry = bench.publish(turn, token, 0).entry
    bench.commit(bench.batch(START, [entry], effect(turn, tool_waits=True)))
    bench.lapse(bench.keys.turn(turn), "tool_since")
    reply = due(bench, turn)
    assert reply is not None
    assert reply.reason == DueReason.TOOL_MISSING


def test_a_tools_limit_is_looked_at_when_the_tool_is_asked_and_not_at_the_end_of_a_longer_silence(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit(limits=limits(silence_ms=40_000, tool_ms=5_000))
    token = bench.claim(turn).token
    first = bench.publish(turn, token, 0).entry
    bench.commit(bench.batch(START, [first], effect(turn, 0, tool_waits=True)))
    asked = int(bench.client.hget(bench.keys.turn(turn), "tool_since"))
    assert deadline(bench, turn) == asked + 5_000
    bench.client.zadd(bench.keys.deadlines(bench.partition), {turn: asked + 9_000})
    second = bench.publish(turn, token, 1).entry
    bench.commit(bench.batch(first, [second], effect(turn, 1, tool_waits=True), commit_id="c2"))
    assert deadline(bench, turn) == asked + 9_000, "it was waited for already: no limit begins to count"


def test_silence_is_looked_at_when_the_tool_has_answered_and_not_at_the_end_of_its_longer_limit(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit(limits=limits(silence_ms=5_000, tool_ms=40_000))
    token = bench.claim(turn).token
    first = bench.publish(turn, token, 0).entry
    bench.commit(bench.batch(START, [first], effect(turn, 0, tool_waits=True)))
    bench.client.zadd(bench.keys.deadlines(bench.partition), {turn: 10**15})
    second = bench.publish(turn, token, 1).entry
    bench.commit(bench.batch(first, [second], effect(turn, 1), commit_id="c2"))
    heard = bench.record(turn).last_event_at
    assert heard + 5_000 <= deadline(bench, turn) < heard + 40_000


def test_a_longer_limit_does_not_put_a_deadline_off(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit(limits=limits(silence_ms=5_000, tool_ms=40_000))
    token = bench.claim(turn).token
    before = deadline(bench, turn)
    bench.commit(bench.batch(START, [bench.publish(turn, token, 0).entry], effect(turn, tool_waits=True)))
    assert deadline(bench, turn) == before


def test_what_is_over_or_gone_leaves_the_deadlines(bench: Bench) -> None:
    bench.raised()
    ended, gone = bench.submit(), bench.submit()
    bench.client.hset(bench.keys.turn(ended), "ended", "failed")
    bench.client.delete(bench.keys.turn(gone))
    assert due(bench, ended) is None
    assert due(bench, gone) is None
    assert bench.client.zcard(bench.keys.deadlines(bench.partition)) == 0


def test_only_the_folds_owner_acts_on_deadlines(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit(limits=limits(turn_ms=0))
    bench.token = "1:other"
    assert due(bench, turn) is None


def test_a_cancel_that_ingest_does_not_carry_out_falls_to_the_fold(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit()
    bench.run(turns.request_cancel(bench.keys, turn, grace_ms=0))
    assert bench.run(turns.due_deadlines(bench.keys, bench.partition)) == [turn]
    assert due(bench, turn) == Due(turn=turn, reason=DueReason.CANCELLED, tail="", next_seq=0)


# time that is nobody's silence


def folded(bench: Bench, *, tool: bool = False, **changes: int) -> tuple[str, str]:
    """A turn whose one event is folded, and the token of its claim; its last word, or its question to a tool, is long ago."""
    bench.raised()
    turn = bench.submit(limits=limits(**{"turn_ms": 3_600_000, **changes}))
    token = bench.claim(turn).token
    entry = bench.publish(turn, token, 0).entry
    bench.commit(bench.batch(START, [entry], effect(turn, tool_waits=tool)))
    hush(bench, turn)
    if tool:
        bench.lapse(bench.keys.turn(turn), "tool_since")
    return turn, token


@pytest.mark.parametrize(
    ("tool", "expected"), [(False, DueReason.SILENT), (True, DueReason.TOOL_MISSING)], ids=["silence", "tool"]
)
def test_a_turn_that_waits_for_us_is_not_silent_and_misses_no_tool(
    bench: Bench, tool: bool, expected: DueReason
) -> None:
    turn, token = folded(bench, tool=tool)
    assert renew(bench, turn, token, waits=False) is ClaimStatus.OK
    assert reason(bench, turn) is expected
    assert renew(bench, turn, token, waits=True) is ClaimStatus.OK
    waited_at = int(bench.client.hget(bench.keys.turn(turn), "waited_at"))
    assert reason(bench, turn) is None
    assert deadline(bench, turn) == waited_at + 60_000
    bench.lapse(bench.keys.turn(turn), "waited_at")
    assert reason(bench, turn) is expected, "it could have been heard since"


@pytest.mark.parametrize(
    ("tool", "expected"), [(False, DueReason.SILENT), (True, DueReason.TOOL_MISSING)], ids=["silence", "tool"]
)
def test_what_is_not_folded_yet_may_be_the_word_that_is_missed(bench: Bench, tool: bool, expected: DueReason) -> None:
    turn, token = folded(bench, tool=tool)
    later = bench.publish(turn, token, 1).entry
    hush(bench, turn)
    assert reason(bench, turn) is None
    before = bench.run(turns.read_turn(bench.keys, turn))
    assert before is not None
    assert deadline(bench, turn) > before.submitted_at + 59_000, "put off, so that it is in nobody's way"
    bench.client.hset(bench.keys.committed(bench.partition), "log", later)
    assert reason(bench, turn) is expected


@pytest.mark.parametrize("tool", [False, True], ids=["silence", "tool"])
def test_a_time_in_which_the_server_may_have_been_away_is_no_silence(bench: Bench, tool: bool) -> None:
    turn, _ = folded(bench, tool=tool)
    assert reason(bench, turn, calm_ms=59_000) is None
    assert reason(bench, turn, calm_ms=61_000) is not None


def test_a_queue_is_not_waited_in_while_the_server_may_have_been_away(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit()
    bench.lapse(bench.keys.turn(turn), "submitted_at")
    bench.client.hset(bench.keys.turn(turn), "turn_ms", 10**15)
    assert reason(bench, turn, calm_ms=59_000) is None
    assert reason(bench, turn, calm_ms=61_000) is DueReason.NEVER_TAKEN


def test_a_turns_age_counts_whatever_it_waited_for(bench: Bench) -> None:
    turn, token = folded(bench)
    bench.publish(turn, token, 1)
    renew(bench, turn, token, waits=True)
    bench.lapse(bench.keys.turn(turn), "submitted_at")
    assert reason(bench, turn, calm_ms=0) is DueReason.OVER_AGE


def test_an_external_producer_that_was_told_to_wait_is_not_silent(bench: Bench) -> None:
    bench.raised()
    token = first_token("n0")
    turn = bench.submit(external_token=token)
    hush(bench, turn)
    assert reason(bench, turn) is DueReason.SILENT

    def told(under: str, of: str = turn) -> WaitStatus:
        return bench.run(note_wait(bench.keys, of, token=under))

    assert told("1:other") is WaitStatus.STALE
    assert reason(bench, turn) is DueReason.SILENT
    assert told(token) is WaitStatus.OK
    assert reason(bench, turn) is None
    bench.client.hset(bench.keys.turn(turn), "ended", "turn_failed")
    assert told(token) is WaitStatus.ENDED
    assert told(token, bench.turn_id()) is WaitStatus.UNKNOWN_TURN
