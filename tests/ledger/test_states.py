"""The delivery machine: what the table says, and that a real server does exactly that in every cell."""

import pytest

from ledger import delivery
from ledger.parts import PartRecord, Reply, Verdict
from ledger.states import INITIAL, SETTLED, TRANSITIONS, Operation, State, is_settled, mermaid, next_state, row
from tests.support.deliveries import TTL_MS, WINDOW_MS, Desk, as_state


async def apply(desk: Desk, part: PartRecord, operation: Operation) -> Reply:
    """Ask for one operation with everything granted that it depends on besides the state."""
    if operation is Operation.INTENT:
        return (await desk.intent(as_state(part, State.PENDING))).reply
    if operation is Operation.REATTEMPT:
        await desk.own("2:bbbb")
        return (await desk.intent(as_state(part, State.SENDING))).reply
    if operation.value.startswith("receipt_"):
        verdict = Verdict(operation.value.removeprefix("receipt_"))
        return (await desk.receipt(part, part.attempt or "none", verdict)).reply
    options: dict[str, object] = {}
    match operation:
        case (
            Operation.RESOLVE_SENT | Operation.RESOLVE_NOT_SENT | Operation.RESEND | Operation.REQUEUE | Operation.DROP
        ):
            token = ""
        case _:
            await desk.own("2:bbbb")
            token = desk.token
    if operation is Operation.REKEY:
        options = {"key_window_ms": WINDOW_MS}
    if operation is Operation.LAPSE:
        options = {"key_window_ms": 0}
    if operation is Operation.EXPIRE:
        options = {"since": "age_from"}
    if operation is Operation.ABANDON:
        options = {"since": "unknown_at"}
    call = delivery.advance(
        desk.keys,
        desk.p,
        part=part,
        operation=operation,
        note="",
        ttl_ms=TTL_MS,
        token=token,
        **options,  # type: ignore[arg-type]  # gathered above
    )
    return (await desk.run(call)).reply


HELD_IN = {
    State.SENDING: "sending",
    State.RETRY: "due",
    State.UNKNOWN: "unknown",
    State.DEAD: "dead",
    State.ABANDONED: "dead",
}


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("state", State)
async def test_a_server_does_in_every_cell_what_the_table_says(desk: Desk, state: State, operation: Operation) -> None:
    [planned] = await desk.plan(desk.new_part(state=State.SUPPRESSED if state is State.SUPPRESSED else State.PENDING))
    part = await desk.bring(planned, state)
    reply = await apply(desk, part, operation)
    expected = next_state(state, operation)
    after = await desk.part(part.id)
    assert after.state is (expected or state)
    assert (reply in {Reply.OK, Reply.ALREADY}) or expected is None
    lists = {HELD_IN[after.state]} if after.state in HELD_IN else set()
    if not is_settled(after.state) and operation is not Operation.STEP_ASIDE:
        lists.add("lane")
    if operation is Operation.STEP_ASIDE and expected is None and not is_settled(after.state):
        lists.add("lane")
    assert await desk.where(after) == lists
    assert (await desk.client.pttl(desk.keys.part(part.id)) > 0) == is_settled(after.state)
    open_parts = int(await desk.client.hget(desk.keys.turn(desk.turn), "open_parts"))
    assert open_parts == (0 if is_settled(after.state) else 1)


def test_nothing_settled_is_ever_sent_again_but_by_a_person() -> None:
    leaving = {(start, done) for start, done in TRANSITIONS if start in SETTLED}
    assert leaving == {(State.DEAD, Operation.REQUEUE)}


def test_only_an_intent_leads_into_sending() -> None:
    assert {done for (_, done), end in TRANSITIONS.items() if end is State.SENDING} == {
        Operation.INTENT,
        Operation.REATTEMPT,
    }


def test_a_part_being_sent_dies_only_by_its_own_answer() -> None:
    assert {done for (start, done), end in TRANSITIONS.items() if (start, end) == (State.SENDING, State.DEAD)} == {
        Operation.RECEIPT_DEAD
    }


def test_every_state_can_be_reached() -> None:
    assert INITIAL | set(TRANSITIONS.values()) == set(State)


def test_a_row_lists_where_an_operation_acts() -> None:
    assert row(Operation.INTENT) == {State.PENDING: State.SENDING, State.RETRY: State.SENDING}


def test_the_diagram_shows_every_edge_once() -> None:
    text = mermaid()
    edges = {(start, end) for (start, _), end in TRANSITIONS.items()}
    assert text.startswith("stateDiagram-v2\n")
    for start, end in edges:
        assert text.count(f"    {start} --> {end}:") == 1
