"""Matrix alone: transaction ids, threads and replies, contents."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger.parts import Verdict, part_from_hash
from scripts.channels.matrix import WINDOW_S, Matrix
from scripts.channels.service import Canned
from tests.support.chats import MEDIA, gate, send
from workers.delivery.channels.contract import Message
from workers.delivery.outcomes import Capability

MEDIUM = MEDIA["matrix"]


@pytest.fixture
async def server() -> AsyncIterator[Matrix]:
    async with Matrix() as server:
        yield server


@pytest.fixture
async def channel(server: Matrix) -> AsyncIterator[Any]:
    channel = MEDIUM.open(server)
    yield channel
    await channel.close()


async def test_the_content_is_sent_as_it_was_projected_under_the_deliverys_id(server: Matrix, channel: Any) -> None:
    await send(channel, MEDIUM.message("héllo"))
    [event] = server.events
    assert event.content == {"msgtype": "m.text", "body": "héllo", "m.mentions": {}}
    assert event.txn == "msg_1-a.0.ff.0"
    assert event.room == "!room:loopback"


async def test_threads_and_replies_are_relations(server: Matrix) -> None:
    thread = MEDIUM.open(server, recipient="!room:loopback/$root%2Fid/$asked")
    reply = MEDIUM.open(server, recipient="!room:loopback//$asked")
    for ordinal in range(2):
        await send(thread, MEDIUM.message(ordinal=ordinal))
        await send(reply, MEDIUM.message(ordinal=ordinal + 2, turn="1-b"))
    await thread.close()
    await reply.close()
    relations = [event.content.get("m.relates_to") for event in server.events]
    rooted = {"rel_type": "m.thread", "event_id": "$root/id"}
    assert relations == [
        {**rooted, "is_falling_back": False, "m.in_reply_to": {"event_id": "$asked"}},
        None,  # not the turn's first
        {**rooted, "is_falling_back": True, "m.in_reply_to": {"event_id": "$root/id"}},
        None,
    ]


async def test_a_reply_outside_of_threads_names_what_it_answers(server: Matrix) -> None:
    channel = MEDIUM.open(server, recipient="!room:loopback//$asked")
    await send(channel, MEDIUM.message())
    await channel.close()
    assert server.events[0].content["m.relates_to"] == {"m.in_reply_to": {"event_id": "$asked"}}


async def test_a_transaction_is_forgotten_after_a_day_and_not_relied_on_longer(server: Matrix, channel: Any) -> None:
    await send(channel, MEDIUM.message())
    known = server.events[0].at
    server.clock = lambda: known + WINDOW_S
    await send(channel, MEDIUM.message())
    assert len(server.events) == 2
    assert channel.terms.key_window_ms <= WINDOW_S * 1000


async def test_a_body_that_is_no_event_is_dead(server: Matrix, channel: Any) -> None:
    record = part_from_hash("1-a/0/ff/0", {"state": "sending", "body": "no json", "content_type": "application/json"})
    assert record is not None
    outcome = await channel.send(Message(part=record, attempt="a", at=1), gate())
    assert (outcome.verdict, outcome.reason) == (Verdict.DEAD, "bad_content")


async def test_an_event_that_is_too_large_is_dead(server: Matrix, channel: Any) -> None:
    outcome = await send(channel, MEDIUM.message("x" * 70_000))
    assert (outcome.verdict, outcome.reason) == (Verdict.DEAD, "too_large")


async def test_a_home_server_that_forgets_at_once_has_no_key(server: Matrix) -> None:
    channel = MEDIUM.open(server, key_window_ms=0)
    assert channel.capability is Capability.NONE
    server.play(Canned(status=500))
    assert (await send(channel, MEDIUM.message())).verdict is Verdict.UNKNOWN
    await channel.close()


async def test_the_wait_is_the_headers_where_the_body_names_none(server: Matrix, channel: Any) -> None:
    server.play(Canned(status=429, body={"errcode": "M_LIMIT_EXCEEDED"}, headers={"Retry-After": "4"}))
    assert (await send(channel, MEDIUM.message())).retry_after_ms == 4_000


async def test_typing_needs_to_know_who_writes(server: Matrix, channel: Any) -> None:
    server.play(Canned(status=500), kind="other")
    assert await channel.show_typing("", timeout_s=2) == 0
    assert server.typed == []
    await channel.show_typing("", timeout_s=2)
    await channel.show_typing("", timeout_s=2)
    assert server.typed == ["!room:loopback", "!room:loopback"]
    assert len(server.of_kind("other")) == 2  # asked until it was told
    assert json.loads(server.of_kind("typing")[0].body) == {"typing": True, "timeout": 30_000}
