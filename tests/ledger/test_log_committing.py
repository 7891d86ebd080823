from typing import Any

import pytest

from ledger import log, ownership, retention, turns
from ledger.errors import UnexpectedReply
from ledger.external import note_wait
from ledger.log import CommitStatus, PublishStatus
from ledger.records import START, TurnState
from tests.ledger.conftest import Bench, block, effect, events


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
    assert bench.pending() == ids[2:]


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


@pytest.mark.parametrize("state", [state for state in TurnState if state.is_terminal])
def test_what_was_asked_goes_with_the_end_and_not_before(bench: Bench, state: TurnState) -> None:
    turn, ids = folded(bench)
    bench.commit(bench.batch(START, ids[:2], effect(turn, 0, 2)))
    assert bench.record(turn).request == '{"input":"hi"}', "another ingest process may have to ask again"
    bench.commit(bench.batch(ids[1], ids[2:], effect(turn, 2, 1, state=state), commit_id="c2"))
    assert bench.record(turn).request == ""
    assert bench.client.hexists(bench.keys.turn(turn), "request") is False


@pytest.mark.parametrize(
    ("after", "firsts"), [(-1, [0, 2]), (0, [0, 2]), (1, [2]), (2, [2]), (3, [2]), (4, []), (99, [])]
)
def test_frames_are_read_after_a_number(bench: Bench, after: int, firsts: list[int]) -> None:
    turn, ids = folded(bench)
    bench.commit(bench.batch(START, ids[:1], effect(turn, 0, 2)))
    bench.commit(bench.batch(ids[0], ids[1:2], effect(turn, 2, 3), commit_id="c2"))
    frames = bench.run(log.read_frames(bench.keys, turn, after=after))
    assert [entry.first for entry in frames] == firsts


@pytest.mark.parametrize(
    ("after", "size", "firsts"),
    [(-1, 0, [0, 2]), (-1, 10_000, [0, 2, 5]), (0, 30, [0, 2]), (1, 0, [2, 5]), (4, 0, [5]), (5, 0, [])],
)
def test_frames_are_read_by_their_size_and_never_one_entry_where_there_are_two(
    bench: Bench, after: int, size: int, firsts: list[int]
) -> None:
    turn, ids = folded(bench)
    bench.commit(bench.batch(START, ids[:1], effect(turn, 0, 2)))
    bench.commit(bench.batch(ids[0], ids[1:2], effect(turn, 2, 3), commit_id="c2"))
    bench.commit(bench.batch(ids[1], ids[2:], effect(turn, 5, 1), commit_id="c3"))
    frames = bench.run(log.read_frames_of_size(bench.keys, turn, after=after, size=size))
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
    assert len(bench.pending("requests", "ingest")) == 1
    entry = bench.publish(turn, token, 0).entry
    bench.take()
    one = effect(turn, state=TurnState.FAILED, quarantined=entry)
    assert bench.commit(bench.batch(START, [entry], one)).status == CommitStatus.OK
    record = bench.record(turn)
    assert (record.quarantined, record.ended) == (entry, "failed")
    assert bench.publish(turn, token, 1).status == PublishStatus.ENDED
    assert bench.client.xlen(bench.keys.requests(bench.partition)) == 0
    assert bench.pending("requests", "ingest") == []
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
    assert bench.pending() == []


def test_entries_of_turns_that_are_gone_are_committed_without_effects(bench: Bench) -> None:
    _, ids = folded(bench)
    assert bench.commit(bench.batch(START, ids)).status == CommitStatus.OK
    assert bench.run(log.read_positions(bench.keys, bench.partition)).lag == 0


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
        "note_wait": note_wait(keys, fresh, token=token),
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
