"""An upstream that keeps its responses: ingest is killed at every one of its events, and nobody who reads notices.

Twice: with a Responses server that reads a response again from its beginning, and with foldline's own gateway as that server.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ledger.log import entries_of, read_entries
from pipeline.codec import decode_batch
from pipeline.events import TextDelta
from tests.support.fleet import Fleet, Worker
from tests.support.receivers import Receiver
from tests.support.servers import Server
from tests.support.stored import stored
from tests.support.upstream import Upstream, text
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

WORDS = "\n\n".join(f"Paragraph {number} of an answer that is read again and again." for number in range(6))
PIECES = 12
EVENTS = PIECES + 8
SLOW = {"side_effects": False, "resumable": True, "read_timeout_ms": 60_000, "connect_retries": 12}


@dataclass
class Told:
    """What readers got: the public stream and the blocks' texts."""

    frames: str = ""
    texts: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)


@dataclass
class Stage:
    """The fleet whose ingest dies, and what it reads from."""

    fleet: Fleet
    upstream: Upstream
    receiver: Receiver
    back: Fleet
    gateway: Worker | None = None
    """Of the fleet behind, where the upstream is one."""
    turn: str = ""

    async def submit(self) -> None:
        """Submit the turn."""
        self.turn = await self.fleet.submit(request={"input": "Write."}, targets=["hook"], turn_hex="feed" * 6)

    async def published(self, count: int) -> None:
        """Wait until ingest has published so many events of the upstream's, besides the first of ours."""

        async def enough() -> bool:
            return (await self.fleet.turn(self.turn)).next.get("ingest", 0) > count

        await wait_until(enough, f"{count} events of {self.turn}", 60)

    async def told(self) -> Told:
        """Wait for the end, and read what everybody got."""
        record = await self.fleet.settled(self.turn, 60)
        assert record.state == "completed", record.error
        keys = self.fleet.keys
        ids = await self.fleet.run(entries_of(keys, self.turn))
        entries = await self.fleet.run(read_entries(keys, keys.partition_of_turn(self.turn), ids))
        events = [event for entry in entries for event in decode_batch(entry.events)]
        assert [event.seq for event in events] == list(range(len(events)))
        return Told(
            frames=nameless(await self.fleet.frames(self.turn)),
            texts=[body["text"] for body in self.receiver.texts],
            events=[
                event.text if isinstance(event, TextDelta) else getattr(event, "name", type(event).__name__)
                for event in events
            ],
        )


def nameless(frames: str) -> str:
    """A stream without the ids of turns, which chance gave the upstream's, and without the second it was made in."""
    return re.sub(r'"created_at":\d+', '"created_at":0', re.sub(r"\d+-[0-9a-f]{24}", "TURN", frames))


@asynccontextmanager
async def stage(server: Server, folder: Path, *, behind_gateway: bool) -> AsyncIterator[Stage]:
    """A fleet before a gated upstream that keeps its responses; or before a second fleet's gateway, before that upstream."""
    with server.client() as client:
        client.flushall()
    front_folder, back_folder = folder / "front", folder / "back"
    front_folder.mkdir()
    back_folder.mkdir()
    async with Upstream(stored(text(WORDS, pieces=PIECES))) as upstream, Receiver() as receiver:
        back_upstreams = {"sample": {"base_url": upstream.base_url, **SLOW, "resumable": False}}
        async with Fleet(f"{server.url.rpartition('/')[0]}/1", back_folder, upstreams=back_upstreams) as back:
            base_url = upstream.base_url
            gateway = None
            if behind_gateway:
                for role in ("ingest", "fold"):
                    await back.start(role)
                gateway = await back.start("gateway")
                base_url = f"http://127.0.0.1:{gateway.port}/v1"
            upstreams = {"sample": {"base_url": base_url, **SLOW}}
            targets = {"hook": {"channel": "webhook", "url": receiver.url}}
            async with Fleet(server.url, front_folder, upstreams=upstreams, targets=targets) as fleet:
                yield Stage(fleet, upstream, receiver, back, gateway)


async def undisturbed_run(server: Server, folder: Path, *, behind_gateway: bool) -> Told:
    async with stage(server, folder, behind_gateway=behind_gateway) as s:
        for role in ("ingest", "fold", "delivery"):
            await s.fleet.start(role)
        await s.submit()
        return await s.told()


@pytest.mark.parametrize("behind_gateway", [False, True], ids=["a server", "our own gateway"])
async def test_ingest_killed_at_every_event_leaves_the_undisturbed_stream(
    behind_gateway: bool, redis_server: Server, tmp_path: Path
) -> None:
    (tmp_path / "undisturbed").mkdir()
    undisturbed = await undisturbed_run(redis_server, tmp_path / "undisturbed", behind_gateway=behind_gateway)
    assert len(undisturbed.texts) > 2
    async with stage(redis_server, tmp_path, behind_gateway=behind_gateway) as s:
        s.upstream.pause_before(1)
        ingest, *_ = [await s.fleet.start(role) for role in ("ingest", "fold", "delivery")]
        await s.submit()
        for number in range(1, EVENTS):
            await s.published(number)
            await ingest.kill()
            ingest = await s.fleet.start("ingest")
            s.upstream.release(number + 1)
        s.upstream.release()
        told = await s.told()
        record = await s.fleet.turn(s.turn)
        assert s.upstream.received[-1].written == EVENTS, "an event at which nobody was killed"
    assert record.ingest_epoch == EVENTS
    assert told.events == undisturbed.events
    assert told.frames == undisturbed.frames
    assert told.texts == undisturbed.texts


async def test_an_upstreams_gateway_killed_while_it_streams_leaves_the_undisturbed_stream(
    redis_server: Server, tmp_path: Path
) -> None:
    """Ingest lives, and the connection that it reads is lost, again and again."""
    (tmp_path / "undisturbed").mkdir()
    undisturbed = await undisturbed_run(redis_server, tmp_path / "undisturbed", behind_gateway=True)
    async with stage(redis_server, tmp_path, behind_gateway=True) as s:
        s.upstream.pause_before(1)
        for role in ("ingest", "fold", "delivery"):
            await s.fleet.start(role)
        await s.submit()
        for number in range(1, EVENTS, 4):
            s.upstream.release(number)
            await s.published(number)
            assert s.gateway is not None
            await s.gateway.kill()
            environ = {"FOLDLINE_GATEWAY_PORT": str(s.gateway.port)}
            s.gateway = replace_port(await s.back.start("gateway", environ=environ), s.gateway.port)
        s.upstream.release()
        told = await s.told()
        record = await s.fleet.turn(s.turn)
    assert record.ingest_epoch == 1
    assert told == undisturbed


def replace_port(worker: Worker, port: int) -> Worker:
    """The gateway listens where it was told to, not where a new one would."""
    worker.port = port
    return worker


@pytest.mark.parametrize(
    "point", ["after_claim", "before_open", "after_open", "mid_stream", "before_publish", "after_publish"]
)
async def test_a_process_that_dies_while_it_reads_again_is_followed_by_another(
    point: str, redis_server: Server, tmp_path: Path
) -> None:
    (tmp_path / "undisturbed").mkdir()
    undisturbed = await undisturbed_run(redis_server, tmp_path / "undisturbed", behind_gateway=False)
    async with stage(redis_server, tmp_path, behind_gateway=False) as s:
        s.upstream.pause_before(8)
        first, *_ = [await s.fleet.start(role) for role in ("ingest", "fold", "delivery")]
        await s.submit()
        await s.published(8)
        await first.kill()
        for gate in (12, 16):  # each has something new to publish
            worker = await s.fleet.start("ingest", failpoint=f"ingest.{point}=exit")
            s.upstream.release(gate)
            await worker.exited(60)
        await s.fleet.start("ingest")
        s.upstream.release()
        told = await s.told()
    assert told == undisturbed


async def test_what_others_put_into_the_log_is_not_taken_for_the_upstreams_word(
    redis_server: Server, tmp_path: Path
) -> None:
    async with stage(redis_server, tmp_path, behind_gateway=False) as s:
        s.upstream.pause_before(6)
        ingest, *_ = [await s.fleet.start(role) for role in ("ingest", "fold", "delivery")]
        await s.submit()
        await s.published(6)
        child = await s.fleet.submit(request={"input": "child"}, turn_hex="c0de" * 6, parent=s.turn)
        await wait_until(lambda: len(s.upstream.received) > 1, "the child's request", 30)
        await s.fleet.framed(child, 3)

        async def told() -> bool:
            return f"child:{child}" in (await s.fleet.turn(s.turn)).next

        await wait_until(told, "the child's word in its parent's log", 30)
        await ingest.kill()
        await s.fleet.start("ingest")
        s.upstream.release()
        record = await s.fleet.ended(s.turn, 60)
        assert record.state == "completed", record.error
        assert (await s.fleet.ended(child, 60)).state == "completed"
