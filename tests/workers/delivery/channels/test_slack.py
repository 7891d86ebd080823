"""Slack alone: threads, metadata, reading back."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger.parts import Verdict
from scripts.channels.service import Act, Canned
from scripts.channels.slack import Message, Slack
from tests.support.chats import MEDIA, send
from workers.delivery.channels import slack
from workers.delivery.outcomes import Found

MEDIUM = MEDIA["slack"]
NOW_S = 1_750_000_000.0
EXPOSED_MS = int(NOW_S * 1000)


@pytest.fixture
async def server() -> AsyncIterator[Slack]:
    async with Slack(clock=lambda: NOW_S) as server:
        yield server


@pytest.fixture
async def channel(server: Slack) -> AsyncIterator[Any]:
    channel = MEDIUM.open(server)
    yield channel
    await channel.close()


async def found(channel: Any, text: str = "hi", at_ms: int = EXPOSED_MS + 60_000, **fields: Any) -> Found:
    part = MEDIUM.part(text, **{"exposed_at": EXPOSED_MS, **fields})
    return Found(await channel.find(part, at=at_ms, timeout_s=2))


def posted(server: Slack, text: str, *, at: float = NOW_S, metadata: dict[str, Any] | None = None) -> None:
    """A message that somebody else's request made."""
    ts = f"{at + len(server.messages) / 1_000_000:.6f}"
    server.messages.append(Message(ts=ts, channel="C100", text=text, thread=None, metadata=metadata, payload={}))


async def test_a_message_carries_its_id_and_a_hint(server: Slack, channel: Any) -> None:
    await send(channel, MEDIUM.message())
    await send(channel, MEDIUM.message())
    first, second = server.messages  # the hint is not a key here
    assert first.metadata == {"event_type": "foldline_delivery", "event_payload": {"key": "1-a/0/ff/0"}}
    assert first.payload["client_msg_id"] == second.payload["client_msg_id"]


async def test_a_thread_is_posted_to_and_a_reply_is_a_threads_first(server: Slack) -> None:
    thread = MEDIUM.open(server, recipient="C100/1750000000.000100")
    reply = MEDIUM.open(server, recipient="C100//1750000000.000200")
    for ordinal in range(2):
        await send(thread, MEDIUM.message(ordinal=ordinal))
        await send(reply, MEDIUM.message(ordinal=ordinal))
    await thread.close()
    await reply.close()
    threads = [message.thread for message in server.messages]
    assert threads == ["1750000000.000100", "1750000000.000200", "1750000000.000100", None]


@pytest.mark.parametrize("error", ["internal_error", "fatal_error", "service_unavailable"])
async def test_an_error_after_which_it_may_be_posted_is_unknown(server: Slack, channel: Any, error: str) -> None:
    server.play(Canned(status=200, body={"ok": False, "error": error}))
    outcome = await send(channel, MEDIUM.message())
    assert (outcome.verdict, outcome.reason) == (Verdict.UNKNOWN, error)


# reading back


@pytest.mark.parametrize("recipient", ["", "C100/1750000000.000000", "C100//1750000000.000000"])
async def test_metadata_proves_a_message_in_a_channel_and_in_a_thread(
    server: Slack, channel: Any, recipient: str
) -> None:
    posted(server, "the root")
    assert await found(channel, recipient=recipient) is Found.NO
    server.play(Act.RESET_AFTER)
    assert (await send(channel, MEDIUM.message(recipient=recipient))).verdict is Verdict.UNKNOWN
    assert await found(channel, recipient=recipient) is Found.YES


async def test_another_part_with_the_same_text_is_not_it(server: Slack, channel: Any) -> None:
    await send(channel, MEDIUM.message("hi", ordinal=0))
    assert await found(channel, "hi", ordinal=1) is Found.NO


async def test_a_message_of_ours_without_its_metadata_leaves_it_open(server: Slack, channel: Any) -> None:
    posted(server, "something else")
    posted(server, "hi", metadata={"event_type": "theirs", "event_payload": {}})
    posted(server, "hi", at=NOW_S - 3600)
    assert await found(channel) is Found.NO
    posted(server, "*Hi*")
    assert await found(channel) is Found.UNCLEAR


async def test_all_pages_are_read(server: Slack, channel: Any) -> None:
    await send(channel, MEDIUM.message())
    for number in range(220):
        posted(server, f"message {number}", at=NOW_S + 1)
    assert await found(channel) is Found.YES
    assert await found(channel, ordinal=1) is Found.NO
    assert len(server.of_kind("read")) == 6


async def test_what_is_too_far_back_is_not_found_to_be_absent(
    server: Slack, channel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack, "PAGES", 2)
    for number in range(220):
        posted(server, f"message {number}")
    assert await found(channel) is Found.UNCLEAR


async def test_an_app_outside_the_marketplace_asks_no_more_often_than_it_may(server: Slack, channel: Any) -> None:
    server.is_outside = True
    assert await found(channel) is Found.NO
    assert await found(channel, at_ms=EXPOSED_MS + 61_000) is Found.UNCLEAR  # told to wait
    assert await found(channel, at_ms=EXPOSED_MS + 62_000) is Found.UNCLEAR  # waits
    assert len(server.of_kind("read")) == 2
    server.clock = lambda: NOW_S + 61
    assert await found(channel, at_ms=EXPOSED_MS + 123_000) is Found.NO


@pytest.mark.parametrize(
    "answer",
    [
        Canned(status=200, body={"ok": False, "error": "missing_scope"}),
        Canned(status=500),
        Canned(status=200, body="<html>"),
        Canned(status=429),
    ],
)
async def test_a_channel_that_cannot_be_read_leaves_it_open(server: Slack, channel: Any, answer: Canned) -> None:
    server.play(answer, kind="read")
    assert await found(channel) is Found.UNCLEAR
