"""Fuzz the core: `python -m scripts.fuzz [--streams 1000000] [--seed 1] [--wire all] [--corpus DIR] [--processes 2] [--only N] [--json]`.

Every stream begins as a whole one of at most forty events, of the project's golden streams (and a corpus's, with `--corpus`), and is
then spoiled: pieces lost, repeated, swapped, moved, taken from another stream; members of another form; indexes and ids that
collide; bytes written over; the body cut anywhere. It goes through the core leniently and strictly, and must keep what
`verdict` holds it to; it must not raise anything but our own errors, take longer than a bound of processor time, or leave anything
behind: blocks of memory are counted after the first fifth and at the end.

A stream is made of the seed and its number alone: `--only N` tries that one again and prints it. Exit 1 where anything was found.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from scripts.fuzz.engine import attempt, fuzz, stream
from scripts.fuzz.seeds import EVENTS, LINED, WIRE_NAMES, Seed, seeds

Part = TypeVar("Part")


def show(seed: int, number: int, kept: Sequence[Seed]) -> int:
    """Try one stream again; print it, and then as few of its pieces as show the same fault."""
    wire, pieces, chunks = stream(seed, number, kept)
    found = attempt(number, wire, pieces, chunks)
    print(wire, *(found.faults or ["no fault"]), sep="\n  ")
    if wire == EVENTS:
        least = reduced(pieces, lambda some: attempt(number, wire, some, []).faults)
        print(*(f"{piece.name} {piece.data.decode()}" for piece in least), sep="\n")
        return 1 if found.faults else 0
    body = b"".join(chunks)
    print(repr(body))
    parts = re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)|(?<=\r\r)" if wire not in LINED else rb"(?<=\n)", body)
    for part in reduced(parts, lambda some: attempt(number, wire, [], [b"".join(some)]).faults):
        print(part.decode("utf-8", "backslashreplace").strip())
    return 1 if found.faults else 0


def reduced(parts: Sequence[Part], faults: Callable[[Sequence[Part]], Sequence[str]]) -> list[Part]:
    """Leave out whatever can be left out while the first fault, by its first words, is still found."""
    kept, wanted = list(parts), [fault[:20] for fault in faults(parts)[:1]]
    for at in reversed(range(len(kept))):
        fewer = [*kept[:at], *kept[at + 1 :]]
        if wanted and wanted == [fault[:20] for fault in faults(fewer)[:1]]:
            kept = fewer
    return kept


def main() -> int:
    """Run and print what was found."""
    parser = argparse.ArgumentParser(description="Fuzz the core with spoiled streams.")
    parser.add_argument("--streams", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wire", choices=["all", *WIRE_NAMES], default="all")
    parser.add_argument("--corpus", type=Path, help="a folder with one folder of streams for each wire")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, help="try the stream of this number alone, and print it")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    wires = WIRE_NAMES if given.wire == "all" else (given.wire,)
    if given.only is not None:
        return show(given.seed, given.only, seeds(wires, given.corpus))
    made = fuzz(given.streams, given.seed, wires, processes=given.processes, corpus=given.corpus)
    if given.json:
        print(json.dumps(made))
    else:
        for name, value in made.items():
            print(f"{name}: {value}" if name != "faults" else f"faults: {len(value)}")
        for fault in made["faults"]:
            print(fault["number"], fault["wire"], *fault["faults"], sep="\n  ")
    return 1 if made["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
