"""A client of one turn, and an eye on the console: keeps what it received, and shows it as it comes."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec

from pipeline.normalize.sse import SseEvent, SseSplitter
from scripts.show.screen import CYAN, DIM, Screen

TERMINALS = {"response.completed", "response.incomplete", "response.failed"}
AGAIN_S = 0.2
LOOK_S = 0.05
SHOWN_CHARS = 72


@dataclass
class Received:
    """What one client got of a turn: the frames' bytes as they came, their numbers, the text of its messages."""

    frames: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    text: str = ""
    connections: int = 0
    is_over: bool = False


async def read_turn(url: str, received: Received, screen: Screen, on_frame: Callable[[], None]) -> None:
    """Read a turn's events until its terminal, coming back with the last id whenever the connection ends."""
    last_id = ""
    while not received.is_over:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        with contextlib.suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
                received.connections += 1
                async with session.get(url, headers=headers) as answer:
                    splitter = SseSplitter()
                    async for chunk in answer.content.iter_any():
                        for event in splitter.feed(chunk):
                            last_id = event.id or last_id
                            _take(event, received, screen)
                            on_frame()
        if not received.is_over:
            await asyncio.sleep(AGAIN_S)


def _take(event: SseEvent, received: Received, screen: Screen) -> None:
    data = msgspec.json.decode(event.data)
    received.frames.append(f"event: {event.event}\ndata: {event.text}\n\n")
    received.numbers.append(data["sequence_number"])
    received.is_over = event.event in TERMINALS
    if event.event == "response.output_text.delta":
        received.text += data["delta"]
        screen.flow(data["delta"])


async def watch_console(path: Path, screen: Screen) -> None:
    """Show each message that the console target gets, until cancelled."""
    seen = 0
    while True:
        lines = path.read_bytes().splitlines() if path.exists() else []
        for line in lines[seen:]:
            told = msgspec.json.decode(line)
            first = told["text"].strip().partition("\n")[0]
            shown = first if len(first) <= SHOWN_CHARS else first[: SHOWN_CHARS - 1] + "…"
            screen.say(f"      ╰─ console, message {told['block'] + 1}: {shown}", DIM, CYAN)
        seen = len(lines)
        await asyncio.sleep(LOOK_S)
