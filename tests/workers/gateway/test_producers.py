"""Producers outside: the door for their events, its diagnostics, tokens and claims."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from ledger.external import EXTERNAL
from ledger.log import entries_of, read_entries
from pipeline.codec import decode_batch
from pipeline.events import Event, TurnStarted
from tests.workers.gateway.stage import Stage, stage

TOKEN = "X-Foldline-Producer"


@pytest.fixture
async def s(redis_url: str) -> AsyncIterator[Stage]:
    async with stage(redis_url) as opened:
        yield opened


def delta(seq: int, text: str = "a", **members: Any) -> dict[str, Any]:
    return {
        "type": "text_delta", "seq": seq, "at": 5, "item": 0, "content": 0, "track": "text", "text": text, **members
    }  # fmt: skip


def completed(seq: int) -> dict[str, Any]:
    return {"type": "turn_completed", "seq": seq, "at": 9, "outcome": "completed"}


async def submitted(s: Stage, **body: Any) -> tuple[str, str]:
    """An external turn and the token of its producer."""
    status, told = await s.post("/v1/turns", {"request": {}, "upstream": "outside", **body})
    assert status == 201, told
    assert told["producer"]["next"] == 1
    return told["id"], told["producer"]["token"]


async def publish(s: Stage, turn: str, token: str, *events: Any) -> tuple[int, Any]:
    return await s.post(f"/v1/turns/{turn}/events", list(events), **{TOKEN: token})


async def logged(s: Stage, turn: str) -> list[Event]:
    ids = await s.scripts.run(entries_of(s.keys, turn))
    entries = await s.scripts.run(read_entries(s.keys, s.keys.partition_of_turn(turn), ids))
    assert {entry.producer for entry in entries} == {EXTERNAL}
    return [event for entry in entries for event in decode_batch(entry.events)]


async def test_submit_publishes_the_first_event_and_gives_the_token(s: Stage) -> None:
    turn, token = await submitted(s, targets=["log"], settings={"min_chars": 5})
    [first] = await logged(s, turn)
    assert isinstance(first, TurnStarted)
    assert (first.wire, first.upstream, first.runtime) == ("canonical", "outside", "acp")
    assert [target.name for target in first.targets] == ["log"]
    assert token.startswith("1:")
    assert (await s.record(turn)).entry == ""


async def test_the_same_key_gives_the_same_turn_and_token(s: Stage) -> None:
    turn, token = await submitted(s, idempotency_key="k")
    status, told = await s.post("/v1/turns", {"request": {}, "upstream": "outside", "idempotency_key": "k"})
    assert (status, told["id"], told["producer"]) == (200, turn, {"token": token, "next": 1})


async def test_events_are_published_in_order_and_a_repeat_adds_nothing(s: Stage) -> None:
    turn, token = await submitted(s)
    assert await publish(s, turn, token, delta(1), delta(2)) == (200, {"next": 3, "cancel": False, "lag": 3})
    assert (await publish(s, turn, token, delta(1), delta(2)))[0] == 200
    status, told = await publish(s, turn, token, delta(2), delta(3), completed(4))
    assert (status, told["next"]) == (200, 5)
    assert [event.seq for event in await logged(s, turn)] == [0, 1, 2, 3, 4]
    status, told = await publish(s, turn, token, delta(2), delta(3), completed(4))
    assert (status, told["next"]) == (200, 5)
    status, told = await publish(s, turn, token, delta(5))
    assert (status, told["error"]["code"]) == (409, "turn_ended")


async def test_an_event_a_line_is_taken_too(s: Stage) -> None:
    turn, token = await submitted(s)
    lines = b"\n".join(msgspec.json.encode(event) for event in (delta(1), delta(2))) + b"\n"
    async with s.http.post(f"{s.url}/v1/turns/{turn}/events", data=lines, headers={TOKEN: token}) as answer:
        assert (await answer.json())["next"] == 3


async def test_a_gap_and_other_events_under_known_numbers_say_what_is_next(s: Stage) -> None:
    turn, token = await submitted(s)
    await publish(s, turn, token, delta(1), delta(2))
    status, told = await publish(s, turn, token, delta(4))
    assert (status, told["error"]["code"], told["error"]["next"]) == (409, "sequence_gap", 3)
    status, told = await publish(s, turn, token, delta(2, "b"), delta(3))
    assert (status, told["error"]["code"]) == (409, "sequence_conflict")
    assert len(await logged(s, turn)) == 3


REFUSED = [
    ([delta(1), delta(2, track="sideways")], "value_unknown", "$[1].track", 2),
    ([delta(1, extra=1)], "member_unknown", "$[0].extra", 1),
    ([{"type": "text_delta", "seq": 1}], "member_missing", "$[0].at", 1),
    ([{"type": "turn_sideways", "seq": 1, "at": 1}], "type_unknown", "$[0].type", 1),
    ([delta(1), delta(3)], "sequence_broken", "$[1].seq", 3),
    ([completed(1), delta(2)], "after_terminal", "$[1]", 2),
    ([{"type": "turn_started", "seq": 1, "at": 1, "fold": 1, "runtime": "acp", "wire": "acp", "turn": "t", "session": "s"}],
     "turn_started_given", "$[0]", 1),
    ([], "events_missing", "$", None),
]  # fmt: skip


@pytest.mark.parametrize(("events", "code", "path", "seq"), REFUSED, ids=[case[1] for case in REFUSED])
async def test_a_malformed_event_is_refused_with_a_diagnostic_and_nothing_is_kept(
    s: Stage, events: list[Any], code: str, path: str, seq: int | None
) -> None:
    turn, token = await submitted(s)
    status, told = await publish(s, turn, token, *events)
    found = told["error"]["diagnostic"]
    assert (status, told["error"]["code"], told["error"]["param"]) == (400, "event_refused", path)
    assert (found["code"], found["path"], found["turn"], found["producer"]) == (code, path, turn, EXTERNAL)
    assert found["seq"] == seq
    assert len(await logged(s, turn)) == 1


async def test_what_is_no_json_is_refused_by_its_line(s: Stage) -> None:
    turn, token = await submitted(s)
    async with s.http.post(f"{s.url}/v1/turns/{turn}/events", data=b"{nope", headers={TOKEN: token}) as answer:
        told = await answer.json()
    assert (answer.status, told["error"]["diagnostic"]["code"]) == (400, "json_malformed")


async def test_a_claim_ends_the_producer_before_it(s: Stage) -> None:
    turn, token = await submitted(s, idempotency_key="k")
    await publish(s, turn, token, delta(1))
    status, claimed = await s.post(f"/v1/turns/{turn}/claim", {})
    assert (status, claimed["next"], claimed["cancel"]) == (200, 2, False)
    status, told = await publish(s, turn, token, delta(2))
    assert (status, told["error"]["code"]) == (409, "producer_stale")
    assert (await publish(s, turn, claimed["token"], delta(2)))[0] == 200
    _, again = await s.post("/v1/turns", {"request": {}, "upstream": "outside", "idempotency_key": "k"})
    assert again["producer"]["token"] is None  # the submitter is not the producer any more


async def test_a_producer_hears_of_a_cancel(s: Stage) -> None:
    turn, token = await submitted(s)
    await s.post(f"/v1/turns/{turn}/cancel", {})
    status, told = await publish(s, turn, token, delta(1))
    assert (status, told["cancel"]) == (200, True)


async def test_what_is_no_external_turn_cannot_be_published_to(s: Stage) -> None:
    turn = await s.submit()
    status, told = await publish(s, turn, "1:x", delta(1))
    assert (status, told["error"]["code"]) == (409, "turn_not_external")
    status, _ = await s.post(f"/v1/turns/{turn}/claim", {})
    assert status == 409
    status, _ = await publish(s, f"0-{1:024x}", "1:x", delta(1))
    assert status == 404
    turn, _ = await submitted(s)
    status, told = await s.post(f"/v1/turns/{turn}/events", [delta(1)])
    assert (status, told["error"]["code"]) == (400, "producer_needed")


async def test_another_tenants_turn_is_not_there(s: Stage) -> None:
    turn, token = await submitted(s)
    await s.add_key("secret-of-another", "another")
    status, _ = await s.post(
        f"/v1/turns/{turn}/events", [delta(1)], **{TOKEN: token, "Authorization": "Bearer secret-of-another"}
    )
    assert status == 404


async def test_a_token_is_shown_to_nobody_but_the_submitter(s: Stage) -> None:
    turn, token = await submitted(s)
    _, told = await s.get(f"/v1/turns/{turn}")
    assert told["producer"] == {"next": 1}
    assert token not in str(told)


async def test_a_producer_waits_while_the_fold_is_behind(redis_url: str) -> None:
    async with stage(redis_url) as s:
        turn, token = await submitted(s)
        await s.client.hset(s.keys.committed(s.keys.partition_of_turn(turn)), "published", "30000")
        status, told = await publish(s, turn, token, delta(1))
        assert (status, told["error"]["code"]) == (429, "partition_behind")
        assert await s.client.hexists(s.keys.turn(turn), "waited_at"), "it is not silent meanwhile"
        assert (await publish(s, turn, token, completed(1)))[0] == 200  # an end frees memory


async def test_a_long_request_goes_in_pieces(s: Stage) -> None:
    turn, token = await submitted(s)
    status, told = await publish(s, turn, token, *(delta(seq) for seq in range(1, 1400)), completed(1400))
    assert (status, told["next"]) == (200, 1401)
    assert [event.seq for event in await logged(s, turn)] == list(range(1401))
