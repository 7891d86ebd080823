"""A fleet in shadow mode beside a scripted old path: each fault of that path is reported as exactly that, and a clean one as equal.

The old path does not know how foldline works: it sends its own list of messages, which a test of the whole fleet shows to be foldline's too.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ledger.reports import reports_waiting
from ledger.shadow import set_mode
from scripts.responses_stream import FunctionCall, Text
from tests.fleet.test_cutover import report_of, tell_by_stream
from tests.support.fleet import Fleet
from tests.support.receivers import Receiver
from tests.support.servers import Server
from tests.support.upstream import Upstream, items
from tests.support.waiting import wait_until
from workers.client import Door
from workers.shadow.collection import collect

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

SETTINGS = {"min_chars": 30, "max_chars": 120, "tool_lines": "summary"}
OLD = [
    "I will look that up, and tell you in a moment.",
    "[🔧 search]",
    "It is sunny in Rome today, with a light wind.",
    "Tomorrow it rains from noon on, so take an umbrella.",
]
ANSWER = items(
    Text(pieces=("I will look that up, ", "and tell you in a moment.")),
    FunctionCall(name="search", pieces=("{}",)),
    Text(pieces=(OLD[2], "\n\n", OLD[3][:20], OLD[3][20:])),
)
FAULTS: dict[str, Callable[[list[str]], list[str]]] = {
    "equal": list,
    "spacing": lambda m: [*m[:2], m[2].replace("in Rome", "inRome"), m[3]],  # glued words
    "missing": lambda m: [*m[:3], m[3][:15]],  # a lost tail
    "extra": lambda m: [*m[:3], m[2], m[3]],  # a doubled block
    "order": lambda m: [m[0], m[2], m[1], m[3]],  # a tool line that slipped behind a block
    "splitting": lambda m: [*m[:2], "\n\n".join(m[2:])],
}


async def test_each_fault_of_the_old_path_is_reported_as_that(redis_server: Server, tmp_path: Path) -> None:
    with redis_server.client() as client:
        client.flushall()
    async with Upstream(ANSWER) as upstream, Receiver() as receiver:
        upstreams = {"sample": {"base_url": upstream.base_url, "side_effects": False}}
        targets = {"hook": {"channel": "webhook", "url": receiver.url}}
        async with Fleet(redis_server.url, tmp_path, upstreams=upstreams, targets=targets) as fleet:
            *_, gateway = [await fleet.start(role) for role in ("ingest", "fold", "delivery", "gateway")]
            await fleet.run(set_mode(fleet.keys, "main", "shadow"))
            turns: dict[str, str] = {}
            async with Door.open(f"http://127.0.0.1:{gateway.port}") as door:
                for number, (kind, fault) in enumerate(FAULTS.items()):
                    body = {"request": {"input": kind}, "upstream": "sample", "targets": ["hook"], "settings": SETTINGS}
                    told = await door.post("/v1/turns", msgspec.json.encode(body))
                    turn = turns[kind] = told["id"]
                    if number % 2:
                        await tell_by_stream(fleet, turn, fault(OLD))
                    else:
                        await door.post(f"/v1/shadow/{turn}", report_of(fault(OLD)))
                await asyncio.gather(*(fleet.settled(turn, 60) for turn in turns.values()))

                async def are_read() -> bool:
                    return await fleet.run(reports_waiting(fleet.keys)) == 0

                await wait_until(are_read, "the reports in the stream to be read", 30)
                verdicts = {
                    kind: (await door.ask("GET", f"/v1/shadow/{turn}"))["verdict"] for kind, turn in turns.items()
                }
            assert verdicts == {kind: kind for kind in FAULTS}
            found = await collect(fleet.run, fleet.keys, await fleet.turn(turns["order"]))
            assert found.comparison is not None
            [difference] = found.comparison.differences
            assert difference.ours == OLD[1]
            assert receiver.texts == []
