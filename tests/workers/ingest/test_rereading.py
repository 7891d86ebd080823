"""An upstream that keeps its responses, and the connection to it lost while ingest lives: the answer is read again, and goes on."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from ledger.turns import request_cancel
from pipeline.events import Event, TurnCancelled, TurnCompleted, TurnFailed
from scripts.responses_stream import sse
from tests.support.upstream import Answer, Answerer, Ending, Received, Upstream, json_body, text
from tests.workers.ingest.rig import Rig, config_for, text_of

WORDS = "It is read again and again, and nobody who reads it notices."
PIECES = 6
EVENTS = PIECES + 8


def lost_after(keeps: Callable[[int], int | None], ending: Ending = "cut", *, then: Answerer | None = None) -> Answerer:
    """A response that is kept; its reading number n (0 for the request itself) is lost after `keeps(n)` events; None: it is whole."""
    kept: list[Answer] = []
    readings = [-1]

    def answer(received: Received) -> Answer:
        if received.path.endswith("/cancel"):
            return json_body({})(received)
        readings[0] += 1
        if received.path.endswith("/responses"):
            kept.append(text(WORDS, pieces=PIECES)(received))
        elif then is not None:
            return then(received)
        keep = keeps(readings[0])
        return kept[0] if keep is None else replace(kept[0], chunks=kept[0].chunks[:keep], ending=ending)

    return answer


@dataclass
class Carried:
    """A turn that has ended: its log, and the requests that its upstream had."""

    events: list[Event]
    paths: list[str]

    @property
    def said(self) -> list[Event]:
        """The events, whenever they came."""
        return [msgspec.structs.replace(event, at=0) for event in self.events]


async def carried(redis_url: str, answerer: Answerer, *, number: int = 1, **settings: Any) -> Carried:
    """Carry a turn to its end before an upstream that answers so."""
    async with (
        Upstream(answerer) as upstream,
        Rig(config_for(redis_url, upstream.base_url, **{"resumable": True, **settings})) as rig,
    ):
        turn = await rig.submit(number=number)
        rig.start()
        await rig.ended(turn)
        return Carried(await rig.events(turn), [received.path for received in upstream.received])


def undisturbed(redis_url: str) -> Awaitable[Carried]:
    return carried(redis_url, lost_after(lambda _: None), number=9)


@pytest.mark.parametrize("ending", ["cut", "close", "reset", "stall"])
async def test_a_connection_lost_within_the_answer_is_not_noticed(redis_url: str, ending: Ending) -> None:
    answerer = lost_after(lambda reading: None if reading else 7, ending)
    told = await carried(redis_url, answerer, read_timeout_ms=300 if ending == "stall" else 5_000)
    assert told.said[1:] == (await undisturbed(redis_url)).said[1:]
    assert isinstance(told.events[-1], TurnCompleted)
    assert len(told.paths) == 2


async def test_every_event_may_be_the_last_before_it_is_lost_again(redis_url: str) -> None:
    """More often than anything is tried in vain: each reading brings one event more."""
    told = await carried(redis_url, lost_after(lambda reading: reading + 1), connect_retries=2)
    assert told.said[1:] == (await undisturbed(redis_url)).said[1:]
    assert len(told.paths) == EVENTS


async def test_what_brings_nothing_new_is_given_up_and_ends_as_any_lost_answer(redis_url: str) -> None:
    told = await carried(redis_url, lost_after(lambda _: 7), connect_retries=2)
    lost = await carried(redis_url, lost_after(lambda _: 7), number=9, connect_retries=0)
    assert told.said[1:] == lost.said[1:]
    assert isinstance(told.events[-1], TurnFailed)
    assert told.events[-1].error.code == "upstream_truncated"
    assert (len(told.paths), len(lost.paths)) == (3, 1)


async def test_readings_that_do_not_even_reach_the_logs_end_are_given_up_too(redis_url: str) -> None:
    told = await carried(redis_url, lost_after(lambda reading: 3 if reading else 7), connect_retries=3)
    assert isinstance(told.events[-1], TurnFailed)
    assert told.events[-1].error.code == "upstream_truncated"
    assert WORDS.startswith(text_of(told.events))
    assert len(text_of(told.events)) > 5
    assert len(told.paths) == 4


@pytest.mark.parametrize(
    "then", [json_body({}, status=404), json_body({}, status=500), text(WORDS.upper(), pieces=PIECES)],
    ids=["gone", "broken", "another answer"],
)  # fmt: skip
async def test_an_answer_that_is_not_there_any_more_ends_the_turn_as_it_was_cut(redis_url: str, then: Answerer) -> None:
    told = await carried(redis_url, lost_after(lambda _: 7, then=then), connect_retries=1)
    lost = await carried(redis_url, lost_after(lambda _: 7), number=9, connect_retries=0)
    assert told.said[1:] == lost.said[1:]


async def test_an_upstreams_own_failure_is_no_lost_connection(redis_url: str) -> None:
    def failing(received: Received) -> Answer:
        made = text(WORDS, pieces=PIECES)(received)
        error = sse({"type": "error", "code": "server_error", "message": "no", "sequence_number": 7})
        return replace(made, chunks=[*made.chunks[:7], error])

    told = await carried(redis_url, failing)
    assert isinstance(told.events[-1], TurnFailed)
    assert (told.events[-1].error.code, len(told.paths)) == ("server_error", 1)


async def test_a_cancel_while_it_is_read_again_ends_the_turn(redis_url: str) -> None:
    async with Upstream(lost_after(lambda reading: None if reading else 7)) as upstream:
        upstream.pause_before(7)
        async with Rig(config_for(redis_url, upstream.base_url, resumable=True)) as rig:
            turn = await rig.submit()
            rig.start()
            await upstream.reached(7)
            upstream.pause_before(3)
            upstream.release(3)
            await upstream.asked(2)
            await upstream.reached(3)
            await rig.scripts.run(request_cancel(rig.keys, turn, grace_ms=10_000))
            assert isinstance(await rig.ended(turn), TurnCancelled)
            assert WORDS.startswith(text_of(await rig.events(turn)))
            upstream.release()


async def test_a_process_that_reads_again_for_another_bears_a_lost_connection_too(redis_url: str) -> None:
    async with Upstream(lost_after({0: None, 1: 4, 2: 9}.get)) as upstream:
        upstream.pause_before(7)
        async with Rig(config_for(redis_url, upstream.base_url, resumable=True)) as rig:
            turn = await rig.submit()
            rig.start()
            await upstream.reached(7)
            await rig.published(turn, 6)
            await rig.stop()
            upstream.release()
            rig.start()
            assert isinstance(await rig.ended(turn), TurnCompleted)
            assert text_of(await rig.events(turn)) == WORDS
            assert len(upstream.received) == 4
