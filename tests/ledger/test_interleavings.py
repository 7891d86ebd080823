"""The scripts, attacked by two clients of each role at random interleavings with lost replies, lapsing leases and take-overs."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from ledger import log, ownership, retention, turns
from ledger.keys import Keyspace
from ledger.records import LogEntry, log_entries, position_key
from tests.ledger.conftest import Bench
from tests.ledger.fleet import PARTITION, Ingest, Owner, Wire, apart, is_end

WHO = st.integers(0, 1)
WHICH = st.integers(0, 2)
LOSE = st.sampled_from([False, False, True])
FEW = st.integers(1, 3)
EVENTS = ["owner lapses", "claim lapses", "owner dies", "ingest dies", "submit", "trim", *["nothing"] * 6]


class Fleet(RuleBasedStateMachine):
    """Two ingest processes and two fold workers on one partition with three turns."""

    client: Any

    @initialize()
    def begin(self) -> None:
        self.client.flushall()
        self.keys = Keyspace(partitions=4)
        self.wire = Wire(self.client, self.keys)
        self.ingest = [Ingest(self.wire, name) for name in "XY"]
        self.owners = [Owner(self.wire, name) for name in "AB"]
        self.turns = [f"{PARTITION}-{number:024x}" for number in range(3)]
        self.seen: dict[str, LogEntry] = {}
        for which in range(3):
            self.submit(which)
        self.ingest[0].claim(self.turns[0], lose=False)
        self.ingest[0].claim(self.turns[1], lose=False)
        self.owners[0].raise_(lose=False)

    def submit(self, which: int) -> None:
        """Submit a turn, or submit it again."""
        targets = '["console"]' if which else "[]"
        new = Bench(self.client, self.keys).new(self.turns[which], targets=targets)
        reply = self.wire.ask(turns.submit(self.keys, new, tenant_limit=9, partition_limit=9))
        assert reply is not None
        assert reply in {turns.SubmitStatus.OK, turns.SubmitStatus.ALREADY}

    # Few rules with many choices: hypothesis leaves whole rules out of an example, and each of these steps needs the others.

    @rule(
        who=WHO, which=WHICH, step=st.sampled_from("pppprx"), fresh=st.integers(0, 3), end=st.integers(0, 7), lose=LOSE
    )
    def an_ingest_process_acts(self, who: int, which: int, step: str, fresh: int, end: int, lose: bool) -> None:
        process, turn = self.ingest[who], self.turns[which]
        if turn not in process.claims:
            process.claim(turn, lose=lose)
        elif step == "p":
            process.publish(turn, fresh, end=end == 0, lose=lose)
        elif step == "r":
            process.renew(turn)
        else:
            process.release(turn, lose=lose)

    @rule(who=WHO, which=WHICH, step=st.sampled_from("ffffttccaax"), count=FEW, end=st.integers(0, 3), lose=LOSE)
    def an_owner_acts(self, who: int, which: int, step: str, count: int, end: int, lose: bool) -> None:
        owner = self.owners[who]
        if not owner.token:
            owner.raise_(lose=lose)
        elif step == "f":
            owner.take(count, lose=False)
            owner.commit(count, lose=lose)
        elif step == "t":
            owner.take(count, lose=lose)
        elif step == "c":
            owner.commit(count, lose=lose)
        elif step == "a":
            owner.append(self.turns[which], end=end == 0, lose=lose)
        else:
            self.wire.ask(ownership.release_owner(self.keys, role="fold", partition=PARTITION, token=owner.token))
            owner.forget()

    @rule(
        what=st.sampled_from(EVENTS),
        who=WHO,
        which=WHICH,
    )
    def something_happens(self, what: str, who: int, which: int) -> None:
        owner, turn = self.owners[who], self.keys.turn(self.turns[which])
        match what:  # or nothing, so that much else happens in between
            case "owner lapses":
                self.client.hset(self.keys.owner("fold", PARTITION), "lease_until", 1)
            case "claim lapses":
                self.client.hset(turn, "ingest_lease_until", 1)
            case "owner dies":
                owner.forget()
                owner.raising = ""
            case "ingest dies":
                self.ingest[who].claims.clear()
                self.ingest[who].claiming.clear()
            case "submit":
                self.submit(which)
            case "trim":
                self.remember()
                token = owner.token or "nobody"
                self.wire.ask(retention.trim(self.keys, PARTITION, token=token, log_ms=0, index_ms=1000))

    # what must hold, whatever the order

    @invariant()
    def look_now_and_then(self) -> None:
        # what is written stays written, so a fault is still there some steps later
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps % 10 == 0:
            self.nothing_is_lost_repeated_or_added_after_the_end()

    def teardown(self) -> None:
        if hasattr(self, "seen"):
            self.nothing_is_lost_repeated_or_added_after_the_end()

    def remember(self) -> None:
        """Keep what the log holds, before it is trimmed."""
        for entry in log_entries(self.client.xrange(self.keys.log(PARTITION))):
            self.seen[entry.id] = entry

    def nothing_is_lost_repeated_or_added_after_the_end(self) -> None:
        self.remember()
        committed = self.wire.ask(log.read_positions(self.keys, PARTITION))
        assert committed is not None
        unfinished = 0
        announced: Counter[tuple[str, str]] = Counter()
        for turn in self.turns:
            record = self.wire.ask(turns.read_turn(self.keys, turn))
            if record is None:
                continue
            entries = [entry for entry in self.seen.values() if entry.turn == turn]
            assert [entry.id for entry in entries] == self.client.lrange(self.keys.entries(turn), 0, -1)
            self.events_are_whole(entries, record.ended)
            folded = [entry for entry in entries if position_key(entry.id) <= position_key(committed.log)]
            self.frames_are_whole(turn, folded, record.frames_next)
            assert record.blocks_next == len(folded)
            assert all(self.client.exists(self.keys.block(turn, number)) for number in range(record.blocks_next))
            unfinished += not record.state.is_terminal
            assert record.state.is_terminal == bool(folded and is_end(apart(folded[-1])[-1]))
            waits = self.client.xrange(self.keys.requests(PARTITION), record.entry, record.entry)
            assert bool(waits) == (not record.ended), "the request stays until the turn has its terminal"
            if record.targets != "[]":
                announced.update((turn, str(number)) for number in range(record.blocks_next))
        blocks = [(one["turn"], one["block"]) for _, one in self.client.xrange(self.keys.blocks(PARTITION))]
        assert Counter(blocks) == announced
        assert int(self.client.hget(self.keys.admitted(PARTITION), "*") or 0) == unfinished
        beyond = [entry.n for entry in self.seen.values() if position_key(entry.id) > position_key(committed.log)]
        assert committed.lag == sum(beyond)

    def events_are_whole(self, entries: list[LogEntry], ended: str) -> None:
        """No hole, no duplicate, no second terminal, nothing after the first."""
        numbers: Counter[str] = Counter()
        texts = [text for entry in entries for text in apart(entry)]
        for entry in entries:
            assert entry.seq == numbers[entry.producer]
            assert entry.n == len(apart(entry))
            numbers[entry.producer] += entry.n
        ends = [is_end(text) for text in texts]
        assert sum(ends) == bool(ended)
        assert not any(ends[:-1])

    def frames_are_whole(self, turn: str, folded: list[LogEntry], frames_next: int) -> None:
        """Every frame number once, in order, and the text that the log gives."""
        stored = self.wire.ask(log.read_frames(self.keys, turn, after=-1)) or []
        numbers = [number for entry in stored for number in range(entry.first, entry.first + entry.n)]
        assert numbers == list(range(frames_next))
        expected = "".join(f"data: {text}\n\n" for entry in folded for text in apart(entry))
        assert "".join(entry.sse for entry in stored) == expected


def attack(client: Any, examples: int, steps: int) -> None:
    class Machine(Fleet):
        pass

    Machine.client = client
    bounds = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Machine, settings=bounds)


def test_no_order_of_calls_and_lost_replies_makes_a_hole_or_a_repeat(bench: Bench) -> None:
    attack(bench.client, 30, 50)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_no_order_of_calls_and_lost_replies_makes_a_hole_or_a_repeat_at_length(bench: Bench) -> None:
    attack(bench.client, 600, 150)


def walk(client: Any, seed: int, steps: int) -> Counter[str]:
    """A long walk at even chances, which reaches deeper than examples that are made to be shrunk; begins anew when all turns are over."""
    chance = Random(seed)
    fleet = Fleet()
    fleet.client = client
    fleet.begin()
    states: Counter[str] = Counter()
    for number in range(steps):
        who, which, lose = chance.randrange(2), chance.randrange(3), chance.random() < 0.3
        match chance.randrange(20):
            case 0:
                fleet.something_happens(chance.choice(EVENTS), who, which)
            case 1:
                fleet.something_happens(chance.choice(["owner lapses", "claim lapses"]), who, which)
            case few if few < 9:
                fleet.an_ingest_process_acts(
                    who, which, chance.choice("pppppprx"), chance.randrange(4), chance.randrange(12), lose
                )
            case _:
                step = chance.choice("ffffttccaatttx")
                fleet.an_owner_acts(who, which, step, chance.randint(1, 3), chance.randrange(6), lose)
        if number % 20:
            continue
        fleet.nothing_is_lost_repeated_or_added_after_the_end()
        found = [client.hget(fleet.keys.turn(turn), "state") for turn in fleet.turns]
        if "queued" not in found and "running" not in found:
            states.update(found)
            fleet.begin()
    return states


@pytest.mark.parametrize("seed", range(3))
def test_on_a_long_walk_turns_come_to_their_end_whole(bench: Bench, seed: int) -> None:
    assert walk(bench.client, seed, 2_000)["completed"] > 0


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 106))
def test_on_a_very_long_walk_turns_come_to_their_end_whole(bench: Bench, seed: int) -> None:
    assert walk(bench.client, seed, 60_000)["completed"] > 0
