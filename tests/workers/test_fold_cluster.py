import asyncio

import msgspec
import pytest

from ledger.records import TurnState
from tests.support.servers import Cluster
from tests.support.waiting import wait_until
from tests.workers.fold_bench import Bench, config_of, story, turn_id
from workers.fold.worker import FoldWorker

PIECES = ["Hello, ", "world.\n\n", "And the end."]


@pytest.mark.long
async def test_on_a_cluster_of_three_two_processes_share_fold_and_hand_over() -> None:
    with Cluster() as cluster:
        config = config_of(cluster.url)
        config = msgspec.structs.replace(config, redis=msgspec.structs.replace(config.redis, cluster=True))
        bench = Bench(cluster.url, config)
        turn, events = turn_id(1), story(turn_id(1), PIECES)
        await bench.open(turn)
        workers = [FoldWorker(config), FoldWorker(config)]
        stops = [asyncio.Event(), asyncio.Event()]
        tasks = [asyncio.create_task(worker.run(stop)) for worker, stop in zip(workers, stops, strict=True)]
        try:
            await wait_until(lambda: [len(each.ownership.owned) for each in workers] == [1, 1], "one partition each")
            await bench.publish(turn, events[:2])
            await wait_until(lambda: _has_frames(bench, turn), "the first frames")
            owner = next(index for index, each in enumerate(workers) if 1 in each.ownership.owned)
            stops[owner].set()
            await wait_until(lambda: 1 in workers[1 - owner].ownership.owned, "the hand-over")
            await bench.publish(turn, events[2:])
            await wait_until(lambda: bench.ended(turn), "the end of the turn")
        finally:
            for stop in stops:
                stop.set()
            await asyncio.wait(tasks)
        assert (await bench.record(turn)).state is TurnState.COMPLETED
        assert "event: response.completed" in await bench.frames(turn)
        await bench.close()


async def _has_frames(bench: Bench, turn: str) -> bool:
    return (await bench.record(turn)).frames_next > 0
