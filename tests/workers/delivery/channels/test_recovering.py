"""A whole worker before each channel: what is lost on the way is settled by key, by asking, or stays unknown."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ledger.states import State
from scripts.channels.discord import Discord
from scripts.channels.service import Act, Canned, Window
from tests.support.chats import MEDIA, TOKEN_ENV, Medium
from tests.support.waiting import wait_until
from tests.workers.delivery.conftest import Site

Arrange = Callable[[str, Callable[[], None]], None]
TEXTS = ["text 0", "text 1", "text 2"]


@pytest.fixture
def chat(site: Site, medium: Medium, server: Any) -> Site:
    """The site with one more target, of this channel; rates are not what is tried here."""
    settings = {**medium.settings(server), "rate_per_s": 0, "chat_rate_per_s": 0, "typing": False}
    site.chats["chat"] = settings
    site.environ[TOKEN_ENV] = medium.token
    return site


def told(medium: Medium, server: Any) -> list[str]:
    return [text.strip() for text in server.texts(medium.chat)]


async def check(chat: Site, medium: Medium, server: Any, *, arrived: bool) -> None:
    """Each part once and in order; where nobody can tell, the one that was cut stays unknown and is never sent again."""
    if medium.name != "telegram":
        await chat.until(3, State.SENT)
        assert told(medium, server) == TEXTS
        return
    await wait_until(lambda: told(medium, server)[-1:] == ["text 2"], "the last part")
    await chat.until(3, State.SENT, State.UNKNOWN)
    assert await chat.states() == [State.UNKNOWN, State.SENT, State.SENT]
    assert told(medium, server) == (TEXTS if arrived else TEXTS[1:])


LONG = [pytest.param(act, marks=pytest.mark.long) for act in (Act.FAIL_AFTER, Act.GARBAGE_AFTER, Act.CUT_AFTER)]


@pytest.mark.parametrize("act", [Act.RESET_BEFORE, Act.RESET_AFTER, *LONG])
async def test_what_was_lost_is_sent_once(chat: Site, medium: Medium, server: Any, act: Act) -> None:
    server.play(act)
    await chat.turn("chat", blocks=3)
    chat.start()
    await check(chat, medium, server, arrived=act is not Act.RESET_BEFORE)


@pytest.mark.parametrize("point", ["delivery.after_intent", "delivery.after_answer"])
async def test_a_dead_owners_attempt_is_recovered(
    chat: Site, medium: Medium, server: Any, at_failpoint: Arrange, point: str
) -> None:
    reached = asyncio.Event()
    at_failpoint(point, reached.set)
    await chat.turn("chat", blocks=3)
    first = chat.start()
    await asyncio.wait_for(reached.wait(), 10)
    await first.drop()
    chat.start()
    await check(chat, medium, server, arrived=point == "delivery.after_answer")


async def test_a_refusal_is_dead_and_the_lane_goes_on(chat: Site, medium: Medium, server: Any) -> None:
    server.play(Canned(status=400, body={"ok": False, "code": 50006, "errcode": "M_BAD_JSON", "error": "no_text"}))
    await chat.turn("chat", blocks=2)
    chat.start()
    await chat.until(2, State.SENT, State.DEAD)
    assert await chat.states() == [State.DEAD, State.SENT]


async def test_a_limit_is_waited_out_by_the_chat_alone(chat: Site, medium: Medium, server: Any) -> None:
    server.route_limit = Window(1, 1.0)
    await chat.turn("chat", "hook", blocks=3)
    chat.start()
    await chat.until(6, State.SENT)
    assert told(medium, server) == TEXTS
    assert not server.unheeded(grace_s=0.1, route_of=lambda _: medium.chat)
    parts = [part for part in await chat.parts() if part.target == "chat"]
    assert '"message":' in parts[0].receipt


# Discord, once its nonces protect no more


@pytest.fixture
async def guild(site: Site) -> AsyncIterator[Discord]:
    """A server whose nonces are not relied on, and the site's target there."""
    async with Discord() as server:
        settings = MEDIA["discord"].settings(server)
        site.chats["chat"] = {**settings, "key_window_ms": 0, "typing": False}
        site.environ[TOKEN_ENV] = MEDIA["discord"].token
        yield server


@pytest.mark.parametrize("act", [Act.RESET_BEFORE, Act.RESET_AFTER])
async def test_a_channel_is_read_back(site: Site, guild: Discord, act: Act) -> None:
    guild.shows_nonces = True
    guild.play(act)
    await site.turn("chat", blocks=3)
    site.start()
    await site.until(3, State.SENT)
    assert guild.texts("100") == TEXTS
    assert len(guild.of_kind("send")) == (4 if act is Act.RESET_BEFORE else 3)


async def test_a_channel_that_shows_no_nonces_cannot_prove_what_is_there(site: Site, guild: Discord) -> None:
    guild.play(Act.RESET_AFTER)
    await site.turn("chat", blocks=2)
    site.start()
    await wait_until(lambda: guild.texts("100") == TEXTS[:2], "the second part")
    await site.until(2, State.SENT, State.UNKNOWN)
    assert await site.states() == [State.UNKNOWN, State.SENT]


async def test_a_channel_that_shows_no_nonces_can_prove_what_is_not_there(site: Site, guild: Discord) -> None:
    guild.play(Act.RESET_BEFORE)
    await site.turn("chat", blocks=2)
    site.start()
    await site.until(2, State.SENT)
    assert guild.texts("100") == TEXTS[:2]
