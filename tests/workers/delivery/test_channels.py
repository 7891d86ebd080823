"""The channels alone: a webhook before a real receiver, a console before a real file and pipe."""

import base64
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from ledger.parts import PartRecord, Verdict, part_from_hash
from tests.support.receivers import Act, Receiver
from tests.support.servers import free_port
from tests.support.waiting import wait_until
from tests.workers.delivery.conftest import SECRET
from workers.config import TargetConfig
from workers.config.channels import MEDIA
from workers.delivery.channels import console
from workers.delivery.channels.console import Console
from workers.delivery.channels.contract import Message
from workers.delivery.channels.registry import CHANNELS, TERMS, MissingSecretError, open_channels
from workers.delivery.channels.webhook import Webhook
from workers.delivery.gate import Gate
from workers.delivery.outcomes import Capability
from workers.runtime.clock import SystemClock


def part(body: str = '{"text":"hi"}') -> PartRecord:
    record = part_from_hash(
        "1-a/0/ff/0", {"state": "sending", "body": body, "content_type": "application/json", "turn": "1-a"}
    )
    assert record is not None
    return record


def message(body: str = '{"text":"hi"}') -> Message:
    return Message(part=part(body), attempt="a", at=1_700_000_000_123)


def gate(lease: Callable[[], int] = lambda: 60_000, deadline_ms: int = 5_000) -> Gate:
    return Gate(lease, SystemClock(), send_deadline_ms=deadline_ms, margin_ms=100)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def hook(receiver: Receiver) -> AsyncIterator[Webhook]:
    hook = Webhook(TargetConfig(channel="webhook", url=receiver.url, headers={"X-Team": "a"}), SECRET)
    yield hook
    await hook.close()


# webhook


@pytest.mark.parametrize(
    ("act", "verdict", "reason"),
    [
        (Act.ACCEPT, Verdict.SENT, "accepted"),
        (Act.FAIL_BEFORE, Verdict.RETRY, "failed"),
        (Act.FAIL_AFTER, Verdict.RETRY, "failed"),
        (Act.RESET_BEFORE, Verdict.UNKNOWN, "connection_lost"),
        (Act.RESET_AFTER, Verdict.UNKNOWN, "connection_lost"),
        (Act.TOO_MANY, Verdict.RETRY, "rate_limited"),
        (Act.GONE, Verdict.DEAD, "gone"),
        (Act.REFUSE, Verdict.DEAD, "refused"),
        (Act.REDIRECT, Verdict.DEAD, "redirect"),
        (Act.CONFLICT, Verdict.SENT, "duplicate"),
    ],
)
async def test_a_webhook_says_how_it_came_out(
    receiver: Receiver, hook: Webhook, act: Act, verdict: Verdict, reason: str
) -> None:
    receiver.play(act)
    outcome = await hook.send(message(), gate())
    assert (outcome.verdict, outcome.reason) == (verdict, reason)
    assert len(receiver.requests) == 1


async def test_a_request_is_signed_with_the_intents_time(receiver: Receiver, hook: Webhook) -> None:
    await hook.send(message(), gate())
    [request] = receiver.requests
    assert request.headers["webhook-timestamp"] == "1700000000"
    assert request.headers["webhook-id"] == request.headers["Idempotency-Key"] == "msg_1-a.0.ff.0"
    assert request.headers["X-Team"] == "a"
    time = datetime.fromtimestamp(1_700_000_000, tz=UTC)
    expected = Verifier(SECRET).sign("msg_1-a.0.ff.0", time, request.body.decode())
    assert request.headers["webhook-signature"] == expected


async def test_without_a_secret_nothing_is_signed(receiver: Receiver) -> None:
    hook = Webhook(TargetConfig(channel="webhook", url=receiver.url), "")
    await hook.send(message(), gate())
    await hook.close()
    assert "webhook-signature" not in receiver.requests[0].headers


async def test_no_answer_by_the_deadline_is_unknown_and_the_socket_is_reset(receiver: Receiver, hook: Webhook) -> None:
    receiver.play(Act.STALL_BEFORE)
    outcome = await hook.send(message(), gate(deadline_ms=150))
    assert (outcome.verdict, outcome.reason) == (Verdict.UNKNOWN, "deadline")


async def test_a_closed_port_is_proof_that_nothing_was_sent() -> None:
    hook = Webhook(TargetConfig(channel="webhook", url=f"http://127.0.0.1:{free_port()}/"), "")
    outcome = await hook.send(message(), gate())
    await hook.close()
    assert (outcome.verdict, outcome.reason, outcome.proven) == (Verdict.RETRY, "refused", True)


async def test_an_unknown_host_is_proof_too() -> None:
    hook = Webhook(TargetConfig(channel="webhook", url="http://nowhere.invalid/"), "")
    outcome = await hook.send(message(), gate())
    await hook.close()
    assert (outcome.verdict, outcome.reason, outcome.proven) == (Verdict.RETRY, "dns", True)


async def test_a_tls_failure_before_the_request_is_proof_too(receiver: Receiver) -> None:
    hook = Webhook(TargetConfig(channel="webhook", url=receiver.url.replace("http:", "https:")), "")
    outcome = await hook.send(message(), gate())
    await hook.close()
    assert (outcome.verdict, outcome.proven) == (Verdict.RETRY, True)
    assert receiver.requests == []


async def test_a_connect_that_hangs_is_proof_too() -> None:
    with socket.socket() as full, socket.socket() as filler:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        filler.setblocking(False)
        filler.connect_ex(full.getsockname())
        hook = Webhook(TargetConfig(channel="webhook", url=f"http://127.0.0.1:{full.getsockname()[1]}/"), "")
        outcomes = [await hook.send(message(), gate(deadline_ms=150)) for _ in range(2)]
        await hook.close()
    hung = outcomes[-1]
    assert (hung.verdict, hung.reason, hung.proven) == (Verdict.RETRY, "connect_timeout", True)


async def test_no_connection_is_opened_without_the_lease(receiver: Receiver, hook: Webhook) -> None:
    outcome = await hook.send(message(), gate(lease=lambda: 0))
    assert (outcome.verdict, outcome.reason, outcome.proven) == (Verdict.RETRY, "lease_too_short", True)
    assert receiver.requests == []


async def test_a_lease_lost_while_connecting_stops_the_write(receiver: Receiver, hook: Webhook) -> None:
    leases = iter([60_000])
    outcome = await hook.send(message(), gate(lease=lambda: next(leases, 0)))
    assert (outcome.verdict, outcome.reason, outcome.proven) == (Verdict.RETRY, "lease_too_short", True)
    assert receiver.requests == []


async def test_no_connection_is_used_twice(receiver: Receiver, hook: Webhook) -> None:
    for _ in range(2):
        await hook.send(message(), gate())
    assert [request.headers.get("Connection") for request in receiver.requests] == ["close", "close"]


async def test_a_large_body_arrives_whole(receiver: Receiver, hook: Webhook) -> None:
    text = json.dumps({"text": "ü" * 400_000})
    outcome = await hook.send(message(text), gate())
    assert outcome.verdict is Verdict.SENT
    assert receiver.requests[0].body == text.encode()


async def test_the_receivers_words_are_kept_short(receiver: Receiver, hook: Webhook) -> None:
    receiver.play(Act.REFUSE)
    outcome = await hook.send(message(), gate())
    assert outcome.detail == "refuse"


def test_a_receiver_that_forgets_keys_at_once_has_none() -> None:
    config = TargetConfig(channel="webhook", url="http://x/", key_window_ms=1_000)
    assert Webhook(config, "").capability is Capability.NONE
    assert Webhook(TargetConfig(channel="webhook", url="http://x/"), "").capability is Capability.KEY


# console


def terminal(path: Path | str) -> Console:
    return Console(TargetConfig(channel="console", path=str(path)))


async def test_a_console_file_gets_one_line_of_json_for_each_part(tmp_path: Path) -> None:
    channel = terminal(tmp_path / "out")
    for body in ("one\ntwo", "three"):
        assert (await channel.send(message(body), gate())).verdict is Verdict.SENT
    await channel.close()
    lines = [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines()]
    assert [line["text"] for line in lines] == ["one\ntwo", "three"]
    assert lines[0]["delivery"] == "1-a/0/ff/0"


async def test_a_console_writes_nothing_without_the_lease(tmp_path: Path) -> None:
    outcome = await terminal(tmp_path / "out").send(message(), gate(lease=lambda: 0))
    assert (outcome.verdict, outcome.proven) == (Verdict.RETRY, True)
    assert (tmp_path / "out").read_bytes() == b""


async def test_a_console_that_cannot_be_opened_is_tried_again(tmp_path: Path) -> None:
    outcome = await terminal(tmp_path / "missing" / "out").send(message(), gate())
    assert (outcome.verdict, outcome.reason, outcome.proven) == (Verdict.RETRY, "cannot_open", True)


async def test_standard_output_gets_the_text_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(console, "STDOUT", writer)
    assert (await terminal("-").send(message("hello\n"), gate())).verdict is Verdict.SENT
    assert os.read(reader, 100) == b"hello\n"
    os.close(reader)
    assert (await terminal("-").send(message("hello\n"), gate())).verdict in {Verdict.UNKNOWN, Verdict.RETRY}
    os.close(writer)


async def test_a_pipe_whose_reader_stands_still_does_not_stop_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    monkeypatch.setattr(console, "STDOUT", writer)
    with contextlib.suppress(BlockingIOError):
        while os.write(writer, b"x" * 4096):
            pass
    outcome = await terminal("-").send(message(), gate())
    assert (outcome.verdict, outcome.reason, outcome.proven) == (Verdict.RETRY, "not_writable", True)
    os.close(reader)
    os.close(writer)


# registry


def test_every_channel_can_be_opened() -> None:
    targets = {name: TargetConfig(channel=name, url="http://x/", token_env="T") for name in CHANNELS}  # type: ignore[arg-type]  # the literal's names
    assert set(open_channels(targets, {"T": "token"})) == set(CHANNELS) == set(TERMS) == set(MEDIA)


def test_a_token_that_is_not_there_is_refused_at_start_by_its_variable() -> None:
    targets = {"chat": TargetConfig(channel="slack", token_env="T", recipient="C1")}
    with pytest.raises(MissingSecretError, match=r"targets\.chat\.token_env: the variable T is not set"):
        open_channels(targets, {})


def test_a_secret_that_is_not_there_is_refused_at_start_by_its_variable() -> None:
    targets = {"hook": TargetConfig(channel="webhook", url="http://x/", secret_env="HOOK")}
    with pytest.raises(MissingSecretError, match=r"targets\.hook\.secret_env: the variable HOOK is not set"):
        open_channels(targets, {})
    with pytest.raises(MissingSecretError, match="HOOK: a webhook secret begins with whsec_"):
        open_channels(targets, {"HOOK": "geheim"})
    good = "whsec_" + base64.b64encode(b"k" * 24).decode()
    assert open_channels(targets, {"HOOK": good})["hook"].capability is Capability.KEY


async def test_the_receiver_itself_leaves_out_repeats(receiver: Receiver) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.post(receiver.url, data=b"{}", headers={"webhook-id": "m"}) as answer:
                assert answer.status == 204
    await wait_until(lambda: len(receiver.requests) == 2, "both are logged")
    assert (receiver.applied, receiver.repeats) == (["m"], 1)
