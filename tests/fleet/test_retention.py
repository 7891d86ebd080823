"""What is kept and for how long, with all retention a thousandth of what it is by default: after a load everything goes by itself.

A day is 86 seconds here, an hour 3.6. Leases and read time-outs are no retention, and stay.
"""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from ledger.keys import KEY_TABLE
from tests.support.fleet import Fleet, Worker
from tests.support.receivers import Act, Receiver
from tests.support.servers import Server
from tests.support.upstream import Answer, Received, Upstream, text
from tests.support.waiting import wait_until
from workers.config import Config

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

DEFAULTS = Config()
HOUR_MS = 3_600
SCALED = {
    **{
        f"FOLDLINE_RETENTION_{name.upper()}": str(getattr(DEFAULTS.retention, name) // 1000)
        for name in DEFAULTS.retention.__struct_fields__
    },
    "FOLDLINE_LIMITS_TURN_MAX_MS": str(DEFAULTS.limits.turn_max_ms // 1000),
    "FOLDLINE_FOLD_TRIM_EVERY_MS": "100",
}
WORDS = "A sentence of a long answer. " * 1_000
TURNS = 40


def answer(received: Received) -> Answer:
    """A long answer, or half of one that goes on for ever."""
    endless = received.body["input"] == "for ever"
    return text(WORDS, pieces=200, keep=100 if endless else None, ending="stall" if endless else "close")(received)


def rows() -> Iterator[tuple[re.Pattern[str], str]]:
    """Each row of the key table, as a pattern of its keys and how they end."""
    for row in KEY_TABLE:
        for spelled in re.split(", (?![^<]*>)", row.key):
            pattern = re.escape(re.sub("<[^>]*>", "*", spelled.replace("…", "fl:{7}")))
            yield re.compile(pattern.replace(r"\*", ".+").replace("7", r"\d+")), row.ends


def ends(key: str) -> str:
    """How the table says that a key ends."""
    found = {end for pattern, end in rows() if pattern.fullmatch(key)}
    assert len(found) == 1, f"{key} is in the table of keys {len(found)} times"
    return found.pop()


def lasting(server: Server) -> dict[str, str]:
    """The keys that have no time to live, each with what the table says of its end."""
    with server.client() as client:
        return {key: ends(key) for key in client.keys("*") if client.pttl(key) == -1}


def used(server: Server) -> int:
    with server.client() as client:
        return int(client.info("memory")["used_memory"])


@asynccontextmanager
async def site(server: Server, folder: Path) -> AsyncIterator[tuple[Fleet, Worker]]:
    """A whole fleet on an empty server, and its gateway."""
    with server.client() as client:
        client.flushall()
    async with Upstream(answer) as upstream, Receiver() as receiver, Receiver(otherwise=Act.REFUSE) as refusing:
        upstreams = {"sample": {"base_url": upstream.base_url}}
        targets = {
            "hook": {"channel": "webhook", "url": receiver.url},
            "closed": {"channel": "webhook", "url": refusing.url},
        }
        async with Fleet(
            server.url, folder, upstreams=upstreams, targets=targets, partitions=2, environ=SCALED
        ) as fleet:
            gateway = await fleet.start("gateway")
            for role in ("ingest", "fold", "delivery"):
                await fleet.start(role)
            yield fleet, gateway


async def test_everything_goes_by_itself_and_a_turn_of_an_hour_holds_up_nothing(
    redis_server: Server, tmp_path: Path
) -> None:
    async with site(redis_server, tmp_path) as (fleet, gateway), aiohttp.ClientSession() as http:

        async def submit(number: int, words: str, *targets: str) -> str:
            body: dict[str, Any] = {"request": {"model": "m", "input": words}, "upstream": "sample"}
            body |= {"session": f"s{number}", "targets": targets, "idempotency_key": f"k{number}"}
            async with http.post(f"http://127.0.0.1:{gateway.port}/v1/turns", json=body) as told:
                return str((await told.json())["id"])

        await fleet.ended(await submit(0, "to warm up"))
        before = used(redis_server)
        endless = await submit(1, "for ever", "hook")
        turns = [await submit(2 + number, "on", *(("hook", "closed")[: number % 3])) for number in range(TURNS)]
        for turn in turns:
            await fleet.ended(turn)
        peak = used(redis_server)

        def owed() -> list[str]:
            return [key for key, end in lasting(redis_server).items() if end.startswith("TTL")]

        # the turn of an hour is ended by name, and then nothing of any turn is without an end
        assert msgspec.json.decode((await fleet.ended(endless)).error)["code"] == "over_age"
        await wait_until(lambda: not owed(), "every key to have its time to live", 30)

        def logged() -> int:
            with redis_server.client() as client:
                return sum(client.xlen(fleet.keys.log(partition)) for partition in range(2))

        await wait_until(lambda: logged() <= 2, "the log to be trimmed", 20)  # the last entry marks the position

        def gone() -> bool:
            with redis_server.client() as client:
                return not any(":turn:" in key or ":part:" in key or ":idem:" in key for key in client.keys("*"))

        await wait_until(gone, "a day to pass", 150)
        kept = lasting(redis_server)
        assert {key for key, end in kept.items() if "permanent" not in end} <= {
            key for key in kept if ":workers:" in key
        }
        with redis_server.client() as client:
            assert set(kept) == set(client.keys("*")), "what is left has no end, and says so"
        assert peak - before > 5_000_000
        await wait_until(lambda: used(redis_server) - before < (peak - before) / 10, "the memory to be free again", 20)
