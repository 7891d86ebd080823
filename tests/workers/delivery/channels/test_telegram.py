"""Telegram alone: topics, replies, markup that is refused."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger.parts import Verdict
from pipeline.project.telegram import plain_of
from scripts.channels.service import Act, Canned, Window
from scripts.channels.telegram import Telegram
from tests.support.chats import MEDIA, gate, send
from workers.delivery.outcomes import Capability

MEDIUM = MEDIA["telegram"]
BODY = "<b>bold</b> &lt;x&gt;"
REFUSED = Canned(
    status=400,
    body={"ok": False, "error_code": 400, "description": "Bad Request: can't parse entities: unclear at byte offset 3"},
)


@pytest.fixture
async def server() -> AsyncIterator[Telegram]:
    async with Telegram() as server:
        yield server
        server.release()


@pytest.fixture
async def channel(server: Telegram) -> AsyncIterator[Any]:
    channel = MEDIUM.open(server)
    yield channel
    await channel.close()


async def test_html_is_sent_as_html(server: Telegram, channel: Any) -> None:
    assert channel.capability is Capability.NONE
    await send(channel, MEDIUM.message(BODY))
    [message] = server.messages
    assert (message.text, message.parse_mode) == ("bold <x>", "HTML")


async def test_a_topic_is_posted_to_and_only_the_first_message_replies(server: Telegram) -> None:
    channel = MEDIUM.open(server, recipient="-100200/7/55")
    for ordinal in range(2):
        assert (await send(channel, MEDIUM.message(ordinal=ordinal))).verdict is Verdict.SENT
    await channel.show_typing("", timeout_s=2)
    await channel.close()
    assert [message.thread for message in server.messages] == [7, 7]
    replies = [message.payload.get("reply_parameters") for message in server.messages]
    assert replies == [{"message_id": 55, "allow_sending_without_reply": True}, None]
    assert b'"message_thread_id": 7' in server.of_kind("typing")[0].body


async def test_a_topic_that_is_gone_is_dead(server: Telegram) -> None:
    channel = MEDIUM.open(server, recipient="-100200/8")
    outcome = await send(channel, MEDIUM.message())
    await channel.close()
    assert (outcome.verdict, outcome.reason) == (Verdict.DEAD, "thread_not_found")


async def test_a_public_channel_goes_by_its_name(server: Telegram, channel: Any) -> None:
    assert (await send(channel, MEDIUM.message(recipient="@news"))).verdict is Verdict.SENT
    assert server.texts("@news") == ["hi"]


async def test_markup_that_is_refused_is_sent_as_plain_text_within_the_attempt(server: Telegram, channel: Any) -> None:
    server.refuses_markup = True
    outcome = await send(channel, MEDIUM.message(BODY))
    assert outcome.verdict is Verdict.SENT
    [message] = server.messages
    assert (message.source, message.parse_mode) == (plain_of(BODY), "")
    assert len(server.requests) == 2


async def test_a_second_refusal_is_the_end(server: Telegram, channel: Any) -> None:
    server.play(REFUSED, REFUSED)
    outcome = await send(channel, MEDIUM.message(BODY))
    assert (outcome.verdict, outcome.reason) == (Verdict.DEAD, "markup_refused")
    assert len(server.requests) == 2


@pytest.mark.parametrize("act", [Act.RESET_BEFORE, Act.RESET_AFTER, Act.STALL_AFTER, Act.FAIL_AFTER])
async def test_the_loss_of_the_plain_text_is_a_loss(server: Telegram, channel: Any, act: Act) -> None:
    server.play(REFUSED, act)
    outcome = await send(channel, MEDIUM.message(BODY), deadline_ms=400)
    assert outcome.verdict is Verdict.UNKNOWN


async def test_a_limit_on_the_plain_text_is_proof_for_both(server: Telegram, channel: Any) -> None:
    server.refuses_markup = True
    server.route_limit = Window(1, 20)
    outcome = await send(channel, MEDIUM.message(BODY))
    assert (outcome.verdict, outcome.reason, outcome.proven) == (Verdict.RETRY, "rate_limited", True)


async def test_a_lease_that_ends_between_the_two_is_proof_that_nothing_was_sent(server: Telegram, channel: Any) -> None:
    server.play(REFUSED)
    leases = iter([60_000, 60_000])
    outcome = await channel.send(MEDIUM.message(BODY), gate(lease=lambda: next(leases, 0)))
    assert (outcome.verdict, outcome.reason, outcome.proven) == (Verdict.RETRY, "lease_too_short", True)
    assert len(server.requests) == 1


async def test_both_requests_share_one_deadline(server: Telegram, channel: Any) -> None:
    server.play(REFUSED, Act.STALL_BEFORE)
    outcome = await send(channel, MEDIUM.message(BODY), deadline_ms=300)
    assert (outcome.verdict, outcome.reason) == (Verdict.UNKNOWN, "deadline")


async def test_a_group_that_moved_is_dead_and_says_where_it_is(server: Telegram, channel: Any) -> None:
    description = "Bad Request: group chat was upgraded to a supergroup chat"
    server.refuses["-100200"] = (400, description, {"migrate_to_chat_id": -100300})
    outcome = await send(channel, MEDIUM.message())
    assert (outcome.verdict, outcome.reason) == (Verdict.DEAD, "chat_moved")
    assert "-100300" in outcome.detail
