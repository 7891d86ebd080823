"""Tries stream after stream, in one process or several, and counts what became of them."""

import gc
import multiprocessing
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psutil

from scripts.fuzz.mutations import cut, spoiled, written
from scripts.fuzz.seeds import EVENTS, WIRE_NAMES, Piece, Seed, seeds
from scripts.fuzz.verdict import Tried, pushed, tried

HANG_SECONDS = 20  # of processor time, for one stream; the slowest take some hundredths
GROWTH_BLOCKS = 1500  # of memory, in the second half of a run: what libraries cache once, they have cached by then
GROWTH_FROM = 20_000  # streams; before that, caches are still being filled
SHOWN = 20


class Hang(BaseException):
    """One stream took longer than any may; no handler of the core is to catch it."""


@dataclass
class Tally:
    """What one process found."""

    streams: int = 0
    events: int = 0
    frames: int = 0
    accepted: int = 0
    slowest_ms: float = 0.0
    blocks: list[int] = field(default_factory=list)
    rss_mib: list[int] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    wires: Counter[str] = field(default_factory=Counter)
    faults: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Task:
    """What one process tries: every `step`-th stream from `first` on."""

    seed: int
    first: int
    streams: int
    step: int
    wires: tuple[str, ...]
    corpus: Path | None


def stream(seed: int, number: int, kept: Sequence[Seed]) -> tuple[str, list[Piece], list[bytes]]:
    """The stream of this number: its wire, its pieces, and its bytes as they are read."""
    rng = Random(f"{seed}:{number}")
    wire, pieces = spoiled(rng, kept)
    if wire == EVENTS:
        return wire, pieces, []
    chunks = cut(rng, written(rng, wire, pieces))
    if rng.random() < 0.03:  # an upstream that speaks another wire than was configured
        wire = rng.choice([name for name in WIRE_NAMES if name != EVENTS])
    return wire, pieces, chunks


def attempt(number: int, wire: str, pieces: Sequence[Piece], chunks: Sequence[bytes]) -> Tried:
    """Try one stream; an exception that is none of ours is a fault, and so is a hang."""
    try:
        with bounded():
            return pushed(pieces) if wire == EVENTS else tried(number, wire, chunks)
    except (Exception, Hang) as fault:  # noqa: BLE001  whatever is raised is what is looked for
        found = Tried()
        where = traceback.extract_tb(fault.__traceback__)[-1]
        found.faults.append(f"{type(fault).__name__} at {Path(where.filename).name}:{where.lineno}: {fault}")
        return found


@contextmanager
def bounded() -> Iterator[None]:
    """Raise `Hang` where the inside takes more processor time than a stream may."""

    def hang(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGVTALRM, hang)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def run(task: Task) -> Tally:
    """Try a process's share of the streams."""
    kept, tally = seeds(task.wires, task.corpus), Tally()
    numbers = range(task.first, task.streams, task.step)
    marks = {len(numbers) * tenth // 10 for tenth in range(2, 10)} | {len(numbers) - 1}
    for count, number in enumerate(numbers):
        wire, pieces, chunks = stream(task.seed, number, kept)
        started = time.process_time()
        found = attempt(number, wire, pieces, chunks)
        tally.slowest_ms = max(tally.slowest_ms, (time.process_time() - started) * 1000)
        tally.streams += 1
        tally.events += found.events
        tally.frames += found.frames
        tally.accepted += not found.refused
        tally.wires[wire] += 1
        if found.refused:
            tally.refused[found.refused if len(tally.refused) < 200 else "other"] += 1
        if found.faults and len(tally.faults) < SHOWN:
            tally.faults.append({"number": number, "wire": wire, "faults": found.faults[:3]})
            _say(task, f"{number} {wire}: {found.faults[0]}")
        if count in marks:
            gc.collect()
            tally.blocks.append(sys.getallocatedblocks())
            tally.rss_mib.append(psutil.Process().memory_info().rss >> 20)
            _say(
                task,
                f"process {task.first}: {count + 1} of {len(numbers)}, {tally.rss_mib[-1]} MiB, {tally.blocks[-1]} blocks",
            )
    return tally


def _say(task: Task, words: str) -> None:
    """Tell of a long run how it goes."""
    if task.streams >= GROWTH_FROM:
        print(words, file=sys.stderr, flush=True)


def result(tallies: Sequence[Tally], seconds: float) -> dict[str, Any]:
    """All that was found, as one object."""
    growth = max(tally.blocks[-1] - tally.blocks[len(tally.blocks) // 2] for tally in tallies)
    refused = sum((tally.refused for tally in tallies), Counter[str]())
    return {
        "streams": sum(tally.streams for tally in tallies),
        "seconds": round(seconds, 1),
        "events": sum(tally.events for tally in tallies),
        "frames": sum(tally.frames for tally in tallies),
        "wires": dict(sum((tally.wires for tally in tallies), Counter[str]()).most_common()),
        "strict_accepts": sum(tally.accepted for tally in tallies),
        "strict_refuses": dict(refused.most_common(40)),
        "slowest_ms": round(max(tally.slowest_ms for tally in tallies), 1),
        "rss_mib": [tally.rss_mib for tally in tallies],
        "growth_blocks": growth,
        "faults": [fault for tally in tallies for fault in tally.faults]
        + (
            [{"number": None, "wire": None, "faults": [f"memory grows by {growth} blocks"]}]
            if growth > GROWTH_BLOCKS and all(tally.streams >= GROWTH_FROM for tally in tallies)
            else []
        ),
    }


def fuzz(
    streams: int, seed: int, wires: Sequence[str] = WIRE_NAMES, *, processes: int = 1, corpus: Path | None = None
) -> dict[str, Any]:
    """Try so many streams and give what was found."""
    started = time.perf_counter()
    tasks = [Task(seed, first, streams, processes, tuple(wires), corpus) for first in range(processes)]
    if processes == 1:
        tallies = [run(tasks[0])]
    else:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            tallies = pool.map(run, tasks, chunksize=1)
    return result(tallies, time.perf_counter() - started)
