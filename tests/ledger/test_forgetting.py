"""Purging settled parts and forgetting turns, step by step on a real server."""

import pytest

from ledger import delivery, forgetting, log, turns
from ledger.forgetting import ForgetStatus
from ledger.keys import Keyspace
from ledger.parts import PartRecord, Verdict
from ledger.records import START, TurnState
from ledger.states import SETTLED, State
from tests.ledger.conftest import Bench, block, effect
from tests.support.deliveries import Desk

LONG_MS = 3_600_000


async def purge(desk: Desk, part: PartRecord, age_ms: int = 0) -> forgetting.Purged:
    return await desk.run(forgetting.purge_part(desk.keys, part, age_ms=age_ms))


# purging


@pytest.mark.parametrize("state", [state for state in State if state in SETTLED])
async def test_a_settled_part_is_purged_with_every_mention_of_it(desk: Desk, state: State) -> None:
    initial = State.SUPPRESSED if state is State.SUPPRESSED else State.PENDING
    [part] = await desk.plan(desk.new_part(0, state=initial))
    part = await desk.bring(part, state)
    purged = await purge(desk, part)
    assert (purged.reply, purged.state) == ("OK", state)
    assert not [key for key in await desk.client.keys("*") if part.id.replace("/", ":") in key]
    assert await desk.where(part) == set()
    assert await desk.run(delivery.parts_of(desk.keys, desk.turn)) == []
    assert (await purge(desk, part)).reply == "ALREADY"


@pytest.mark.parametrize("state", [state for state in State if state not in SETTLED])
async def test_what_still_owes_something_is_not_purged(desk: Desk, state: State) -> None:
    first, _ = await desk.two()
    part = await desk.bring(first, state) if state is not State.SENDING else first
    if state is State.SENDING:
        await desk.intent(first, "a")
    before = await desk.client.hgetall(desk.keys.part(first.id))
    purged = await purge(desk, part)
    assert (purged.reply, purged.state) == ("STATE", state)
    assert await desk.client.hgetall(desk.keys.part(first.id)) == before


async def test_what_stands_in_a_lane_is_not_purged_whatever_its_state_says(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.client.hset(desk.keys.part(first.id), mapping={"state": "sent", "settled_at": 1})
    assert (await purge(desk, first)).reply == "STATE"


async def test_what_was_settled_just_now_is_not_purged_by_age(desk: Desk) -> None:
    first, _ = await desk.two()
    part = await desk.bring(first, State.SENT)
    assert (await purge(desk, part, age_ms=LONG_MS)).reply == "EARLY"
    await desk.client.hincrby(desk.keys.part(part.id), "settled_at", -LONG_MS)
    assert (await purge(desk, part, age_ms=LONG_MS)).reply == "OK"


async def test_a_requeued_part_keeps_its_turn(desk: Desk) -> None:
    """A turn whose time to live runs would be gone before its delivery, and with it whose the delivery is."""
    [part] = await desk.plan(desk.new_part(0))
    dead = await desk.bring(part, State.DEAD)
    kept = [desk.keys.turn(desk.turn), desk.keys.parts(desk.turn)]
    for key in kept:
        await desk.client.pexpire(key, LONG_MS)
    await desk.run(delivery.requeue(desk.keys, dead, by="me", ttl_ms=1_000))
    assert [await desk.client.pttl(key) for key in kept] == [-1, -1]


# forgetting parts


async def forget_parts(
    desk: Desk, *parts: PartRecord, quarantine_ms: int = LONG_MS, lane: str = ""
) -> tuple[ForgetStatus, str]:
    lanes = {part.id: lane or part.lane for part in parts}
    call = forgetting.forget_parts(desk.keys, desk.turn, lanes, quarantine_ms=quarantine_ms)
    return await desk.run(call)


async def over(desk: Desk) -> None:
    await desk.client.hset(desk.keys.turn(desk.turn), "state", "completed")


@pytest.mark.parametrize("state", list(State))
async def test_parts_of_a_turn_that_is_over_go_in_whatever_state(desk: Desk, state: State) -> None:
    initial = State.SUPPRESSED if state is State.SUPPRESSED else State.PENDING
    [part] = await desk.plan(desk.new_part(0, state=initial))
    if state is State.SENDING:
        await desk.intent(part, "a")
    else:
        part = await desk.bring(part, state)
    await over(desk)
    assert await forget_parts(desk, part, quarantine_ms=0) == (ForgetStatus.OK, "")
    assert await desk.where(part) == set()
    assert await desk.client.exists(desk.keys.part(part.id), desk.keys.parts(desk.turn)) == 0
    assert await desk.client.hget(desk.keys.turn(desk.turn), "open_parts") == "0"
    assert await desk.client.zscore(desk.keys.lanes(desk.p), part.lane) is None, "its lane was empty then"
    assert await forget_parts(desk, part, quarantine_ms=0) == (ForgetStatus.OK, "")
    assert await desk.client.hget(desk.keys.turn(desk.turn), "open_parts") == "0"


async def test_what_stands_behind_forgotten_parts_may_be_sent(desk: Desk) -> None:
    first, second = await desk.two()
    await over(desk)
    await desk.client.zadd(desk.keys.lanes(desk.p), {first.lane: 99_999_999_999_999})
    assert await forget_parts(desk, first) == (ForgetStatus.OK, "")
    due = await desk.run(delivery.due_lanes(desk.keys, desk.p, count=5))
    assert due.lanes == [second.lane]
    assert (await desk.intent(second)).reply == "OK"


async def test_parts_of_a_turn_that_runs_stay(desk: Desk) -> None:
    first, _ = await desk.two()
    assert await forget_parts(desk, first) == (ForgetStatus.RUNNING, "")
    await over(desk)
    await desk.client.hincrby(desk.keys.turn(desk.turn), "blocks_next", 1)
    assert await forget_parts(desk, first) == (ForgetStatus.PLANNING, "")
    assert await desk.client.exists(desk.keys.part(first.id)) == 1


async def test_an_attempt_that_may_be_on_its_way_is_waited_for(desk: Desk) -> None:
    first, second = await desk.two()
    await desk.intent(first, "a")
    await over(desk)
    assert await forget_parts(desk, second, first) == (ForgetStatus.SENDING, first.id)
    assert await desk.client.exists(desk.keys.part(second.id)) == 1, "all or nothing"
    await desk.receipt(first, "a", Verdict.SENT)
    assert await forget_parts(desk, second, first) == (ForgetStatus.OK, "")


async def test_a_part_that_has_changed_its_lane_is_read_again(desk: Desk) -> None:
    first, _ = await desk.two()
    await over(desk)
    assert await forget_parts(desk, first, lane="another") == (ForgetStatus.MISMATCH, first.id)


async def test_a_receipt_for_a_forgotten_part_brings_nothing_back(desk: Desk) -> None:
    first, _ = await desk.two()
    await desk.intent(first, "a")
    await over(desk)
    await forget_parts(desk, first, quarantine_ms=0)
    assert (await desk.receipt(first, "a", Verdict.SENT)).reply == "UNKNOWN_DELIVERY"
    assert await desk.client.exists(desk.keys.part(first.id)) == 0


# forgetting turns


def carried(bench: Bench, *, state: TurnState = TurnState.COMPLETED) -> str:
    """A turn of five log entries and two blocks, folded to its end."""
    bench.raised()
    turn = bench.submit(serial=True, shadow_ms=LONG_MS)
    token = bench.claim(turn).token
    ids = [bench.publish(turn, token, number).entry for number in range(4)]
    ids.append(bench.publish(turn, token, 4, terminal="completed").entry)
    bench.take()
    one = effect(turn, 0, 3, 0, blocks=[block("a"), block("b")], state=state)
    bench.commit(bench.batch(START, ids, one))
    return turn


def forget(bench: Bench, turn: str, *blocks: int, is_last: bool = True, count: int = 1000) -> ForgetStatus:
    call = forgetting.forget_turn(bench.keys, turn, session="s1", blocks=blocks, is_last=is_last, count=count)
    return bench.run(call)


def mentions(bench: Bench, turn: str) -> list[str]:
    """Every key that is named after the turn or holds its id."""
    found = []
    for key in bench.client.keys("*"):
        kind = bench.client.type(key)
        readers = {
            "hash": bench.client.hgetall,
            "list": lambda name: bench.client.lrange(name, 0, -1),
            "zset": lambda name: bench.client.zrange(name, 0, -1),
            "stream": bench.client.xrange,
        }
        if turn in key or turn in str(readers[kind](key)):
            found.append(key)
    return sorted(found)


def test_nothing_of_a_forgotten_turn_is_left(bench: Bench) -> None:
    turn = carried(bench)
    other = bench.submit()
    assert len(mentions(bench, turn)) > 8
    assert forget(bench, turn, 0, 1) is ForgetStatus.OK
    assert mentions(bench, turn) == []
    assert len(mentions(bench, other)) > 0
    assert bench.client.xlen(bench.keys.log(bench.partition)) == 0
    assert bench.run(log.read_positions(bench.keys, bench.partition)).lag == 0
    assert forget(bench, turn, 0, 1) is ForgetStatus.OK, "a repeat finds nothing"


def test_a_turn_is_forgotten_in_steps_and_its_record_goes_last(bench: Bench) -> None:
    turn = carried(bench)
    assert forget(bench, turn, 0, is_last=False, count=2) is ForgetStatus.MORE
    assert bench.client.xlen(bench.keys.log(bench.partition)) == 3
    assert forget(bench, turn, 1, count=2) is ForgetStatus.MORE
    assert bench.run(turns.read_turn(bench.keys, turn)) is not None, "whoever comes later finds it and goes on"
    assert forget(bench, turn, count=2) is ForgetStatus.OK
    assert mentions(bench, turn) == []


def test_a_turn_that_is_under_way_stays_whole(bench: Bench) -> None:
    turn = carried(bench, state=TurnState.RUNNING)
    before = bench.everything()
    assert forget(bench, turn, 0, 1) is ForgetStatus.RUNNING
    bench.client.hset(bench.keys.turn(turn), mapping={"state": "failed", "planned": 1})
    before = bench.everything()
    assert forget(bench, turn, 0, 1) is ForgetStatus.PLANNING
    bench.client.hset(bench.keys.turn(turn), mapping={"planned": 2, "open_parts": 1})
    assert forget(bench, turn, 0, 1) is ForgetStatus.PARTS
    assert set(bench.everything()) == set(before)


def test_entries_that_the_fold_has_not_passed_stay_and_so_does_its_lag(bench: Bench) -> None:
    bench.raised()
    turn = bench.submit()
    token = bench.claim(turn).token
    ids = [bench.publish(turn, token, number).entry for number in range(3)]
    bench.take()
    bench.commit(bench.batch(START, ids[:1], effect(turn, state=TurnState.FAILED, quarantined=ids[0])))
    assert forget(bench, turn) is ForgetStatus.RUNNING
    bench.commit(bench.batch(ids[0], ids[1:], commit_id="c2"))
    assert forget(bench, turn) is ForgetStatus.OK
    assert bench.run(log.read_positions(bench.keys, bench.partition)).lag == 0


def test_what_comes_after_brings_nothing_of_a_forgotten_turn_back(bench: Bench) -> None:
    turn = carried(bench)
    token = bench.record(turn).ingest_token
    forget(bench, turn, 0, 1)
    assert bench.publish(turn, token, 5).status == "UNKNOWN_TURN"
    assert bench.run(turns.request_cancel(bench.keys, turn, grace_ms=1)) == "UNKNOWN_TURN"
    assert bench.run(turns.renew_turn(bench.keys, turn, token=token, lease_ms=1)).status == "UNKNOWN_TURN"
    assert mentions(bench, turn) == []


def test_reports_about_a_turn_are_found_and_removed_taken_or_not(bench: Bench) -> None:
    keys, turn, other = bench.keys, bench.turn_id(), bench.turn_id()
    for name in (turn, other, "nonsense"):
        bench.client.xadd(keys.reports, {b"\xff": b"\xfe", "turn": name, "report": "said"})
        bench.client.xadd(keys.reports_aside, {"entry": "1-1", "why": "not_text", "turn": name})
    bench.client.xadd(keys.reports, {"report": "of nothing"})
    bench.client.xgroup_create(keys.reports, forgetting.REPORTS_GROUP, id="0")
    for stream in (keys.reports, keys.reports_aside):
        listed = bench.run(forgetting.turns_of_reports(stream, after=START))
        assert [found for _, found in listed][:3] == [turn, other, ""]
        assert bench.run(forgetting.turns_of_reports(stream, after=listed[0][0], count=1)) == listed[1:2]
        entries = [entry for entry, found in listed if found == turn]
        assert bench.run(forgetting.forget_reports(stream, entries)) == 1
        assert bench.run(forgetting.forget_reports(stream, entries)) == 0
        left = bench.run(forgetting.turns_of_reports(stream, after=START))
        assert [found for _, found in left][:2] == [other, ""]


def test_whose_a_key_is_stands_in_it(bench: Bench) -> None:
    turn = bench.submit()
    whose = bench.run(forgetting.read_whose(bench.keys.turn(turn)))
    assert (whose.tenant, whose.session, whose.state) == ("acme", "s1", "queued")
    bound = turns.claim_idempotency(
        bench.keys, tenant="acme", key="k", turn=turn, session="s1", body_hash="b", ttl_ms=LONG_MS
    )
    bench.run(bound)
    key = bench.keys.idem("acme", "k")
    whose = bench.run(forgetting.read_whose(key))
    assert (whose.tenant, whose.session, whose.turn) == ("acme", "s1", turn)
    assert bench.run(forgetting.forget_idempotency(key))
    assert not bench.run(forgetting.forget_idempotency(key))


def test_keys_tell_whose_they_are() -> None:
    keys, turn = Keyspace(), "7-" + "a" * 24
    for key in (keys.turn(turn), keys.entries(turn), keys.frames(turn), keys.block(turn, 3), keys.legacy(turn)):
        assert keys.turn_of_key(key) == turn
        assert keys.part_of_key(key) == ""
    part = f"{turn}/3/0123456789abcdef/1"
    assert keys.part_of_key(keys.part(part)) == part
    assert keys.turn_of_key(keys.part(part)) == turn
    assert keys.turn_of_key(keys.log(7)) == keys.turn_of_key(keys.lane(7, "x")) == ""
    assert keys.all_of("part", 7) == "fl:{7}:part:*"
    assert keys.all_of("turn") == "fl:{*}:turn:*"
