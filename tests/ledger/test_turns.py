import pytest

from ledger import turns
from ledger.errors import Full, UnexpectedReply
from ledger.records import TurnState
from ledger.turns import (
    CancelStatus,
    Claimed,
    ClaimRefused,
    ClaimStatus,
    IdempotencyStatus,
    RequestEntry,
    SubmitStatus,
)
from tests.ledger.conftest import LEASE_MS, Bench
from tests.support.waiting import wait_until_sync


def bind(bench: Bench, body: str = "b", key: str = "k", turn: str = "t1") -> turns.Idempotency:
    return bench.run(
        turns.claim_idempotency(
            bench.keys, tenant="acme", key=key, turn=turn, session="s1", body_hash=body, ttl_ms=50_000
        )
    )


def requests(bench: Bench, consumer: str, *, count: int = 10, idle: int | None = None) -> list[RequestEntry]:
    return bench.run(turns.take_requests(bench.keys, bench.partition, consumer=consumer, count=count, min_idle_ms=idle))


def renew(bench: Bench, turn: str, token: str) -> turns.RenewReply:
    return bench.run(turns.renew_turn(bench.keys, turn, token=token, lease_ms=LEASE_MS))


def release(bench: Bench, turn: str, token: str) -> ClaimStatus:
    return bench.run(turns.release_turn(bench.keys, turn, token=token))


def cancel(bench: Bench, turn: str, grace_ms: int = 50_000) -> CancelStatus:
    return bench.run(turns.request_cancel(bench.keys, turn, grace_ms=grace_ms))


def deadline(bench: Bench, turn: str) -> float | None:
    score: float | None = bench.client.zscore(bench.keys.deadlines(bench.partition), turn)
    return score


# idempotency


def test_a_key_is_bound_to_the_first_turn_and_body(bench: Bench) -> None:
    first = bind(bench)
    assert (first.status, first.turn, first.session) == (IdempotencyStatus.CREATED, "t1", "s1")
    again = bind(bench, turn="t2")
    assert (again.status, again.turn) == (IdempotencyStatus.SAME, "t1")
    other = bind(bench, body="c", turn="t2")
    assert (other.status, other.turn) == (IdempotencyStatus.CONFLICT, "t1")
    assert bind(bench, key="k2", turn="t2").status == IdempotencyStatus.CREATED
    assert 0 < bench.client.pttl(bench.keys.idem("acme", "k")) <= 50_000


# submit


def test_a_submitted_turn_stands_with_its_request_its_deadline_and_its_place(bench: Bench) -> None:
    turn = bench.submit(serial=True)
    record = bench.record(turn)
    assert (record.state, record.tenant, record.session, record.serial) == (TurnState.QUEUED, "acme", "s1", True)
    assert (record.request, record.started, record.targets) == ('{"input":"hi"}', '{"type":"turn_started"}', "[]")
    assert requests(bench, "w1") == [RequestEntry(id=record.entry, turn=turn)]
    assert deadline(bench, turn) == record.submitted_at + 60_000
    assert bench.run(turns.admitted(bench.keys, bench.partition)) == {"acme": 1, "*": 1}
    assert bench.run(turns.recent_turns(bench.keys, bench.partition, count=10)) == [turn]


def test_turns_of_a_serial_session_stand_in_the_order_of_submission(bench: Bench) -> None:
    serial = bench.keys.serial(bench.partition, "s1")
    bench.submit()
    assert bench.client.exists(serial) == 0
    ids = [bench.submit(serial=True) for _ in range(2)]
    assert bench.client.lrange(serial, 0, -1) == ids
    assert bench.client.pttl(serial) > 0


def test_a_turn_is_created_once(bench: Bench) -> None:
    new = bench.new()
    for expected in (SubmitStatus.OK, SubmitStatus.ALREADY):
        assert bench.run(turns.submit(bench.keys, new, tenant_limit=9, partition_limit=9)) == expected
    assert bench.client.xlen(bench.keys.requests(bench.partition)) == 1
    assert bench.run(turns.admitted(bench.keys, bench.partition)) == {"acme": 1, "*": 1}


def test_admission_is_bounded_by_tenant_and_by_partition(bench: Bench) -> None:
    def submit(tenant: str) -> SubmitStatus:
        return bench.run(turns.submit(bench.keys, bench.new(tenant=tenant), tenant_limit=1, partition_limit=2))

    assert [submit("a"), submit("a"), submit("b"), submit("c")] == [
        SubmitStatus.OK,
        SubmitStatus.TENANT_FULL,
        SubmitStatus.OK,
        SubmitStatus.PARTITION_FULL,
    ]
    assert bench.client.xlen(bench.keys.requests(bench.partition)) == 2


def test_submit_stops_when_memory_is_short(bench: Bench) -> None:
    bench.client.hset(bench.keys.committed(bench.partition), "full", 1)
    with pytest.raises(Full):
        bench.run(turns.submit(bench.keys, bench.new(), tenant_limit=9, partition_limit=9))
    assert bench.client.exists(bench.keys.requests(bench.partition)) == 0


def test_a_turn_that_never_was_reads_as_nothing(bench: Bench) -> None:
    assert bench.run(turns.read_turn(bench.keys, bench.turn_id())) is None


# taking and claiming


def test_a_take_heals_a_missing_group_and_loses_nothing(bench: Bench) -> None:
    assert requests(bench, "w1") == []
    turn = bench.submit()
    bench.client.xgroup_destroy(bench.keys.requests(bench.partition), "ingest")
    assert [entry.turn for entry in requests(bench, "w1")] == [turn]
    assert requests(bench, "w1") == []


def test_abandoned_entries_come_first_and_each_sort_is_counted(bench: Bench) -> None:
    old = [bench.submit() for _ in range(3)]
    assert [entry.turn for entry in requests(bench, "w1")] == old
    new = bench.submit()
    assert [entry.turn for entry in requests(bench, "w2", idle=LEASE_MS)] == [new], "nothing has idled so long"
    assert [entry.turn for entry in requests(bench, "w2", idle=0, count=2)] == old[:2]
    assert [entry.turn for entry in requests(bench, "w3", idle=0)] == [*old, new]


def test_consumers_that_are_gone_and_have_nothing_are_deleted(bench: Bench) -> None:
    stream = bench.keys.requests(bench.partition)

    def consumers() -> set[str]:
        return {one["name"] for one in bench.client.xinfo_consumers(stream, "ingest")}

    requests(bench, "w1")
    turn = bench.submit()
    requests(bench, "w2")
    requests(bench, "w3", idle=LEASE_MS)
    assert "w2" in consumers(), "it has an entry pending"

    def only_the_taker_is_left() -> bool:
        assert [entry.turn for entry in requests(bench, "w3", idle=0)] == [turn]
        return consumers() == {"w3"}

    wait_until_sync(only_the_taker_is_left, "the consumers without entries to be deleted")


def test_a_claim_is_a_token_with_all_that_ingest_needs(bench: Bench) -> None:
    turn = bench.submit()
    claimed = bench.claim(turn)
    assert isinstance(claimed, Claimed)
    assert (claimed.token, claimed.next_seq, claimed.claims) == ("1:n1", 0, 1)
    assert (claimed.record.state, claimed.record.request) == (TurnState.RUNNING, '{"input":"hi"}')
    assert claimed.record.started_at > 0


def test_a_claim_whose_reply_was_lost_answers_the_same_token(bench: Bench) -> None:
    turn = bench.submit()
    assert bench.claim(turn).token == bench.claim(turn).token == "1:n1"
    assert bench.record(turn).ingest_epoch == 1
    bench.lapse(bench.keys.turn(turn), "ingest_lease_until")
    assert bench.claim(turn).token == "1:n1"
    assert bench.claim(turn, "n2") == ClaimRefused.BUSY, "the repeat prolonged the lease"


def test_a_held_turn_is_busy_until_its_lease_lapses(bench: Bench) -> None:
    turn, old = bench.claimed()
    assert bench.claim(turn, "n2") == ClaimRefused.BUSY
    bench.publish(turn, old, 0, 3)
    bench.lapse(bench.keys.turn(turn), "ingest_lease_until")
    taken = bench.claim(turn, "n2")
    assert (taken.token, taken.next_seq, taken.claims) == ("2:n2", 3, 2)
    assert renew(bench, turn, old).status == ClaimStatus.STALE
    assert release(bench, turn, old) == ClaimStatus.STALE


def test_a_lapsed_claim_that_nobody_took_is_renewed_under_the_same_token(bench: Bench) -> None:
    turn, token = bench.claimed()
    bench.lapse(bench.keys.turn(turn), "ingest_lease_until")
    assert renew(bench, turn, token).status == ClaimStatus.OK
    assert bench.claim(turn, "n2") == ClaimRefused.BUSY


def test_a_sleeper_does_not_get_its_claim_back_through_the_stream(bench: Bench) -> None:
    turn = bench.submit()
    requests(bench, "w1")
    old = bench.claim(turn).token
    bench.lapse(bench.keys.turn(turn), "ingest_lease_until")
    requests(bench, "w2", idle=0)
    bench.claim(turn, "n2", worker="w2")
    assert renew(bench, turn, old).status == ClaimStatus.STALE
    pending = bench.client.xpending_range(bench.keys.requests(bench.partition), "ingest", "-", "+", 10)
    assert [one["consumer"] for one in pending] == ["w2"]


def test_the_pending_entry_follows_the_claim(bench: Bench) -> None:
    turn = bench.submit()
    requests(bench, "w1")
    token = bench.claim(turn).token
    requests(bench, "w2", idle=0)
    renew(bench, turn, token)
    pending = bench.client.xpending_range(bench.keys.requests(bench.partition), "ingest", "-", "+", 10)
    assert [one["consumer"] for one in pending] == ["w1"]


def test_a_released_claim_is_handed_on_without_waiting(bench: Bench) -> None:
    turn = bench.submit()
    requests(bench, "w1")
    token = bench.claim(turn).token
    assert release(bench, turn, token) == ClaimStatus.OK
    assert release(bench, turn, token) == ClaimStatus.OK
    assert bench.publish(turn, token, 0).status == "STALE"
    assert [entry.turn for entry in requests(bench, "w2", idle=LEASE_MS)] == [turn]
    assert bench.claim(turn, "n2", worker="w2").token == "2:n2"


def test_entries_of_turns_that_are_over_are_taken_away(bench: Bench) -> None:
    gone, ended = bench.submit(), bench.submit()
    requests(bench, "w1")
    entry = bench.record(gone).entry
    bench.client.delete(bench.keys.turn(gone))
    reply = bench.run(turns.claim_turn(bench.keys, gone, entry=entry, worker="w1", nonce="n", lease_ms=1))
    assert reply == ClaimRefused.UNKNOWN_TURN
    bench.client.hset(bench.keys.turn(ended), "ended", "failed")
    assert bench.claim(ended) == ClaimRefused.ENDED
    assert bench.client.xlen(bench.keys.requests(bench.partition)) == 0
    assert bench.client.xpending(bench.keys.requests(bench.partition), "ingest")["pending"] == 0


def test_renewing_and_releasing_say_when_the_turn_is_over(bench: Bench) -> None:
    turn, token = bench.claimed()
    bench.publish(turn, token, 0, terminal="completed")
    assert renew(bench, turn, token).status == ClaimStatus.ENDED
    assert release(bench, turn, token) == ClaimStatus.ENDED
    unknown = bench.turn_id()
    assert renew(bench, unknown, token).status == ClaimStatus.UNKNOWN_TURN
    assert release(bench, unknown, token) == ClaimStatus.UNKNOWN_TURN


def test_a_claim_reply_without_a_record_is_an_error(bench: Bench) -> None:
    call = turns.claim_turn(bench.keys, bench.turn_id(), entry="1-0", worker="w", nonce="n", lease_ms=1)
    with pytest.raises(UnexpectedReply):
        call.decode(["CLAIMED", "1:n", []])


# cancelling


def test_a_cancel_is_told_at_the_next_renewal_and_publish(bench: Bench) -> None:
    turn, token = bench.claimed()
    assert not renew(bench, turn, token).cancel
    assert cancel(bench, turn) == CancelStatus.OK
    assert cancel(bench, turn) == CancelStatus.ALREADY
    assert renew(bench, turn, token).cancel
    assert bench.publish(turn, token, 0).cancel
    assert bench.record(turn).cancel


def test_what_is_over_cannot_be_cancelled(bench: Bench) -> None:
    turn, token = bench.claimed()
    bench.publish(turn, token, 0, terminal="completed")
    assert cancel(bench, turn) == CancelStatus.ENDED
    assert cancel(bench, bench.turn_id()) == CancelStatus.UNKNOWN_TURN


def test_turns_in_flight_are_listed_by_their_first_entry(bench: Bench) -> None:
    turn, token = bench.claimed()
    assert bench.run(turns.inflight_turns(bench.keys, bench.partition)) == []
    bench.publish(turn, token, 0)
    assert bench.run(turns.inflight_turns(bench.keys, bench.partition)) == [turn]


def test_a_child_is_of_its_parents_partition(bench: Bench) -> None:
    new = bench.new(parent="1-" + "a" * 24)
    with pytest.raises(ValueError, match="two partitions"):
        turns.submit(bench.keys, new, tenant_limit=1, partition_limit=1)
