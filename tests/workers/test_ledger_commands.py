"""`foldline ledger list|show|purge` over deliveries in every state, on a server without a fleet."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio as aioredis
from typer.testing import CliRunner, Result

from ledger import planning
from ledger.keys import make_turn_id
from ledger.parts import NewPart, PartRecord
from ledger.planning import BlockEntry
from ledger.states import SETTLED, Operation, State
from tests.support.deliveries import TTL_MS, Desk
from tests.support.environment import without_settings
from workers.cli import ROLES, run_role
from workers.commands.index import build

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
MILLISECONDS = r"\b\d{13}\b"
SECRET = "what was said in confidence"


class Shelf(Desk):
    """A desk with one part in each state, each of a turn of its own; the unknown one has stepped aside from its lane."""

    parts: dict[State, PartRecord]

    async def fill(self) -> None:
        self.parts = {}
        position = "0-0"
        for number, state in enumerate(State):
            turn = await self.open_turn(make_turn_id(self.p, f"{number:024x}"), session=f"s{number}")
            await self.client.zadd(self.keys.turns(self.p), {turn: number})
            initial = State.SUPPRESSED if state is State.SUPPRESSED else State.PENDING
            new = NewPart(
                turn=turn,
                block=0,
                part=0,
                session=f"s{number}",
                channel="webhook",
                target="hook" if number % 2 else "other",
                recipient="",
                body=SECRET,
                content_type="text/plain",
                account="hook",
                state=initial,
            )
            entry = BlockEntry(id=await self.add_block(0, turn), turn=turn, block=0)
            call = planning.plan(
                self.keys,
                self.p,
                token=self.token,
                prev=position,
                entry=entry,
                parts=[new],
                ttl_ms=TTL_MS,
                index_ttl_ms=TTL_MS,
            )
            assert (await self.run(call)).reply == "OK"
            position = entry.id
            part = await self.part(new.id)
            if state is State.SENDING:
                await self.intent(part, "first")
            else:
                await self.bring(part, state)
            self.parts[state] = await self.part(new.id)
        unknown = self.parts[State.UNKNOWN]
        assert (await self.advance(unknown, Operation.STEP_ASIDE)).reply == "OK"

    def ids(self, *states: State) -> set[str]:
        return {self.parts[state].id for state in states}


@pytest.fixture
async def shelf(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shelf]:
    without_settings(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOLDLINE_REDIS_URL", redis_url)
    monkeypatch.setenv("FOLDLINE_REDIS_PARTITIONS", "8")
    async with aioredis.Redis.from_url(redis_url, decode_responses=True) as client:
        made = Shelf(client)
        await made.own("1:aaaa")
        await made.fill()
        yield made


async def run(*arguments: str, code: int = 0) -> Result:
    result = await asyncio.to_thread(CliRunner().invoke, build(run_role, ROLES), ["ledger", *arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


async def run_json(*arguments: str, code: int = 0) -> Any:
    return json.loads((await run(*arguments, "--json", code=code)).stdout)


async def listed(*arguments: str, code: int = 0) -> set[str]:
    rows = await run_json("list", *arguments, code=code)
    names = [row["part"] for row in rows]
    assert len(names) == len(set(names))
    return set(names)


async def test_without_a_choice_the_open_and_the_given_up_are_listed(shelf: Shelf) -> None:
    assert await listed() == shelf.ids(*(set(State) - {State.SENT, State.SUPPRESSED}))


@pytest.mark.parametrize("state", list(State))
async def test_each_state_is_listed_by_itself_and_the_unknown_by_exit_code_3(shelf: Shelf, state: State) -> None:
    assert await listed("--state", state, code=3 if state is State.UNKNOWN else 0) == shelf.ids(state)


async def test_no_unknown_delivery_is_exit_code_0(shelf: Shelf) -> None:
    assert await listed("--state", "unknown", "--target", "nowhere") == set()
    assert (await run("list", "--state", "unknown", "--target", "nowhere")).stdout == "no deliveries\n"


async def test_deliveries_are_chosen_by_target_and_by_turn(shelf: Shelf) -> None:
    hooked = {part.id for part in shelf.parts.values() if part.target == "hook"}
    settled = shelf.ids(State.SENT, State.SUPPRESSED)
    assert await listed("--target", "hook") == hooked - settled
    assert await listed("--target", "webhook:hook") == hooked - settled
    for part in shelf.parts.values():
        assert await listed("--turn", part.turn) == {part.id}
    sent = shelf.parts[State.SENT]
    assert await listed("--turn", sent.turn, "--state", "dead") == set()


async def test_deliveries_are_chosen_by_their_age(shelf: Shelf) -> None:
    old = shelf.parts[State.DEAD]
    await shelf.client.hincrby(shelf.keys.part(old.id), "settled_at", -7_200_000)
    assert await listed("--older-than", "1h") == {old.id}
    assert old.id not in await listed("--newer-than", "1h")
    assert await listed("--older-than", "3h") == set()
    assert "as in 15m" in (await run("list", "--older-than", "soon", code=2)).stderr


async def test_the_late_are_listed_and_marked(shelf: Shelf) -> None:
    assert await listed("--late") == set()
    unknown = await shelf.part(shelf.parts[State.UNKNOWN].id)
    await shelf.client.hset(shelf.keys.part(unknown.id), "attempt_at", 1)  # its quarantine is over
    assert (await run_json("resolve", unknown.id, "sent"))["state"] == "sent"
    rows = await run_json("list", "--late")
    assert [(row["part"], row["state"], row["late"]) for row in rows] == [(unknown.id, "sent", True)]
    shown = await run_json("show", unknown.id)
    assert (shown["late"], shown["passed_at"] > 0) == (True, True)


async def test_what_was_said_is_shown_to_those_who_ask_for_it_alone(shelf: Shelf) -> None:
    part = shelf.parts[State.DEAD]
    for arguments in (["list"], ["list", "--json"], ["show", part.id], ["show", part.id, "--json"]):
        assert SECRET not in (await run(*arguments)).output
        assert SECRET in (await run(*arguments, "--bodies")).output
    assert (await run_json("show", part.id))["body_bytes"] == len(SECRET)


async def test_people_read_times_with_their_age_and_programs_milliseconds(shelf: Shelf) -> None:
    for part in shelf.parts.values():
        told = (await run("show", part.id)).stdout
        assert re.search(rf"created_at +{TIME} \(\d+\w+ ago\)\n", told)
        assert not re.search(MILLISECONDS, told)
        assert (await run_json("show", part.id))["created_at"] == part.created_at
    told = (await run("show", shelf.parts[State.SENDING].id)).stdout
    assert re.search(rf"attempt 1 +{TIME} \(\d+\w+ ago\) sending, first\n", told)
    table = (await run("list")).stdout
    assert len(re.findall(rf"{TIME} \(\d+\w+ ago\)", table)) == len(await listed())
    assert not re.search(MILLISECONDS, table)


async def test_what_is_no_deliverys_id_is_called_so(shelf: Shelf) -> None:
    assert "no delivery's id: 'nonsense'" in (await run("show", "nonsense", code=1)).stderr


async def test_a_count_bounds_the_listing(shelf: Shelf) -> None:
    assert len(await listed("--count", "2")) == 2


async def test_a_purge_removes_what_is_settled_and_chosen_and_nothing_else(shelf: Shelf) -> None:
    settled = {state for state in State if state in SETTLED}
    would = await run_json("purge", "--older-than", "0s", "--dry-run")
    assert would == {"dry_run": True, "purged": 4, **{state.value: 1 for state in settled}}
    assert await listed("--state", "sent") == shelf.ids(State.SENT), "a dry run removes nothing"
    assert (await run_json("purge", "--state", "dead"))["purged"] == 1
    assert await listed("--state", "dead") == set()
    assert await listed("--state", "abandoned") == shelf.ids(State.ABANDONED), "they share a list"
    sent = shelf.parts[State.SENT]
    assert (await run_json("purge", "--turn", sent.turn))["sent"] == 1
    assert (await run_json("purge", "--turn", sent.turn))["purged"] == 0
    assert (await run_json("purge", "--older-than", "0s"))["purged"] == 2
    left = await listed("--older-than", "0s", code=0)
    assert left == shelf.ids(*(set(State) - settled))
    for state in set(State) - settled:
        assert (await shelf.part(shelf.parts[state].id)).body == SECRET


async def test_a_purge_keeps_what_is_younger_than_it_says(shelf: Shelf) -> None:
    old = shelf.parts[State.SENT]
    await shelf.client.hincrby(shelf.keys.part(old.id), "settled_at", -7_200_000)
    assert await run_json("purge", "--older-than", "1h") == {"dry_run": False, "purged": 1, "sent": 1}
    assert (await run_json("purge", "--target", "other", "--older-than", "1h"))["purged"] == 0


async def test_a_purge_says_what_it_may_not(shelf: Shelf) -> None:
    assert "say which" in (await run("purge", code=2)).stderr
    for state in ("pending", "sending", "retry", "unknown"):
        assert "still owes something" in (await run("purge", "--state", state, code=2)).stderr
    assert "not a turn id" in (await run("purge", "--turn", "nonsense", code=1)).stderr
