"""Discord alone: nonces, replies and threads, global limits, reading back."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger.parts import Verdict
from scripts.channels.discord import NONCE_WINDOW_S, Discord, Message
from scripts.channels.service import Canned, Window
from tests.support.chats import MEDIA, send
from workers.delivery.channels import discord
from workers.delivery.outcomes import Capability, Found, Hold

MEDIUM = MEDIA["discord"]
NOW_S = 1_750_000_000.0
EXPOSED_MS = int(NOW_S * 1000)


@pytest.fixture
async def server() -> AsyncIterator[Discord]:
    async with Discord(clock=lambda: NOW_S) as server:
        yield server


@pytest.fixture
async def channel(server: Discord) -> AsyncIterator[Any]:
    channel = MEDIUM.open(server)
    yield channel
    await channel.close()


async def found(channel: Any, text: str = "hi", **fields: Any) -> Found:
    part = MEDIUM.part(text, **{"exposed_at": EXPOSED_MS, **fields})
    return Found(await channel.find(part, at=EXPOSED_MS + 60_000, timeout_s=2))


def posted(server: Discord, content: str, *, at: float = NOW_S, author: str = "900", nonce: str | None = None) -> None:
    """A message that somebody else's request made."""
    server.messages.append(
        Message(
            id=discord.snowflake(int(at * 1000)) + len(server.messages),
            channel="100",
            content=content,
            nonce=nonce,
            at=at,
            payload={},
            author=author,
        )
    )


async def test_nobody_is_mentioned_and_the_nonce_is_the_same_each_time(server: Discord, channel: Any) -> None:
    await send(channel, MEDIUM.message("@everyone <@1> <@&2> look"))
    [message] = server.messages
    assert not message.pings_everyone
    assert message.payload["allowed_mentions"] == {"parse": [], "replied_user": False}
    assert message.nonce == discord.nonce_of(MEDIUM.part())
    assert len(str(message.nonce)) <= 25
    assert message.payload["enforce_nonce"] is True
    assert discord.nonce_of(MEDIUM.part(ordinal=1)) != message.nonce


async def test_a_thread_is_posted_to_and_only_the_first_message_replies(server: Discord) -> None:
    server.channels.add("555")
    channel = MEDIUM.open(server, recipient="100/555/77")
    for ordinal in range(2):
        assert (await send(channel, MEDIUM.message(ordinal=ordinal))).verdict is Verdict.SENT  # the replied one is gone
    await channel.close()
    assert [message.channel for message in server.messages] == ["555", "555"]
    references = [message.payload.get("message_reference") for message in server.messages]
    assert references == [{"message_id": "77", "fail_if_not_exists": False}, None]
    assert channel.chat_of(MEDIUM.part()) == "555"


async def test_after_the_window_a_nonce_protects_no_more(server: Discord, channel: Any) -> None:
    await send(channel, MEDIUM.message())
    server.clock = lambda: NOW_S + NONCE_WINDOW_S
    await send(channel, MEDIUM.message())
    assert len(server.texts("100")) == 2
    assert channel.terms.key_window_ms < NONCE_WINDOW_S * 1000


async def test_a_global_limit_holds_the_account(server: Discord, channel: Any) -> None:
    server.global_limit = Window(1, 7.25)
    await send(channel, MEDIUM.message())
    outcome = await send(channel, MEDIUM.message(ordinal=1, recipient="101"))
    assert outcome.retry_after_ms == 7_251
    assert outcome.holds == (Hold(chat="", wait_ms=7_251),)


async def test_the_last_of_a_window_holds_its_channel_before_anything_is_refused(server: Discord, channel: Any) -> None:
    server.route_limit = Window(2, 5)
    outcomes = [await send(channel, MEDIUM.message(ordinal=ordinal)) for ordinal in range(2)]
    assert [outcome.holds for outcome in outcomes] == [(), (Hold(chat="100", wait_ms=5_000),)]


async def test_a_429_of_the_front_is_about_the_account(server: Discord, channel: Any) -> None:
    server.play(Canned(status=429, body="<html>error 1015</html>", headers={"Retry-After": "120"}))
    outcome = await send(channel, MEDIUM.message())
    assert outcome.holds == (Hold(chat="", wait_ms=120_000),)


@pytest.mark.parametrize("configured", [0, 30_000])
async def test_a_window_that_is_not_trusted_leaves_reading_back(server: Discord, configured: int) -> None:
    channel = MEDIUM.open(server, key_window_ms=configured)
    assert channel.capability is Capability.RECONCILE
    server.play(Canned(status=502))
    assert (await send(channel, MEDIUM.message())).verdict is Verdict.UNKNOWN
    await channel.close()


# reading back


async def test_a_nonce_that_is_shown_proves_the_message(server: Discord, channel: Any) -> None:
    server.shows_nonces = True
    assert await found(channel) is Found.NO
    await send(channel, MEDIUM.message())
    assert await found(channel) is Found.YES
    assert await found(channel, ordinal=1) is Found.NO  # the same text under another id is another message


async def test_without_nonces_only_a_message_that_cannot_be_ours_is_ruled_out(server: Discord, channel: Any) -> None:
    posted(server, "Something **else** entirely")
    posted(server, "hi", author="7")  # of a person
    posted(server, "hi", at=NOW_S - 3600)  # long before
    assert await found(channel) is Found.NO
    posted(server, "**Hi!**")
    assert await found(channel) is Found.UNCLEAR


async def test_markup_that_is_rewritten_leaves_it_open(server: Discord, channel: Any) -> None:
    posted(server, "look :party:")
    assert await found(channel, "look <:party:123>") is Found.UNCLEAR


async def test_all_pages_are_read(server: Discord, channel: Any) -> None:
    server.shows_nonces = True
    for number in range(250):
        posted(server, f"message {number}", nonce=str(number))
    posted(server, "hi", nonce=discord.nonce_of(MEDIUM.part()))
    assert await found(channel) is Found.YES
    assert await found(channel, ordinal=1) is Found.NO
    assert len(server.of_kind("read")) == 6


async def test_what_is_too_far_back_is_not_found_to_be_absent(
    server: Discord, channel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discord, "PAGES", 2)
    for number in range(250):
        posted(server, f"message {number}", nonce=str(number))
    assert await found(channel) is Found.UNCLEAR


@pytest.mark.parametrize(
    "answer",
    [
        Canned(status=429, headers={"Retry-After": "1"}),
        Canned(status=403, body={"code": 50001, "message": "Missing Access"}),
        Canned(status=500),
        Canned(status=200, body="<html>"),
        Canned(status=200, body={}),
    ],
)
async def test_a_channel_that_cannot_be_read_leaves_it_open(server: Discord, channel: Any, answer: Canned) -> None:
    server.play(answer, kind="read")
    assert await found(channel) is Found.UNCLEAR


async def test_a_server_that_is_away_leaves_it_open(server: Discord, channel: Any) -> None:
    await server.stop()
    assert await found(channel) is Found.UNCLEAR
