"""A desk to try deliveries at: one partition of a real server, an owner's token, and parts brought into any state."""

import dataclasses
from typing import Any, TypeVar

from ledger import delivery, planning
from ledger.commands import Call, Scripts
from ledger.keys import Keyspace, make_turn_id
from ledger.parts import NewPart, PartRecord, Verdict
from ledger.planning import BlockEntry
from ledger.states import Operation, State

T = TypeVar("T")

TTL_MS = 60_000
WINDOW_MS = 3_600_000


class Desk:
    """Everything of one partition, by name."""

    def __init__(self, client: Any, *, partition: int = 3) -> None:
        self.client = client
        self.keys = Keyspace(partitions=8)
        self.p = partition
        self.scripts = Scripts(client)
        self.token = "1:aaaa"
        self.turn = make_turn_id(partition, "0" * 24)
        self.attempts = 0

    async def run(self, call: Call[T]) -> T:
        return await self.scripts.run(call)

    async def own(self, token: str) -> None:
        self.token = token
        await self.client.hset(self.keys.owner("delivery", self.p), mapping={"token": token})

    async def open_turn(self, turn: str | None = None, state: str = "running", **fields: Any) -> str:
        turn = turn or self.turn
        record = {"v": 1, "id": turn, "state": state, "session": "s1", "blocks_next": 0, "planned": 0, "open_parts": 0}
        await self.client.hset(self.keys.turn(turn), mapping={**record, **fields})
        return turn

    async def add_block(self, block: int, turn: str | None = None, text: str = "text", **markers: Any) -> str:
        turn = turn or self.turn
        fields = {"ordinal": block, "opener": "", "text": text, "closer": "", "separator": "\n\n", "markers": "{}"}
        if markers:
            fields["markers"] = '{"suppressed":true}'
        await self.client.hset(self.keys.block(turn, block), mapping=fields)
        await self.client.hincrby(self.keys.turn(turn), "blocks_next", 1)
        return str(await self.client.xadd(self.keys.blocks(self.p), {"turn": turn, "block": block}))

    def new_part(self, block: int = 0, **changes: Any) -> NewPart:
        given: dict[str, Any] = {
            "turn": self.turn,
            "block": block,
            "part": 0,
            "session": "s1",
            "channel": "webhook",
            "target": "hook",
            "recipient": "",
            "body": f'{{"block":{block}}}',
            "content_type": "application/json",
            "account": "hook",
        }
        return NewPart(**{**given, **changes})

    async def plan(self, *parts: NewPart, block: int = 0) -> list[PartRecord]:
        """Plan the next block with these parts and return their records."""
        entry_id = await self.add_block(block)
        prev = await self.client.hget(self.keys.committed(self.p), "blocks") or "0-0"
        entry = BlockEntry(id=entry_id, turn=self.turn, block=block)
        await self.run(planning.take_blocks(self.keys, self.p, token=self.token, consumer="c", count=10))
        planned = await self.run(
            planning.plan(
                self.keys,
                self.p,
                token=self.token,
                prev=prev,
                entry=entry,
                parts=parts,
                ttl_ms=TTL_MS,
                index_ttl_ms=TTL_MS,
            )
        )
        assert planned.reply == "OK"
        return [await self.part(part.id) for part in parts]

    async def part(self, part_id: str) -> PartRecord:
        record = await self.run(delivery.read_part(self.keys, part_id))
        assert record is not None
        return record

    async def intent(self, part: PartRecord, attempt: str | None = None, **changes: Any) -> delivery.Intent:
        self.attempts += 1
        given: dict[str, Any] = {"quarantine_ms": 0, "key_window_ms": WINDOW_MS, "need_ms": 0}
        return await self.run(
            delivery.intent(
                self.keys,
                self.p,
                token=self.token,
                part=part,
                attempt=attempt or f"a{self.attempts}",
                **{**given, **changes},
            )
        )

    async def receipt(self, part: PartRecord, attempt: str, verdict: Verdict, **changes: Any) -> delivery.Step:
        given: dict[str, Any] = {"wait_ms": 0, "receipt": "{}", "ttl_ms": TTL_MS}
        return await self.run(
            delivery.receipt(self.keys, self.p, part=part, attempt=attempt, verdict=verdict, **{**given, **changes})
        )

    async def two(self) -> tuple[PartRecord, PartRecord]:
        """Two parts of one lane."""
        [first] = await self.plan(self.new_part(0), block=0)
        [second] = await self.plan(self.new_part(1), block=1)
        return first, second

    async def advance(self, part: PartRecord, operation: Operation, **changes: Any) -> delivery.Step:
        given: dict[str, Any] = {"token": self.token, "note": "", "ttl_ms": TTL_MS}
        return await self.run(
            delivery.advance(self.keys, self.p, part=part, operation=operation, **{**given, **changes})
        )

    async def bring(self, part: PartRecord, state: State) -> PartRecord:
        """Lead a pending part to a state by the operations that lead there."""
        if state not in {State.PENDING, State.SUPPRESSED}:
            assert (await self.intent(part, "first")).reply == "OK"
        verdicts = {State.SENT: Verdict.SENT, State.RETRY: Verdict.RETRY, State.DEAD: Verdict.DEAD}
        verdict = verdicts.get(state, Verdict.UNKNOWN)
        if state in {*verdicts, State.UNKNOWN, State.ABANDONED}:
            await self.receipt(part, "first", verdict)
        if state is State.ABANDONED:
            unknown = await self.part(part.id)
            await self.run(delivery.drop(self.keys, unknown, by="a test", quarantine_ms=0, ttl_ms=TTL_MS))
        record = await self.part(part.id)
        assert record.state is state
        return record

    async def where(self, part: PartRecord) -> set[str]:
        """The names of the lists that hold the part."""
        found = set()
        for name in ("sending", "due", "unknown", "dead"):
            if await self.client.zscore(getattr(self.keys, name)(self.p), part.id) is not None:
                found.add(name)
        if part.id in await self.run(delivery.read_lane(self.keys, self.p, part.lane)):
            found.add("lane")
        return found


def as_state(part: PartRecord, state: State) -> PartRecord:
    """The same record with another state, to ask for another operation."""
    return dataclasses.replace(part, state=state)
