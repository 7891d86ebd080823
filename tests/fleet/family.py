"""The stage of a parent and its child: two turns of one session, each with an upstream of its own that keeps its responses.

Both upstreams are read again when their ingest process dies, so that every loss of a worker must leave both turns as the run that nothing
disturbed leaves them.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ledger.log import entries_of, read_entries
from pipeline.codec import decode_batch
from pipeline.events import Event, Status, ToolFinished
from tests.support.fleet import Fleet
from tests.support.receivers import Receiver
from tests.support.servers import Server
from tests.support.stored import stored
from tests.support.upstream import Upstream, text

PARENT_WORDS = "\n\n".join(f"The parent's paragraph {n}, long enough to be a block of its own here." for n in range(6))
CHILD_WORDS = "\n\n".join(f"The child's paragraph {n}, which is as long as any of its parent's are." for n in range(6))
PIECES = 24
FIRST_GATE = 12
SECOND_GATE = 20


@dataclass
class Told:
    """What readers got of both turns, and what the child told its parent."""

    parent_frames: str = ""
    child_frames: str = ""
    parent_texts: list[str] = field(default_factory=list)
    child_texts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    announced: list[str] = field(default_factory=list)
    """The child's events in the parent's public stream."""


class Family:
    """A fleet with a parent and a child."""

    def __init__(self, fleet: Fleet, parents: Upstream, children: Upstream, receiver: Receiver) -> None:
        self.fleet = fleet
        self.parents = parents
        self.children = children
        self.receiver = receiver
        self.parent = self.child = ""

    def gate(self, number: int) -> None:
        """Let both upstreams write up to here."""
        for upstream in (self.parents, self.children):
            upstream.release(number)

    def open(self) -> None:
        """Let both go on to their ends."""
        for upstream in (self.parents, self.children):
            upstream.release()

    async def submit_parent(self) -> None:
        """Submit the parent and wait until it has begun."""
        self.parent = await self.fleet.submit(
            request={"input": "parent"}, upstream="parents", targets=["hook"], turn_hex="aaaa" * 6
        )
        await self.fleet.framed(self.parent, 1)

    async def submit_child(self) -> None:
        """Submit the child of the parent, as the answer to a call of the parent's."""
        self.child = await self.fleet.submit(
            request={"input": "child"},
            upstream="children",
            targets=["hook"],
            turn_hex="bbbb" * 6,
            parent=self.parent,
            parent_call="call_7",
        )

    async def told(self) -> Told:
        """Wait for both ends and all deliveries, and read what everybody got."""
        for turn in (self.child, self.parent):
            await self.fleet.settled(turn, 60)
        told = Told(parent_frames=plain(await self.fleet.frames(self.parent)))
        told.child_frames = await self.fleet.frames(self.child)
        for body in self.receiver.texts:
            texts = told.child_texts if body["turn"] == self.child else told.parent_texts
            texts.append(str(body["text"]))
        told.notes = [noted(event) for event in await self.notes()]
        told.announced = re.findall(
            r"^event: (foldline\.child\.\w+)$", await self.fleet.frames(self.parent), re.MULTILINE
        )
        return told

    async def notes(self) -> list[Event]:
        """The events under the child's name in the parent's log; their numbers have neither gap nor repeat."""
        keys = self.fleet.keys
        ids = await self.fleet.run(entries_of(keys, self.parent))
        entries = await self.fleet.run(read_entries(keys, keys.partition_of_turn(self.parent), ids))
        found = [
            event
            for entry in entries
            if entry.producer == f"child:{self.child}"
            for event in decode_batch(entry.events)
        ]
        assert [event.seq for event in found] == list(range(len(found)))
        return found


def noted(event: Event) -> str:
    """What a note says, without its time."""
    if isinstance(event, ToolFinished):
        return f"{event.call_id} {event.status} {event.output}"
    assert isinstance(event, Status)
    return f"{event.name} {event.wire}"


def plain(frames: str) -> str:
    """A stream without what a child told in it, and without numbers: where the child's events lie is chance."""
    kept = [frame for frame in frames.split("\n\n") if not frame.startswith("event: foldline.child.")]
    return re.sub(r'"sequence_number":\d+', '"sequence_number":n', "\n\n".join(kept))


@asynccontextmanager
async def family(server: Server, folder: Path) -> AsyncIterator[Family]:
    """Set up: an empty server, two gated upstreams that keep their responses, a receiver that dedups."""
    with server.client() as client:
        client.flushall()
    async with (
        Upstream(stored(text(PARENT_WORDS, pieces=PIECES))) as parents,
        Upstream(stored(text(CHILD_WORDS, pieces=PIECES))) as children,
        Receiver() as receiver,
    ):
        upstreams = {
            name: {"base_url": one.base_url, "side_effects": False, "resumable": True, "read_timeout_ms": 60_000}
            for name, one in (("parents", parents), ("children", children))
        }
        targets = {"hook": {"channel": "webhook", "url": receiver.url}}
        async with Fleet(server.url, folder, upstreams=upstreams, targets=targets) as fleet:
            yield Family(fleet, parents, children, receiver)
