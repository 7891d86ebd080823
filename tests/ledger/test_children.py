"""Children in the ledger: who may have one, and how what they tell enters the parent's log together with their own effects."""

from typing import Any

import pytest

from ledger import log, turns
from ledger.log import CommitStatus, PublishStatus
from ledger.records import START, TurnState
from ledger.turns import SubmitStatus
from tests.ledger.conftest import Bench, effect, events


def family(bench: Bench) -> tuple[str, str, str, list[str]]:
    """A parent that has begun, with the token of its claim, and its child with an entry that the owner has taken."""
    bench.raised()
    parent, token = bench.claimed()
    first = bench.publish(parent, token, 0).entry
    child = bench.submit(parent=parent, runtime="subagent")
    second = bench.publish(child, bench.claim(child, "n2").token, 0).entry
    bench.take()
    return parent, token, child, [first, second]


def notes(parent: str, first: int = 0, n: int = 1) -> dict[str, Any]:
    return {"parent": parent, "notes_next": first, "notes": n, "notes_json": events(first, n)}


def told(bench: Bench, parent: str) -> list[tuple[str, int, int]]:
    ids = bench.run(log.entries_of(bench.keys, parent))
    entries = bench.run(log.read_entries(bench.keys, bench.partition, ids))
    return [(entry.producer, entry.seq, entry.n) for entry in entries]


def submit(bench: Bench, parent: str, **changes: Any) -> SubmitStatus:
    new = bench.new(parent=parent, **changes)
    return bench.run(turns.submit(bench.keys, new, tenant_limit=100, partition_limit=100))


def test_a_child_is_submitted_to_a_turn_of_its_tenant_that_has_begun(bench: Bench) -> None:
    assert submit(bench, f"3-{9:024x}") is SubmitStatus.PARENT_UNKNOWN
    parent, token = bench.claimed()
    assert submit(bench, parent) is SubmitStatus.PARENT_NOT_STARTED
    bench.publish(parent, token, 0)
    assert submit(bench, parent, tenant="other") is SubmitStatus.PARENT_UNKNOWN
    child = bench.submit(parent=parent, parent_call="call_7")
    record = bench.record(child)
    assert (record.parent, record.parent_call) == (parent, "call_7")


def test_a_child_of_another_partition_is_refused(bench: Bench) -> None:
    with pytest.raises(ValueError, match="two partitions"):
        turns.submit(bench.keys, bench.new(parent=f"1-{9:024x}"), tenant_limit=1, partition_limit=1)


def test_what_a_child_tells_enters_the_parents_log_with_the_childs_effects(bench: Bench) -> None:
    parent, token, child, ids = family(bench)
    batch = bench.batch(START, ids, effect(parent), effect(child, **notes(parent, 0, 2)))
    assert bench.commit(batch).status is CommitStatus.OK
    assert told(bench, parent) == [("ingest", 0, 1), (f"child:{child}", 0, 2)]
    record = bench.record(parent)
    assert record.next == {"ingest": 1, f"child:{child}": 2}
    assert bench.record(child).notes_next == 2
    taken = bench.take(after=ids[-1])
    assert [(entry.turn, entry.producer) for entry in taken.entries] == [(parent, f"child:{child}")]
    assert bench.run(log.read_positions(bench.keys, bench.partition)).lag == 2
    assert bench.publish(parent, token, 1).status is PublishStatus.OK  # the other producers count for themselves


def test_a_repeated_commit_tells_nothing_twice(bench: Bench) -> None:
    parent, _, child, ids = family(bench)
    batch = bench.batch(START, ids, effect(parent), effect(child, **notes(parent)))
    bench.commit(batch)
    before = bench.everything()
    assert bench.commit(batch).status is CommitStatus.ALREADY
    assert bench.everything() == before


def test_notes_go_on_where_they_stopped_or_nothing_is_written(bench: Bench) -> None:
    parent, _, child, ids = family(bench)
    before = bench.everything()
    reply = bench.commit(bench.batch(START, ids, effect(child, **notes(parent, 1))))
    assert (reply.status, reply.detail) == (CommitStatus.MISMATCH, f"{child} notes_next")
    assert bench.everything() == before


@pytest.mark.parametrize("terminal", ["turn_completed", "turn_cancelled", "turn_failed"])
def test_a_parent_that_has_ended_hears_nothing_and_the_child_goes_on(bench: Bench, terminal: str) -> None:
    parent, token, child, ids = family(bench)
    bench.publish(parent, token, 1, terminal=terminal)
    ids.append(bench.take(after=ids[-1]).entries[0].id)
    ended = effect(parent, state=TurnState.COMPLETED)
    last = effect(child, state=TurnState.COMPLETED, **notes(parent, 0, 3))
    assert bench.commit(bench.batch(START, ids, ended, last)).status is CommitStatus.OK
    assert [producer for producer, _, _ in told(bench, parent)] == ["ingest", "ingest"]
    record = bench.record(child)
    assert (record.notes_next, record.notes_unheard, record.state) == (3, 3, TurnState.COMPLETED)


def test_a_parent_that_is_ended_by_the_same_commit_hears_nothing(bench: Bench) -> None:
    parent, _, child, ids = family(bench)
    failed = effect(parent, state=TurnState.FAILED, quarantined=ids[0])
    bench.commit(bench.batch(START, ids, failed, effect(child, **notes(parent))))
    assert [producer for producer, _, _ in told(bench, parent)] == ["ingest"]


@pytest.mark.parametrize("found", ["gone", "another tenant's"])
def test_a_parent_that_is_not_there_any_more_costs_the_child_nothing(bench: Bench, found: str) -> None:
    parent, _, child, ids = family(bench)
    if found == "gone":
        bench.client.delete(bench.keys.turn(parent))
    else:
        bench.client.hset(bench.keys.turn(parent), "tenant", "somebody")
    assert bench.commit(bench.batch(START, ids, effect(child, **notes(parent)))).status is CommitStatus.OK
    assert bench.record(child).notes_unheard == 1
    assert bench.client.hget(bench.keys.turn(parent), f"next:child:{child}") is None


def test_no_producer_outside_may_speak_in_a_childs_name(bench: Bench) -> None:
    parent, token, child, _ = family(bench)
    call = log.publish(
        bench.keys, parent, token=token, producer=f"child:{child}", first_seq=0, events_json=events(0, 1), n=1
    )
    assert bench.run(call).status is PublishStatus.STALE


def test_what_children_tell_counts_among_the_parents_bytes(bench: Bench) -> None:
    bench.raised()
    limits = turns.TurnLimits(queue_ms=60_000, turn_ms=3_600_000, silence_ms=60_000, tool_ms=60_000, bytes=60)
    parent = bench.submit(limits=limits)
    first = bench.publish(parent, bench.claim(parent).token, 0).entry
    child = bench.submit(parent=parent)
    second = bench.publish(child, bench.claim(child, "n2").token, 0).entry
    bench.take()
    bench.commit(bench.batch(START, [first, second], effect(child, **notes(parent, 0, 3))))
    assert parent in bench.run(turns.due_deadlines(bench.keys, bench.partition))
