"""Typing while a turn runs, in the chats that can show it."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from scripts.channels.service import Canned
from tests.support.chats import MEDIA, TOKEN_ENV
from tests.support.waiting import wait_until
from tests.workers.delivery.conftest import Site
from workers.delivery.presence import Presence
from workers.delivery.worker import DeliveryWorker

MEDIUM = MEDIA["telegram"]


@pytest.fixture
async def server() -> AsyncIterator[Any]:
    async with MEDIUM.service() as server:
        yield server


@pytest.fixture
async def chat(site: Site, server: Any) -> Site:
    site.chats["chat"] = MEDIUM.settings(server)
    site.environ[TOKEN_ENV] = MEDIUM.token
    return site


async def running(site: Site, *recipients: str | None) -> None:
    """A turn that runs, for these recipients of the chat, for the hook and for a target that is gone."""
    targets = [{"channel": "telegram", "name": "chat", "recipient": recipient} for recipient in recipients]
    targets += [{"channel": "webhook", "name": "hook"}, {"channel": "webhook", "name": "gone"}]
    turn = await site.desk.open_turn(targets=msgspec.json.encode(targets).decode())
    await site.desk.client.zadd(site.desk.keys.inflight(site.desk.p), {turn: 1})


class Made:
    """A worker that is not run, for its parts."""

    def __init__(self, site: Site) -> None:
        self.worker = DeliveryWorker(site.config(), environ=site.environ)
        self.presence = Presence(self.worker.context)

    async def __aenter__(self) -> Presence:
        return self.presence

    async def __aexit__(self, *_: object) -> None:
        await self.worker._close()


async def test_each_chat_of_a_running_turn_is_told_once_in_its_time(chat: Site, server: Any) -> None:
    await running(chat, None, "100", None)
    async with Made(chat) as presence:
        assert presence.is_wanted
        await presence.show([0, 1])
        await presence.show([0, 1])
        assert sorted(server.typed) == ["-100200", "100"]
        presence._next_ms.clear()  # its time has passed
        await presence.show([1])
        assert len(server.typed) == 4


async def test_a_turn_that_ended_shows_nothing(chat: Site, server: Any) -> None:
    await running(chat, None)
    await chat.desk.client.delete(chat.desk.keys.inflight(chat.desk.p))
    async with Made(chat) as presence:
        await presence.show([1])
    assert server.typed == []


async def test_a_turn_that_another_path_delivers_shows_nothing(chat: Site, server: Any) -> None:
    await running(chat, None)
    await chat.desk.client.hset(chat.desk.keys.turn(chat.desk.turn), "mode", "shadow")
    async with Made(chat) as presence:
        await presence.show([1])
    assert server.typed == []


async def test_nothing_that_goes_wrong_matters(chat: Site, server: Any) -> None:
    await running(chat, None, "/none", "404")
    server.play(Canned(status=429, headers={"Retry-After": "900"}), kind="typing")
    async with Made(chat) as presence:
        await presence.show([1])
        assert any(wait > presence._context.clock.boottime_ms() + 800_000 for wait in presence._next_ms.values())
        await server.stop()
        presence._next_ms.clear()
        await presence.show([1])


async def test_a_target_may_ask_for_none_of_it(chat: Site, server: Any) -> None:
    chat.chats["chat"]["typing"] = False
    async with Made(chat) as presence:
        assert not presence.is_wanted


async def test_a_worker_shows_it_while_the_turn_runs(chat: Site, server: Any) -> None:
    await running(chat, None)
    chat.start()
    await wait_until(lambda: server.typed == ["-100200"], "typing")
