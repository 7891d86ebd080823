"""Cutover under load: runtimes are switched to shadow and back while turns are submitted and processes die; each turn is sent by one path.

The other path is a bot as a team has one: it submits every turn, again until it is answered, and sends the answer itself if, and only if, it
was told `shadow`; then it tells what it sent, to a gateway or into the Redis stream. A third of its turns are external: it carries them itself as canonical events.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from ledger.commands import Call
from ledger.reports import reports_aside, reports_waiting
from ledger.shadow import set_mode
from pipeline.events import FOLD_VERSION, Event, TextDelta, TurnCompleted, TurnStarted
from pipeline.turn import Turn
from tests.support.fleet import Fleet, Worker
from tests.support.receivers import Receiver
from tests.support.servers import Server, free_port
from tests.support.stored import by_input, stored
from tests.support.upstream import Upstream, text
from tests.support.waiting import wait_until
from workers.client import Door, Producer, ProducerStaleError, TurnOverError
from workers.shadow.collection import collect

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TURNS = 90
BOTS = 6
SWITCH_EVERY = 10
KILL_EVERY = 9
SETTINGS = {"min_chars": 60, "max_chars": 60, "idle_ms": 5_000}
ROLES = ("ingest", "fold", "delivery", "gateway")


def answer_to(number: int) -> str:
    return "\n\n".join(f"Turn {number} says in paragraph {n} what nobody else says." for n in range(4))


def blocks_of(words: str) -> list[str]:
    """The messages that a path which cuts as foldline does would send."""
    turn = Turn("0-0")
    started = TurnStarted(
        seq=0,
        at=1,
        fold=FOLD_VERSION,
        runtime="main",
        wire="canonical",
        turn="0-0",
        session="s",
        settings=dict(SETTINGS),
    )
    delta = TextDelta(seq=1, at=1, item=0, content=0, track="text", text=words)
    events: list[Event] = [started, delta, TurnCompleted(seq=2, at=1, outcome="completed")]
    outputs = [turn.push(event) for event in events]
    return [block.body for output in outputs for block in output.blocks]


@dataclass
class OtherPath:
    """What the bots sent by themselves, by turn, and how every turn was told to be."""

    sent: dict[str, list[str]] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


class Site:
    """A fleet with two gateways at ports that stay, and whoever restarts what was killed."""

    def __init__(self, fleet: Fleet, receiver: Receiver) -> None:
        self.fleet = fleet
        self.receiver = receiver
        self.ports = [free_port(), free_port()]
        self.workers: dict[str, Worker] = {}
        self.kills = 0

    async def start(self, name: str) -> None:
        role = name.partition("-")[0]
        environ = {"FOLDLINE_GATEWAY_PORT": str(self.ports[int(name[-1])])} if role == "gateway" else {}
        self.workers[name] = await self.fleet.start(role, environ=environ)

    async def start_all(self) -> None:
        for role in ROLES:
            for number in range(2):
                await self.start(f"{role}-{number}")

    async def kill_one(self) -> None:
        """Kill the next worker in turn, and start another in its place."""
        name = sorted(self.workers)[self.kills % len(self.workers)]
        self.kills += 1
        await self.workers[name].kill()
        await self.start(name)

    def url(self, number: int) -> str:
        return f"http://127.0.0.1:{self.ports[number % 2]}"


async def carry(site: Site, path: OtherPath, number: int) -> None:
    """One turn of a bot, over a gateway that may die at any moment."""
    is_external = number % 3 == 2
    words = answer_to(number)
    body: dict[str, Any] = {
        "request": {"input": str(number)},
        "upstream": "outside" if is_external else "sample",
        "session": f"session-{number % 7}",
        "targets": ["hook"],
        "settings": SETTINGS,
        "idempotency_key": f"key-{number}",
    }
    for attempt in range(200):
        try:
            async with Door.open(site.url(number + attempt), patience_s=1) as door:
                told = await door.post("/v1/turns", msgspec.json.encode(body))
                turn = told["id"]
                assert path.modes.setdefault(turn, told["mode"]) == told["mode"], "a turn's mode changed"
                path.numbers[turn] = number
                if is_external:
                    await carry_events(door, turn, words)
                if told["mode"] == "shadow":
                    messages = path.sent.setdefault(turn, blocks_of(words))
                    await (tell_by_stream(site.fleet, turn, messages) if number % 2 else tell(door, turn, messages))
                return
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, ProducerStaleError, TimeoutError):
            continue
    raise AssertionError(f"turn {number} was never carried")


async def carry_events(door: Door, turn: str, words: str) -> None:
    """Publish the turn's events, going on wherever an earlier try stopped."""
    told = await door.ask("GET", f"/v1/turns/{turn}")
    if told["state"] == "completed":
        return
    try:
        producer = await Producer.claim(door, turn)
    except TurnOverError:
        return
    pieces = [words[at : at + 20] for at in range(0, len(words), 20)]
    for piece in pieces[producer.next_seq - 1 :]:
        producer.delta(piece)
        await producer.flush()
    await producer.complete()


def report_of(messages: list[str]) -> bytes:
    listed = [{"n": n, "target": "hook", "text": message} for n, message in enumerate(messages)]
    return msgspec.json.encode({"messages": listed, "total": len(listed)})


async def tell(door: Door, turn: str, messages: list[str]) -> None:
    """Tell a gateway what was sent."""
    await door.post(f"/v1/shadow/{turn}", report_of(messages))


async def tell_by_stream(fleet: Fleet, turn: str, messages: list[str]) -> None:
    """Write what was sent into the stream, twice, as a path does that saw no answer the first time."""
    for _ in range(2):
        words = ("MAXLEN", "~", 100_000, "*", "turn", turn, "report", report_of(messages), "id", f"all of {turn}")
        await fleet.run(Call("XADD", (fleet.keys.reports,), words, str, script=False))


async def test_no_turn_is_lost_or_sent_by_both_paths_while_modes_are_switched_and_workers_die(
    redis_server: Server, tmp_path: Path
) -> None:
    with redis_server.client() as client:
        client.flushall()
    path, waiting = OtherPath(), list(range(TURNS))
    answers = stored(by_input(lambda asked: text(answer_to(int(asked)), pieces=12)))
    async with Upstream(answers) as upstream, Receiver() as receiver:
        upstreams = {
            "sample": {"base_url": upstream.base_url, "side_effects": False, "resumable": True},
            "outside": {"external": True, "runtime": "acp"},
        }
        targets = {"hook": {"channel": "webhook", "url": receiver.url}}
        async with Fleet(redis_server.url, tmp_path, upstreams=upstreams, targets=targets) as fleet:
            site = Site(fleet, receiver)
            await site.start_all()

            async def bot() -> None:
                while waiting:
                    number = waiting.pop(0)
                    if number % SWITCH_EVERY == 0:
                        mode = "shadow" if number % (2 * SWITCH_EVERY) == 0 else "live"
                        for runtime in ("main", "acp"):
                            await fleet.run(set_mode(fleet.keys, runtime, mode))
                    if number % KILL_EVERY == KILL_EVERY - 1:
                        await site.kill_one()
                    await carry(site, path, number)

            await asyncio.gather(*(bot() for _ in range(BOTS)))
            for turn in path.modes:
                record = await fleet.settled(turn, 90)
                assert record.state == "completed", (turn, record.error)

            async def are_read() -> bool:
                return await fleet.run(reports_waiting(fleet.keys)) == 0

            await wait_until(are_read, "the reports in the stream to be read", 30)
            assert await fleet.run(reports_aside(fleet.keys, count=1)) == []
            await check(fleet, path, receiver)
            assert site.kills >= TURNS // KILL_EVERY
            assert Counter(path.modes.values())["shadow"] > TURNS // 5
            assert Counter(path.modes.values())["live"] > TURNS // 5


async def check(fleet: Fleet, path: OtherPath, receiver: Receiver) -> None:
    """Each turn once, whole, by one path; and what the shadow recorded equals what the other path sent."""
    assert sorted(path.numbers.values()) == list(range(TURNS)), "a key stood for two turns"
    delivered: dict[str, list[Any]] = {}
    for body in receiver.texts:
        delivered.setdefault(body["turn"], []).append(body)
    for turn, mode in path.modes.items():
        words = answer_to(path.numbers[turn])
        assert (turn in path.sent, turn in delivered) == (mode == "shadow", mode == "live"), (turn, mode)
        if mode == "live":
            bodies = delivered[turn]
            assert [body["block"] for body in bodies] == list(range(len(bodies)))
            assert "".join(body["text"] + body["separator"] for body in bodies) == words
            continue
        found = await collect(fleet.run, fleet.keys, await fleet.turn(turn))
        assert found.verdict == "equal", (turn, found)
    assert len(delivered) == Counter(path.modes.values())["live"]
