import pytest

from ledger import ownership
from ledger.errors import UnexpectedReply
from ledger.ownership import NotFree, Notice, Raised, ReleaseStatus, RenewStatus
from ledger.records import OwnerRecord, TurnState
from tests.ledger.conftest import LEASE_MS, Bench, effect


def renew(bench: Bench, token: str, role: str = "fold", lease_ms: int = LEASE_MS) -> RenewStatus:
    return bench.run(
        ownership.renew_owner(bench.keys, role=role, partition=bench.partition, token=token, lease_ms=lease_ms)
    )


def release(bench: Bench, token: str) -> ReleaseStatus:
    return bench.run(ownership.release_owner(bench.keys, role="fold", partition=bench.partition, token=token))


def lose(bench: Bench) -> None:
    """The owner is gone: its lease runs out."""
    bench.lapse(bench.keys.owner("fold", bench.partition), "lease_until")


def owner(bench: Bench) -> OwnerRecord:
    return bench.run(ownership.read_owner(bench.keys, role="fold", partition=bench.partition))


def test_live_workers_are_listed_until_their_heartbeat_lapses(bench: Bench) -> None:
    for worker in ("b", "a"):
        bench.run(ownership.heartbeat(bench.keys, role="fold", worker=worker, ttl_ms=LEASE_MS))
    assert bench.run(ownership.live_workers(bench.keys, role="fold")) == ["a", "b"]
    bench.client.zadd(bench.keys.workers("fold"), {"a": 1})
    assert bench.run(ownership.live_workers(bench.keys, role="fold")) == ["b"]
    assert bench.run(ownership.heartbeat(bench.keys, role="fold", worker="b", ttl_ms=LEASE_MS)) == ["b"]
    assert bench.client.zcard(bench.keys.workers("fold")) == 1, "the lapsed one is forgotten"
    bench.run(ownership.leave(bench.keys, role="fold", worker="b"))
    assert bench.run(ownership.live_workers(bench.keys, role="fold")) == []


def test_a_free_partition_is_raised_under_a_new_token(bench: Bench) -> None:
    reply = bench.raised("a")
    assert reply == Raised(
        token="1:a",
        log_position="0-0",
        blocks_position="0-0",
        inflight=(),
        idle_raises=0,
        suspect="",
        suspect_entry="",
        suspect_lost=0,
    )
    record = owner(bench)
    assert (record.epoch, record.token, record.worker) == (1, "1:a", "w-a")
    assert bench.client.ttl(bench.keys.owner("fold", bench.partition)) == -1, "with a TTL the epochs would start again"


def test_a_held_partition_is_not_free(bench: Bench) -> None:
    bench.raised("a")
    reply = bench.raise_("b")
    assert isinstance(reply, NotFree)
    assert reply.worker == "w-a"
    assert 0 < reply.remaining_ms <= LEASE_MS


def test_a_raise_whose_reply_was_lost_answers_the_same_token(bench: Bench) -> None:
    first = bench.raised("a")
    assert bench.raise_("a") == first
    assert owner(bench).epoch == 1
    lose(bench)
    assert bench.raise_("a") == first
    assert isinstance(bench.raise_("b"), NotFree), "the repeat prolonged the lease"


def test_roles_own_a_partition_apart(bench: Bench) -> None:
    bench.raised("a")
    reply = bench.raise_("b", role="delivery")
    assert isinstance(reply, Raised)
    assert reply.token == "1:b"


def test_a_lapsed_lease_is_taken_and_the_old_token_is_dead(bench: Bench) -> None:
    old = bench.raised("a").token
    lose(bench)
    assert bench.raised("b").token == "2:b"
    assert renew(bench, old) == RenewStatus.STALE
    assert release(bench, old) == ReleaseStatus.STALE
    assert renew(bench, "2:b") == RenewStatus.OK


def test_a_lapsed_lease_that_nobody_took_is_renewed_under_the_same_token(bench: Bench) -> None:
    token = bench.raised("a").token
    lose(bench)
    assert renew(bench, token) == RenewStatus.OK
    assert isinstance(bench.raise_("b"), NotFree)


def test_a_token_is_compared_whole(bench: Bench) -> None:
    bench.raised("a")
    assert renew(bench, "1:b") == RenewStatus.STALE
    assert renew(bench, "1") == RenewStatus.STALE
    assert renew(bench, "") == RenewStatus.STALE


def test_a_released_partition_is_free_at_once(bench: Bench) -> None:
    token = bench.raised("a").token
    assert release(bench, token) == ReleaseStatus.OK
    assert release(bench, token) == ReleaseStatus.ALREADY
    assert renew(bench, token) == RenewStatus.STALE, "a released token is dead"
    assert release(bench, "") == ReleaseStatus.STALE
    assert bench.raised("b").token == "2:b"


def test_take_overs_that_moved_nothing_are_counted(bench: Bench) -> None:
    bench.raised("a")
    turn, token = bench.claimed()
    entry = bench.publish(turn, token, 0).entry
    counted = []
    for nonce in "bcd":
        lose(bench)
        counted.append(bench.raised(nonce).idle_raises)
    assert counted == [1, 2, 3]
    bench.commit(bench.batch("0-0", [entry], effect(turn)))
    lose(bench)
    assert bench.raised("e").idle_raises == 0, "something was committed"
    lose(bench)
    assert bench.raised("f").idle_raises == 1


def test_an_owner_that_had_no_turn_to_fold_was_not_lost_at_one(bench: Bench) -> None:
    for nonce in "abcde":
        assert bench.raised(nonce).idle_raises == 0
        lose(bench)
    turn, token = bench.claimed()
    entry = bench.publish(turn, token, 0).entry
    assert bench.raised("f").idle_raises == 1
    lose(bench)
    assert bench.raised("g").idle_raises == 2
    bench.commit(bench.batch("0-0", [entry], effect(turn, state=TurnState.COMPLETED)))
    lose(bench)
    assert bench.raised("h").idle_raises == 0


def test_a_release_does_not_count_as_a_lost_owner(bench: Bench) -> None:
    bench.raised("a")
    bench.publish(*bench.claimed(), 0)
    lose(bench)
    assert bench.raised("b").idle_raises == 1
    release(bench, bench.token)
    assert bench.raised("c").idle_raises == 1


def test_the_delivery_role_counts_by_its_own_position(bench: Bench) -> None:
    assert isinstance(bench.raise_("a", role="delivery"), Raised)
    bench.client.hset(bench.keys.committed(bench.partition), "blocks", "5-0")
    bench.lapse(bench.keys.owner("delivery", bench.partition), "lease_until")
    reply = bench.raise_("b", role="delivery")
    assert isinstance(reply, Raised)
    assert (reply.idle_raises, reply.blocks_position) == (0, "5-0")


def test_a_raise_tells_which_turns_are_in_flight(bench: Bench) -> None:
    turns = []
    for nonce in ("n1", "n2"):
        turn = bench.submit()
        bench.publish(turn, bench.claim(turn, nonce).token, 0)
        turns.append(turn)
    assert set(bench.raised().inflight) == set(turns)


def test_renewing_tells_producers_when_memory_is_short(bench: Bench) -> None:
    token = bench.raised("a").token
    full = bench.keys.committed(bench.partition)
    limit = bench.client.config_get("maxmemory")["maxmemory"]
    try:
        bench.client.config_set("maxmemory", int(bench.client.info("memory")["used_memory"] * 1.1))
        assert renew(bench, token) == RenewStatus.OK
        assert bench.client.hget(full, "full") == "1"
        assert renew(bench, token) == RenewStatus.OK
    finally:
        bench.client.config_set("maxmemory", limit)
    assert renew(bench, token) == RenewStatus.OK
    assert bench.client.hget(full, "full") is None


def test_what_no_script_answers_is_an_error() -> None:
    call = ownership.raise_owner(Bench(None).keys, role="fold", partition=0, worker="w", nonce="n", lease_ms=1)
    with pytest.raises(UnexpectedReply):
        call.decode(["WHAT"])


def test_whoever_listens_hears_what_became_of_a_partition(bench: Bench) -> None:
    freed = ownership.notify(bench.keys, role="fold", notice=Notice.FREED, partition=7)
    assert bench.run(freed) == 0
    with bench.client.pubsub() as listener:
        listener.subscribe(bench.keys.freed("fold"))
        listener.get_message(timeout=5)
        for notice in Notice:
            assert bench.run(ownership.notify(bench.keys, role="fold", notice=notice, partition=7)) == 1
            message = listener.get_message(timeout=5)
            assert message is not None
            assert ownership.read_notice(message["data"]) == (notice, 7)
    assert ownership.notify(bench.keys, role="fold", notice=Notice.FREED, partition=7, sharded=True).name == "SPUBLISH"


@pytest.mark.parametrize(
    "payload", ["", "7", "[]", "{}", '{"freed": "x"}', '{"freed": null}', '{"eaten": 7}', '{"a": 1, "b": 2}']
)
def test_what_another_version_tells_is_no_more_than_a_sign(payload: str) -> None:
    assert ownership.read_notice(payload) is None
