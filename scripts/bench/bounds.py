"""Sweep the bounds at which a producer waits, and show what each costs: `python -m scripts.bench.bounds [--runs 3] [--json]`.

Real processes: a server, one ingest, one fold, one gateway, an upstream. Each run carries at once, through the gateway: bursts (long
answers, written as fast as they are taken), paced answers (a word every 20 ms, each with the time at which it was written), and bursts
whose client reads 256 KiB a second. One bound is moved at a time; the others stand as they do by default:

    in-process   `ingest.turn_buffer_bytes`, and `ingest.buffer_bytes` eight times as large
    lag          `ingest.lag_high`, and `ingest.lag_low` half of it
    client       `gateway.client_queue_bytes`

Figures, medians over the runs: events folded a second while the bursts last; how long after its writing a paced word reached its client
(the middle one, and one in a hundred); the highest resident memory of each process; and how many turns the read time-out ended, which
here is three seconds: waiting for us must never look like an upstream that stalls.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Final

import aiohttp

from ledger.commands import Scripts
from ledger.keys import Keyspace
from ledger.log import read_positions
from ledger.turns import read_turn
from scripts.bench.stand import Stand, rss_kib
from scripts.responses_stream import Text, compose, sse
from workers.config import Config, RedisConfig
from workers.streams.connection import connect

KIB: Final = 1024
PARTITIONS: Final = 4
PACE_S: Final = 0.02
MARK: Final = "@"
PATIENCE_MS: Final = 60_000
READ_TIMEOUT_MS: Final = 3_000
SLOW_BYTES_PER_S: Final = 256 * KIB
DEFAULTS = Config()

SWEEPS: dict[str, tuple[int, ...]] = {
    "in-process": (64 * KIB, 256 * KIB, 512 * KIB, 2048 * KIB),
    "lag": (1_000, 5_000, 20_000, 80_000),
    "client": (64 * KIB, 256 * KIB, 1024 * KIB),
}


def settings(bound: str, value: int) -> dict[str, dict[str, Any]]:
    """The configuration in which one bound has this value."""
    ingest: dict[str, int] = {}
    gateway: dict[str, int] = {}
    match bound:
        case "in-process":
            ingest = {"turn_buffer_bytes": value, "buffer_bytes": 8 * value}
        case "lag":
            ingest = {"lag_high": value, "lag_low": value // 2}
        case _:
            gateway = {"client_queue_bytes": value}
    return {"redis": {"partitions": PARTITIONS}, "ingest": ingest, "gateway": gateway}


def default_of(bound: str) -> int:
    """What the bound is by default."""
    found: dict[str, int] = {
        "in-process": DEFAULTS.ingest.turn_buffer_bytes,
        "lag": DEFAULTS.ingest.lag_high,
        "client": DEFAULTS.gateway.client_queue_bytes,
    }
    return found[bound]


# the upstream


def serve(pipe: Connection, deltas: int) -> None:
    """Run the upstream in a process of its own: the model's name says how it speaks."""
    words = ["word " if number % 12 else "line.\n\n" for number in range(deltas)]
    burst = b"".join(sse(event) for event in compose({"model": "bench"}, [Text(pieces=words)]))

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            body = json.loads(await reader.readexactly(length))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            if body["model"] == "burst":
                for start in range(0, len(burst), 8192):
                    writer.write(burst[start : start + 8192])
                    await writer.drain()
            else:
                for event in compose({"model": "bench"}, [Text(pieces=["w"] * int(body["input"]))]):
                    if "delta" in event:
                        await asyncio.sleep(PACE_S)
                        event["delta"] = f"{MARK}{time.monotonic():.6f} "
                    writer.write(sse({name: value for name, value in event.items() if name != "text"}))
                    await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


# one run


@dataclass
class Seen:
    """What one run showed."""

    events_per_s: float = 0.0
    waits_ms: list[float] = field(default_factory=list)
    rss_mib: dict[str, float] = field(default_factory=dict)
    stalled: int = 0

    @property
    def row(self) -> dict[str, float]:
        """The run in figures."""
        ordered = sorted(self.waits_ms)
        return {
            "events_per_s": round(self.events_per_s),
            "p50_ms": round(ordered[len(ordered) // 2], 1),
            "p99_ms": round(ordered[len(ordered) * 99 // 100], 1),
            **{f"{role}_mib": round(value, 1) for role, value in self.rss_mib.items()},
            "timeouts": self.stalled,
        }


class Load:
    """The clients of one run."""

    def __init__(self, url: str, http: aiohttp.ClientSession, options: argparse.Namespace) -> None:
        self.url = url
        self.http = http
        self.options = options
        self.seen = Seen()
        self.turns: list[str] = []

    async def run(self) -> None:
        """Everything at once."""
        options = self.options
        await asyncio.gather(
            *(self._read("burst") for _ in range(options.bursts)),
            *(self._read("paced") for _ in range(options.paced)),
            *(self._read("burst", slow=True) for _ in range(options.slow)),
        )

    async def _read(self, model: str, *, slow: bool = False) -> None:
        request = {"model": model, "input": str(self.options.words)}
        body = {"upstream": "bench", "session": f"s{len(self.turns)}", "request": request}
        async with self.http.post(f"{self.url}/v1/turns", json=body) as answer:
            turn = str((await answer.json())["id"])
        self.turns.append(turn)
        async with self.http.get(f"{self.url}/v1/turns/{turn}/events") as answer:
            if slow:
                async for chunk in answer.content.iter_chunked(16 * KIB):
                    await asyncio.sleep(len(chunk) / SLOW_BYTES_PER_S)
            elif model == "paced":
                async for line in answer.content:
                    if line.startswith(b"data: ") and b'"delta":"@' in line:
                        written = float(json.loads(line[6:])["delta"][1:])
                        self.seen.waits_ms.append(1000 * (time.monotonic() - written))
            else:
                async for _ in answer.content.iter_any():
                    pass


async def one_run(stand: Stand, port: int, options: argparse.Namespace) -> Seen:
    """Start the roles, let everybody read, and take the figures."""
    roles = {role: stand.start(role) for role in ("ingest", "fold", "gateway")}
    client = connect(RedisConfig(url=stand.url, partitions=PARTITIONS, socket_timeout_ms=PATIENCE_MS), name="bench")
    scripts, keys = Scripts(client), Keyspace("fl", PARTITIONS)

    async def folded() -> int:
        return sum([(await scripts.run(read_positions(keys, partition))).folded for partition in range(PARTITIONS)])

    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as http:
            url = f"http://127.0.0.1:{port}"
            await _ready(http, url)
            load = Load(url, http, options)
            peaks = dict.fromkeys(roles, 0.0)
            total = (options.bursts + options.slow) * options.deltas
            began, lasted = time.monotonic(), 0.0
            running = asyncio.create_task(load.run())
            while not running.done():
                for role, process in roles.items():
                    peaks[role] = max(peaks[role], rss_kib(process.pid) / 1024)
                if not lasted and await folded() >= total:
                    lasted = time.monotonic() - began
                await asyncio.wait({running}, timeout=0.05)
            running.result()
            seen = load.seen
            seen.rss_mib = peaks
            seen.events_per_s = total / (lasted or time.monotonic() - began)
            for turn in load.turns:
                record = await scripts.run(read_turn(keys, turn))
                seen.stalled += record is not None and "upstream_stalled" in record.error
            return seen
    finally:
        for process in roles.values():
            stand.end(process)
        await client.flushdb()
        await client.aclose()


async def _ready(http: aiohttp.ClientSession, url: str) -> None:
    for _ in range(600):
        with suppress(aiohttp.ClientError):
            async with http.get(f"{url}/readyz") as answer:
                if answer.status == 200:
                    return
        await asyncio.sleep(0.05)
    raise RuntimeError("the gateway is not ready")


def sweep(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every bound at every value, a row each; the runs of one row after the other, so that a noisy minute spoils few of each."""
    parent, child = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    upstream = context.Process(target=serve, args=(child, options.deltas), daemon=True)
    upstream.start()
    base_url = f"http://127.0.0.1:{parent.recv()}"
    cases = [(bound, value) for bound in options.bounds for value in SWEEPS[bound]]
    found: dict[tuple[str, int], list[Seen]] = {case: [] for case in cases}
    try:
        for _ in range(options.runs):
            for case in cases:
                config = settings(*case)
                config["gateway"]["port"] = options.port
                config["upstreams"] = {"bench": {"base_url": base_url, "read_timeout_ms": READ_TIMEOUT_MS}}
                with Stand(config) as stand:
                    found[case].append(asyncio.run(one_run(stand, options.port, options)))
                print(*case, found[case][-1].row, file=sys.stderr, flush=True)
    finally:
        upstream.terminate()
    rows = []
    for (bound, value), runs in found.items():
        figures = [run.row for run in runs]
        medians = {name: round(statistics.median(row[name] for row in figures), 1) for name in figures[0]}
        rows.append({"bound": bound, "value": value, "default": value == default_of(bound), **medians})
    return rows


def report(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print the table."""
    if options.json:
        print(json.dumps({"runs": options.runs, "rows": rows}))
        return
    print(
        f"{options.bursts} bursts, {options.paced} paced, {options.slow} with a slow client; median of {options.runs} runs"
    )
    names = [name for name in rows[0] if name not in {"bound", "value", "default"}]
    print("| bound | value | " + " | ".join(names) + " |")
    print("|---|---|" + "---|" * len(names))
    for row in rows:
        value = f"{row['value']}{' (default)' if row['default'] else ''}"
        print(f"| {row['bound']} | {value} | " + " | ".join(f"{row[name]:g}" for name in names) + " |")


def main() -> None:
    """Sweep and print."""
    parser = argparse.ArgumentParser(prog="bounds", description="what the bounds cost at which producers wait")
    parser.add_argument("--bursts", type=int, default=8)
    parser.add_argument("--paced", type=int, default=8)
    parser.add_argument("--slow", type=int, default=4)
    parser.add_argument("--deltas", type=int, default=4000)
    parser.add_argument("--words", type=int, default=250)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--port", type=int, default=18_137)
    parser.add_argument("--bounds", nargs="+", choices=[*SWEEPS], default=[*SWEEPS])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report(sweep(options), options)


if __name__ == "__main__":
    main()
