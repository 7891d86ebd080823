"""Two owners and the world, at random: whatever the order and whichever replies are lost, the bracket of a send holds.

The world is simulated: an attempt whose intent was answered may reach the receiver or not, and its owner may live to tell or not.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ledger import delivery, planning
from ledger.commands import Call, SyncScripts
from ledger.keys import Keyspace, make_turn_id
from ledger.parts import NewPart, PartRecord, Verdict
from ledger.planning import BlockEntry
from ledger.states import SETTLED, Operation, State, next_state

TTL = 60_000
WINDOW = 3_600_000
TARGETS = ("key", "none")
BLOCKS = 2
BY_CLOCK_OR_PERSON = (
    Operation.RECOVER,
    Operation.REKEY,
    Operation.STEP_ASIDE,
    Operation.EXPIRE,
    Operation.ABANDON,
    Operation.RESEND,
    Operation.REQUEUE,
    Operation.RESOLVE_SENT,
    Operation.DROP,
)


@dataclass
class Attempt:
    """One attempt that was let through to a socket."""

    part: str
    id: str
    target: str
    arrived: bool | None = None


@dataclass
class World:
    """What really happened."""

    attempts: list[Attempt] = field(default_factory=list)
    waived: set[str] = field(default_factory=set)


class Deliveries(RuleBasedStateMachine):
    """One partition with a keyed and a bare target, attacked by an owner, its predecessor, and persons."""

    url = ""

    @initialize()
    def begin(self) -> None:
        self.client = redis.Redis.from_url(self.url, decode_responses=True)
        self.client.flushall()
        self.scripts = SyncScripts(self.client)
        self.keys = Keyspace(partitions=1)
        self.turn = make_turn_id(0, "0" * 24)
        self.epoch = 0
        self.world = World()
        self.planned: list[str] = []
        self.block = 0
        self.made = 0
        self.client.hset(self.keys.turn(self.turn), mapping={"state": "running", "planned": 0, "open_parts": 0})
        self.take_over()

    def teardown(self) -> None:
        if hasattr(self, "client"):
            self.client.close()

    def run_call(self, call: Call[Any], *, lost: bool) -> Any:
        """Run a call; with a lost reply it is run again, as its caller would."""
        if lost:
            self.scripts.run(call)
        return self.scripts.run(call)

    def some(self, data: st.DataObject) -> PartRecord:
        """A part, rather one that is not settled: there is more to try with it."""
        records = [self.part(part_id) for part_id in self.planned]
        lively = [record for record in records if record.state not in SETTLED]
        rather: bool = data.draw(st.sampled_from([True, True, True, False]))
        chosen: PartRecord = data.draw(st.sampled_from(lively if lively and rather else records))
        return chosen

    def part(self, part_id: str) -> PartRecord:
        record = self.scripts.run(delivery.read_part(self.keys, part_id))
        assert record is not None
        return record

    @rule()
    def take_over(self) -> None:
        self.epoch += 1
        self.token = f"{self.epoch}:x"
        self.client.hset(self.keys.owner("delivery", 0), mapping={"token": self.token})

    @precondition(lambda self: self.block < BLOCKS)
    @rule(lost=st.booleans(), stale=st.booleans())
    def plan_a_block(self, *, lost: bool, stale: bool) -> None:
        entry_id = str(self.client.xadd(self.keys.blocks(0), {"turn": self.turn, "block": self.block}))
        self.client.hincrby(self.keys.turn(self.turn), "blocks_next", 1)
        parts = [
            NewPart(
                turn=self.turn,
                block=self.block,
                part=0,
                session="s",
                channel="webhook",
                target=target,
                recipient="",
                body=str(self.block),
                content_type="text/plain",
                account="",
            )
            for target in TARGETS
        ]
        entry = BlockEntry(id=entry_id, turn=self.turn, block=self.block)
        prev = self.client.hget(self.keys.committed(0), "blocks") or "0-0"
        for token in ("0:stale", self.token) if stale else (self.token,):
            call = planning.plan(
                self.keys, 0, token=token, prev=str(prev), entry=entry, parts=parts, ttl_ms=TTL, index_ttl_ms=TTL
            )
            reply = self.run_call(call, lost=lost).reply
            assert (reply == "STALE") == (token != self.token)
        self.planned += [part.id for part in parts]
        self.block += 1

    @precondition(lambda self: self.planned)
    @rule(data=st.data(), lost=st.booleans(), stale=st.booleans())
    def try_to_send(self, data: st.DataObject, *, lost: bool, stale: bool) -> None:
        part = self.some(data)
        self.made += 1
        call = delivery.intent(
            self.keys,
            0,
            token="0:stale" if stale else self.token,
            part=part,
            attempt=f"a{self.made}",
            quarantine_ms=0,
            key_window_ms=WINDOW if part.target == "key" else 0,
            need_ms=0,
        )
        reply = self.run_call(call, lost=lost).reply
        if reply in {"OK", "ALREADY"}:
            assert not stale
            assert self.scripts.run(delivery.lane_head(self.keys, 0, part.lane)) == part.id
            self.world.attempts.append(Attempt(part=part.id, id=f"a{self.made}", target=part.target))

    @precondition(lambda self: self.world.attempts)
    @rule(data=st.data(), arrives=st.booleans())
    def the_network_decides(self, data: st.DataObject, *, arrives: bool) -> None:
        attempt = data.draw(st.sampled_from(self.world.attempts))
        if attempt.arrived is None:
            attempt.arrived = arrives

    @precondition(lambda self: self.world.attempts)
    @rule(data=st.data(), knows=st.booleans(), lost=st.booleans(), failed=st.booleans())
    def an_attempt_tells(self, data: st.DataObject, *, knows: bool, lost: bool, failed: bool) -> None:
        attempt = data.draw(st.sampled_from(self.world.attempts))
        proven = False
        if attempt.arrived is None or not knows:
            verdict = Verdict.RETRY if failed else Verdict.UNKNOWN  # a 5xx, or no answer
        else:
            verdict = Verdict.SENT if attempt.arrived else Verdict.RETRY
            proven = not attempt.arrived
        call = delivery.receipt(
            self.keys,
            0,
            part=self.part(attempt.part),
            attempt=attempt.id,
            verdict=verdict,
            wait_ms=0,
            receipt="{}",
            ttl_ms=TTL,
            proven=proven,
        )
        self.run_call(call, lost=lost)

    @precondition(lambda self: self.planned)
    @rule(data=st.data(), lost=st.booleans())
    def a_clock_or_a_person_acts(self, data: st.DataObject, *, lost: bool) -> None:
        part = self.some(data)
        allowed = [operation for operation in BY_CLOCK_OR_PERSON if next_state(part.state, operation)]
        operation = data.draw(st.sampled_from(allowed or BY_CLOCK_OR_PERSON))
        if operation is Operation.REKEY and part.target != "key":
            return
        call = delivery.advance(self.keys, 0, part=part, operation=operation, note="", ttl_ms=TTL, token=self.token)
        if lost:
            self._twice(call)
        else:
            self.run_call(call, lost=False)
        # By the state and not by the reply: the repeat of an order that was carried out is refused.
        if operation in {Operation.RESEND, Operation.REQUEUE} and self.part(part.id).state is State.RETRY:
            self.world.waived.add(part.id)

    def _twice(self, call: Call[delivery.Step]) -> str:
        reply = self.scripts.run(call).reply
        self.scripts.run(call)
        return reply

    @invariant()
    def the_bracket_holds(self) -> None:
        if not hasattr(self, "planned"):
            return
        records = [self.part(part_id) for part_id in self.planned]
        for record in records:
            self.check(record)
        for target in TARGETS:  # each lane sends one part at a time
            assert sum(record.target == target and record.state is State.SENDING for record in records) <= 1
        unsettled = sum(record.state not in SETTLED for record in records)
        assert int(str(self.client.hget(self.keys.turn(self.turn), "open_parts"))) == unsettled

    def check(self, record: PartRecord) -> None:
        attempts = [attempt for attempt in self.world.attempts if attempt.part == record.id]
        doubtful = [attempt for attempt in attempts if attempt.arrived is not False]
        # A bare target is written to once, unless a person said so.
        assert record.target == "key" or len(doubtful) <= 1 or record.id in self.world.waived
        # What is called sent did arrive, or a person said so.
        by_hand = "resolve_sent" in record.note
        assert record.state is not State.SENT or by_hand or any(attempt.arrived for attempt in attempts)
        # Two attempts that were both told to have arrived are detected.
        told = [made for made in record.attempts_made.values() if made.endswith(" sent")]
        assert len(told) <= 1 or record.duplicate_detected


@pytest.fixture
def machine(redis_url: str) -> type[Deliveries]:
    return type("Attacked", (Deliveries,), {"url": redis_url})


def test_the_bracket_of_a_send_holds_at_any_interleaving(machine: type[Deliveries]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_bracket_of_a_send_holds_at_many_interleavings(machine: type[Deliveries]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=300, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
