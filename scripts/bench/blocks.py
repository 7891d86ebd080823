"""How fast text becomes blocks, and blocks become messages.

    python -m scripts.bench.blocks            # a table
    python -m scripts.bench.blocks --json     # one JSON object a line

Assembly: characters per second of plain text in deltas of several sizes; at least 20 million are expected. Projection: its rate beside that
of `MarkdownIt.parse` alone on the same text; at least half is expected. Both are measured on a text and on one eight times as long: the
ratio of the times per character is near 1 where the work is linear. Times are of the CPU, the best of a few; what is compared is measured in turns.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial

import msgspec
from markdown_it import MarkdownIt

from pipeline.assemble import Assembler
from pipeline.output import Block
from pipeline.project.registry import profile_of, project
from pipeline.settings import StreamSettings

ASSEMBLED = 20_000_000  # characters per second
PROJECTED = 0.5  # of the parser's own rate
LONGER = 8
NOT_LINEAR = 1.6
CHATS = ("discord", "slack", "telegram", "matrix")
PARAGRAPH = "The quick brown fox jumps over the lazy dog, and goes on to the next of its many tasks. " * 8 + "\n\n"
MARKDOWN = (
    "## A heading\n\nText with **bold**, *emphasis*, `code`, a [link](https://example.com/a) and 2 < 3 & more.\n\n"
    "- first item\n- second item\n  - nested item\n\n> quoted text\n> on two lines\n\n"
    "```py\ndef add(left: int, right: int) -> int:\n    return left + right\n```\n\n"
    "| name | value |\n|---|---:|\n| one | 1 |\n| two | 22 |\n\n" + PARAGRAPH
)
UNCLOSED = "*a **b ~~c _d [e \\(f \\[g $h "  # marks that are opened and never closed


def best(*works: Callable[[], object], times: int = 5) -> list[float]:
    """Return the least CPU time of a few runs of each, in seconds; they take turns, so that a slow moment meets all of them."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(times):
        for work, times_taken in zip(works, taken, strict=True):
            start = time.process_time()
            work()
            times_taken.append(time.process_time() - start)
    return [max(min(times_taken), 1e-9) for times_taken in taken]


def assembling(text: str, size: int) -> Callable[[], object]:
    """Return what makes blocks of a text in deltas of a size."""
    deltas = [text[at : at + size] for at in range(0, len(text), size)]

    def run() -> None:
        assembler = Assembler(StreamSettings())
        push = assembler.push
        for delta in deltas:
            push(delta)
        assembler.flush(final=True)

    return run


def projecting(text: str, channel: str) -> Callable[[], object]:
    """Return what makes a channel's messages of one block."""
    block, profile = Block(0, text), profile_of(channel)
    return lambda: project(block, profile)


def measured() -> list[dict[str, object]]:
    """Run everything; one row a measurement."""
    rows: list[dict[str, object]] = []
    short = PARAGRAPH * 700
    for size in (4, 16, 64, len(short)):
        once, longer = best(assembling(short, size), assembling(short * LONGER, size))
        rate = len(short) / once
        rows.append(
            {
                "what": "assemble",
                "case": "one delta" if size == len(short) else f"deltas of {size}",
                "chars_per_s": round(rate),
                "expected": ASSEMBLED,
                "ratio": round(rate / ASSEMBLED, 2),
                "linear": round(longer / (once * LONGER), 2),
            }
        )
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for case, text in (("plain", PARAGRAPH * 60), ("mixed", MARKDOWN * 40), ("unclosed", UNCLOSED * 400)):
        parses = partial(parser.parse, text)
        for channel in CHATS:
            parse, once, longer = best(parses, projecting(text, channel), projecting(text * LONGER, channel))
            rows.append(
                {
                    "what": f"project {channel}",
                    "case": case,
                    "chars_per_s": round(len(text) / once),
                    "expected": round(PROJECTED * len(text) / parse),
                    "ratio": round(parse / once / PROJECTED, 2),
                    "linear": round(longer / (once * LONGER), 2),
                }
            )
    return rows


def main() -> None:
    """Print the rows; exit code 1 when one is not linear, or below what is expected in deltas of 16 and more."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--json", action="store_true", help="one JSON object a line")
    as_json = options.parse_args().json
    rows = measured()
    if not as_json:
        print(f"{'':20} {'':12} {'chars/s':>12} {'expected':>12} {'ratio':>6} {'linear':>6}")
    for row in rows:
        if as_json:
            sys.stdout.write(msgspec.json.encode(row).decode() + "\n")
        else:
            print(
                f"{row['what']!s:20} {row['case']!s:12} {row['chars_per_s']:>12,} {row['expected']:>12,} "
                f"{row['ratio']:>6} {row['linear']:>6}"
            )
    slow = [row for row in rows if float(str(row["ratio"])) < 1 and row["case"] != "deltas of 4"]
    bent = [row for row in rows if float(str(row["linear"])) > NOT_LINEAR]
    sys.exit(1 if slow or bent else 0)


if __name__ == "__main__":
    main()
