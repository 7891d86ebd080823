"""Measure the fleet: events per second from an upstream's socket to stored frames, through real processes.

    python -m scripts.bench.fleet [--turns 16] [--deltas 4000] [--runs 5] [--json]

One server (embedded, or FOLDLINE_REDIS_URL), one ingest and one fold process, an upstream that sends prepared bytes as fast as they
are read. The clock runs from the first submit until every turn's last frame is stored. Beside it, in the same run and on the same
server, alternately: as many pipelined XADDs of the mean event's size, which is what the log alone would cost if nothing were
checked, folded or stored. Medians over the runs; `xadd_ratio` is the fleet's rate over the floor's.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import redis

from ledger.commands import Scripts
from ledger.keys import Keyspace, make_turn_id
from ledger.log import read_positions
from ledger.turns import NewTurn, TurnLimits, read_turn, submit
from pipeline.codec import encode
from pipeline.events import FOLD_VERSION, TurnStarted
from scripts.responses_stream import Text, compose, sse
from workers.config import RedisConfig
from workers.embedded import EmbeddedServer
from workers.runtime import entropy
from workers.streams.connection import connect

PIPELINE = 100
PIECE_BYTES = 8192
PARTITIONS = 4
LIMITS = TurnLimits(queue_ms=600_000, turn_ms=3_600_000, silence_ms=600_000, tool_ms=600_000, bytes=1 << 30)


@dataclass(frozen=True)
class Sample:
    """One run: both rates in events per second."""

    fleet: float
    xadd: float


def answer(deltas: int) -> bytes:
    """Compose the body that the upstream sends: one message in so many short deltas."""
    words = ["word " if number % 12 else "line.\n\n" for number in range(deltas)]
    return b"".join(sse(event) for event in compose({"model": "bench"}, [Text(pieces=words)]))


def serve(pipe: Connection, body: bytes) -> None:
    """Run the upstream in a process of its own: any request gets the prepared body, in pieces."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((int(v) for n, _, v in _headers(head) if n == b"content-length"), 0)
            await reader.readexactly(length)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            for start in range(0, len(body), PIECE_BYTES):
                writer.write(body[start : start + PIECE_BYTES])
                await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def _headers(head: bytes) -> list[tuple[bytes, bytes, bytes]]:
    lines = head.lower().split(b"\r\n")
    return [(name, colon, value.strip()) for name, colon, value in (line.partition(b":") for line in lines)]


def start_roles(url: str, folder: Path, upstream_port: int) -> list[subprocess.Popen[bytes]]:
    """Start one ingest and one fold process."""
    (folder / "foldline.toml").write_text(
        f'[redis]\nurl = "{url}"\npartitions = {PARTITIONS}\nprefix = "flbench"\n'
        f'[upstreams.bench]\nbase_url = "http://127.0.0.1:{upstream_port}"\nside_effects = false\n'
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOLDLINE_")}
    environ = {**kept, "FOLDLINE_CONFIG": str(folder / "foldline.toml"), "PYTHONPATH": str(Path.cwd())}
    with (folder / "roles.log").open("ab") as log:
        return [
            subprocess.Popen(
                [sys.executable, "-m", "workers", role], env=environ, cwd=folder, stdout=log, stderr=subprocess.STDOUT
            )
            for role in ("ingest", "fold")
        ]


async def run_turns(url: str, turns: int, *, timeout_s: float = 300) -> tuple[float, int]:
    """Submit so many turns at once and wait for their last frames; return seconds and events."""
    keys = Keyspace("flbench", PARTITIONS)
    client = connect(RedisConfig(url=url, partitions=PARTITIONS), name="bench")
    scripts = Scripts(client)

    async def events() -> int:
        return sum([(await scripts.run(read_positions(keys, p))).folded for p in range(PARTITIONS)])

    try:
        before = await events()
        began = time.perf_counter()
        waiting = set()
        for number in range(turns):
            turn = make_turn_id(number % PARTITIONS, entropy.hex24())
            await scripts.run(submit(keys, new_turn(turn), tenant_limit=100_000, partition_limit=100_000))
            waiting.add(turn)
        while waiting:
            for turn in list(waiting):
                record = await scripts.run(read_turn(keys, turn))
                if record is not None and record.state.is_terminal:
                    if record.state != "completed":
                        raise RuntimeError(f"turn {turn} ended as {record.state}: {record.error}")
                    waiting.discard(turn)
            if time.perf_counter() - began > timeout_s:
                raise RuntimeError(f"{len(waiting)} turns did not end in {timeout_s} s")
            await asyncio.sleep(0.005)
        return time.perf_counter() - began, await events() - before
    finally:
        await client.aclose()


def new_turn(turn: str) -> NewTurn:
    """Build one submission."""
    started = TurnStarted(seq=0, at=1, fold=FOLD_VERSION, runtime="main", wire="responses", turn=turn, session=turn)
    return NewTurn(
        turn=turn,
        tenant="bench",
        runtime="main",
        session=turn,
        upstream="bench",
        request=msgspec.json.encode({"model": "bench", "input": "go"}).decode(),
        started=encode(started).decode(),
        targets="[]",
        limits=LIMITS,
    )


def run_xadds(url: str, count: int, size: int) -> float:
    """Add so many entries of this size in pipelines; return seconds."""
    client = redis.Redis.from_url(url)
    payload = "x" * size
    began = time.perf_counter()
    for start in range(0, count, PIPELINE):
        pipe = client.pipeline(transaction=False)
        for _ in range(min(PIPELINE, count - start)):
            pipe.xadd("flbench:floor", {"events": payload})
        pipe.execute()
    seconds = time.perf_counter() - began
    client.delete("flbench:floor")
    client.close()
    return seconds


async def measure(url: str, body: bytes, options: argparse.Namespace, folder: Path) -> list[Sample]:
    """Run the fleet and the floor in turn, after one run that does not count."""
    parent, child = multiprocessing.Pipe()
    upstream = multiprocessing.get_context("spawn").Process(target=serve, args=(child, body), daemon=True)
    upstream.start()
    roles = start_roles(url, folder, int(parent.recv()))
    samples: list[Sample] = []
    try:
        await run_turns(url, 2)
        for _ in range(options.runs):
            seconds, events = await run_turns(url, options.turns)
            size = len(body) // (options.deltas + 8)
            floor = await asyncio.to_thread(run_xadds, url, events, size)
            samples.append(Sample(fleet=events / seconds, xadd=events / floor))
    finally:
        for process in roles:
            process.terminate()
        for process in roles:
            process.wait(timeout=30)
        upstream.terminate()
    return samples


def report(samples: list[Sample], options: argparse.Namespace) -> None:
    """Print medians, and the ratio pair by pair."""
    result = {
        "events_per_s": round(statistics.median(s.fleet for s in samples)),
        "xadd_per_s": round(statistics.median(s.xadd for s in samples)),
        "xadd_ratio": round(statistics.median(s.fleet / s.xadd for s in samples), 4),
        "runs": len(samples),
        "turns": options.turns,
        "deltas": options.deltas,
    }
    if options.json:
        print(json.dumps(result))
        return
    print(f"{options.turns} turns of {options.deltas} deltas at once, median of {len(samples)} runs after a warm-up")
    print(f"  fleet (upstream socket to stored frames)   {result['events_per_s']:>9,} events/s")
    print(f"  floor (XADD, pipelines of {PIPELINE}, same size)    {result['xadd_per_s']:>9,} events/s")
    print(f"  ratio                                      {result['xadd_ratio']:>9}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="fleet", description="events per second through the whole fleet")
    parser.add_argument("--turns", type=int, default=16)
    parser.add_argument("--deltas", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="foldline-bench-") as name:
        folder = Path(name)
        url = os.environ.get("FOLDLINE_REDIS_URL")
        server = None if url else EmbeddedServer(folder / "data")
        try:
            address = url or (server.start().url if server else "")
            samples = asyncio.run(measure(address, answer(options.deltas), options, folder))
        finally:
            if server is not None:
                server.stop()
    report(samples, options)


if __name__ == "__main__":
    main()
