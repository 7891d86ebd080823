"""What holds for every chat channel: one request an attempt, judged by its table of answers."""

from typing import Any

import pytest

from ledger.parts import Verdict
from scripts.channels.service import Act, Canned, Window
from tests.support.chats import MEDIA, Medium, gate, send
from tests.support.servers import free_port
from workers.delivery.channels.registry import TERMS
from workers.delivery.outcomes import Capability, Hold
from workers.delivery.terms import Fate, Rule

ROWS = [(name, number) for name in sorted(MEDIA) for number in range(len(TERMS[name].rules))]


def lost_verdict(channel: Any) -> Verdict:
    """What an answer of 500 comes to: a key lets it be tried again at once."""
    return Verdict.RETRY if channel.capability is Capability.KEY else Verdict.UNKNOWN


async def test_a_message_is_sent_and_its_id_kept(medium: Medium, server: Any, channel: Any) -> None:
    outcome = await send(channel, medium.message("hello"))
    assert (outcome.verdict, outcome.reason, outcome.status) == (Verdict.SENT, "accepted", 200)
    assert outcome.message_id
    assert f'"message":"{outcome.message_id}"' in outcome.as_receipt()
    assert server.texts(medium.chat) == ["hello"]
    assert len(server.requests) == 1


async def test_a_turns_own_recipient_goes_over_the_configured_one(medium: Medium, server: Any, channel: Any) -> None:
    message = medium.message("hello", recipient=medium.other_chat)
    assert channel.chat_of(message.part) == medium.other_chat
    assert (await send(channel, message)).verdict is Verdict.SENT
    assert (server.texts(medium.chat), server.texts(medium.other_chat)) == ([], ["hello"])


async def test_a_recipient_that_is_none_is_dead_at_once(medium: Medium, server: Any, channel: Any) -> None:
    message = medium.message(recipient="/thread")
    assert channel.chat_of(message.part) == ""
    outcome = await send(channel, message)
    assert (outcome.verdict, outcome.reason) == (Verdict.DEAD, "bad_recipient")
    assert server.requests == []


@pytest.mark.parametrize(("name", "number"), ROWS, ids=str)
async def test_every_row_of_the_table_of_answers(name: str, number: int) -> None:
    medium, rule = MEDIA[name], TERMS[name].rules[number]
    answer = medium.answer_of(rule)
    async with medium.service() as server:
        server.play(*[answer] * (2 if rule.reason == "markup_refused" else 1))
        channel = medium.open(server)
        outcome = await send(channel, medium.message())
        await channel.close()
    assert outcome.reason == rule.reason
    assert outcome.status == answer.status
    match rule.fate:
        case Fate.PERMANENT:
            assert outcome.verdict is Verdict.DEAD
        case Fate.AMBIGUOUS:
            assert (outcome.verdict, outcome.proven) == (lost_verdict(channel), False)
        case Fate.RETRY:
            assert (outcome.verdict, outcome.proven) == (Verdict.RETRY, True)
            assert outcome.holds == ((Hold(wait_ms=rule.hold_ms),) if rule.hold_ms else ())
        case Fate.LIMITED:
            assert (outcome.verdict, outcome.proven) == (Verdict.RETRY, True)
            assert outcome.retry_after_ms in {1_500, 2_000}
            assert outcome.holds == (Hold(chat=medium.chat, wait_ms=outcome.retry_after_ms),)


def test_every_row_has_its_page_and_the_last_is_for_everything() -> None:
    for name, terms in TERMS.items():
        assert all(rule.page for rule in terms.rules), name
        if terms.rules:
            last = terms.rules[-1]
            assert (last.fate, last.status, last.code, last.phrase) == (Fate.AMBIGUOUS, (0, 999), "", ""), name
        assert not terms.key or terms.key_page, name
        assert not terms.typing_ms or terms.typing_page, name


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (Act.RESET_BEFORE, "connection_lost"),
        (Act.RESET_AFTER, "connection_lost"),
        (Act.STALL_BEFORE, "deadline"),
        (Act.STALL_AFTER, "deadline"),
    ],
)
async def test_no_answer_is_unknown(medium: Medium, server: Any, channel: Any, act: Act, reason: str) -> None:
    server.play(act)
    outcome = await send(channel, medium.message(), deadline_ms=400)
    assert (outcome.verdict, outcome.reason, outcome.proven) == (Verdict.UNKNOWN, reason, False)
    assert len(server.requests) == 1


@pytest.mark.parametrize("act", [Act.FAIL_BEFORE, Act.FAIL_AFTER, Act.GARBAGE_AFTER, Act.CUT_AFTER])
async def test_an_answer_that_says_nothing_is_ambiguous(medium: Medium, server: Any, channel: Any, act: Act) -> None:
    server.play(act)
    outcome = await send(channel, medium.message())
    assert (outcome.verdict, outcome.proven) == (lost_verdict(channel), False)
    assert len(server.requests) == 1


async def test_a_redirect_is_not_followed(medium: Medium, server: Any, channel: Any) -> None:
    server.play(Act.REDIRECT)
    outcome = await send(channel, medium.message())
    assert (outcome.verdict, outcome.reason) == (Verdict.DEAD, "redirect")
    assert len(server.requests) == 1


async def test_a_closed_port_is_proof_and_no_secret_gets_into_the_record(medium: Medium, server: Any) -> None:
    channel = medium.open(server, base_url=f"http://127.0.0.1:{free_port()}/{medium.token}")
    outcome = await send(channel, medium.message())
    await channel.close()
    assert (outcome.verdict, outcome.reason, outcome.proven) == (Verdict.RETRY, "refused", True)
    assert medium.token not in outcome.as_receipt()


async def test_nothing_is_opened_without_the_lease(medium: Medium, server: Any, channel: Any) -> None:
    outcome = await channel.send(medium.message(), gate(lease=lambda: 0))
    assert (outcome.verdict, outcome.reason, outcome.proven) == (Verdict.RETRY, "lease_too_short", True)
    assert server.requests == []


async def test_a_wrong_token_holds_the_account_and_loses_nothing(medium: Medium, server: Any) -> None:
    wrong = "43:wrong" if medium.name == "telegram" else "wrong"
    channel = type(medium.open(server))(medium.config(server), wrong)
    outcome = await send(channel, medium.message())
    await channel.close()
    assert (outcome.verdict, outcome.proven) == (Verdict.RETRY, True)
    assert outcome.holds == (Hold(wait_ms=60_000),)
    assert outcome.retry_after_ms == 60_000


async def test_an_unknown_chat_is_dead(medium: Medium, server: Any, channel: Any) -> None:
    outcome = await send(channel, medium.message(recipient="404"))
    assert outcome.verdict is Verdict.DEAD


async def test_a_limited_chat_waits_as_long_as_it_is_told(medium: Medium, server: Any, channel: Any) -> None:
    server.route_limit = Window(1, 20)
    await send(channel, medium.message(ordinal=0))
    outcome = await send(channel, medium.message(ordinal=1))
    assert (outcome.verdict, outcome.reason, outcome.proven) == (Verdict.RETRY, "rate_limited", True)
    assert 19_000 < outcome.retry_after_ms <= 21_000
    assert outcome.holds == (Hold(chat=medium.chat, wait_ms=outcome.retry_after_ms),)
    elsewhere = await send(channel, medium.message(ordinal=2, recipient=medium.other_chat))
    assert elsewhere.verdict is Verdict.SENT


@pytest.mark.parametrize("word", ["soon", "-1", "nan", ""])
async def test_a_wait_that_makes_no_sense_is_left_out(medium: Medium, server: Any, channel: Any, word: str) -> None:
    server.play(Canned(status=429, body={"retry_after": word, "ok": False}, headers={"Retry-After": word}))
    outcome = await send(channel, medium.message())
    assert (outcome.verdict, outcome.retry_after_ms) == (Verdict.RETRY, None)


@pytest.mark.parametrize("name", ["discord", "matrix"])
async def test_a_repeat_by_key_makes_no_second_message(name: str) -> None:
    medium = MEDIA[name]
    server: Any
    async with medium.service() as server:
        channel = medium.open(server)
        server.play(Act.RESET_AFTER)
        first = await send(channel, medium.message("one"))
        again = await send(channel, medium.message("one"))
        other = await send(channel, medium.message("one", ordinal=1))
        await channel.close()
        assert [outcome.verdict for outcome in (first, again, other)] == [Verdict.UNKNOWN, Verdict.SENT, Verdict.SENT]
        assert server.texts(medium.chat) == ["one", "one"]  # two parts with the same text are two


def test_a_rule_of_any_code_needs_one() -> None:
    rule = Rule(fate=Fate.PERMANENT, reason="refused", page="page", code="*")
    assert rule.matches(200, "some", "")
    assert not rule.matches(200, "", "")


@pytest.mark.parametrize("name", ["discord", "telegram", "matrix"])
async def test_typing_is_shown_and_a_limit_on_it_is_told(name: str) -> None:
    medium = MEDIA[name]
    server: Any
    async with medium.service() as server:
        channel = medium.open(server)
        assert await channel.show_typing("", timeout_s=2) == 0
        assert await channel.show_typing(medium.other_chat, timeout_s=2) == 0
        assert server.typed == [medium.chat, medium.other_chat]
        server.play(Canned(status=429, headers={"Retry-After": "3"}), Canned(status=500), kind="typing")
        assert await channel.show_typing("", timeout_s=2) == 3_000
        assert await channel.show_typing("", timeout_s=2) == 0
        await server.stop()
        assert await channel.show_typing("", timeout_s=2) == 0
        await channel.close()
