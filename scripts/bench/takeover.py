"""Measure how long a turn stands still when the fold worker that owns it is killed, or told to stop.

    python -m scripts.bench.takeover [--turns 500] [--runs 20] [--json]

Two fold processes share sixteen partitions of an embedded server (or FOLDLINE_REDIS_URL's), with leases as they are by default. Each
of the turns has 20 to 100 events in flight. One worker is killed (SIGKILL), and each of its turns gets one event more; the clock runs
from the kill until the frames of that event are told of, as a gateway hears it. Per run: the first turn to go on, the last one, and
the median turn. Then the same with SIGTERM, where the event comes as soon as the partition has been given up: before that the
worker that stops still serves it, so it is also told how long these events waited, which is what a turn stands still. A fresh process takes the place of the one that went before the next run.
"""

import argparse
import asyncio
import json
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

import msgspec

from ledger.commands import Scripts
from ledger.keys import Keyspace, make_turn_id
from ledger.log import INGEST, PublishStatus, publish, read_positions
from ledger.ownership import read_owner
from ledger.turns import Claimed, NewTurn, TurnLimits, claim_turn, submit, take_requests
from pipeline.codec import encode, encode_batch
from pipeline.events import FOLD_VERSION, Event, TextDelta, TurnStarted
from scripts.bench.stand import Stand
from workers.config import RedisConfig
from workers.runtime import entropy
from workers.streams.connection import AsyncClient, connect
from workers.streams.hints import listen

PARTITIONS: Final = 16
HOUR_MS: Final = 3_600_000
PATIENCE_MS: Final = 60_000
LIMITS = TurnLimits(queue_ms=HOUR_MS, turn_ms=10 * HOUR_MS, silence_ms=10 * HOUR_MS, tool_ms=HOUR_MS, bytes=1 << 30)
WORDS = ("Once ", "upon ", "a ", "time ", "there ", "was ", "a ", "stream, ", "and ", "it ", "went ", "on.\n\n")
Way = Literal["kill", "stop"]


@dataclass
class Carried:
    """A turn that this program carries: its claim, and how many events it has."""

    turn: str
    token: str
    events: int = 0


@dataclass
class Run:
    """One worker's end: for each of its turns the milliseconds until it went on."""

    waits: list[float]
    """From the signal."""
    stood: list[float]
    """From the turn's event."""

    @property
    def row(self) -> tuple[float, float, float]:
        """The first turn, the median turn, the last one."""
        return min(self.waits), statistics.median(self.waits), max(self.waits)

    @property
    def still(self) -> tuple[float, float]:
        """How long the median turn's event waited, and the one that waited longest."""
        return statistics.median(self.stood), max(self.stood)


@dataclass
class Hearing:
    """When each turn was told of last, on the clock of this process."""

    at: dict[str, float] = field(default_factory=dict)

    def hint(self, data: Any) -> None:
        """Take a hint."""
        self.at[msgspec.json.decode(data)["turn"]] = time.perf_counter()


class Bench:
    """The turns, and the client that carries and watches them."""

    def __init__(self, stand: Stand, client: AsyncClient) -> None:
        self.stand = stand
        self.client = client
        self.keys = Keyspace("fl", PARTITIONS)
        self.scripts = Scripts(client)
        self.turns: dict[int, list[Carried]] = {partition: [] for partition in range(PARTITIONS)}
        self.hearing = Hearing()
        self._chance = random.Random(7)

    async def begin(self, count: int, spare: int) -> None:
        """Submit the turns and publish their first events; `spare` events are left for what follows."""
        for first in range(0, count, PARTITIONS):
            await asyncio.gather(
                *(self._begin(number % PARTITIONS, spare) for number in range(first, min(first + PARTITIONS, count)))
            )

    async def _begin(self, partition: int, spare: int) -> None:
        carried = await self._claim(partition)
        self.turns[partition].append(carried)
        started = TurnStarted(
            seq=0, at=1, fold=FOLD_VERSION, runtime="main", wire="responses", turn=carried.turn, session=carried.turn
        )
        await self.say(carried, self._chance.randint(20, 100 - spare), started)

    async def _claim(self, partition: int) -> Carried:
        turn = make_turn_id(partition, entropy.hex24())
        new = NewTurn(
            turn=turn,
            tenant="bench",
            runtime="main",
            session=turn,
            upstream="bench",
            request="{}",
            started=encode(
                TurnStarted(seq=0, at=1, fold=1, runtime="main", wire="responses", turn=turn, session=turn)
            ).decode(),
            targets="[]",
            limits=LIMITS,
        )
        await self.scripts.run(submit(self.keys, new, tenant_limit=100_000, partition_limit=100_000))
        (entry,) = await self.scripts.run(
            take_requests(self.keys, partition, consumer="bench", count=1, min_idle_ms=None)
        )
        claim = claim_turn(
            self.keys, turn, entry=entry.id, worker="bench", nonce=entropy.nonce(), lease_ms=10 * HOUR_MS
        )
        claimed = await self.scripts.run(claim)
        assert isinstance(claimed, Claimed), f"{turn} was not claimed: {claimed}"
        return Carried(turn, claimed.token)

    async def say(self, carried: Carried, count: int, *before: Event) -> None:
        """Publish so many events of a turn, each by itself as a slow upstream sends them, and what comes before them."""
        first = carried.events
        events: list[Event] = [*before]
        events += [
            TextDelta(seq=seq, at=1, item=0, content=0, track="text", text=WORDS[seq % len(WORDS)])
            for seq in range(first + len(before), first + len(before) + count)
        ]
        for event in events:
            call = publish(
                self.keys,
                carried.turn,
                token=carried.token,
                producer=INGEST,
                first_seq=event.seq,
                events_json=encode_batch([event]),
                n=1,
            )
            reply = await self.scripts.run(call)
            if reply.status is not PublishStatus.OK:
                raise RuntimeError(f"{carried.turn}: {reply}")
        carried.events += len(events)

    async def owners(self) -> dict[int, tuple[int, str]]:
        """The process id and token of each partition's owner."""
        found = {}
        for partition in range(PARTITIONS):
            owner = await self.scripts.run(read_owner(self.keys, role="fold", partition=partition))
            found[partition] = (int(owner.worker.split("-")[-2]) if owner.token else 0, owner.token)
        return found

    async def settled(self, *processes: subprocess.Popen[bytes]) -> None:
        """Wait until these processes share the partitions and have folded everything."""
        deadline = time.perf_counter() + 120
        while time.perf_counter() < deadline:
            pids = [pid for pid, _ in (await self.owners()).values()]
            shares = [pids.count(process.pid) for process in processes]
            lags = [(await self.scripts.run(read_positions(self.keys, p))).lag for p in range(PARTITIONS)]
            if sum(shares) == PARTITIONS and max(shares) - min(shares) <= 1 and not any(lags):
                return
            await asyncio.sleep(0.1)
        raise RuntimeError(f"the partitions are not shared: {self.stand.said()}")

    async def end(self, process: subprocess.Popen[bytes], way: Way) -> Run:
        """End a worker and measure until the last of its turns has gone on."""
        before = await self.owners()
        mine = [partition for partition, (pid, _) in before.items() if pid == process.pid]
        turns = [carried.turn for partition in mine for carried in self.turns[partition]]
        self.hearing.at.clear()
        began = time.perf_counter()
        process.send_signal(signal.SIGKILL if way == "kill" else signal.SIGTERM)
        waiting, said = set(mine), dict[str, float]()
        while waiting:
            tokens = await self._tokens(waiting)
            over = {p for p in waiting if way == "kill" or tokens[p] != before[p][1]}
            waiting -= over
            said |= dict.fromkeys((carried.turn for p in over for carried in self.turns[p]), time.perf_counter())
            await self._go_on(over)
            await asyncio.sleep(0.002)
        while not self.hearing.at.keys() >= set(turns):
            if time.perf_counter() - began > 60:
                raise RuntimeError(f"turns stand still: {self.stand.said()}")
            await asyncio.sleep(0.02)
        self.stand.end(process)
        at = self.hearing.at
        return Run([1000 * (at[turn] - began) for turn in turns], [1000 * (at[turn] - said[turn]) for turn in turns])

    async def _tokens(self, partitions: Iterable[int]) -> dict[int, str]:
        """The tokens of some partitions' owners, by one round trip, since looking must not take the processor that is measured."""
        asked = list(partitions)
        pipe = cast("Any", self.client).pipeline(transaction=False)
        for partition in asked:
            pipe.hget(self.keys.owner("fold", partition), "token")
        return dict(zip(asked, await pipe.execute(), strict=True))

    async def _go_on(self, partitions: Iterable[int]) -> None:
        turns = [carried for partition in partitions for carried in self.turns[partition]]
        await asyncio.gather(*(self.say(carried, 1) for carried in turns))


async def measure(stand: Stand, options: argparse.Namespace) -> dict[Way, list[Run]]:
    """Kill so many workers, then stop as many."""
    client = connect(RedisConfig(url=stand.url, partitions=PARTITIONS, socket_timeout_ms=PATIENCE_MS), name="bench")
    found: dict[Way, list[Run]] = {way: [] for way in options.ways}
    try:
        for way, runs in found.items():
            workers = [stand.start("fold"), stand.start("fold")]
            bench = Bench(stand, client)
            await bench.begin(options.turns, options.runs)
            listening = asyncio.create_task(
                listen(
                    client,
                    [bench.keys.hint(partition) for partition in range(PARTITIONS)],
                    sharded=False,
                    on_confirmed=lambda _: None,
                    on_hint=bench.hearing.hint,
                )
            )
            for _ in range(options.runs):
                await bench.settled(*workers)
                runs.append(await bench.end(workers.pop(0), way))
                print(way, *(round(ms) for ms in (*runs[-1].row, *runs[-1].still)), file=sys.stderr, flush=True)
                workers.append(stand.start("fold"))
            listening.cancel()
            await asyncio.wait({listening})
            for worker in workers:
                stand.end(worker, signal.SIGKILL)
            await client.flushdb()
    finally:
        await client.aclose()
    return found


def report(found: dict[Way, list[Run]], options: argparse.Namespace) -> None:
    """Print medians and worst runs."""
    result: dict[str, Any] = {"turns": options.turns, "runs": options.runs, "partitions": PARTITIONS}
    for way, runs in found.items():
        for name, values in zip(("first", "middle", "last"), zip(*(run.row for run in runs), strict=True), strict=True):
            result[f"{way}_{name}_ms"] = {"median": round(statistics.median(values)), "worst": round(max(values))}
        for name, values in zip(("median", "longest"), zip(*(run.still for run in runs), strict=True), strict=True):
            result[f"{way}_{name}_stood_ms"] = {"median": round(statistics.median(values)), "worst": round(max(values))}
    if options.json:
        print(json.dumps(result))
        return
    print(
        f"{options.turns} turns of 20 to 100 events, {PARTITIONS} partitions, two fold workers, {options.runs} runs each"
    )
    for way in found:
        words = "kill -9" if way == "kill" else "SIGTERM"
        for name in ("first", "middle", "last"):
            row = result[f"{way}_{name}_ms"]
            print(
                f"  {words}: {name:>6} turn goes on after {row['median']:>6} ms (median), {row['worst']:>6} ms (worst)"
            )
        for name in ("median", "longest") if way == "stop" else ():
            row = result[f"{way}_{name}_stood_ms"]
            print(f"  {words}: {name:>7} stand-still {row['median']:>6} ms (median), {row['worst']:>6} ms (worst)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="takeover", description="how long turns stand still when their fold worker ends"
    )
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--ways", nargs="+", choices=["kill", "stop"], default=["kill", "stop"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with Stand({"redis": {"partitions": PARTITIONS}}) as stand:
        report(asyncio.run(measure(stand, options)), options)


if __name__ == "__main__":
    main()
