"""Measure where the core should run: in the event loop itself, in a thread beside it, or in another process.

    python -m scripts.bench.boundary [--turns 1 8 64] [--events 20000] [--rate 25] [--seconds 4] [--runs 3] [--json]

Bytes in, frames out, by the adapter and the turn of the fleet. The thread and the process are one each, however many turns there are,
as the core of one worker would have it; a turn hands over its next piece when it has the frames of the last.

Throughput: so many events in all, in pieces of 8 KiB, as fast as they are taken; also what an event costs in CPU time, both sides
counted. Latency: each turn gets `--rate` events a second, one in a piece, the turns out of step; from the moment that an event is
due to the moment that the loop has its frames. The three run alternately; medians over the runs.
"""

import argparse
import asyncio
import json
import multiprocessing
import socket
import statistics
import struct
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from pipeline.normalize.registry import WIRES, Adapter
from pipeline.normalize.stamp import Stamp
from pipeline.turn import Turn
from scripts.bench.streams import pieces_of, synthetic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Feed = Callable[[int, bytes], Awaitable[bytes]]
HEAD = struct.Struct(">II")
"""Before what crosses the boundary of the process: the turn, and how many bytes."""
CPU = 0xFFFFFFFF
"""In place of a turn: how much CPU time the process took."""
PIECE_BYTES = 8192


class Core:
    """The turns of one worker."""

    def __init__(self) -> None:
        self._turns: dict[int, tuple[Adapter, Turn]] = {}

    def feed(self, turn: int, piece: bytes) -> bytes:
        """Take bytes of a turn; give its new frames."""
        if turn == CPU:
            return str(time.process_time()).encode()
        if turn not in self._turns:
            self._turns[turn] = (WIRES["responses"](stamp=Stamp()), Turn(f"0-{turn:024x}"))
        adapter, machine = self._turns[turn]
        events = adapter.feed(piece)
        return b"\n".join(frame.data for event in events for frame in machine.push(event).frames)


@asynccontextmanager
async def inline() -> "AsyncIterator[Feed]":
    """The core in the event loop."""
    core = Core()

    async def feed(turn: int, piece: bytes) -> bytes:
        frames = core.feed(turn, piece)
        await asyncio.sleep(0)  # other turns have their turn, as after any read of a socket
        return frames

    yield feed


@asynccontextmanager
async def thread() -> "AsyncIterator[Feed]":
    """The core in a thread."""
    core, loop = Core(), asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as pool:

        async def feed(turn: int, piece: bytes) -> bytes:
            return await loop.run_in_executor(pool, core.feed, turn, piece)

        yield feed


@asynccontextmanager
async def process() -> "AsyncIterator[Feed]":
    """The core in another process, behind a socket."""
    ours, theirs = socket.socketpair()
    child = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    child.start()
    theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 24)
    waiting: dict[int, asyncio.Future[bytes]] = {}

    async def receive() -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                turn, size = HEAD.unpack(await reader.readexactly(HEAD.size))
                waiting.pop(turn).set_result(await reader.readexactly(size))

    async def feed(turn: int, piece: bytes) -> bytes:
        future = waiting[turn] = asyncio.get_running_loop().create_future()
        writer.write(HEAD.pack(turn, len(piece)) + piece)
        await writer.drain()
        frames: bytes = await future
        return frames

    task = asyncio.create_task(receive())
    await feed(0, b"\n")  # until it is there
    try:
        yield feed
    finally:
        writer.close()
        await task
        child.join()


def serve(sock: socket.socket) -> None:
    """Be that process."""
    core = Core()
    with sock, sock.makefile("rwb") as stream:
        while head := stream.read(HEAD.size):
            turn, size = HEAD.unpack(head)
            frames = core.feed(turn, stream.read(size))
            stream.write(HEAD.pack(turn, len(frames)) + frames)
            stream.flush()


PLACES = {"inline": inline, "thread": thread, "process": process}


async def throughput(place: str, turns: int, events: int) -> dict[str, float]:
    """Events per second of so many turns at once, and the CPU time of one event."""
    body = synthetic("responses", events // turns)

    async def run(feed: Feed, turn: int) -> None:
        for piece in pieces_of(body, PIECE_BYTES):
            await feed(turn, piece)

    async def cpu_s(feed: Feed) -> float:
        return time.process_time() + (float(await feed(CPU, b"")) if place == "process" else 0)

    async with PLACES[place]() as feed:
        before, began = await cpu_s(feed), time.perf_counter()
        await asyncio.gather(*(run(feed, turn) for turn in range(turns)))
        took = time.perf_counter() - began
        cpu = await cpu_s(feed) - before
    return {"events_per_s": events / took, "cpu_us": cpu / events * 1e6}


async def latency(place: str, turns: int, rate: float, seconds: float) -> dict[str, float]:
    """The median and the 99th percentile of how long an event takes, in milliseconds, when events come at their own pace."""
    body = synthetic("responses", max(2, round(rate * seconds)))
    events = [event + b"\n\n" for event in body.split(b"\n\n") if event]
    taken: list[float] = []

    async def run(feed: Feed, turn: int, start: float) -> None:
        for number, event in enumerate(events):
            due = start + (number + turn / turns) / rate
            await asyncio.sleep(due - time.perf_counter())
            await feed(turn, event)
            taken.append(time.perf_counter() - due)

    async with PLACES[place]() as feed:
        start = time.perf_counter() + 0.1
        await asyncio.gather(*(run(feed, turn, start) for turn in range(turns)))
    cuts = statistics.quantiles(taken, n=100)
    return {"p50_ms": cuts[49] * 1e3, "p99_ms": cuts[98] * 1e3}


def measure(turns: int, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """All three with so many turns at once."""
    for place in PLACES:  # what is made once, before anything is measured
        asyncio.run(throughput(place, turns, 10 * turns))
    found: dict[str, list[dict[str, float]]] = {place: [] for place in PLACES}
    for _ in range(options.runs):
        for place, runs in found.items():
            speed = asyncio.run(throughput(place, turns, options.events))
            runs.append(speed | asyncio.run(latency(place, turns, options.rate, options.seconds)))
    return {
        place: {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}
        for place, runs in found.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="boundary", description="the core inline, in a thread, in a process")
    parser.add_argument("--turns", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=25, help="events a second of each turn, for the latency")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = {str(turns): measure(turns, options) for turns in options.turns}
    if options.json:
        print(json.dumps(result))
        return
    print(f"{'turns':>5}  {'where':<8} {'events/s':>10} {'CPU us/event':>13} {'p50 ms':>8} {'p99 ms':>8}")
    for turns, places in result.items():
        for place, one in places.items():
            numbers = (
                f"{one['events_per_s']:>10,.0f} {one['cpu_us']:>13.1f} {one['p50_ms']:>8.2f} {one['p99_ms']:>8.2f}"
            )
            print(f"{turns:>5}  {place:<8} {numbers}")


if __name__ == "__main__":
    main()
