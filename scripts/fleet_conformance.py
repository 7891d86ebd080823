"""Play every stream of a folder through a whole fleet: `python -m scripts.fleet_conformance FOLDER`.

The folder is a corpus with an index, or one folder for each wire. An upstream on the loopback interface (for an agent: a program) plays
each file; a server, the gateway, an ingest and a fold worker carry it, many turns at once; the official `openai` SDK reads the public
stream and accumulates it. Held against what the driver for recordings says of the same bytes: every event, then texts, calls, usage,
status and error of the last response, and of the response that a client fetches afterwards. Exit 1 on any difference.
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openai import APIError, AsyncOpenAI
from rich.console import Console
from rich.table import Table

from pipeline.turn import Decoded
from scripts import sdk
from scripts.replay import agent
from scripts.replay.cases import AGENT, Case, cases
from scripts.replay.upstream import Recordings
from workers.config import Config, FoldConfig, GatewayConfig, IngestConfig, RedisConfig, UpstreamConfig
from workers.embedded import EmbeddedServer
from workers.fold import worker as fold
from workers.gateway.app import Gateway
from workers.ingest import worker as ingest
from workers.observability import logs
from workers.upstream import DIALECTS

Json = dict[str, Any]
AT_ONCE = 32
TURN_S = 120.0
SAID = ("output", "status", "usage", "error", "incomplete_details")
"""Members of a response that the upstream's bytes decide; the others repeat the request."""
PATIENT_MS = 60_000  # a loaded machine takes long to start an interpreter


@dataclass
class Result:
    """One turn: how many events the SDK read, how the turn ended, and what differs."""

    case: Case
    events: int = 0
    ended: str = ""
    accumulated: bool = False
    differences: list[str] = field(default_factory=list)


@contextlib.asynccontextmanager
async def fleet(redis_url: str, found: list[Case], folder: Path) -> AsyncIterator[AsyncOpenAI]:
    """Run the roles before the recordings, and hand out a client of the gateway."""
    numbered = {str(number): case for number, case in enumerate(found)}
    async with Recordings(numbered) as recordings:
        upstreams = _upstreams(numbered, recordings.port, folder)
        config = Config(
            redis=RedisConfig(url=redis_url, partitions=4, block_ms=100),
            ingest=IngestConfig(max_agents=4),
            fold=FoldConfig(),
            gateway=GatewayConfig(port=0),
            upstreams=upstreams,
        )
        stop = asyncio.Event()
        gateway = Gateway(config)
        await gateway.start()
        roles = [asyncio.create_task(role.run(config, stop)) for role in (ingest, fold)]
        try:
            url = f"http://127.0.0.1:{gateway.port}/v1"
            async with AsyncOpenAI(base_url=url, api_key="none", max_retries=2, timeout=TURN_S) as client:
                yield client
        finally:
            stop.set()
            await asyncio.gather(*roles)
            await gateway.stop()


def _upstreams(numbered: dict[str, Case], port: int, folder: Path) -> dict[str, UpstreamConfig]:
    """One upstream for each wire, and one for each turn of an agent: its program is the configuration's."""
    url = f"http://127.0.0.1:{port}/v1"
    made = {wire: UpstreamConfig(base_url=url, wire=wire) for wire in DIALECTS if wire != AGENT}
    for number, case in numbered.items():
        if case.wire == AGENT:
            lines = folder / f"{number}.jsonl"
            lines.write_bytes(case.data.removesuffix(b"\n"))
            made[f"{AGENT}-{number}"] = UpstreamConfig(
                wire=AGENT,
                command=[sys.executable, str(Path(agent.__file__)), str(lines)],
                cwd=str(folder),
                connect_timeout_ms=PATIENT_MS,
                env_allow=["PATH", "HOME", "LANG"],
            )
    return made


async def run(redis_url: str, found: list[Case]) -> list[Result]:
    """Play all of them, many at once; one result for each, in their order."""
    room = asyncio.Semaphore(AT_ONCE)
    with tempfile.TemporaryDirectory(prefix="foldline-replay-") as folder:
        async with fleet(redis_url, found, Path(folder)) as client:

            async def one(number: int, case: Case) -> Result:
                async with room, asyncio.timeout(TURN_S):
                    return await _play(client, str(number), case)

            return list(await asyncio.gather(*(one(number, case) for number, case in enumerate(found))))


async def _play(client: AsyncOpenAI, number: str, case: Case) -> Result:
    result = Result(case)
    model = f"{AGENT}-{number}/m" if case.wire == AGENT else f"{case.wire}/{number}"
    events: list[Any] = []
    try:
        async for event in await client.responses.create(model=model, input="Hello.", stream=True):
            events.append(event)  # noqa: PERF401  what came before a refusal counts
    except APIError as refused:
        result.differences.append(f"the SDK refuses the stream: {refused!r}")
    if not events:
        return result
    read = [event.to_dict(mode="json", warnings=False) for event in events]
    turn = str(read[0]["response"]["id"]).removeprefix("resp_")
    expected = case.expected(turn)
    result.events, result.ended = len(read), str(read[-1]["type"])
    result.differences += [*_accumulation(result, events, expected), *differences(read, expected)]
    with warnings.catch_warnings(action="ignore"):  # the SDK's models do not know every kind that there is
        fetched = (await client.responses.retrieve(f"resp_{turn}")).to_dict(mode="json", warnings=False)
    wanted = {**read[-1]["response"], "status": expected.payload.status}
    result.differences += [f"fetched {one}" for one in _unlike(fetched, wanted)]
    return result


def _accumulation(result: Result, events: list[Any], expected: Decoded) -> list[str]:
    """What the SDK makes of the events otherwise than the payload says."""
    try:
        made = sdk.accumulate(events)
    except Exception as refused:  # noqa: BLE001  the SDK raises whatever its code meets
        return [f"the SDK cannot accumulate the stream: {refused!r}"]
    result.accumulated = made is not None
    if result.accumulated is not (expected.payload.status == "completed"):
        return [f"the SDK has {made} of a turn that is {expected.payload.status}"]
    if made is None:
        return []
    read = made.to_dict(mode="json", warnings=False)["output"]
    found = [sdk.texts_of(output) for output in (read, expected.payload.response["output"])]
    return [] if found[0] == found[1] else [f"the SDK accumulates {found[0]} instead of {found[1]}"]


def differences(read: list[Json], expected: Decoded) -> list[str]:
    """What the SDK read otherwise than the driver for recordings says."""
    wanted = [json.loads(frame.data) for frame in expected.frames]
    found = []
    if [one["type"] for one in read] != [one["type"] for one in wanted]:
        found.append(f"events {[one['type'] for one in read]} instead of {[one['type'] for one in wanted]}")
    found += [
        f"event {got.get('sequence_number')}: {got} instead of {want}"
        for got, want in zip(read, wanted, strict=False)
        if _told(got) != _told(want)
    ]
    return found + _unlike(read[-1].get("response") or {}, wanted[-1].get("response") or {})


def _told(event: Json) -> Json:
    return {name: value for name, value in event.items() if name != "response"}


def _unlike(got: Json, want: Json) -> list[str]:
    return [f"{name}: {got.get(name)} instead of {want.get(name)}" for name in SAID if got.get(name) != want.get(name)]


def main() -> int:
    """Print a row for each difference, and what was played of each wire."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.stderr.write("usage: python -m scripts.fleet_conformance FOLDER\n")
        return 2
    logs.configure("error")
    found = cases(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory(prefix="foldline-server-") as data:
        server = EmbeddedServer(Path(data))
        url = os.environ.get("FOLDLINE_REDIS_URL") or server.start().url
        try:
            results = asyncio.run(run(url, found))
        finally:
            server.stop()
    screen = Console(width=200, soft_wrap=True)
    for result in results:
        for difference in result.differences:
            screen.print(f"{result.case.file}: {difference[:1000]}", markup=False)
    screen.print(_table(results))
    files = {result.case.file.partition("#")[0] for result in results}
    wrong = sum(bool(result.differences) for result in results)
    sys.stdout.write(f"turns {len(results)} of {len(files)} files, differences {wrong}\n")
    return 0 if results and not wrong else 1


def _table(results: list[Result]) -> Table:
    table = Table("wire", "turns", "events", "completed", "incomplete", "failed", "accumulated by the SDK", box=None)
    for wire in sorted({result.case.wire for result in results}):
        of_it = [result for result in results if result.case.wire == wire]
        ends = Counter(result.ended.removeprefix("response.") for result in of_it)
        numbers = [
            len(of_it),
            sum(one.events for one in of_it),
            *(ends[end] for end in ("completed", "incomplete", "failed")),
        ]
        table.add_row(wire, *map(str, [*numbers, sum(one.accumulated for one in of_it)]))
    return table


if __name__ == "__main__":
    sys.exit(main())
