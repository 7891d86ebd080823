"""Turns that a program outside carries: no request, a token from submit on, claims that end what came before them."""

from ledger import external, log, turns
from ledger.external import EXTERNAL, ExternalClaim, ExternalRefused, claim_external, first_token, is_first
from ledger.log import PublishReply, PublishStatus
from ledger.records import START, TurnState
from tests.ledger.conftest import Bench, effect, events

TOKEN = first_token("n0")


def publish(bench: Bench, turn: str, token: str, first: int, n: int = 1, terminal: str | None = None) -> PublishReply:
    call = log.publish(
        bench.keys,
        turn,
        token=token,
        producer=EXTERNAL,
        first_seq=first,
        events_json=events(first, n),
        n=n,
        terminal=terminal,
    )
    return bench.run(call)


def claim(bench: Bench, turn: str, nonce: str) -> ExternalClaim | ExternalRefused:
    return bench.run(claim_external(bench.keys, turn, nonce=nonce))


def test_no_ingest_process_is_asked_for_an_external_turn(bench: Bench) -> None:
    turn = bench.submit(external_token=TOKEN)
    assert bench.client.xlen(bench.keys.requests(bench.partition)) == 0
    record = bench.record(turn)
    assert (record.external_token, record.entry, record.ingest_epoch) == (TOKEN, "", 1)
    assert is_first(TOKEN)


def test_its_producer_publishes_under_the_token_of_submit_to_the_end(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit(external_token=TOKEN)
    assert publish(bench, turn, TOKEN, 0, 2).status is PublishStatus.OK
    assert publish(bench, turn, TOKEN, 0, 2).status is PublishStatus.ALREADY
    assert publish(bench, turn, "1:n9", 2).status is PublishStatus.STALE
    assert publish(bench, turn, TOKEN, 2, terminal="turn_completed").status is PublishStatus.OK
    assert publish(bench, turn, TOKEN, 3).status is PublishStatus.ENDED
    ids = [entry.id for entry in bench.take().entries]
    done = effect(turn, state=TurnState.COMPLETED)
    assert bench.commit(bench.batch(START, ids, done)).status is log.CommitStatus.OK
    assert bench.run(turns.admitted(bench.keys, bench.partition)) == {}


def test_ingests_own_producer_cannot_publish_there(bench: Bench) -> None:
    turn = bench.submit(external_token=TOKEN)
    assert bench.publish(turn, TOKEN, 0).status is PublishStatus.STALE


def test_a_claim_takes_the_turn_over_and_a_repeat_answers_the_same(bench: Bench) -> None:
    turn = bench.submit(external_token=TOKEN)
    publish(bench, turn, TOKEN, 0, 3)
    claimed = claim(bench, turn, "n1")
    assert claimed == ExternalClaim(token="2:n1", next_seq=3, cancel=False)
    assert claim(bench, turn, "n1") == claimed
    assert publish(bench, turn, TOKEN, 3).status is PublishStatus.STALE
    assert publish(bench, turn, "2:n1", 3).status is PublishStatus.OK
    assert not is_first(external.first_token("x").replace("1:", "2:"))


def test_a_claim_hears_of_a_cancel(bench: Bench) -> None:
    turn = bench.submit(external_token=TOKEN)
    bench.run(turns.request_cancel(bench.keys, turn, grace_ms=1_000))
    claimed = claim(bench, turn, "n1")
    assert isinstance(claimed, ExternalClaim)
    assert claimed.cancel


def test_what_cannot_be_claimed_is_refused_by_name(bench: Bench) -> None:
    assert claim(bench, f"3-{9:024x}", "n") is ExternalRefused.UNKNOWN_TURN
    assert claim(bench, bench.submit(), "n") is ExternalRefused.NOT_EXTERNAL
    turn = bench.submit(external_token=TOKEN)
    publish(bench, turn, TOKEN, 0, terminal="turn_failed")
    assert claim(bench, turn, "n") is ExternalRefused.ENDED


def test_a_silent_producer_has_its_turn_ended_by_name(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit(external_token=TOKEN)
    bench.client.hset(bench.keys.turn(turn), mapping={"claimed_at": 1, "last_event_at": 1})
    due = bench.run(turns.check_deadline(bench.keys, turn, token=bench.token))
    assert due is not None
    assert due.reason is turns.DueReason.SILENT
