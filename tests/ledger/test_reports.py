"""Reports that another path writes into a stream: taken by a group, settled once, put aside as they came."""

from ledger.reports import ReportEntry, TakenReports, reports_aside, reports_waiting, settle_report, take_reports
from ledger.shadow import ReportStatus, read_sent, report_sent
from tests.ledger.conftest import Bench
from tests.support.waiting import wait_until_sync

ASIDE_MS = 3_600_000


def take(bench: Bench, consumer: str = "g1", *, min_idle_ms: int = 60_000) -> TakenReports:
    call = take_reports(bench.keys, consumer=consumer, count=10, min_idle_ms=min_idle_ms, aside_ms=ASIDE_MS)
    return bench.run(call)


def write(bench: Bench, **fields: str | bytes) -> str:
    return str(bench.client.xadd(bench.keys.reports, fields))


def test_nothing_is_made_where_nobody_writes(bench: Bench) -> None:
    assert take(bench) == TakenReports([], [])
    assert not bench.client.exists(bench.keys.reports, bench.keys.reports_aside)


def test_an_entry_goes_to_one_reader_until_it_is_settled_or_left(bench: Bench) -> None:
    entry = write(bench, turn="t", report="{}")
    assert take(bench).entries == [ReportEntry(entry, {"turn": "t", "report": "{}"})]
    assert take(bench).entries == take(bench, "g2").entries == []
    assert [one.id for one in take(bench, "g2", min_idle_ms=0).entries] == [entry]
    assert bench.run(settle_report(bench.keys, entry, aside_ms=ASIDE_MS))
    assert not bench.run(settle_report(bench.keys, entry, aside_ms=ASIDE_MS))
    assert bench.run(reports_waiting(bench.keys)) == 0
    assert bench.client.xpending(bench.keys.reports, "gateway")["pending"] == 0


def test_a_reader_that_is_long_gone_is_forgotten(bench: Bench) -> None:
    write(bench, turn="t", report="{}")
    for entry in take(bench, "gone").entries:
        bench.run(settle_report(bench.keys, entry.id, aside_ms=ASIDE_MS))
    write(bench, turn="t", report="{}")

    def is_forgotten() -> bool:
        take(bench, "g2", min_idle_ms=0)
        return [one["name"] for one in bench.client.xinfo_consumers(bench.keys.reports, "gateway")] == ["g2"]

    wait_until_sync(is_forgotten, "the reader that has gone to be forgotten")


def test_what_cannot_be_kept_is_put_aside_as_it_came_once(bench: Bench) -> None:
    entry = write(bench, turn="t", report="no JSON", why="because", entry="mine")
    take(bench)
    assert bench.run(settle_report(bench.keys, entry, aside_ms=ASIDE_MS, why="invalid_value: no"))
    assert not bench.run(settle_report(bench.keys, entry, aside_ms=ASIDE_MS, why="invalid_value: no"))
    (aside,) = bench.run(reports_aside(bench.keys, count=10))
    assert aside.fields == {"turn": "t", "report": "no JSON", "entry": entry, "why": "invalid_value: no"}
    assert bench.run(reports_waiting(bench.keys)) == 0


def test_bytes_that_are_no_text_never_reach_a_reader(bench: Bench) -> None:
    bad = [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80", b"\xe0\x80\x80", b"\xf4\x90\x80\x80"]
    good = ["é", "漢字", "😀 and\x00so", "\ud7ff\ue000", "\U0010ffff"]
    wrong = [write(bench, turn="t", report=text) for text in bad]
    right = [write(bench, turn="t", report=text) for text in good]
    taken = take(bench)
    taken_next = take(bench)
    assert taken.aside == wrong
    assert [one.id for one in [*taken.entries, *taken_next.entries]] == right
    aside = bench.run(reports_aside(bench.keys, count=10))
    assert [one.fields["why"] for one in aside] == ["not_text"] * len(bad)
    assert aside[-1].fields["report"] == "\\xff"
    assert aside[-2].fields["report"] == "a\\xc3"


def test_what_is_kept_aside_is_bounded(bench: Bench) -> None:
    for _ in range(300):
        write(bench, x="y")
    for entry in (one for _ in range(30) for one in take(bench).entries):
        call = settle_report(bench.keys, entry.id, aside_ms=ASIDE_MS, why="field_missing")
        bench.run(type(call)(call.name, call.keys, (*call.args[:2], 100, *call.args[3:]), call.decode))
    assert 100 <= bench.client.xlen(bench.keys.reports_aside) < 300
    assert bench.run(reports_waiting(bench.keys)) == 0


def put_aside_ago(bench: Bench, *hours: float) -> list[str]:
    """Reports that were put aside so many hours ago, in this order."""
    now_ms = bench.client.time()[0] * 1000
    entries = [f"{now_ms - int(3_600_000 * ago)}-0" for ago in hours]
    for entry in entries:
        bench.client.xadd(bench.keys.reports_aside, {"entry": "1-1", "why": "not_text"}, id=entry)
    return entries


def test_what_was_put_aside_long_ago_goes_when_somebody_looks_or_puts_more_aside(bench: Bench) -> None:
    *_, young = put_aside_ago(bench, 30, 1.1, 0.9)
    take(bench)
    assert [one.id for one in bench.run(reports_aside(bench.keys, count=10))] == [young]
    bench.client.delete(bench.keys.reports_aside)
    entry = write(bench, turn="t", report="no JSON")
    *_, young = put_aside_ago(bench, 30, 1.1, 0.9)
    bench.run(settle_report(bench.keys, entry, aside_ms=ASIDE_MS, why="invalid_value"))
    new, kept = bench.run(reports_aside(bench.keys, count=10))
    assert (new.fields["entry"], kept.id) == (entry, young)


def test_what_is_put_aside_goes_also_where_nobody_looks_any_more(bench: Bench) -> None:
    write(bench, turn="t", report=b"\xff")
    take(bench)
    assert 0 < bench.client.pttl(bench.keys.reports_aside) <= ASIDE_MS
    entry = write(bench, turn="t", report="no JSON")
    bench.client.persist(bench.keys.reports_aside)
    bench.run(settle_report(bench.keys, entry, aside_ms=ASIDE_MS, why="invalid_value"))
    assert 0 < bench.client.pttl(bench.keys.reports_aside) <= ASIDE_MS


def test_a_reports_own_id_stands_for_one_report(bench: Bench) -> None:
    turn = bench.submit(shadow_ms=60_000)

    def report(ident: str, text: str, total: int | None = None) -> tuple[ReportStatus, str]:
        call = report_sent(bench.keys, turn, {0: text}, total=total, ttl_ms=60_000, report_id=ident)
        reply = bench.run(call)
        return reply.status, reply.where

    assert report("r1", "a") == report("r1", "a") == (ReportStatus.OK, "")
    assert report("r1", "b") == report("r1", "a", total=1) == (ReportStatus.CONFLICT, "report")
    assert report("r2", "b") == (ReportStatus.CONFLICT, "0")
    assert report("r2", "a", total=1) == (ReportStatus.OK, "")
    told = bench.run(read_sent(bench.keys, turn))
    assert (dict(told.messages), told.total) == ({0: "a"}, 1)
