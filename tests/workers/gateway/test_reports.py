"""Reports of another path by a Redis stream: kept as posted ones are, once, whoever reads; what cannot be kept is put aside by name."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger import shadow
from ledger.records import TurnRecord
from ledger.reports import reports_aside, reports_waiting, settle_report
from ledger.shadow import Sent, read_sent
from tests.support.waiting import wait_until
from tests.workers.gateway.stage import Stage, stage
from tests.workers.gateway.test_shadows import message, turn_of
from workers.gateway import reports
from workers.gateway.reports import Reports
from workers.shadow.reports import MESSAGES_MAX


@pytest.fixture
async def s(redis_url: str) -> AsyncIterator[Stage]:
    async with stage(redis_url) as opened:
        await opened.scripts.run(shadow.set_mode(opened.keys, "main", "shadow"))
        yield opened


async def write(s: Stage, turn: str, *messages: Any, total: int | None = None, **fields: str) -> str:
    report = json.dumps({"messages": messages, "total": total})
    return await write_raw(s, {"turn": turn, "report": report, **fields})


async def write_raw(s: Stage, fields: dict[str, Any]) -> str:
    return str(
        await s.client.execute_command("XADD", s.keys.reports, "*", *(w for pair in fields.items() for w in pair))
    )


async def read_all(s: Stage) -> None:
    async def nothing_waits() -> bool:
        return await s.scripts.run(reports_waiting(s.keys)) == 0

    await wait_until(nothing_waits, "the reports to be read")


async def told(s: Stage, turn: str) -> Sent:
    return await s.scripts.run(read_sent(s.keys, turn))


async def aside(s: Stage) -> list[tuple[str, str]]:
    found = await s.scripts.run(reports_aside(s.keys, count=100))
    return [(one.fields["entry"], one.fields["why"].partition(":")[0]) for one in reversed(found)]


async def test_a_report_by_the_stream_is_one_that_was_posted(s: Stage) -> None:
    turn = (await turn_of(s, targets=["log"]))["id"]
    await write(s, turn, message(0))
    await s.post(f"/v1/shadow/{turn}", {"messages": [message(1, "b")]})
    await write(s, turn, message(1, "b"), message(2, "c"), total=3, id="last")
    await write(s, turn, message(1, "b"), message(2, "c"), total=3, id="last")
    await read_all(s)
    sent = await told(s, turn)
    assert (sorted(sent.messages), sent.total, await aside(s)) == ([0, 1, 2], 3, [])
    assert (await s.get(f"/v1/shadow/{turn}"))[1]["verdict"] == "unfinished"


async def test_what_cannot_be_kept_is_put_aside_by_name_and_holds_up_nothing(s: Stage) -> None:
    live = (await turn_of(s, upstream="outside", targets=["log"]))["id"]
    turn = (await turn_of(s, targets=["log"]))["id"]
    nobody = f"{turn.partition('-')[0]}-{9:024x}"
    wrong = [
        (await write_raw(s, {"turn": turn}), "field_missing"),
        (await write_raw(s, {"report": "{}"}), "field_missing"),
        (await write_raw(s, {"turn": turn, "report": "{}", "more": "x"}), "field_unknown"),
        (await write_raw(s, {"turn": turn, "report": "{"}), "invalid_value"),
        (await write_raw(s, {"turn": turn, "report": "[" * 100_000}), "invalid_value"),
        (await write_raw(s, {"turn": turn, "report": '{"total": "all"}'}), "invalid_value"),
        (await write_raw(s, {"turn": turn, "report": b"\xff\xfe"}), "not_text"),
        (await write_raw(s, {"turn": turn, "report": "{}", "id": "x" * 300}), "invalid_value"),
        (await write_raw(s, {"turn": turn, "report": '"' + "x" * 5_000_000}), "report_too_large"),
        (await write(s, turn, message(MESSAGES_MAX)), "invalid_value"),
        (await write(s, turn, message(0, target="nobody")), "target_unknown"),
        (await write(s, turn, message(0), message(0, "b")), "invalid_value"),
        (await write(s, "no turn", message(0)), "turn_unknown"),
        (await write(s, nobody, message(0)), "turn_unknown"),
        (await write(s, live, message(0)), "turn_is_live"),
    ]
    await write(s, turn, message(0), total=1, id="mine")
    wrong.append((await write(s, turn, message(0, "other")), "report_conflict"))
    wrong.append((await write(s, turn, total=0, id="mine"), "report_conflict"))
    await read_all(s)
    assert sorted(await aside(s)) == sorted(wrong)
    assert (await told(s, turn)).is_whole


async def test_a_reader_that_dies_between_keeping_and_settling_costs_nothing(
    s: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "ABANDONED_MS", 0)
    turn = (await turn_of(s, targets=["log"]))["id"]
    settled: list[str] = []

    def dies(keys: Any, entry: str, *, aside_ms: int, why: str = "") -> Any:
        settled.append(entry)
        if len(settled) < 4:
            raise RuntimeError("gone")
        return settle_report(keys, entry, aside_ms=aside_ms, why=why)

    monkeypatch.setattr(reports, "settle_report", dies)
    entry = await write(s, turn, message(0), total=1, id="once")
    await read_all(s)
    assert settled == [entry] * 4
    assert ((await told(s, turn)).is_whole, await aside(s)) == (True, [])


async def test_two_readers_share_a_stream_and_each_report_is_kept_once(s: Stage, redis_url: str) -> None:
    async with stage(redis_url) as other:
        records: list[TurnRecord] = []
        for number in range(20):
            turn = (await turn_of(s, targets=["log"]))["id"]
            records.append(await s.record(turn))
            await asyncio.gather(*(write(s, turn, message(n, f"{number}.{n}")) for n in range(5)))
            await write(s, turn, total=5)
        await read_all(other)
        for record in records:
            assert (await told(s, record.id)).is_whole
        assert await aside(s) == []


async def test_a_reader_waits_while_the_server_does_not_answer(s: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = (await turn_of(s, targets=["log"]))["id"]
    broken, take = [True], Reports.take

    async def sometimes(self: Reports) -> int:
        if broken[0]:
            broken[0] = False
            raise OSError("no answer")
        return await take(self)

    monkeypatch.setattr(Reports, "take", sometimes)
    await write(s, turn, message(0), total=1)
    await read_all(s)
    assert (await told(s, turn)).is_whole
