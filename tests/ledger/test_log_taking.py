from collections.abc import Callable

import pytest

from ledger import log
from ledger.log import TakeStatus
from ledger.records import START, position_key
from tests.ledger.conftest import Bench, effect


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
    assert bench.pending() == ids


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
    reply = bench.adopt("c2")
    assert (reply.status, reply.pending, reply.taken) == (TakeStatus.OK, 2, ids[2])
    assert bench.adopt("c2") == reply
    assert [one["name"] for one in bench.client.xinfo_consumers(bench.keys.log(bench.partition), "fold")] == ["c2"]
    assert [entry.id for entry in bench.take(after=raised.log_position).entries] == ids[1:3]
    assert [entry.id for entry in bench.take(after=ids[2]).entries] == ids[3:]


def test_only_the_owner_adopts(bench: Bench) -> None:
    bench.raised()
    bench.token = "9:x"
    assert bench.adopt().status == TakeStatus.STALE


def test_consumers_with_entries_stay(bench: Bench) -> None:
    bench.raised()
    three(bench)
    bench.take()
    reply = bench.adopt("c1")
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
    assert bench.adopt().status == TakeStatus.OK
    assert [entry.id for entry in bench.take(after=START).entries] == ids[:1]
    assert [entry.id for entry in bench.take(after=ids[0]).entries] == ids[1:]


def test_a_partition_without_a_log_is_taken_and_adopted_as_empty(bench: Bench) -> None:
    bench.raised()
    assert bench.adopt() == log.AdoptReply(status=TakeStatus.OK, pending=0, taken=START)
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
