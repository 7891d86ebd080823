from collections.abc import Callable
from typing import Any

import pytest

from ledger import log, ownership, retention, turns
from ledger.errors import Full, UnexpectedReply
from ledger.log import CommitStatus, PublishStatus, TakeStatus
from ledger.records import START, TurnState, position_key
from tests.ledger.conftest import Bench, block, effect, events

OTHER = "9999999999999-0"


def adopt(bench: Bench, consumer: str = "c1") -> log.AdoptReply:
    return bench.run(log.adopt(bench.keys, bench.partition, token=bench.token, consumer=consumer))


def pending(bench: Bench, stream: str = "log", group: str = "fold") -> list[str]:
    key = bench.keys.log(bench.partition) if stream == "log" else bench.keys.requests(bench.partition)
    return [one["message_id"] for one in bench.client.xpending_range(key, group, "-", "+", 10_000)]


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
    bench.publish(turn, token, 0)
    reply = bench.publish(turn, token, 1, terminal="completed")
    assert reply.status == PublishStatus.OK
    record = bench.record(turn)
    assert (record.ended, record.state) == ("completed", TurnState.RUNNING)
    assert bench.client.xlen(bench.keys.requests(bench.partition)) == 0
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
        assert adopt(bench).status == TakeStatus.OK
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


# take and adopt


def three(bench: Bench) -> list[str]:
    turn, token = bench.claimed()
    return [bench.publish(turn, token, number).entry for number in range(3)]


def test_entries_are_taken_in_order_and_once(bench: Bench) -> None:
    bench.raised()
    ids = three(bench)
    first = bench.take(count=2)
    assert (first.status, [entry.id for entry in first.entries]) == (TakeStatus.OK, ids[:2])
    assert [entry.id for entry in bench.take(after=ids[1]).entries] == ids[2:]
    assert bench.take(after=ids[2]).entries == ()
    assert pending(bench) == ids


def test_a_take_whose_reply_was_lost_gives_the_same_entries(bench: Bench) -> None:
    bench.raised()
    ids = three(bench)
    bench.take(count=2)
    assert [entry.id for entry in bench.take(count=2).entries] == ids[:2]
    assert [entry.id for entry in bench.take(count=5).entries] == ids[:2]
    assert [entry.id for entry in bench.take(after=ids[0]).entries] == ids[1:2]


def test_a_paused_owner_takes_nothing_after_its_lease(bench: Bench) -> None:
    old = bench.raised("a").token
    ids = three(bench)
    bench.lapse(bench.keys.owner("fold", bench.partition), "lease_until")
    bench.raised("b")
    reply = bench.take(token=old)
    assert (reply.status, reply.entries) == (TakeStatus.STALE, ())
    assert [entry.id for entry in bench.take().entries] == ids


def test_a_new_owner_gets_what_the_old_one_took_and_did_not_commit(bench: Bench) -> None:
    bench.raised("a")
    turn, token = bench.claimed()
    ids = [bench.publish(turn, token, number).entry for number in range(4)]
    bench.take(count=3)
    bench.commit(bench.batch(START, ids[:1], effect(turn)))
    bench.lapse(bench.keys.owner("fold", bench.partition), "lease_until")
    raised = bench.raised("b")
    assert raised.log_position == ids[0]
    reply = adopt(bench, "c2")
    assert (reply.status, reply.pending, reply.taken) == (TakeStatus.OK, 2, ids[2])
    assert adopt(bench, "c2") == reply
    assert [one["name"] for one in bench.client.xinfo_consumers(bench.keys.log(bench.partition), "fold")] == ["c2"]
    assert [entry.id for entry in bench.take(after=raised.log_position).entries] == ids[1:3]
    assert [entry.id for entry in bench.take(after=ids[2]).entries] == ids[3:]


def test_only_the_owner_adopts(bench: Bench) -> None:
    bench.raised()
    bench.token = "9:x"
    assert adopt(bench).status == TakeStatus.STALE


def test_consumers_with_entries_stay(bench: Bench) -> None:
    bench.raised()
    three(bench)
    bench.take()
    reply = adopt(bench, "c1")
    assert reply.pending == 3
    assert [one["name"] for one in bench.client.xinfo_consumers(bench.keys.log(bench.partition), "fold")] == ["c1"]


def destroyed(bench: Bench) -> None:
    bench.client.xgroup_destroy(bench.keys.log(bench.partition), "fold")


def made_at_the_end(bench: Bench) -> None:
    destroyed(bench)
    bench.client.xgroup_create(bench.keys.log(bench.partition), "fold", id="$")


def moved_back(bench: Bench) -> None:
    bench.client.xgroup_setid(bench.keys.log(bench.partition), "fold", "0")


def beside_another(bench: Bench) -> None:
    destroyed(bench)
    bench.client.xgroup_create(bench.keys.log(bench.partition), "foreign", id="0")


@pytest.mark.parametrize("damage", [destroyed, made_at_the_end, moved_back, beside_another])
def test_whatever_was_done_to_the_group_no_entry_is_skipped_or_repeated(
    bench: Bench, damage: Callable[[Bench], None]
) -> None:
    bench.raised()
    ids = three(bench)
    bench.take(count=1)
    damage(bench)
    assert [entry.id for entry in bench.take(after=ids[0]).entries] == ids[1:]


def test_an_adoption_heals_the_group_too(bench: Bench) -> None:
    bench.raised()
    ids = three(bench)
    bench.take(count=1)
    destroyed(bench)
    assert adopt(bench).status == TakeStatus.OK
    assert [entry.id for entry in bench.take(after=START).entries] == ids[:1]
    assert [entry.id for entry in bench.take(after=ids[0]).entries] == ids[1:]


def test_a_partition_without_a_log_is_taken_and_adopted_as_empty(bench: Bench) -> None:
    bench.raised()
    assert adopt(bench) == log.AdoptReply(status=TakeStatus.OK, pending=0, taken=START)
    assert bench.take() == log.TakeReply(status=TakeStatus.OK, entries=())


def test_an_owner_ahead_of_the_server_learns_that_the_log_was_rolled_back(bench: Bench) -> None:
    bench.raised()
    ids = three(bench)
    assert bench.take(after=ids[0]).status == TakeStatus.ROLLED_BACK
    bench.take()
    milliseconds, sequence = position_key(ids[2])
    assert bench.take(after=f"{milliseconds}-{sequence + 1}").status == TakeStatus.ROLLED_BACK
    bench.client.xtrim(bench.keys.log(bench.partition), maxlen=0)
    assert bench.take(after=ids[0]).entries == (), "trimmed by hand: nothing to give again"


# commit


def folded(bench: Bench, targets: str = "[]", n: int = 3) -> tuple[str, list[str]]:
    """A turn with entries taken by the owner."""
    bench.raised()
    turn = bench.submit(targets=targets)
    token = bench.claim(turn).token
    ids = [bench.publish(turn, token, number).entry for number in range(n - 1)]
    ids.append(bench.publish(turn, token, n - 1, terminal="completed").entry)
    bench.take()
    return turn, ids


def test_a_commit_stores_frames_blocks_state_and_position_together(bench: Bench) -> None:
    turn, ids = folded(bench, targets='["console"]')
    one = effect(turn, 0, 3, 0, blocks=[block("a"), block("b")], upstream_id="u1", digest="d")
    reply = bench.commit(bench.batch(START, ids[:2], one))
    assert (reply.status, reply.detail) == (CommitStatus.OK, "")
    record = bench.record(turn)
    assert (record.frames_next, record.blocks_next, record.digest, record.fold_version) == (3, 2, "d", 1)
    assert (record.state, record.upstream_id, record.planned) == (TurnState.RUNNING, "u1", 0)
    frames = bench.run(log.read_frames(bench.keys, turn, after=-1))
    assert [(entry.id, entry.first, entry.n, entry.last) for entry in frames] == [("3-0", 0, 3, 2)]
    assert frames[0].sse == "data: 0\n\ndata: 1\n\ndata: 2\n\n"
    assert bench.run(log.read_block(bench.keys, turn, 1)) == block("b")
    assert bench.run(log.read_block(bench.keys, turn, 2)) is None
    ids_of_blocks = [fields for _, fields in bench.client.xrange(bench.keys.blocks(bench.partition))]
    assert ids_of_blocks == [{"turn": turn, "block": "0"}, {"turn": turn, "block": "1"}]
    positions = bench.run(log.read_positions(bench.keys, bench.partition))
    assert (positions.log, positions.taken, positions.commit, positions.lag) == (ids[1], ids[2], "c1", 1)
    assert pending(bench) == ids[2:]


def test_a_repeated_commit_is_known_by_its_id(bench: Bench) -> None:
    turn, ids = folded(bench)
    batch = bench.batch(START, ids[:2], effect(turn, 0, 3))
    bench.commit(batch)
    before = bench.everything()
    assert bench.commit(batch).status == CommitStatus.ALREADY
    other = bench.batch(START, ids[:2], effect(turn, 0, 3), commit_id="c2")
    assert bench.commit(other) == log.CommitReply(status=CommitStatus.MISMATCH, detail="committed")
    assert bench.everything() == before


def test_the_second_batch_follows_the_first(bench: Bench) -> None:
    turn, ids = folded(bench)
    bench.commit(bench.batch(START, ids[:1], effect(turn, 0, 2)))
    bench.commit(bench.batch(ids[0], ids[1:2], effect(turn, 2, 0), commit_id="c2"))
    last = effect(turn, 2, 3, state=TurnState.COMPLETED, usage="{}")
    assert bench.commit(bench.batch(ids[1], ids[2:], last, commit_id="c3")).status == CommitStatus.OK
    frames = bench.run(log.read_frames(bench.keys, turn, after=-1))
    assert [(entry.id, entry.first, entry.n) for entry in frames] == [("2-0", 0, 2), ("5-0", 2, 3)]


@pytest.mark.parametrize(
    ("after", "firsts"), [(-1, [0, 2]), (0, [0, 2]), (1, [2]), (2, [2]), (3, [2]), (4, []), (99, [])]
)
def test_frames_are_read_after_a_number(bench: Bench, after: int, firsts: list[int]) -> None:
    turn, ids = folded(bench)
    bench.commit(bench.batch(START, ids[:1], effect(turn, 0, 2)))
    bench.commit(bench.batch(ids[0], ids[1:2], effect(turn, 2, 3), commit_id="c2"))
    frames = bench.run(log.read_frames(bench.keys, turn, after=after))
    assert [entry.first for entry in frames] == firsts


def refused(bench: Bench, batch: log.Commit, status: CommitStatus, detail: str) -> None:
    before = bench.everything()
    assert bench.commit(batch) == log.CommitReply(status=status, detail=detail)
    assert bench.everything() == before, "a refused commit writes nothing"


def test_a_stale_owner_commits_nothing(bench: Bench) -> None:
    turn, ids = folded(bench)
    bench.lapse(bench.keys.owner("fold", bench.partition), "lease_until")
    old = bench.token
    bench.raised("b")
    bench.token = old
    refused(bench, bench.batch(START, ids, effect(turn)), CommitStatus.STALE, "")


def test_a_batch_that_does_not_follow_the_position_is_refused(bench: Bench) -> None:
    turn, ids = folded(bench)
    refused(bench, bench.batch(ids[0], ids[1:], effect(turn)), CommitStatus.MISMATCH, "committed")


@pytest.mark.parametrize(
    ("changes", "what"),
    [({"frames_next": 1}, "frames_next"), ({"blocks_next": 1}, "blocks_next")],
)
def test_a_hole_or_a_repeat_in_the_numbers_is_refused(bench: Bench, changes: dict[str, Any], what: str) -> None:
    good, ids = folded(bench)
    bad = bench.submit()
    batch = bench.batch(START, ids, effect(good), effect(bad, **changes))
    refused(bench, batch, CommitStatus.MISMATCH, f"{bad} {what}")


def test_effects_on_a_turn_that_is_gone_are_refused(bench: Bench) -> None:
    good, ids = folded(bench)
    gone = bench.turn_id()
    refused(bench, bench.batch(START, ids, effect(good), effect(gone)), CommitStatus.MISMATCH, f"{gone} missing")


def test_a_turn_that_is_over_gets_no_more_frames(bench: Bench) -> None:
    turn, ids = folded(bench)
    bench.commit(bench.batch(START, ids[:2], effect(turn, state=TurnState.COMPLETED)))
    batch = bench.batch(ids[1], ids[2:], effect(turn, 1), commit_id="c2")
    refused(bench, batch, CommitStatus.MISMATCH, f"{turn} state")


def test_frames_and_blocks_that_stand_there_already_are_refused(bench: Bench) -> None:
    turn, ids = folded(bench)
    bench.client.xadd(bench.keys.frames(turn), {"first": 0}, id="7-0")
    refused(bench, bench.batch(START, ids, effect(turn)), CommitStatus.MISMATCH, f"{turn} frames")
    bench.client.delete(bench.keys.frames(turn))
    bench.client.set(bench.keys.block(turn, 0), "foreign")
    batch = bench.batch(START, ids, effect(turn, blocks=[block("a")]))
    refused(bench, batch, CommitStatus.MISMATCH, f"{turn} block 0")


def test_the_terminals_commit_frees_the_place_and_lets_the_turn_expire(bench: Bench) -> None:
    turn, ids = folded(bench)
    other = bench.submit()
    one = effect(turn, 0, 3, 0, blocks=[block("a")], state=TurnState.COMPLETED, usage='{"total":1}')
    bench.commit(bench.batch(START, ids, one))
    record = bench.record(turn)
    assert (record.state, record.ended, record.usage, record.planned) == (
        TurnState.COMPLETED,
        "completed",
        '{"total":1}',
        1,
    )
    assert record.ended_at > 0
    assert bench.client.exists(bench.keys.inflight(bench.partition)) == 0
    assert bench.client.hgetall(bench.keys.admitted(bench.partition)) == {"acme": "1", "*": "1"}
    for key in (bench.keys.turn(turn), bench.keys.entries(turn), bench.keys.frames(turn), bench.keys.block(turn, 0)):
        assert 0 < bench.client.pttl(key) <= 50_000, key
    assert bench.client.ttl(bench.keys.turn(other)) == -1
    assert bench.client.exists(bench.keys.blocks(bench.partition)) == 0, "a block for nobody is not announced"


def test_the_last_turn_leaves_no_count_behind(bench: Bench) -> None:
    turn, ids = folded(bench)
    bench.commit(bench.batch(START, ids, effect(turn, state=TurnState.FAILED, error="{}")))
    assert bench.client.exists(bench.keys.admitted(bench.partition)) == 0
    assert bench.record(turn).error == "{}"


def test_a_turn_with_something_to_deliver_does_not_expire(bench: Bench) -> None:
    turn, ids = folded(bench, targets='["console"]')
    bench.commit(bench.batch(START, ids, effect(turn, blocks=[block("a")], state=TurnState.COMPLETED)))
    for key in (bench.keys.turn(turn), bench.keys.frames(turn), bench.keys.block(turn, 0)):
        assert bench.client.ttl(key) == -1, key


def test_a_turn_with_targets_and_no_block_expires_at_once(bench: Bench) -> None:
    turn, ids = folded(bench, targets='["console"]')
    bench.commit(bench.batch(START, ids, effect(turn, state=TurnState.FAILED)))
    assert bench.client.pttl(bench.keys.turn(turn)) > 0


def test_a_quarantined_turn_ends_for_its_producers_too(bench: Bench) -> None:
    bench.raised()
    turn, token = bench.claimed()
    bench.run(turns.take_requests(bench.keys, bench.partition, consumer="w1", count=1, min_idle_ms=None))
    assert len(pending(bench, "requests", "ingest")) == 1
    entry = bench.publish(turn, token, 0).entry
    bench.take()
    one = effect(turn, state=TurnState.FAILED, quarantined=entry)
    assert bench.commit(bench.batch(START, [entry], one)).status == CommitStatus.OK
    record = bench.record(turn)
    assert (record.quarantined, record.ended) == (entry, "failed")
    assert bench.publish(turn, token, 1).status == PublishStatus.ENDED
    assert bench.client.xlen(bench.keys.requests(bench.partition)) == 0
    assert pending(bench, "requests", "ingest") == []
    assert bench.client.zcard(bench.keys.deadlines(bench.partition)) == 0


def test_an_open_tool_is_noted_from_the_first_commit_that_says_so(bench: Bench) -> None:
    turn, ids = folded(bench)
    key = bench.keys.turn(turn)
    bench.commit(bench.batch(START, ids[:1], effect(turn, 0, 1, tool_waits=True)))
    assert int(bench.client.hget(key, "tool_since")) > 1
    bench.lapse(key, "tool_since")
    bench.commit(bench.batch(ids[0], ids[1:2], effect(turn, 1, 1, tool_waits=True), commit_id="c2"))
    assert bench.client.hget(key, "tool_since") == "1"
    bench.commit(bench.batch(ids[1], ids[2:], effect(turn, 2, 1), commit_id="c3"))
    assert bench.client.hget(key, "tool_since") is None


def test_more_entries_than_lua_unpacks_are_acknowledged(bench: Bench) -> None:
    bench.raised()
    turn, token = bench.claimed()
    ids = [bench.publish(turn, token, number).entry for number in range(2005)]
    bench.take(count=5000)
    assert bench.commit(bench.batch(START, ids, effect(turn))).status == CommitStatus.OK
    assert pending(bench) == []


def test_entries_of_turns_that_are_gone_are_committed_without_effects(bench: Bench) -> None:
    _, ids = folded(bench)
    assert bench.commit(bench.batch(START, ids)).status == CommitStatus.OK
    assert bench.run(log.read_positions(bench.keys, bench.partition)).lag == 0


# reading


def test_trimmed_entries_are_missing_from_what_is_read(bench: Bench) -> None:
    ids = three(bench)
    bench.client.xdel(bench.keys.log(bench.partition), ids[1])
    entries = bench.run(log.read_entries(bench.keys, bench.partition, ids))
    assert [entry.id for entry in entries] == [ids[0], ids[2]]


def test_too_many_entries_are_not_asked_for_in_one_call() -> None:
    with pytest.raises(ValueError, match="1000"):
        log.read_entries(Bench(None).keys, 0, ["1-0"] * 1001)


def test_a_hint_reaches_who_listens(bench: Bench) -> None:
    listener = bench.client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe(bench.keys.hint(bench.partition))
    listener.get_message(timeout=5)
    assert bench.run(log.hint(bench.keys, bench.partition, "hello")) == 1
    message = listener.get_message(timeout=5)
    assert message is not None
    assert message["data"] == "hello"
    assert bench.run(log.hint(bench.keys, bench.partition, "hello", sharded=True)) == 0
    listener.close()


# a key of a foreign kind


def calls(bench: Bench) -> dict[str, Any]:
    """One call of every operation that writes to several keys, each of which would succeed."""
    turn, ids = folded(bench, n=2)
    new = bench.new()
    fresh, token = bench.claimed()
    p, keys = bench.partition, bench.keys
    return {
        "publish": log.publish(keys, fresh, token=token, producer="ingest", first_seq=0, events_json=events(0, 1), n=1),
        "append_if_tail": log.append_if_tail(
            keys, fresh, token=bench.token, tail="", first_seq=0, events_json=events(0, 1), n=1
        ),
        "take_log": log.take_log(keys, p, token=bench.token, consumer="c", after=START, count=1),
        "adopt_log": log.adopt(keys, p, token=bench.token, consumer="c"),
        "commit": log.commit(keys, bench.batch(START, ids, effect(turn, blocks=[block("a")]))),
        "submit": turns.submit(keys, new, tenant_limit=9, partition_limit=9),
        "claim_turn": turns.claim_turn(keys, fresh, entry="1-0", worker="w", nonce="n2", lease_ms=1),
        "request_cancel": turns.request_cancel(keys, fresh, grace_ms=1),
        "check_deadline": turns.check_deadline(keys, fresh, token=bench.token),
        "take_requests": turns.take_requests(keys, p, consumer="w", count=1, min_idle_ms=0),
        "renew": ownership.renew_owner(keys, role="fold", partition=p, token=bench.token, lease_ms=1),
        "raise": ownership.raise_owner(keys, role="fold", partition=p, worker="w", nonce="o1", lease_ms=1),
        "trim": retention.trim(keys, p, token=bench.token, log_ms=0, index_ms=0),
        "suspect": retention.suspect(keys, p, token=bench.token, turn=fresh),
    }


def test_a_key_of_a_foreign_kind_is_found_before_anything_is_written(bench: Bench) -> None:
    for name, call in calls(bench).items():
        for key in call.keys:
            if name == "commit" and (":entries:" in key or ":parts:" in key or ":block:" in key):
                continue  # these are only given a time to live, or must not exist at all
            saved = bench.client.dump(key)
            bench.client.delete(key)
            bench.client.setbit(key, 1, 1)
            before = bench.everything()
            with pytest.raises(UnexpectedReply, match="WRONGTYPE"):
                bench.run(call)
            assert bench.everything() == before, f"{name} wrote before it found {key}"
            bench.client.delete(key)
            if saved is not None:
                bench.client.restore(key, 0, saved)
