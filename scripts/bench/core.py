"""Measure the core alone: bytes in, frames and blocks out, beside the official SDKs and beside bare JSON.

    python -m scripts.bench.core [--corpus DIR] [--wire NAME] [--deltas 100000] [--runs 5] [--json]

For each wire, two inputs: its recorded streams (of a corpus folder, else the project's golden ones) and one made-up turn of many text
deltas. In one process, alternately, each run: the core (`pipeline.turn.decode`), that wire's official SDK, and
the floor: the same bytes split on LF and decoded to dicts. Medians of CPU time, each work warm; an event is one that the floor
decodes.

`sdk_ratio` compares on the same bytes: of a recorded stream on which the SDK raises, both are given what comes before, and of the
made-up turn, whose rate is even, both a tenth. `floor_ratio` is over all bytes. Each is the worse of the inputs. `growth` is what
ten times the deltas cost, in times, for text and for a call's arguments; `memory_ratio` is what a turn holds, over twice its text plus
64 KiB. At the top stand those of the Responses wire, under `wires` those of each; `null` where a wire has no SDK to compare with.
"""

import argparse
import json
import statistics
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.events import BlockFinal
from pipeline.normalize.registry import WIRES
from pipeline.normalize.stamp import Stamp
from pipeline.turn import Turn, decode
from scripts.bench.readers import READERS
from scripts.bench.streams import STREAMED_CALLS, Input, floor, pieces_of, recorded, synthetic
from workers.runtime.process import settle_memory

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
MEASURED = ("responses", "chat", "messages", "gemini", "acp")


def core(wire: str) -> Callable[[bytes], int]:
    """The whole core, on a body of a wire."""
    return lambda body: len(decode(pieces_of(body), wire).frames)


def cpu_s(work: Callable[[bytes], int], bodies: list[bytes]) -> float:
    """CPU seconds of some work on some bodies, in a process that was at it before: the first of two times is not counted."""
    for body in bodies:
        work(body)
    began = time.process_time()
    for body in bodies:
        work(body)
    return time.process_time() - began


def growth(wire: str, item: str, deltas: int, runs: int) -> float:
    """How many times longer ten times the deltas take."""
    small, large = synthetic(wire, deltas // 10, item), synthetic(wire, deltas, item)
    return statistics.median(cpu_s(core(wire), [large]) / cpu_s(core(wire), [small]) for _ in range(runs))


def memory_ratio(wire: str, deltas: int) -> float:
    """What a turn holds before its end, over its allowance: twice its joined text plus 64 KiB."""
    adapter = WIRES[wire](stamp=Stamp(at=0, seq=1))
    events = [event for piece in pieces_of(synthetic(wire, deltas)) for event in adapter.feed(piece)] + adapter.close()
    cut = next(number for number, event in enumerate(events) if isinstance(event, BlockFinal))
    text = "".join(getattr(event, "text", "") for event in events[:cut])
    tracemalloc.start()
    try:
        turn = Turn("0-000000000000000000000000")
        before, _ = tracemalloc.get_traced_memory()
        for event in events[:cut]:
            turn.push(event)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return held / (2 * sys.getsizeof(text) + 64 * 1024)


def measure(wire: str, inputs: list[Input], runs: int) -> dict[str, float]:
    """Run the core, the floor and the SDK alternately; return the medians as events per second, and of both ratios."""
    bodies, sdk_bodies = [one.body for one in inputs], [one.sdk_body for one in inputs if one.sdk_body]
    events, sdk_events = sum(one.events for one in inputs), sum(one.sdk_events for one in inputs)
    rates: dict[str, list[float]] = {"core": [], "floor": [], "core_as_sdk": [], "sdk": []}
    for _ in range(runs):
        rates["core"].append(events / cpu_s(core(wire), bodies))
        rates["floor"].append(events / cpu_s(floor, bodies))
        if sdk_bodies:
            rates["core_as_sdk"].append(sdk_events / cpu_s(core(wire), sdk_bodies))
            rates["sdk"].append(sdk_events / cpu_s(READERS[wire], sdk_bodies))
    return {name: statistics.median(values) for name, values in rates.items() if values}


def measure_wire(wire: str, folder: Path, deltas: int, runs: int) -> dict[str, Any]:
    """Everything of one wire."""
    reader = READERS.get(wire)
    body, tenth = synthetic(wire, deltas), synthetic(wire, deltas // 10)
    made_up = Input(body, floor(body), tenth if reader else b"", floor(tenth) if reader else 0)
    inputs = {"recorded": recorded(folder, reader), "synthetic": [made_up]}
    settle_memory()  # as every worker does at its start; the SDKs, that are loaded here, are nobody's to walk either
    rates = {name: measure(wire, some, runs) for name, some in inputs.items()}
    items = ("text", "call") if wire in STREAMED_CALLS else ("text",)
    sdk_ratios = [some["core_as_sdk"] / some["sdk"] for some in rates.values() if "sdk" in some]
    return {
        "sdk_ratio": round(min(sdk_ratios), 2) if sdk_ratios else None,
        "floor_ratio": round(min(some["core"] / some["floor"] for some in rates.values()), 3),
        "growth": round(max(growth(wire, item, deltas, 3) for item in items), 2),
        "memory_ratio": round(memory_ratio(wire, deltas), 2),
        "inputs": {name: {which: round(rate) for which, rate in some.items()} for name, some in rates.items()},
    }


def report(wires: dict[str, Any]) -> None:
    """Print what was measured."""
    for wire, result in wires.items():
        for name, rates in result["inputs"].items():
            shown = "   ".join(f"{which} {rate:>9,}" for which, rate in rates.items())
            print(f"{wire:<10} {name:<10} events/s   {shown}")
        ratios = "   ".join(f"{name} {value}" for name, value in result.items() if name != "inputs")
        print(f"{wire:<10} {ratios}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="core", description="the core beside the official SDKs and bare JSON")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--wire", action="append", choices=MEASURED, help="these wires alone; all by default")
    parser.add_argument("--deltas", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = options.corpus or GOLDEN
    wires = {wire: measure_wire(wire, folder / wire, options.deltas, options.runs) for wire in options.wire or MEASURED}
    if not options.json:
        report(wires)
        return
    print(json.dumps({**wires.get("responses", {}), "wires": wires}))


if __name__ == "__main__":
    main()
