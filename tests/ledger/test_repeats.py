"""Every call whose answer was lost is run again, as it is: the second run must do nothing more."""

from collections.abc import Callable
from typing import Any

import pytest

from ledger import access, log, ownership, retention, turns
from ledger.commands import Call
from ledger.records import START, TurnState
from tests.ledger.conftest import LEASE_MS, Bench, block, effect, events

PROLONGED = ("lease_until", "ingest_lease_until")
"""What a repeat may change: a lease, counted from now once more."""


def state(bench: Bench) -> dict[str, Any]:
    """Everything that is stored, in words, without leases, idle times and consumers."""
    found: dict[str, Any] = {}
    for key in sorted(bench.client.keys("*")):
        kind = bench.client.type(key)
        if kind == "hash":
            fields = bench.client.hgetall(key)
            found[key] = {name: value for name, value in fields.items() if name not in PROLONGED}
        elif kind == "stream":
            groups = bench.client.xinfo_groups(key)
            found[key] = (
                bench.client.xrange(key),
                [(one["name"], one["pending"], one["last-delivered-id"]) for one in groups],
            )
        elif kind == "zset" and ":workers:" in key:
            found[key] = bench.client.zrange(key, 0, -1)
        elif kind == "zset":
            found[key] = bench.client.zrange(key, 0, -1, withscores=True)
        else:
            found[key] = bench.client.lrange(key, 0, -1)
    expiring = [key for key in found if bench.client.ttl(key) >= 0]
    return found | {"expiring": expiring}


class Scene:
    """A partition with an owner, a submitted turn, a claimed turn, and a turn with two entries of which one is committed."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.keys = bench.keys
        self.p = bench.partition
        self.queued = bench.submit()
        bench.run(turns.take_requests(self.keys, self.p, consumer="w1", count=5, min_idle_ms=None))
        self.claimed = bench.submit()
        self.claim = bench.claim(self.claimed, "n8").token
        self.busy = bench.submit(targets='["console"]')
        token = bench.claim(self.busy, "n9").token
        self.entries = [bench.publish(self.busy, token, number).entry for number in range(2)]
        self.token = bench.raised().token
        self.taken = bench.take()
        bench.commit(bench.batch(START, self.entries[:1], effect(self.busy)))

    def publish(self, terminal: str | None = None) -> Call[log.PublishReply]:
        return log.publish(
            self.keys,
            self.claimed,
            token=self.claim,
            producer=log.INGEST,
            first_seq=0,
            events_json=events(0, 2),
            n=2,
            terminal=terminal,
        )

    def append(self) -> Call[log.PublishReply]:
        return log.append_if_tail(
            self.keys,
            self.busy,
            token=self.token,
            tail=self.entries[-1],
            first_seq=0,
            events_json=events(0, 1),
            n=1,
            terminal="failed",
        )

    def take(self) -> Call[log.TakeReply]:
        self.bench.publish(self.claimed, self.claim, 0)
        return log.take_log(self.keys, self.p, token=self.token, consumer="c1", after=self.entries[-1], count=10)

    def commit(self, state: TurnState) -> Call[log.CommitReply]:
        one = effect(self.busy, 1, 2, 0, blocks=[block("a")], state=state)
        batch = self.bench.batch(self.entries[0], self.entries[1:], one, commit_id="c2")
        return log.commit(self.keys, batch)

    def submit(self) -> Call[turns.SubmitStatus]:
        return turns.submit(self.keys, self.bench.new(), tenant_limit=9, partition_limit=9)

    def bind(self) -> Call[turns.Idempotency]:
        return turns.claim_idempotency(
            self.keys, tenant="a", key="k", turn="t", session="s", body_hash="b", ttl_ms=LEASE_MS
        )

    def claim_again(self) -> Call[turns.Claimed | turns.ClaimRefused]:
        entry = self.bench.record(self.queued).entry
        return turns.claim_turn(self.keys, self.queued, entry=entry, worker="w1", nonce="new", lease_ms=LEASE_MS)

    def raise_(self) -> Call[ownership.Raised | ownership.NotFree]:
        self.bench.lapse(self.keys.owner("fold", self.p), "lease_until")
        return ownership.raise_owner(
            self.keys, role="fold", partition=self.p, worker="w2", nonce="new", lease_ms=LEASE_MS
        )

    def retire(self) -> Call[retention.RetireStatus]:
        self.bench.client.hset(self.keys.turn(self.busy), "state", "completed")
        return retention.retire_turn(self.keys, self.busy, retention_ms=LEASE_MS)


CALLS: dict[str, tuple[Callable[[Scene], Call[Any]], str, str]] = {
    "publish": (lambda s: s.publish(), "OK", "ALREADY"),
    "publish of a terminal": (lambda s: s.publish("completed"), "OK", "ALREADY"),
    "append": (lambda s: s.append(), "OK", "ALREADY"),
    "take": (lambda s: s.take(), "OK", "OK"),
    "adopt": (lambda s: log.adopt(s.keys, s.p, token=s.token, consumer="c2"), "OK", "OK"),
    "commit": (lambda s: s.commit(TurnState.RUNNING), "OK", "ALREADY"),
    "commit of a terminal": (lambda s: s.commit(TurnState.COMPLETED), "OK", "ALREADY"),
    "submit": (lambda s: s.submit(), "OK", "ALREADY"),
    "bind": (lambda s: s.bind(), "CREATED", "SAME"),
    "cancel": (lambda s: turns.request_cancel(s.keys, s.queued, grace_ms=9), "OK", "ALREADY"),
    "claim": (lambda s: s.claim_again(), "1:new", "1:new"),
    "renew a claim": (lambda s: turns.renew_turn(s.keys, s.claimed, token=s.claim, lease_ms=9), "OK", "OK"),
    "release a claim": (lambda s: turns.release_turn(s.keys, s.claimed, token=s.claim), "OK", "OK"),
    "raise": (lambda s: s.raise_(), "2:new", "2:new"),
    "renew": (
        lambda s: ownership.renew_owner(s.keys, role="fold", partition=s.p, token=s.token, lease_ms=9),
        "OK",
        "OK",
    ),
    "release": (
        lambda s: ownership.release_owner(s.keys, role="fold", partition=s.p, token=s.token),
        "OK",
        "ALREADY",
    ),
    "suspect": (lambda s: retention.suspect(s.keys, s.p, token=s.token, turn=s.busy), "OK", "OK"),
    "trim": (lambda s: retention.trim(s.keys, s.p, token=s.token, log_ms=0, index_ms=99_000), "OK", "OK"),
    "retire": (lambda s: s.retire(), "OK", "ALREADY"),
    "heartbeat": (lambda s: ownership.heartbeat(s.keys, role="fold", worker="w", ttl_ms=9_000), "", ""),
    "meta": (lambda s: access.check_meta(s.keys), "", ""),
    "deadline": (lambda s: turns.check_deadline(s.keys, s.queued, token=s.token), "", ""),
}


def word(reply: Any) -> str:
    """What a reply says in one word."""
    found = getattr(reply, "status", None) or getattr(reply, "token", None) or reply
    return str(found) if isinstance(found, str) else ""


@pytest.mark.parametrize("name", CALLS)
def test_a_repeated_call_does_nothing_more(bench: Bench, name: str) -> None:
    make, first, second = CALLS[name]
    call = make(Scene(bench))
    before = state(bench)
    reply = bench.run(call)
    after = state(bench)
    again = bench.run(call)
    assert state(bench) == after
    assert (word(reply), word(again)) == (first, second)
    if first != second:
        assert after != before


def test_entries_that_were_handed_out_unseen_are_handed_out_again(bench: Bench) -> None:
    turn = bench.submit()
    call = turns.take_requests(bench.keys, bench.partition, consumer="w1", count=5, min_idle_ms=0)
    assert [entry.turn for entry in bench.run(call)] == [turn]
    assert [entry.turn for entry in bench.run(call)] == [turn]
