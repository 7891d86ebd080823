"""Measure the core alone: bytes in, frames and blocks out, beside the official SDK and beside bare JSON.

    python -m scripts.bench.core [--corpus DIR] [--deltas 100000] [--runs 5] [--json]

Inputs: recorded streams (a corpus folder's `responses/*.sse`, else the project's golden ones) and one synthetic turn of many text
deltas. In one process, alternately, each run: the core (`pipeline.turn.decode`), the openai SDK's accumulation of the same bytes
(where it does not raise; on a tenth of the synthetic turn, its rate is even), and the floor: the same bytes split on LF and decoded
to dicts. Medians of CPU time. `sdk_ratio` and `floor_ratio` are rates over all inputs; `growth` is what ten times the deltas cost, in
times; `memory_ratio` is what a turn holds, over twice its text plus 64 KiB.
"""

import argparse
import json
import statistics
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from openai import OpenAI, omit
from openai.lib.streaming.responses._responses import ResponseStreamState

from pipeline.normalize.registry import WIRES
from pipeline.normalize.stamp import Stamp
from pipeline.turn import Turn, decode
from scripts.responses_stream import FunctionCall, Item, Text, compose, sse

READ_BYTES = 64 * 1024
GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "responses"
WIRE = "responses"


@dataclass(frozen=True)
class Input:
    """One stream, how many events it has, and what of it the SDK is given."""

    name: str
    body: bytes
    events: int
    sdk_body: bytes
    sdk_events: int


def pieces(body: bytes) -> list[bytes]:
    """Cut a body as a socket gives it."""
    return [body[start : start + READ_BYTES] for start in range(0, len(body), READ_BYTES)]


def synthetic(deltas: int, item: str = "text") -> bytes:
    """Compose one turn of so many deltas."""
    if item == "text":
        made: Item = Text(pieces=["word " if number % 12 else "line.\n\n" for number in range(deltas)])
    else:
        made = FunctionCall(name="f", pieces=['{"a":"', *("word " for _ in range(deltas - 2)), '"}'])
    return b"".join(sse(event) for event in compose({"model": "bench"}, [made]))


def recorded(folder: Path) -> list[Input]:
    """Read the recorded streams of a folder; a stream that the SDK refuses counts for the core and the floor only."""
    inputs = []
    for path in sorted(folder.glob("*.sse")):
        body = path.read_bytes()
        events = floor(body)
        accepted = False
        with suppress(Exception):
            sdk(body)
            accepted = True
        inputs.append(Input(path.stem, body, events, body if accepted else b"", events if accepted else 0))
    return inputs


def core(body: bytes) -> int:
    """Run the whole core."""
    return len(decode(pieces(body), WIRE).frames)


def floor(body: bytes) -> int:
    """Split on LF and decode every data line to a dict: the least that any reader does."""
    read = msgspec.json.Decoder().decode
    count = 0
    for line in body.split(b"\n"):
        if line.startswith(b"data:") and line[5:6] in b" {" and b"[DONE]" not in line[:14]:
            with suppress(msgspec.DecodeError):
                read(line[5:])
                count += 1
    return count


def sdk(body: bytes) -> int:
    """Accumulate with the official SDK."""
    headers = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=body))
    client = OpenAI(api_key="none", base_url="http://127.0.0.1", http_client=httpx2.Client(transport=transport))
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    count = 0
    for event in client.responses.create(model="m", input="i", stream=True):
        state.handle_event(event)
        count += 1
    return count


def cpu_s(work: Callable[[bytes], int], bodies: Iterable[bytes]) -> float:
    """CPU seconds of some work on some bodies."""
    began = time.process_time()
    for body in bodies:
        work(body)
    return time.process_time() - began


def growth(item: str, deltas: int, runs: int) -> float:
    """How many times longer ten times the deltas take."""
    small, large = synthetic(deltas // 10, item), synthetic(deltas, item)
    return statistics.median(cpu_s(core, [large]) / cpu_s(core, [small]) for _ in range(runs))


def memory_ratio(deltas: int) -> float:
    """What a turn holds before its end, over its allowance: twice its joined text plus 64 KiB."""
    adapter = WIRES[WIRE](stamp=Stamp(at=0, seq=1))
    body = synthetic(deltas)
    events = [event for piece in pieces(body) for event in adapter.feed(piece)]
    cut = next(number for number, event in enumerate(events) if type(event).__name__ == "BlockFinal")
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


def measure(inputs: list[Input], runs: int) -> dict[str, float]:
    """Run the three alternately; return the medians as events per second."""
    rates: dict[str, list[float]] = {"core": [], "sdk": [], "floor": []}
    events, sdk_events = sum(i.events for i in inputs), sum(i.sdk_events for i in inputs)
    for _ in range(runs):
        rates["core"].append(events / cpu_s(core, [i.body for i in inputs]))
        rates["floor"].append(events / cpu_s(floor, [i.body for i in inputs]))
        rates["sdk"].append(sdk_events / cpu_s(sdk, [i.sdk_body for i in inputs if i.sdk_body]))
    return {name: statistics.median(values) for name, values in rates.items()}


def report(result: dict[str, Any], *, as_json: bool) -> None:
    """Print what was measured."""
    if as_json:
        print(json.dumps(result))
        return
    for name, rates in result["inputs"].items():
        shown = "   ".join(f"{which} {rate:>11,.0f}" for which, rate in rates.items())
        print(
            f"{name:<12} events/s   {shown}   core/sdk {rates['core'] / rates['sdk']:6.1f}   core/floor {rates['core'] / rates['floor']:.2f}"
        )
    print(f"sdk_ratio {result['sdk_ratio']}   floor_ratio {result['floor_ratio']} (the worse of the inputs)")
    print(f"growth: ten times the deltas take {result['growth']} times as long   memory_ratio {result['memory_ratio']}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="core", description="the core beside the official SDK and bare JSON")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--deltas", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = options.corpus / WIRE if options.corpus else GOLDEN
    body, sdk_body = synthetic(options.deltas), synthetic(options.deltas // 10)
    inputs = {
        "recorded": recorded(folder),
        "synthetic": [Input("synthetic", body, floor(body), sdk_body, floor(sdk_body))],
    }
    rates = {name: measure(some, options.runs) for name, some in inputs.items()}
    result = {
        "inputs": {name: {which: round(rate) for which, rate in some.items()} for name, some in rates.items()},
        "sdk_ratio": round(min(some["core"] / some["sdk"] for some in rates.values()), 2),
        "floor_ratio": round(min(some["core"] / some["floor"] for some in rates.values()), 3),
        "growth": round(max(growth(item, options.deltas, 3) for item in ("text", "call")), 2),
        "memory_ratio": round(memory_ratio(options.deltas), 2),
    }
    report(result, as_json=options.json)


if __name__ == "__main__":
    main()
