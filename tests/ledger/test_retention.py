from ledger import log, ownership, retention
from ledger.records import START, TurnState, position_key
from ledger.retention import RetireStatus, SuspectStatus, TrimStatus
from tests.ledger.conftest import Bench, block, effect


def trim(bench: Bench, log_ms: int = 0, index_ms: int = 60_000) -> retention.TrimReply:
    return bench.run(retention.trim(bench.keys, bench.partition, token=bench.token, log_ms=log_ms, index_ms=index_ms))


def remaining(bench: Bench) -> list[str]:
    return [entry for entry, _ in bench.client.xrange(bench.keys.log(bench.partition))]


def suspect(bench: Bench, turn: str, entry: str = "") -> SuspectStatus:
    return bench.run(retention.suspect(bench.keys, bench.partition, token=bench.token, turn=turn, entry=entry))


def old_entries(bench: Bench, turn: str, *milliseconds: int) -> list[str]:
    """Log entries of old times, as if they had been published then."""
    ids = [f"{at}-5" for at in milliseconds]
    for entry in ids:
        fields = {"turn": turn, "producer": "ingest", "seq": 0, "n": 1, "events": "[{}]"}
        bench.client.xadd(bench.keys.log(bench.partition), fields, id=entry)
    return ids


def test_the_log_is_trimmed_behind_the_committed_position(bench: Bench) -> None:
    bench.raised()
    ids = old_entries(bench, bench.submit(), 1000, 2000, 3000)
    bench.commit(bench.batch(START, ids[:2]))
    reply = trim(bench)
    assert (reply.status, reply.log_removed, reply.low_water) == (TrimStatus.OK, 1, ids[1])
    assert remaining(bench) == ids[1:]
    assert trim(bench).log_removed == 0


def test_a_turn_in_flight_keeps_its_entries(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit()
    ids = old_entries(bench, turn, 1000, 2000, 3000)
    bench.client.zadd(bench.keys.inflight(bench.partition), {turn: 2000})
    bench.commit(bench.batch(START, ids))
    reply = trim(bench)
    assert reply.low_water == "2000-0"
    assert remaining(bench) == ids[1:]


def test_a_turn_whose_entries_are_not_folded_does_not_move_the_mark_up(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit()
    ids = old_entries(bench, turn, 9, 1000)
    bench.client.zadd(bench.keys.inflight(bench.partition), {turn: 1000})
    bench.commit(bench.batch(START, ids[:1]))
    assert trim(bench).low_water == "9-5", "compared as numbers, not as text"
    assert remaining(bench) == ids


def test_what_is_folded_is_kept_until_it_is_old_enough(bench: Bench) -> None:
    bench.raised()
    seconds, _ = bench.client.time()
    ids = old_entries(bench, bench.submit(), *(1000 * (seconds - ago) for ago in (200, 100, 10)))
    bench.commit(bench.batch(START, ids))
    trim(bench, log_ms=500_000)
    assert remaining(bench) == ids
    trim(bench, log_ms=150_000)
    assert remaining(bench) == ids[1:]
    trim(bench, log_ms=1_000)
    assert remaining(bench) == ids[2:], "also where nothing has been written since"


def test_age_trims_nothing_that_is_needed(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit()
    ids = old_entries(bench, turn, 1000, 2000, 3000)
    bench.client.zadd(bench.keys.inflight(bench.partition), {turn: 2000})
    bench.commit(bench.batch(START, ids))
    trim(bench, log_ms=1)
    assert remaining(bench) == ids[1:]


def test_nothing_is_trimmed_where_nothing_was_committed(bench: Bench) -> None:
    bench.raised()
    ids = old_entries(bench, bench.submit(), 1000)
    assert trim(bench).low_water == START
    assert remaining(bench) == ids


def test_a_stale_owner_trims_nothing(bench: Bench) -> None:
    bench.raised()
    ids = old_entries(bench, bench.submit(), 1000, 2000)
    bench.commit(bench.batch(START, ids))
    bench.token = "1:other"
    assert trim(bench).status == TrimStatus.STALE
    assert remaining(bench) == ids


def test_block_ids_go_behind_deliverys_position_and_turns_leave_the_index(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit()
    for entry in ("1-0", "2-0"):
        bench.client.xadd(bench.keys.blocks(bench.partition), {"turn": turn, "block": 0}, id=entry)
    assert trim(bench).blocks_removed == 0
    bench.client.hset(bench.keys.committed(bench.partition), "blocks", "2-0")
    assert trim(bench).blocks_removed == 1
    bench.client.zadd(bench.keys.turns(bench.partition), {turn: 1})
    trim(bench)
    assert bench.client.exists(bench.keys.turns(bench.partition)) == 0


def test_a_turn_retires_when_it_has_ended_and_owes_no_delivery(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit(targets='["console"]')
    token = bench.claim(turn).token

    def retire(retention_ms: int = 50_000) -> RetireStatus:
        return bench.run(retention.retire_turn(bench.keys, turn, retention_ms=retention_ms))

    entry = bench.publish(turn, token, 0, terminal="completed").entry
    assert retire() == RetireStatus.OPEN, "its effects are not committed"
    bench.commit(bench.batch(START, [entry], effect(turn, blocks=[block("a")], state=TurnState.COMPLETED)))
    assert retire() == RetireStatus.OPEN, "a block is not planned"
    bench.client.hset(bench.keys.turn(turn), mapping={"planned": 1, "open_parts": 1})
    bench.client.rpush(bench.keys.parts(turn), "part")
    assert retire() == RetireStatus.OPEN, "a part is open"
    bench.client.hset(bench.keys.turn(turn), "open_parts", 0)
    assert retire() == RetireStatus.OK
    for key in (bench.keys.turn(turn), bench.keys.entries(turn), bench.keys.frames(turn), bench.keys.parts(turn)):
        assert 0 < bench.client.pttl(key) <= 50_000, key
    assert retire(900_000) == RetireStatus.ALREADY
    assert bench.client.pttl(bench.keys.turn(turn)) <= 50_000, "a repeat prolongs nothing"
    unknown = retention.retire_turn(bench.keys, bench.turn_id(), retention_ms=1)
    assert bench.run(unknown) == RetireStatus.UNKNOWN_TURN


def test_a_suspect_is_found_by_the_next_owner_and_cleared_by_a_commit(bench: Bench) -> None:
    bench.raised("a")
    turn, token = bench.claimed()
    entry = bench.publish(turn, token, 0).entry
    assert suspect(bench, turn, entry) == SuspectStatus.OK
    bench.lapse(bench.keys.owner("fold", bench.partition), "lease_until")
    raised = bench.raised("b")
    assert (raised.suspect, raised.suspect_entry) == (turn, entry)
    assert bench.run(log.read_positions(bench.keys, bench.partition)).suspect == turn
    bench.commit(bench.batch(START, [entry], effect(turn)))
    assert bench.raised("b").suspect == ""


def test_owners_that_are_lost_under_the_same_mark_are_counted_each_once(bench: Bench) -> None:
    turn, _ = bench.claimed()
    lost = []
    for name, entry in (("a", "7-0"), ("b", "7-0"), ("c", "7-0"), ("d", ""), ("e", "7-0")):
        bench.lapse(bench.keys.owner("fold", bench.partition), "lease_until")
        lost.append(bench.raised(name).suspect_lost)
        for _ in range(2):
            assert suspect(bench, turn, entry) == SuspectStatus.OK
    bench.lapse(bench.keys.owner("fold", bench.partition), "lease_until")
    assert [*lost, bench.raised("f").suspect_lost] == [0, 1, 2, 3, 1, 1]


def test_a_suspicion_can_be_taken_off(bench: Bench) -> None:
    bench.raised("a")
    suspect(bench, bench.submit())
    assert suspect(bench, "") == SuspectStatus.OK
    assert bench.raised("a").suspect == ""
    bench.token = "1:other"
    assert suspect(bench, "7-x") == SuspectStatus.STALE


def test_the_mark_never_passes_an_entry_that_is_needed(bench: Bench) -> None:
    bench.raised()
    turn, token = bench.claimed()
    first = bench.publish(turn, token, 0).entry
    later = [bench.publish(turn, token, number).entry for number in (1, 2)]
    bench.commit(bench.batch(START, [first, *later], effect(turn)))
    assert position_key(trim(bench).low_water) <= position_key(first)
    assert remaining(bench) == [first, *later]
    assert isinstance(bench.raise_("o1"), ownership.Raised)
