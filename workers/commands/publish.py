"""`foldline publish TURN FILE`: canonical events from a file or a pipe into the log of a turn that an external producer carries.

An event a line. `seq` and `at` may be left out: events are numbered on from what is stored, and have the time at which they are read.
Those that have numbers keep them: what is stored already is left out, so that a file can be published again after anything, and
goes on where it stopped. A first event (`turn_started`) is left out, since submit has published the turn's own.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any, BinaryIO

import aiohttp
import msgspec
import typer

from pipeline import codec
from pipeline.errors import Diagnostic, EventRefused
from pipeline.events import Event, TurnStarted
from workers.client import ClientError, Door, Producer
from workers.commands.given import STANDARD_INPUT, open_input
from workers.commands.output import Json, show_json
from workers.commands.session import EXIT_REFUSED, fail, run_async
from workers.commands.submit import KEY_VARIABLE, Gateway, address_of, tell_absence

TOKEN_VARIABLE = "FOLDLINE_PRODUCER"  # noqa: S105 - the variable's name
WAITING_EVENTS = 64
"""Events that are read before they are sent; a line of a pipe that stands still is sent at once."""


def publish(
    turn: Annotated[str, typer.Argument(metavar="TURN", help="The turn's id.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="Events, one a line; - reads standard input.")],
    *,
    token: Annotated[
        str,
        typer.Option(
            envvar=TOKEN_VARIABLE, metavar="TOKEN", help="What submit or a claim gave; without it the turn is claimed."
        ),
    ] = "",
    gateway: Gateway = "",
    as_json: Json = False,
) -> None:
    """Publish events of a turn that no ingest process carries."""
    url = address_of(gateway)
    try:
        producer = run_async(_publish(url, turn, file, token))
    except EventRefused as refused:
        fail(f"publish: {refused}", EXIT_REFUSED)
    except (ClientError, OSError) as error:
        fail(f"publish: {error}")
    told = {"turn": turn, "next": producer.next_seq, "cancel": producer.cancelled}
    show_json(told) if as_json else sys.stdout.write(f"{producer.next_seq}\n")


async def _publish(url: str, turn: str, file: str, token: str) -> Producer:
    with open_input("publish", file) as source:  # before the turn is claimed: a name that is wrong takes it from nobody
        async with Door.open(url, key=os.environ.get(KEY_VARIABLE)) as door:
            await _tell_if_away(door)
            producer = await _producer(door, turn, token)
            waiting = 0
            for event in events_of(source, turn, after=producer.next_seq):
                producer.put(event)
                waiting += 1
                if waiting >= WAITING_EVENTS or file == STANDARD_INPUT:
                    await producer.flush()
                    waiting = 0
            await producer.flush()
            return producer


async def _tell_if_away(door: Door) -> None:
    try:
        async with door.session.get(f"{door.url}/healthz"):
            pass
    except (aiohttp.ClientError, TimeoutError) as error:  # the door asks again, and says nothing meanwhile
        tell_absence(door.url, error)


async def _producer(door: Door, turn: str, token: str) -> Producer:
    if not token:
        return await Producer.claim(door, turn)
    return await Producer.resume(door, turn, token)


def events_of(source: Iterator[bytes] | BinaryIO, turn: str, *, after: int) -> Iterator[Event]:
    """Read events, number those that have none, and leave out what is below `after`."""
    seq = after
    for number, line in enumerate(source, 1):
        if not line.strip():
            continue
        members = _members(line)
        is_numbered = "seq" in members
        is_whole = is_numbered and "at" in members
        members.setdefault("seq", seq)
        members.setdefault("at", 0)
        try:
            event = codec.decode(msgspec.json.encode(members), turn=turn, producer=f"line {number}")
        except EventRefused:
            if is_whole:  # in the words of the line itself, where nothing was added to it
                codec.decode(line, turn=turn, producer=f"line {number}")
            raise
        if isinstance(event, TurnStarted) or (is_numbered and event.seq < after):
            continue
        if event.seq != seq:
            raise EventRefused(
                Diagnostic(code="sequence_broken", path="$.seq", expected=str(seq), found=str(event.seq), turn=turn)
            )
        yield event
        seq = event.seq + 1


def _members(line: bytes) -> dict[str, Any]:
    with suppress(msgspec.DecodeError):
        members = msgspec.json.decode(line)
        if isinstance(members, dict):
            return members
    codec.decode(line)  # says what is wrong with it
    return {}
