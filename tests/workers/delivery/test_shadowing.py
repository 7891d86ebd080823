"""A shadowed turn's deliveries: made in full, recorded, and sent by nobody here; and a target that records in place of sending."""

import contextlib
from pathlib import Path

import msgspec

from ledger.delivery import resolve
from ledger.errors import LedgerError
from ledger.shadow import report_sent
from ledger.states import SETTLED, TRANSITIONS, State
from ledger.turns import read_turn
from scripts.channels.discord import Discord
from tests.support.chats import MEDIA
from tests.support.waiting import wait_until
from tests.workers.delivery.conftest import Site
from workers.config import Config, TargetConfig, check
from workers.config.channels import key_window_of, promise_of, secret_variable
from workers.delivery.channels.contract import Typing, reconciling
from workers.delivery.channels.registry import TERMS, open_channels
from workers.delivery.outcomes import Capability
from workers.shadow.collection import Message, Shadowed, collect


async def compared(site: Site, turn: str) -> Shadowed:
    record = await site.desk.run(read_turn(site.desk.keys, turn))
    assert record is not None
    return await collect(site.desk.run, site.desk.keys, record)


async def tell(site: Site, turn: str, *texts: str, target: str = "hook") -> None:
    messages = {n: msgspec.json.encode(Message(target=target, text=text)).decode() for n, text in enumerate(texts)}
    call = report_sent(site.desk.keys, turn, messages, total=len(messages), ttl_ms=60_000)
    assert (await site.desk.run(call)).status == "OK"


async def test_a_shadowed_turns_parts_are_recorded_and_go_nowhere(site: Site) -> None:
    turn = await site.turn("hook", "terminal", blocks=3, mode="shadow", state="completed")
    site.start()
    await site.until(6, State.SUPPRESSED)
    assert all(part.body for part in await site.parts())
    live = await site.turn("hook", blocks=1, turn=turn[:-1] + "1")
    await site.until(1, State.SENT, turn=live)
    assert [body["turn"] for body in site.receiver.texts] == [live]
    assert site.shown() == []
    keys, client = site.desk.keys, site.desk.client
    assert await client.exists(keys.lanes(1)) == 0

    async def expires() -> bool:
        return bool(await client.pttl(keys.turn(turn)) > 0)

    await wait_until(expires, "the shadowed turn's record has a time to live")


async def test_no_word_of_anybody_sends_a_suppressed_part(site: Site) -> None:
    assert not [step for step in TRANSITIONS if step[0] is State.SUPPRESSED]
    assert State.SUPPRESSED in SETTLED
    await site.turn("hook", blocks=1, mode="shadow")
    site.start()
    await site.until(1, State.SUPPRESSED)
    [part] = await site.parts()
    with contextlib.suppress(LedgerError, ValueError):
        await site.desk.run(resolve(site.desk.keys, part, sent=False, by="a test", quarantine_ms=0, ttl_ms=60_000))
    assert await site.states() == [State.SUPPRESSED]
    assert site.receiver.requests == []


async def test_both_sides_are_compared_once_they_are_whole(site: Site) -> None:
    turn = await site.turn("hook", blocks=2, mode="shadow")
    site.start()
    await site.until(2, State.SUPPRESSED)
    assert (await compared(site, turn)).verdict == "unfinished"
    await site.desk.client.hset(site.desk.keys.turn(turn), "state", "completed")
    assert (await compared(site, turn)).verdict == "unreported"
    await tell(site, turn, "text 0", "text 1")
    found = await compared(site, turn)
    assert (found.verdict, found.ours, found.theirs) == ("equal", {"hook": ["text 0", "text 1"]}, found.ours)


async def test_what_differs_is_named(site: Site) -> None:
    turn = await site.turn("hook", blocks=2, mode="shadow", state="completed")
    site.start()
    await site.until(2, State.SUPPRESSED)
    await tell(site, turn, "text0", "text 1", "text 1")
    found = await compared(site, turn)
    assert found.verdict == "spacing, extra"
    assert found.as_row()["kinds"] == ["spacing", "extra"]


async def test_what_is_not_kept_any_more_is_not_compared(site: Site) -> None:
    turn = await site.turn("hook", blocks=1, mode="shadow", state="completed")
    site.start()
    await site.until(1, State.SUPPRESSED)
    [part] = await site.parts()
    await site.desk.client.delete(site.desk.keys.part(part.id))
    assert (await compared(site, turn)).verdict == "expired"


async def test_a_recording_target_goes_the_whole_way_and_nothing_leaves(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "recorded.jsonl"
    async with Discord() as server:
        site.chats["room"] = {**MEDIA["discord"].settings(server), "record": str(file), "token_env": "", "base_url": ""}
        turn = await site.turn("room", "hook", blocks=3)
        site.start()
        await site.until(6, State.SENT)
        assert server.requests == []
    lines = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
    assert [line["text"] for line in lines] == ["text 0", "text 1", "text 2"]
    parts = [part for part in await site.parts() if part.target == "room"]
    assert [line["delivery"] for line in lines] == [part.id for part in parts]
    assert {(line["channel"], line["recipient"], line["turn"]) for line in lines} == {("discord", "100", turn)}
    assert all('"reason":"written"' in part.receipt and part.attempts == 1 for part in parts)


def test_a_recording_target_promises_what_a_file_does_and_asks_what_its_channel_asks() -> None:
    config = TargetConfig(channel="discord", recipient="7/9", record="file", token_env="NOT_READ")
    assert check(Config(targets={"room": config})) == []
    assert (key_window_of(config), promise_of(config), secret_variable(config)) == (0, "none", ("token_env", ""))
    channel = open_channels({"room": config}, {})["room"]
    assert (channel.terms, channel.capability, reconciling(channel)) == (TERMS["discord"], Capability.NONE, None)
    assert not isinstance(channel, Typing)
