"""Makes the logs of a run in which nothing went wrong, by hand, for planting faults into them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.chaos_check.account import Account, judge
from scripts.chaos_check.reading import read

TEXTS = {"k0": ["ha ", "ha ", "ha"], "k1": ["one, ", "two"], "k2": ["ha ", "ha ", "ha"]}
SESSIONS = {"k0": "s0", "k1": "s1", "k2": "s0"}
TARGETS = ("idempotent", "reconcilable", "bare")

Change = Callable[[list[dict[str, Any]]], None]


def events_of(key: str) -> list[list[Any]]:
    """What the upstream says in a turn."""
    deltas = [["response.output_text.delta", delta] for delta in TEXTS[key]]
    return [["response.created", None], *deltas, ["response.completed", None]]


def sse_of(key: str, start: int = 0, stop: int | None = None) -> str:
    """A turn's frames as a client gets them."""
    frames = []
    for number, (kind, delta) in list(enumerate(events_of(key)))[start:stop]:
        data = {"type": kind, "sequence_number": number, **({"delta": delta} if delta else {})}
        frames.append(f"id: {number}-cafe0000\nevent: {kind}\ndata: {json.dumps(data)}\n\n")
    return ": foldline\n\n" + "".join(frames)


def write_run(folder: Path) -> None:
    """Write every log: each text delta is a block, each block goes to each target, each client connects twice."""
    write(folder / "script.jsonl", [{"key": key, "events": events_of(key), "whole": True} for key in TEXTS])
    clients: list[dict[str, Any]] = []
    for key, session in SESSIONS.items():
        turn = f"1-{key}"
        clients += [{"key": key, "session": session}, {"key": key, "turn": turn}]
        reading = {"key": key, "turn": turn, "again": False}
        clients += [{**reading, "after": "", "sse": sse_of(key, 0, 2)}, {**reading, "sse": sse_of(key, 2)}]
    clients.append({"key": "k0", "turn": "1-k0", "again": True, "sse": sse_of("k0")})
    write(folder / "clients.jsonl", clients)
    ledger: list[dict[str, Any]] = []
    for target in TARGETS:
        log: list[dict[str, Any]] = []
        for key, texts in TEXTS.items():
            for block, text in enumerate(texts):
                number, ident = len(log), f"msg_1-{key}.{block}.{target}.0"
                body = {"turn": f"1-{key}", "block": block, "text": text, "separator": ""}
                log += [{"request": number, "id": ident, "body": json.dumps(body)}, {"taken": number, "id": ident}]
                ledger.append({"turn": f"1-{key}", "id": ident, "target": target, "state": "sent"})
        write(folder / f"receiver-{target}.jsonl", log)
    write(folder / "ledger.jsonl", ledger)


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    """Write a log."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def plant(folder: Path, name: str, change: Change) -> None:
    """Change the lines of one log."""
    path = folder / name
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    change(lines)
    write(path, lines)


def judged(folder: Path) -> Account:
    """The account of a folder."""
    return judge(read(folder))


def faults(folder: Path) -> tuple[int, int, int]:
    """How much is lost, duplicated, misordered."""
    account = judged(folder)
    return account.lost, account.duplicated, account.misordered
