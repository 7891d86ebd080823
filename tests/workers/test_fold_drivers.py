"""Three drivers, one machine: the fold worker on a real server, events collected at once, and a body decoded inline."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from ledger.log import PublishStatus, publish, read_positions
from pipeline.codec import encode_batch
from pipeline.events import Event, ToolFinished, ToolStarted, TurnStarted
from pipeline.normalize.registry import WIRES
from pipeline.turn import Turn, collect, decode
from scripts import sdk
from tests.pipeline.streams import body, call, message, opening, response
from tests.support.waiting import wait_until
from tests.workers.fold_bench import KEYS, PARTITION, Bench, config_of, owner_of, run_whole, turn_id

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
STREAMS = sorted(
    path
    for wire in WIRES
    for path in GOLDEN.joinpath(wire).glob("*")
    if path.suffix in {".sse", ".jsonl"} and path.name.count(".") == 1
)


@pytest.fixture
async def bench(redis_url: str) -> AsyncIterator[Bench]:
    made = Bench(redis_url, config_of(redis_url))
    yield made
    await made.close()


def test_there_are_streams_of_every_wire() -> None:
    assert {path.parent.name for path in STREAMS} == set(WIRES) - {"canonical"}


@pytest.mark.parametrize("stream", STREAMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
async def test_every_driver_gives_the_same(bench: Bench, stream: Path) -> None:
    turn, data, wire = turn_id(1), stream.read_bytes(), stream.parent.name
    inline = decode([data], wire, turn=turn)
    sse = "".join(frame.sse for frame in inline.frames)
    in_bits = decode([data[at : at + 7] for at in range(0, len(data), 7)], wire, turn=turn)
    assert (in_bits.frames, in_bits.blocks, in_bits.payload) == (inline.frames, inline.blocks, inline.payload)

    collected = collect(inline.events)
    assert (collected.frames, collected.blocks, collected.payload) == (inline.frames, inline.blocks, inline.payload)
    muted = Turn(turn, relay=False)
    blocks = [block for event in inline.events for block in muted.push(event).blocks]
    assert (blocks, muted.finish().response) == (inline.blocks, inline.payload.response)

    assert await run_whole(bench, turn, inline.events) == sse
    assert list(sdk.public_faults(inline)) == []  # what the SDK reads, and our own strict decoder
    record = await bench.record(turn)
    assert (record.state.value, record.blocks_next) == (inline.payload.status, len(inline.blocks))


async def test_the_fold_worker_tells_the_producers_apart(bench: Bench) -> None:
    """The answer of a gateway's tool comes between the upstream's events and is shown in the place of its call."""
    turn = turn_id(1)
    upstream = [
        *opening(),
        *call(0, ['{"query":"x"}'], "find")[0],
        *message(1, ["Found."])[0],
        {"type": "response.completed", "response": response("completed")},
    ]
    start, *events = decode([body(upstream)], "responses", turn=turn).events
    assert isinstance(start, TurnStarted)
    tools: list[Event] = [
        ToolStarted(seq=0, at=0, item=0, call_id="call_0", name="find", kind="web_search"),
        ToolFinished(seq=1, at=0, item=0, call_id="call_0", status="completed", output=[]),
    ]
    told: list[tuple[str, list[Event]]] = [
        ("ingest", [replace(start, tools={"find": "web_search"}), *events[:-1]]),
        ("tools", tools),
        ("ingest", events[-1:]),
    ]
    machine = Turn(turn)
    sse = "".join(frame.sse for by, some in told for event in some for frame in machine.push(event, by).frames)
    assert "event: response.web_search_call.completed" in sse

    await bench.open(turn)
    await bench.client.execute_command("HSET", KEYS.turn(turn), "tools_token", "granted")
    async with owner_of(bench):
        await bench.publish(turn, told[0][1])
        await wait_until(lambda: folded(bench), "the fold of what the upstream said so far")
        assert await bench.client.execute_command("HEXISTS", KEYS.turn(turn), "tool_since")
        grant = publish(
            KEYS, turn, token="granted", producer="tools", first_seq=0, events_json=encode_batch(tools), n=2
        )
        assert (await bench.scripts.run(grant)).status is PublishStatus.OK
        await wait_until(lambda: folded(bench), "the fold of the answer")
        assert not await bench.client.execute_command("HEXISTS", KEYS.turn(turn), "tool_since")
        await bench.publish(turn, told[2][1])
        await wait_until(lambda: bench.ended(turn), "the end of the turn")
    assert await bench.frames(turn) == sse


async def folded(bench: Bench) -> bool:
    return (await bench.scripts.run(read_positions(KEYS, PARTITION))).lag == 0
