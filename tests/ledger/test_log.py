from typing import Any

import pytest

from ledger import log, turns
from ledger.errors import Full
from ledger.log import CommitStatus, PublishStatus, TakeStatus
from ledger.records import START, TurnState, position_key
from tests.ledger.conftest import Bench, effect, events


def stored(bench: Bench, turn: str) -> list[str]:
    """The texts of a turn's events, in log order."""
    ids = bench.run(log.entries_of(bench.keys, turn))
    entries = bench.run(log.read_entries(bench.keys, bench.partition, ids))
    return [text for entry in entries for text in entry.events[1:-1].split(",\n")]


# publish


def test_published_events_stand_in_the_log_under_their_turn(bench: Bench) -> None:
    turn, token = bench.claimed()
    first = bench.publish(turn, token, 0, 2)
    assert (first.status, first.next, first.cancel, first.lag) == (PublishStatus.OK, 2, False, 2)
    second = bench.publish(turn, token, 2, 1)
    assert (second.status, second.next, second.lag) == (PublishStatus.OK, 3, 3)
    assert bench.run(log.entries_of(bench.keys, turn)) == [first.entry, second.entry]
    assert stored(bench, turn) == events(0, 3)[1:-1].split(",\n")
    record = bench.record(turn)
    assert (record.tail, record.bytes) == (second.entry, len(events(0, 2)) + len(events(2, 1)))
    assert record.last_event_at > 0
    in_flight = bench.client.zscore(bench.keys.inflight(bench.partition), turn)
    assert in_flight == position_key(first.entry)[0]


def test_a_repeated_publish_adds_nothing(bench: Bench) -> None:
    turn, token = bench.claimed()
    bench.publish(turn, token, 0, 3)
    before = bench.everything()
    again = bench.publish(turn, token, 0, 3)
    assert (again.status, again.next, again.entry) == (PublishStatus.ALREADY, 3, "")
    assert bench.everything() == before


def test_other_content_under_stored_numbers_is_a_conflict(bench: Bench) -> None:
    turn, token = bench.claimed()
    bench.publish(turn, token, 0, 2)
    bench.publish(turn, token, 2, 2)
    before = bench.everything()
    assert bench.publish(turn, token, 1, 2, tail="other").status == PublishStatus.CONFLICT
    assert bench.publish(turn, token, 3, 4, tail="other").status == PublishStatus.CONFLICT
    assert bench.everything() == before


def test_a_batch_cut_otherwise_is_the_same_content(bench: Bench) -> None:
    turn, token = bench.claimed()
    for first, n in ((0, 2), (2, 3), (5, 1)):
        bench.publish(turn, token, first, n)
    assert bench.publish(turn, token, 1, 4).status == PublishStatus.ALREADY
    assert bench.publish(turn, token, 0, 6).status == PublishStatus.ALREADY


def test_a_batch_that_grew_after_an_unclear_reply_is_sliced_by_the_producer(bench: Bench) -> None:
    turn, token = bench.claimed()
    bench.publish(turn, token, 0, 2)
    reply = bench.publish(turn, token, 0, 5)
    assert (reply.status, reply.next) == (PublishStatus.OVERLAP, 2)
    assert bench.publish(turn, token, 2, 3).status == PublishStatus.OK
    assert stored(bench, turn) == events(0, 5)[1:-1].split(",\n")


def test_a_gap_is_refused_with_the_number_to_resend_from(bench: Bench) -> None:
    turn, token = bench.claimed()
    reply = bench.publish(turn, token, 3)
    assert (reply.status, reply.next) == (PublishStatus.GAP, 0)
    assert bench.client.exists(bench.keys.log(bench.partition)) == 0


def test_a_turn_that_was_never_submitted_takes_no_events(bench: Bench) -> None:
    assert bench.publish(bench.turn_id(), "1:n1", 0).status == PublishStatus.UNKNOWN_TURN
    assert bench.client.dbsize() == 0


@pytest.mark.parametrize("token", ["1:other", "1", "", "2:n1"])
def test_only_the_claims_holder_publishes(bench: Bench, token: str) -> None:
    turn, _ = bench.claimed()
    assert bench.publish(turn, token, 0).status == PublishStatus.STALE


def test_a_turn_that_nobody_claimed_takes_no_events(bench: Bench) -> None:
    assert bench.publish(bench.submit(), "", 0).status == PublishStatus.STALE


def test_the_first_terminal_ends_the_turn_and_takes_its_request_away(bench: Bench) -> None:
    turn, token = bench.claimed()
    bench.run(turns.take_requests(bench.keys, bench.partition, consumer="w1", count=1, min_idle_ms=None))
    assert len(bench.pending("requests", "ingest")) == 1
    bench.publish(turn, token, 0)
    reply = bench.publish(turn, token, 1, terminal="completed")
    assert reply.status == PublishStatus.OK
    record = bench.record(turn)
    assert (record.ended, record.state) == ("completed", TurnState.RUNNING)
    assert bench.client.xlen(bench.keys.requests(bench.partition)) == 0
    assert bench.pending("requests", "ingest") == []
    assert bench.client.zscore(bench.keys.deadlines(bench.partition), turn) is None
    assert bench.publish(turn, token, 1, terminal="completed").status == PublishStatus.ALREADY
    after = bench.publish(turn, token, 2, terminal="failed")
    assert (after.status, after.next) == (PublishStatus.ENDED, 2)
    assert bench.publish(turn, token, 1, 2).status == PublishStatus.ENDED
    assert len(stored(bench, turn)) == 2


def test_a_successor_goes_on_where_the_log_stands(bench: Bench) -> None:
    turn, old = bench.claimed()
    bench.publish(turn, old, 0, 2)
    bench.lapse(bench.keys.turn(turn), "ingest_lease_until")
    new = bench.claim(turn, "n2").token
    assert bench.publish(turn, old, 2).status == PublishStatus.STALE
    assert bench.publish(turn, new, 2).status == PublishStatus.OK


def test_a_producer_with_a_token_of_its_own_counts_for_itself(bench: Bench) -> None:
    turn = bench.submit(tools_token="t")
    token = bench.claim(turn).token
    bench.publish(turn, token, 0, 2)
    call = log.publish(
        bench.keys, turn, token="t", producer="tools", first_seq=0, events_json=events(0, 1, "tool"), n=1
    )
    assert bench.run(call).status == PublishStatus.OK
    assert bench.run(call).status == PublishStatus.ALREADY
    assert dict(bench.record(turn).next) == {"ingest": 2, "tools": 1}


def test_producers_stop_when_memory_is_short_but_a_turn_can_end(bench: Bench) -> None:
    turn, token = bench.claimed()
    bench.client.hset(bench.keys.committed(bench.partition), "full", 1)
    with pytest.raises(Full):
        bench.publish(turn, token, 0)
    assert bench.publish(turn, token, 0, terminal="failed").status == PublishStatus.OK


def test_a_full_server_refuses_producers_and_lets_the_fold_work(bench: Bench) -> None:
    bench.raised()
    turn, token = bench.claimed()
    entry = bench.publish(turn, token, 0).entry
    bench.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(Full):
            bench.publish(turn, token, 1)
        with pytest.raises(Full):
            bench.submit()
        assert bench.adopt().status == TakeStatus.OK
        assert len(bench.take().entries) == 1
        assert bench.commit(bench.batch(START, [entry], effect(turn))).status == CommitStatus.OK
        assert bench.append(turn, entry, terminal="failed").status == PublishStatus.OK
    finally:
        bench.client.config_set("maxmemory", 0)


def test_repeats_are_compared_with_entries_far_back(bench: Bench) -> None:
    turn, token = bench.claimed()
    for number in range(130):
        bench.publish(turn, token, number)
    assert bench.publish(turn, token, 0, 3).status == PublishStatus.ALREADY
    assert bench.publish(turn, token, 0, 3, tail="x").status == PublishStatus.CONFLICT
    bench.client.xtrim(bench.keys.log(bench.partition), maxlen=10, approximate=False)
    assert bench.publish(turn, token, 0, 3, tail="x").status == PublishStatus.ALREADY, "trimmed: folded long ago"


def test_a_repeat_of_which_the_list_has_lost_the_entries_is_believed(bench: Bench) -> None:
    turn, token = bench.claimed()
    bench.publish(turn, token, 0)
    bench.client.delete(bench.keys.entries(turn))
    assert bench.publish(turn, token, 0).status == PublishStatus.ALREADY


@pytest.mark.parametrize(("text", "n"), [("[]", 0), ("[{}]", 2), ("[{},\n{}]", 1), ("{}", 1), ("[{}", 1)])
def test_a_batch_must_hold_as_many_events_as_it_says(text: str, n: int) -> None:
    bench = Bench(None)
    with pytest.raises(ValueError, match="batch"):
        log.publish(bench.keys, bench.turn_id(), token="t", producer="ingest", first_seq=0, events_json=text, n=n)


def test_the_folds_events_do_not_go_by_publish() -> None:
    bench = Bench(None)
    with pytest.raises(ValueError, match="append_if_tail"):
        log.publish(bench.keys, bench.turn_id(), token="t", producer="fold", first_seq=0, events_json=events(0, 1), n=1)


# append_if_tail


def test_an_idle_event_follows_the_entry_that_the_timer_saw(bench: Bench) -> None:
    bench.raised()
    turn, token = bench.claimed()
    tail = bench.publish(turn, token, 0).entry
    reply = bench.append(turn, tail)
    assert (reply.status, reply.next) == (PublishStatus.OK, 1)
    assert bench.append(turn, tail).status == PublishStatus.ALREADY, "the reply was lost"
    assert bench.append(turn, tail, word="other").status == PublishStatus.TAIL_MOVED
    assert bench.append(turn, tail, first=1).status == PublishStatus.TAIL_MOVED, "none comes twice"
    assert bench.append(turn, reply.entry, first=3).status == PublishStatus.GAP
    assert bench.append(turn, reply.entry, first=0, n=2).status == PublishStatus.CONFLICT
    assert bench.publish(turn, token, 1).status == PublishStatus.OK, "the producer's own numbers go on"


def test_no_idle_event_follows_a_delta_that_it_did_not_know(bench: Bench) -> None:
    bench.raised()
    turn, token = bench.claimed()
    tail = bench.publish(turn, token, 0).entry
    bench.publish(turn, token, 1)
    assert bench.append(turn, tail).status == PublishStatus.TAIL_MOVED
    assert len(stored(bench, turn)) == 2


def test_a_turn_that_nobody_took_is_begun_and_ended_in_one_step(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit()
    reply = bench.append(turn, "", n=2, terminal="failed")
    assert (reply.status, reply.next) == (PublishStatus.OK, 2)
    assert bench.append(turn, "", n=2, terminal="failed").status == PublishStatus.ALREADY
    assert bench.record(turn).ended == "failed"
    assert bench.client.xlen(bench.keys.requests(bench.partition)) == 0
    assert bench.client.zscore(bench.keys.inflight(bench.partition), turn) is not None
    assert bench.append(turn, reply.entry, first=2).status == PublishStatus.ENDED


def test_only_the_folds_owner_appends(bench: Bench) -> None:
    bench.raised()
    turn, token = bench.claimed()
    bench.token = token
    assert bench.append(turn, "").status == PublishStatus.STALE
    assert bench.append(bench.turn_id(), "").status == PublishStatus.UNKNOWN_TURN


# reading


def test_trimmed_entries_are_missing_from_what_is_read(bench: Bench) -> None:
    turn, token = bench.claimed()
    ids = [bench.publish(turn, token, number).entry for number in range(3)]
    bench.client.xdel(bench.keys.log(bench.partition), ids[1])
    entries = bench.run(log.read_entries(bench.keys, bench.partition, ids))
    assert [entry.id for entry in entries] == [ids[0], ids[2]]


def read_past(
    bench: Bench, *turns: str, upto: str = "9999999999999-0", bytes_max: int = 1 << 20
) -> list[tuple[Any, Any]]:
    """Ids of the records and of the entries that are read of turns."""
    call = log.read_past(bench.keys, bench.partition, turns, upto=upto, bytes_max=bytes_max)
    return [
        (record and record.id, None if past is None else [entry.id for entry in past])
        for record, past in bench.run(call)
    ]


def test_the_past_of_turns_is_read_together_up_to_a_position(bench: Bench) -> None:
    turn, token = bench.claimed()
    other, its_token = bench.claimed()
    ids = [bench.publish(turn, token, number).entry for number in range(3)]
    its = [bench.publish(other, its_token, 0).entry]
    assert read_past(bench, turn, other) == [(turn, ids), (other, its)]
    assert read_past(bench, other, turn, upto=ids[1]) == [(other, []), (turn, ids[:2])]
    ((record, entries),) = bench.run(log.read_past(bench.keys, bench.partition, [turn], upto=ids[2], bytes_max=1000))
    assert record == bench.record(turn)
    assert entries == bench.run(log.read_entries(bench.keys, bench.partition, ids))


def test_turns_that_are_over_or_unknown_have_no_past_to_fold(bench: Bench) -> None:
    turn, token = bench.claimed()
    bench.publish(turn, token, 0)
    bench.client.hset(bench.keys.turn(turn), "state", TurnState.COMPLETED.value)
    unknown = bench.turn_id()
    assert read_past(bench, turn, unknown) == [(turn, None), (None, None)]


def test_a_past_that_is_trimmed_is_not_told_as_if_it_were_whole(bench: Bench) -> None:
    turn, token = bench.claimed()
    ids = [bench.publish(turn, token, number).entry for number in range(3)]
    bench.client.xdel(bench.keys.log(bench.partition), ids[1])
    assert read_past(bench, turn) == [(turn, None)]
    assert read_past(bench, turn, upto=ids[0]) == [(turn, ids[:1])]


def test_a_past_that_has_no_room_in_the_answer_is_left_out_of_it(bench: Bench) -> None:
    turn, token = bench.claimed()
    other, its_token = bench.claimed()
    ids = [bench.publish(turn, token, number).entry for number in range(3)]
    its = [bench.publish(other, its_token, 0).entry]
    size = bench.record(turn).bytes
    assert read_past(bench, turn, other, bytes_max=size) == [(turn, ids), (other, None)]
    assert read_past(bench, turn, other, bytes_max=size - 1) == [(turn, None), (other, its)]
    for number in range(3, 1001):
        bench.publish(turn, token, number)
    assert read_past(bench, turn, other) == [(turn, None), (other, its)]


def test_too_many_entries_are_not_asked_for_in_one_call() -> None:
    with pytest.raises(ValueError, match="1000"):
        log.read_entries(Bench(None).keys, 0, ["1-0"] * 1001)


def test_hints_reach_who_listens_in_their_order(bench: Bench) -> None:
    listener = bench.client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe(bench.keys.hint(bench.partition))
    listener.get_message(timeout=5)
    for _ in range(2):  # a repeat tells again
        assert bench.run(log.hint(bench.keys, bench.partition, ["hello", b"and", "goodbye"])) == 1
        messages = [listener.get_message(timeout=5) for _ in range(3)]
        assert [message and message["data"] for message in messages] == ["hello", "and", "goodbye"]
    assert bench.run(log.hint(bench.keys, bench.partition, ["hello"], sharded=True)) == 0
    listener.close()
