"""Run the attack and print one line about it.

    python -m scripts.chaos --turns 2000 --seed 7 --json

Exit code 0 only if nothing was lost, nothing came twice, nothing came out of order, and nothing is owed any more.
"""

import argparse
import asyncio
import json
import logging
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from ledger.keys import Keyspace
from scripts.chaos.chats import Chats
from scripts.chaos.clients import Clients
from scripts.chaos.crew import ROOT, Crew
from scripts.chaos.hunter import Hunter
from scripts.chaos.journal import Journal
from scripts.chaos.provider import Provider
from scripts.chaos.receivers import IDEMPOTENT, KINDS, RECONCILABLE, Receiver
from scripts.chaos.scripting import as_line, play_of
from scripts.chaos.settling import settle
from scripts.chaos.storage import Storage
from scripts.chaos.storm import Storm
from scripts.ports import free_port

PARTITIONS = 8
EACH = 2
"""Processes of every role."""
SEND_DEADLINE_MS = 1_500
TIMES = {
    "FOLDLINE_REDIS_BLOCK_MS": "200",
    "FOLDLINE_REDIS_SOCKET_TIMEOUT_MS": "1500",
    "FOLDLINE_INGEST_LEASE_MS": "1500",
    "FOLDLINE_INGEST_RENEW_MS": "300",
    "FOLDLINE_FOLD_LEASE_MS": "1500",
    "FOLDLINE_FOLD_RENEW_MS": "300",
    "FOLDLINE_DELIVERY_LEASE_MS": "2500",
    "FOLDLINE_DELIVERY_RENEW_MS": "300",
    "FOLDLINE_DELIVERY_SEND_DEADLINE_MS": str(SEND_DEADLINE_MS),
    "FOLDLINE_DELIVERY_MARGIN_MS": "200",
    "FOLDLINE_DELIVERY_UNKNOWN_HOLD_MS": "16000",
    "FOLDLINE_DELIVERY_BACKOFF_BASE_MS": "100",
    "FOLDLINE_DELIVERY_BACKOFF_MAX_MS": "500",
    "FOLDLINE_GATEWAY_KEEPALIVE_MS": "1000",
    "FOLDLINE_GATEWAY_POLL_MS": "500",
}
"""Leases a sixth to a third of the defaults, so that an hour's worth of take-overs fits into minutes; all inequalities hold.
A lane is held for longer than a quarantine, a freeze, a lease and a start together: else what can be asked about is asked too late."""


async def attack(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run everything; returns what was done to it."""
    chance = random.Random(options.seed)
    script = Journal(folder / "script.jsonl")
    for number in range(options.turns):
        script.write(**as_line(f"k{number}", play_of(options.seed, f"k{number}")))
    script.close()
    provider = Provider(folder / "upstream.jsonl", options.seed)
    receivers = {
        kind: Receiver(
            kind,
            folder / f"receiver-{kind}.jsonl",
            chance=random.Random(f"{options.seed}:{kind}"),
            deadline_s=SEND_DEADLINE_MS / 1000,
        )
        for kind in KINDS
    }
    await provider.start()
    for receiver in receivers.values():
        await receiver.start()
    storage = Storage(folder / "server", free_port())
    await storage.start()
    chats = Chats(options.seed, deadline_s=SEND_DEADLINE_MS / 1000) if options.chats else None
    if chats is not None:
        await chats.start()
    (folder / "foldline.toml").write_text(configuration(provider, receivers, chats))
    environ = {**TIMES, "FOLDLINE_CONFIG": str(folder / "foldline.toml"), **(chats.environ if chats else {})}
    crew = Crew(folder, storage.port, environ, random.Random(f"{options.seed}:crew"))
    logs = {name: Journal(folder / f"{name}.jsonl") for name in ("clients", "storm", "ledger", "chats")}
    clients = Clients(crew, logs["clients"], options.seed, options.turns, options.sessions)
    if chats is not None:
        clients.more_targets = chats.targets_of
    keys = Keyspace("fl", PARTITIONS)
    storm = Storm(crew, clients, storage, keys=keys, journal=logs["storm"], chance=chance)
    hunter = Hunter(
        crew, clients, storage, keys=keys, journal=logs["storm"], chance=random.Random(f"{options.seed}:hunt")
    )
    try:
        await crew.start(each=EACH)
        harms = [asyncio.create_task(harm.run()) for harm in ((storm, hunter) if options.hunt else (storm,))]
        await watched(clients.run(), clients, storm, options)
        await asyncio.gather(*harms)
        states = await settle(storage.url, keys, clients.known, logs["ledger"])
        if chats is not None:
            chats.write([f"k{number}" for number in range(options.turns)], logs["chats"])
    finally:
        await crew.stop()
        await provider.stop()
        for receiver in receivers.values():
            await receiver.stop()
        if chats is not None:
            await chats.stop()
        storage.kill()
        for log in logs.values():
            log.close()
    harm = {**storm.counts, "hunted": hunter.kills, "set_aside": set_aside(folder)}
    return {**harm, "unexpected_exits": crew.unexpected, "open": states["open"], "dead": states["dead"]}


async def watched(work: Any, clients: Clients, storm: Storm, options: argparse.Namespace) -> None:
    """Run the clients, and say every ten seconds how far they are."""
    task = asyncio.ensure_future(work)
    while not (await asyncio.wait({task}, timeout=10))[0]:
        print(f"{clients.ended} of {options.turns} turns ended; {dict(storm.counts)}", file=sys.stderr, flush=True)
    await task


def configuration(provider: Provider, receivers: dict[str, Receiver], chats: Chats | None) -> str:
    """The fleet's configuration file."""
    lines = ["[redis]", f"partitions = {PARTITIONS}", "[upstreams.chaos]", f'base_url = "{provider.base_url}"']
    lines += ["side_effects = false", "read_timeout_ms = 20000"]
    for kind, receiver in receivers.items():
        lines += [f"[targets.{kind}]", 'channel = "webhook"', f'url = "{receiver.url}"']
        if kind != IDEMPOTENT:
            lines.append("key_window_ms = 1")
        if kind == RECONCILABLE:
            lines.append(f'reconcile_url = "{receiver.find_url}"')
    lines += chats.configuration() if chats is not None else []
    return "\n".join(lines) + "\n"


def set_aside(folder: Path) -> int:
    """How many turns the fold says that it suspected of ending its processes, and ended."""
    lines = [line for log in folder.glob("fold-*.log") for line in log.read_bytes().splitlines()]
    return len({msgspec.json.decode(line)["turn"] for line in lines if b'"turn_quarantined"' in line})


def judge(folder: Path) -> dict[str, Any]:
    """Have the logs judged by a process that knows nothing of us."""
    told = subprocess.run(
        [sys.executable, "-m", "scripts.chaos_check", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if not told.stdout:
        raise RuntimeError(f"the checker failed: {told.stderr}")
    sys.stderr.write(told.stderr)
    verdict: dict[str, Any] = msgspec.json.decode(told.stdout)
    return verdict


def report(verdict: dict[str, Any], done: dict[str, Any], seconds: float, options: argparse.Namespace) -> int:
    """Print the line; returns the exit code."""
    line = {
        "turns": verdict["turns"],
        "kills": done.get("kills", 0),
        "kills_in_flight": done.get("kills_in_flight", 0),
        **{name: verdict[name] for name in ("failed", "lost", "duplicated", "misordered", "unknown")},
        **{name: done.get(name, 0) for name in ("freezes", "cuts", "stalls", "lost_replies", "terminations", "hunted")},
        "set_aside": done["set_aside"],
        **{name: done[name] for name in ("unexpected_exits", "open", "dead")},
        "repeats": verdict["repeats"],
        "seed": options.seed,
        "seconds": round(seconds),
    }
    print(json.dumps(line) if options.json else "\n".join(f"{name:>18} {value}" for name, value in line.items()))
    wrong = ("lost", "duplicated", "misordered", "open", "dead")
    return 1 if any(line[name] for name in wrong) or line["turns"] != options.turns else 0


def main() -> None:
    """Attack, judge, report."""
    parser = argparse.ArgumentParser(prog="python -m scripts.chaos", description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=32, help="clients at once")
    parser.add_argument("--chats", action="store_true", help="send to Discord, Slack, Telegram and Matrix besides")
    parser.add_argument(
        "--hunt", action="store_true", help="kill fold owners again and again as they take over, besides"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="leave the logs in this folder")
    options = parser.parse_args()
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # connections that break are what this is about
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="foldline-chaos-") as name:
        folder = (options.keep or Path(name)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            parser.error(f"{folder} is not empty: what an earlier run left would be taken for this one's")
        done = asyncio.run(attack(options, folder))
        verdict = judge(folder)
    sys.exit(report(verdict, done, time.monotonic() - began, options))


if __name__ == "__main__":
    main()
