"""Shadowed turns in the ledger: modes, the index, and reports of another path."""

import pytest

from ledger import shadow
from ledger.shadow import ReportReply, ReportStatus, Sent
from tests.ledger.conftest import Bench


def report(bench: Bench, turn: str, messages: dict[int, str], total: int | None = None) -> ReportReply:
    return bench.run(shadow.report_sent(bench.keys, turn, messages, total=total, ttl_ms=60_000))


def sent(bench: Bench, turn: str) -> Sent:
    return bench.run(shadow.read_sent(bench.keys, turn))


def test_a_mode_is_set_read_and_forgotten(bench: Bench) -> None:
    assert bench.run(shadow.read_mode(bench.keys, "acp")) == ""
    bench.run(shadow.set_mode(bench.keys, "acp", "shadow"))
    assert bench.run(shadow.read_mode(bench.keys, "acp")) == "shadow"
    assert bench.run(shadow.read_modes(bench.keys)) == {"acp": "shadow"}
    bench.run(shadow.forget_mode(bench.keys, "acp"))
    assert bench.run(shadow.read_modes(bench.keys)) == {}
    with pytest.raises(ValueError, match="a mode is"):
        shadow.set_mode(bench.keys, "acp", "sideways")


def test_a_turns_mode_is_decided_at_submit(bench: Bench) -> None:
    live, shadowed = bench.submit(), bench.submit(shadow_ms=60_000)
    assert (bench.record(live).mode, bench.record(shadowed).mode) == ("live", "shadow")
    assert bench.run(shadow.shadow_turns(bench.keys, bench.partition, count=10)) == [shadowed]


def test_the_index_forgets_what_is_older_than_its_records(bench: Bench) -> None:
    old = bench.submit(shadow_ms=60_000)
    bench.client.zadd(bench.keys.shadow(bench.partition), {old: 1})
    new = bench.submit(shadow_ms=60_000)
    assert bench.run(shadow.shadow_turns(bench.keys, bench.partition, count=10)) == [new]


def test_a_report_may_come_in_pieces_and_again(bench: Bench) -> None:
    turn = bench.submit(shadow_ms=60_000)
    assert not sent(bench, turn).is_whole
    assert report(bench, turn, {1: "b"}).status is ReportStatus.OK
    assert report(bench, turn, {0: "a", 1: "b"}, total=2).status is ReportStatus.OK
    assert report(bench, turn, {0: "a"}).status is ReportStatus.OK
    told = sent(bench, turn)
    assert (list(told.messages.items()), told.total, told.is_whole) == ([(0, "a"), (1, "b")], 2, True)
    assert 0 < bench.client.pttl(bench.keys.legacy(turn)) <= 60_000


def test_a_report_that_contradicts_itself_is_refused_as_a_whole(bench: Bench) -> None:
    turn = bench.submit(shadow_ms=60_000)
    report(bench, turn, {0: "a"})
    assert report(bench, turn, {1: "b", 0: "c"}) == ReportReply(status=ReportStatus.CONFLICT, where="0")
    assert report(bench, turn, {2: "c"}, total=2) == ReportReply(status=ReportStatus.OVER, where="2")
    assert report(bench, turn, {}, total=0) == ReportReply(status=ReportStatus.OVER, where="0")
    assert sent(bench, turn) == Sent(messages={0: "a"}, total=None)
    report(bench, turn, {}, total=1)
    assert report(bench, turn, {}, total=2) == ReportReply(status=ReportStatus.CONFLICT, where="total")
    assert report(bench, turn, {1: "b"}) == ReportReply(status=ReportStatus.OVER, where="1")


def test_nothing_is_reported_of_a_turn_that_is_delivered_here(bench: Bench) -> None:
    assert report(bench, bench.submit(), {0: "a"}).status is ReportStatus.NOT_SHADOW
    assert report(bench, f"3-{9:024x}", {0: "a"}).status is ReportStatus.UNKNOWN_TURN
