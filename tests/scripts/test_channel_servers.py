"""The loopback channel servers as the channels' own SDKs find them: what these post, read and raise is what they would at the real ones."""

import warnings
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    TelegramBadRequest,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from scripts.channels import discord as discord_server
from scripts.channels import slack as slack_server
from scripts.channels import telegram as telegram_server
from scripts.channels.discord import Discord
from scripts.channels.service import Act, Window
from scripts.channels.slack import Slack
from scripts.channels.telegram import Telegram

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it imports an audio module that Python is about to drop
    import discord
    from discord.http import Route


pytestmark = pytest.mark.long  # three large packages are imported


# Discord


@pytest.fixture
async def guild(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Discord, discord.Client]]:
    async with Discord() as server:
        monkeypatch.setattr(Route, "BASE", server.base_url)
        client = discord.Client(intents=discord.Intents.none())
        await client.login(discord_server.TOKEN)
        yield server, client
        await client.close()


async def test_discord_py_posts_replies_and_reads_back(guild: tuple[Discord, discord.Client]) -> None:
    server, client = guild
    channel = client.get_partial_messageable(100)
    first = await channel.send("one @everyone", nonce="n1", allowed_mentions=discord.AllowedMentions.none())
    again = await channel.send("one @everyone", nonce="n1")
    assert first.id == again.id
    assert first.nonce == "n1"
    reply = await channel.send("two", reference=discord.MessageReference(message_id=first.id, channel_id=100))
    assert server.texts("100") == ["one @everyone", "two"]
    assert [message.id async for message in channel.history(limit=10)] == [reply.id, first.id]
    assert [message.id async for message in channel.history(limit=10, after=first)] == [reply.id]
    assert [message.nonce async for message in channel.history()] == [None, None]
    assert [message.pings_everyone for message in server.messages] == [False, False]
    await channel.send("@everyone")
    assert server.messages[-1].pings_everyone
    async with channel.typing():
        assert server.typed == ["100"]


@pytest.mark.parametrize(
    ("channel", "content", "refusal", "status", "code"),
    [
        (999, "x", None, 404, 10003),
        (100, "x", (403, 50001, "Missing Access"), 403, 50001),
        (100, "x" * 2001, None, 400, 50035),
        (100, " ", None, 400, 50006),
    ],
)
async def test_discord_py_reads_the_servers_errors(
    guild: tuple[Discord, discord.Client],
    channel: int,
    content: str,
    refusal: tuple[int, int, str] | None,
    status: int,
    code: int,
) -> None:
    server, client = guild
    if refusal is not None:
        server.refuses["100"] = refusal
    with pytest.raises(discord.HTTPException) as refused:
        await client.get_partial_messageable(channel).send(content)
    assert (refused.value.status, refused.value.code) == (status, code)


async def test_discord_py_takes_no_wrong_token(guild: tuple[Discord, discord.Client]) -> None:
    other = discord.Client(intents=discord.Intents.none())
    with pytest.raises(discord.LoginFailure):
        await other.login("wrong")
    await other.close()


@pytest.mark.parametrize("everything", [False, True])
async def test_discord_py_waits_as_the_server_tells_it(
    guild: tuple[Discord, discord.Client], *, everything: bool
) -> None:
    server, client = guild
    window = Window(1, 0.3)
    server.global_limit, server.route_limit = (window, None) if everything else (None, window)
    for text in ("a", "b", "c"):
        await client.get_partial_messageable(100).send(text)
    assert server.texts("100") == ["a", "b", "c"]
    assert not server.unheeded(grace_s=0.05, route_of=lambda request: request.path)
    if everything:
        assert [told.key for told in server.told] == ["*", "*"]
    else:
        assert server.told == []  # the headers of each answer said it before


# Slack


@pytest.fixture
async def workspace() -> AsyncIterator[tuple[Slack, AsyncWebClient]]:
    async with Slack() as server:
        yield server, AsyncWebClient(slack_server.TOKEN, base_url=f"{server.base_url}/", retry_handlers=[])


async def test_slack_sdk_posts_in_threads_and_reads_metadata_back(workspace: tuple[Slack, AsyncWebClient]) -> None:
    server, client = workspace
    assert (await client.auth_test())["ok"]
    root = await client.chat_postMessage(channel="C100", text="root")
    metadata = {"event_type": "delivery", "event_payload": {"key": "k"}}
    await client.chat_postMessage(channel="C100", text="reply", thread_ts=root["ts"], metadata=metadata)
    history = await client.conversations_history(channel="C100", include_all_metadata=True)
    assert [message["text"] for message in history["messages"]] == ["root"]
    replies = await client.conversations_replies(channel="C100", ts=root["ts"], include_all_metadata=True)
    assert [message.get("metadata") for message in replies["messages"]] == [None, metadata]
    assert server.texts("C100") == ["root", "reply"]
    for number in range(3):
        await client.chat_postMessage(channel="C101", text=str(number))
    page = await client.conversations_history(channel="C101", limit=2)
    assert page["has_more"]
    rest = await client.conversations_history(channel="C101", cursor=page["response_metadata"]["next_cursor"])
    assert [message["text"] for message in [*page["messages"], *rest["messages"]]] == ["2", "1", "0"]


@pytest.mark.parametrize(
    ("channel", "text", "error"),
    [
        ("C999", "x", "channel_not_found"),
        ("C101", "x", "is_archived"),
        ("C100", "", "no_text"),
        ("C100", "x" * 40_001, "msg_too_long"),
    ],
)
async def test_slack_sdk_reads_the_servers_errors(
    workspace: tuple[Slack, AsyncWebClient], channel: str, text: str, error: str
) -> None:
    server, client = workspace
    server.refuses["C101"] = "is_archived"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the SDK, about missing text
        with pytest.raises(SlackApiError) as refused:
            await client.chat_postMessage(channel=channel, text=text)
    assert refused.value.response["error"] == error


async def test_slack_sdk_is_told_to_wait_and_takes_no_wrong_token(workspace: tuple[Slack, AsyncWebClient]) -> None:
    server, client = workspace
    server.route_limit = Window(1, 30)
    await client.chat_postMessage(channel="C100", text="a")
    with pytest.raises(SlackApiError) as limited:
        await client.chat_postMessage(channel="C100", text="b")
    assert limited.value.response.status_code == 429
    assert limited.value.response["error"] == "ratelimited"
    assert 0 < int(limited.value.response.headers["Retry-After"]) <= 31
    stranger = AsyncWebClient("xoxb-wrong", base_url=f"{server.base_url}/")
    with pytest.raises(SlackApiError, match="invalid_auth"):
        await stranger.chat_postMessage(channel="C101", text="c")


async def test_an_app_outside_the_marketplace_reads_little_and_seldom(
    workspace: tuple[Slack, AsyncWebClient],
) -> None:
    server, client = workspace
    server.is_outside = True
    for number in range(20):
        await client.chat_postMessage(channel="C100", text=str(number))
    assert len((await client.conversations_history(channel="C100", limit=100))["messages"]) == 15
    with pytest.raises(SlackApiError) as limited:
        await client.conversations_history(channel="C100")
    assert int(limited.value.response.headers["Retry-After"]) > 30


# Telegram


@pytest.fixture
async def chats() -> AsyncIterator[tuple[Telegram, Bot]]:
    async with Telegram() as server:
        session = AiohttpSession(api=TelegramAPIServer.from_base(server.base_url))
        async with Bot(telegram_server.TOKEN, session=session) as bot:
            yield server, bot


async def test_aiogram_posts_html_in_topics_and_replies(chats: tuple[Telegram, Bot]) -> None:
    server, bot = chats
    assert (await bot.get_me()).username == "a_bot"
    sent = await bot.send_message(-100200, "<b>bold</b> &lt;x&gt;", parse_mode="HTML", message_thread_id=7)
    assert (sent.message_id, sent.text) == (1, "bold <x>")
    answer = await bot.send_message(-100200, "plain <b>", reply_to_message_id=1)
    assert answer.message_id == 2
    assert server.texts("-100200") == ["bold <x>", "plain <b>"]
    assert await bot.send_chat_action(100, "typing")
    assert server.typed == ["100"]
    longest = "&amp;" * 4096
    assert (await bot.send_message("@news", longest, parse_mode="HTML")).text == "&" * 4096


@pytest.mark.parametrize(
    ("chat", "text", "kind", "words"),
    [
        (5, "x", TelegramBadRequest, "chat not found"),
        (100, "", TelegramBadRequest, "text is empty"),
        (100, "x" * 4097, TelegramBadRequest, "message is too long"),
        (100, "<b>x", TelegramBadRequest, "can't parse entities: Can't find end tag"),
        (100, "<table>", TelegramBadRequest, 'can\'t parse entities: Unsupported start tag "table"'),
        (100, "a < b", TelegramBadRequest, "can't parse entities"),
        (100, "x</b>", TelegramBadRequest, "can't parse entities: Unexpected end tag"),
        (7, "x", TelegramForbiddenError, "bot was blocked by the user"),
        (8, "x", TelegramMigrateToChat, "supergroup"),
    ],
)
async def test_aiogram_reads_the_servers_errors(
    chats: tuple[Telegram, Bot], chat: int, text: str, kind: type[Exception], words: str
) -> None:
    server, bot = chats
    moved: dict[str, Any] = {"migrate_to_chat_id": -100300}
    server.refuses["7"] = (403, "Forbidden: bot was blocked by the user", {})
    server.refuses["8"] = (400, "Bad Request: group chat was upgraded to a supergroup chat", moved)
    with pytest.raises(kind, match=words):
        await bot.send_message(chat, text, parse_mode="HTML")
    assert server.messages == []


async def test_aiogram_is_told_to_wait_and_takes_no_wrong_token(chats: tuple[Telegram, Bot]) -> None:
    server, bot = chats
    server.route_limit = Window(1, 30)
    await bot.send_message(100, "a")
    with pytest.raises(TelegramRetryAfter) as limited:
        await bot.send_message(100, "b")
    assert 29 <= limited.value.retry_after <= 31
    async with Bot("42:wrong", session=AiohttpSession(api=TelegramAPIServer.from_base(server.base_url))) as stranger:
        with pytest.raises(TelegramUnauthorizedError):
            await stranger.get_me()
    server.play(Act.FAIL_BEFORE)
    with pytest.raises(TelegramServerError):
        await bot.send_message("@news", "c")
