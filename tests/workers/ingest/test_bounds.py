import asyncio

from tests.support.waiting import turn_of_the_loop, wait_until
from workers.ingest.bounds import LagGate, Room


async def test_a_turn_waits_while_its_own_bytes_are_not_published() -> None:
    room = Room(total_bytes=1_000, turn_bytes=100)
    used = {"turn": 100}
    room.moved(100)
    waiting = asyncio.create_task(room.wait(lambda: used["turn"]))
    await turn_of_the_loop()
    assert not waiting.done()
    used["turn"] = 40
    room.moved(-60)
    await wait_until(waiting.done, "the turn may read")


async def test_a_turn_waits_while_the_process_is_full_of_others_bytes() -> None:
    room = Room(total_bytes=1_000, turn_bytes=900)
    room.moved(1_000)
    waiting = asyncio.create_task(room.wait(lambda: 10))
    await turn_of_the_loop()
    assert not waiting.done()
    room.moved(-1)
    await wait_until(waiting.done, "the turn may read")


async def test_others_bytes_cannot_starve_a_turn_that_has_none() -> None:
    room = Room(total_bytes=1_000, turn_bytes=900)
    room.moved(5_000)
    await room.wait(lambda: 0)


async def test_the_gate_closes_at_the_high_mark_and_opens_below_the_low_one() -> None:
    gate = LagGate(high=10, low=5)
    gate.update(9)
    open_below_the_mark = not gate.closed
    gate.update(10)
    assert open_below_the_mark
    waiting = asyncio.create_task(gate.wait())
    gate.update(5)
    await turn_of_the_loop()
    assert (gate.closed, waiting.done()) == (True, False)
    gate.update(4)
    await wait_until(waiting.done, "the gate opens")
    gate.update(9)
    assert not gate.closed
