"""The demonstration behind `scripts/run`: one turn to watch, through the death of the worker that folds it.

    scripts/run            # shows it, then stays up with a text of what to try next, until Ctrl-C
    scripts/run --once     # shows it, prints a summary; exit code 0 only if nothing differs

Everything is real: an embedded server with its data in `.foldline`, the Procfile's roles as processes, a sample upstream that needs no
provider, a webhook receiver, a client of the gateway. Nothing stays running afterwards.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import aiohttp

from ledger import ownership
from ledger.errors import LedgerError
from ledger.records import OwnerRecord
from scripts.show import spectator, verdict
from scripts.show.screen import BOLD, DIM, GREEN, RED, YELLOW, Screen
from scripts.show.spectator import Received
from scripts.show.stage import SETTINGS, Stage
from workers.commands.session import open_ledger
from workers.config import ConfigError
from workers.embedded import EmbeddedServerError

FOLDER = Path(".foldline/demo")
KILL_AT = 0.4  # of the answer's characters: enough is out, enough is to come
DELAY_MS = 60  # between words: a pace at which a person reads, and slow enough to outlast a lease
TURN_S = 180.0  # the whole turn, with a take-over in the middle
REQUEST = {"model": "sample-1", "input": "Why does a stream of words survive its workers?", "stream": True}

NEXT = """\
Everything stays up until Ctrl-C. Some things to try from another terminal, in this folder:

  A page that shows a turn live      {url}/
  Read that turn again, from 10      curl -N '{url}/v1/responses/resp_{turn}?stream=true&starting_after=10'
  A new one, as OpenAI's API         curl -N {url}/v1/responses -H 'Content-Type: application/json' \\
                                       -d '{{"model": "sample-1", "input": "Hello", "stream": true}}'
  The SDK                            OpenAI(base_url="{url}/v1", api_key="none").responses.create(
                                       model="sample-1", input="Hello", stream=True)
  Kill whomever you like             kill -9 PID, with {pids}
  The turn, in plain Redis           redis-cli -u {redis} HGETALL 'fl:{{{partition}}}:turn:{turn}'
  Who owns its partition             redis-cli -u {redis} HGETALL 'fl:{{{partition}}}:owner:fold'
  Its public stream                  redis-cli -u {redis} XRANGE 'fl:{{{partition}}}:frames:{turn}' - + COUNT 1
  The same, for people               .venv/bin/foldline turns; .venv/bin/foldline ledger list --turn {turn}
  What the processes say             tail -f {log}
"""


async def show(*, once: bool) -> int:
    """Run the demonstration; returns the exit code."""
    screen = Screen()
    screen.say("foldline: starting a server, the roles, a sample upstream and a webhook receiver …", DIM)
    async with Stage(FOLDER, delay_ms=DELAY_MS, say=lambda text: screen.say(f"      ╰─ {text}", DIM, YELLOW)) as stage:
        console = asyncio.create_task(spectator.watch_console(stage.console, screen))
        try:
            lines, turn = await _one_turn(stage, screen)
            await asyncio.sleep(spectator.LOOK_S * 2)  # the last console line is shown before the summary
        finally:
            console.cancel()
            await asyncio.gather(console, return_exceptions=True)
        _summary(screen, lines)
        if not once:
            _invite(screen, stage, turn)
            await stage.ended()
    return 0 if all(line.holds for line in lines) else 1


async def _one_turn(stage: Stage, screen: Screen) -> tuple[list[verdict.Line], str]:
    script = await verdict.scripted_text(stage.upstream_url, REQUEST)
    turn = await _submit(stage)
    screen.say(f"turn {turn}; its text as a client of the gateway reads it:\n", BOLD)
    received = Received()
    killed = await _watch(stage, turn, received, script, screen)
    async with open_ledger(stage.config) as ledger:
        lines = await verdict.judge(
            ledger,
            turn,
            received=received,
            script=script,
            console=stage.console,
            hook_log=stage.hook_log,
            killed=killed,
        )
    return lines, turn


async def _submit(stage: Stage) -> str:
    body: dict[str, Any] = {"request": REQUEST, "targets": ["console", "hook"], "settings": SETTINGS}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{stage.gateway_url}/v1/turns", json=body) as answer,
    ):
        told = await answer.json()
        if answer.status >= 300:
            raise RuntimeError(f"the gateway answered {answer.status}: {told}")
        return str(told["id"])


async def _watch(stage: Stage, turn: str, received: Received, script: str, screen: Screen) -> int:
    """Read the turn to its end, and kill the worker that folds it on the way. Returns how many were killed."""
    half_way = asyncio.Event()

    def on_frame() -> None:
        if len(received.text) >= len(script) * KILL_AT:
            half_way.set()

    url = f"{stage.gateway_url}/v1/turns/{turn}/events"
    reading = asyncio.create_task(spectator.read_turn(url, received, screen, on_frame))
    killing = asyncio.create_task(_kill_owner(stage, turn, half_way, received, screen))
    try:
        async with asyncio.timeout(TURN_S):
            await asyncio.shield(reading)
    except TimeoutError:
        screen.say(f"the turn did not end within {TURN_S:.0f} s", RED)
    reading.cancel()
    if not half_way.is_set():
        killing.cancel()
    _, killed = await asyncio.gather(reading, killing, return_exceptions=True)
    return killed if isinstance(killed, int) else 0


async def _kill_owner(stage: Stage, turn: str, half_way: asyncio.Event, received: Received, screen: Screen) -> int:
    await half_way.wait()
    async with open_ledger(stage.config) as ledger:
        partition = ledger.keys.partition_of_turn(turn)
        owner = await ledger.scripts.run(ownership.read_owner(ledger.keys, role="fold", partition=partition))
        pid = process_of(owner)
        if received.is_over or pid not in stage.supervisor.pids().values():
            return 0
        os.kill(pid, signal.SIGKILL)
        screen.say(
            f"      ╰─ kill -9 {pid}: the worker that folds this turn (partition {partition}) is dead", BOLD, RED
        )
    await _tell_successor(stage, partition, owner, screen)
    return 1


async def _tell_successor(stage: Stage, partition: int, before: OwnerRecord, screen: Screen) -> None:
    async with open_ledger(stage.config) as ledger, asyncio.timeout(TURN_S):
        while True:
            owner = await ledger.scripts.run(ownership.read_owner(ledger.keys, role="fold", partition=partition))
            if owner.token != before.token:
                break
            await asyncio.sleep(spectator.LOOK_S)
    epochs = f"epoch {before.epoch} → {owner.epoch}"
    screen.say(f"      ╰─ process {process_of(owner)} has taken partition {partition} over ({epochs})", DIM, YELLOW)


def process_of(owner: OwnerRecord) -> int:
    """The process of an owner, whose name is role, host, process id and chance."""
    return int(owner.worker.rsplit("-", 2)[1])


def _summary(screen: Screen, lines: list[verdict.Line]) -> None:
    screen.say()
    width = max(len(line.what) for line in lines)
    for line in lines:
        mark = "ok" if line.holds else "NO"
        screen.say(f"  {mark}  {line.what:<{width}}  {line.value}", *(() if line.holds else (RED,)))
    differing = [line.what for line in lines if not line.holds]
    if differing:
        screen.say(f"\n{len(differing)} of {len(lines)} do not hold.", BOLD, RED)
    else:
        screen.say("\nNothing differs.", BOLD, GREEN)


def _invite(screen: Screen, stage: Stage, turn: str) -> None:
    pids = ", ".join(f"{name} {pid}" for name, pid in stage.supervisor.pids().items())
    screen.say()
    screen.say(
        NEXT.format(
            url=stage.gateway_url,
            turn=turn,
            redis=stage.config.redis.url,
            partition=turn.partition("-")[0],
            pids=pids,
            log=stage.fleet_log,
        )
    )


async def _interruptible(*, once: bool) -> int:
    """The same, ended in order by a signal, also where a shell started us with Ctrl-C ignored."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None  # we run in it
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(signum, task.cancel)
    return await show(once=once)


def main() -> None:
    """Show the demonstration."""
    parser = argparse.ArgumentParser(prog="scripts/run", description="foldline at work, to watch")
    parser.add_argument("--once", action="store_true", help="print a summary and stop; exit 0 only if nothing differs")
    options = parser.parse_args()
    try:
        code = asyncio.run(_interruptible(once=options.once))
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = 130
        with contextlib.suppress(OSError):
            print("\nstopped; nothing is left running")
    except TimeoutError:
        sys.exit(f"scripts/run: the fleet was not ready in time; its words are in {FOLDER / 'fleet.log'}")
    except (ConfigError, EmbeddedServerError, LedgerError, RuntimeError) as error:
        sys.exit(f"scripts/run: {error}")
    sys.exit(code)


if __name__ == "__main__":
    main()
