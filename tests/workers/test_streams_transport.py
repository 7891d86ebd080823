import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from redis.asyncio import Redis

from ledger.commands import Call, Scripts
from ledger.errors import StaleToken, Unavailable
from tests.support.servers import Server
from tests.support.waiting import turn_of_the_loop, wait_until
from workers.config import RedisConfig
from workers.runtime.clock import SystemClock
from workers.streams.connection import connect, connect_blocking, connect_sync
from workers.streams.guard import Guard
from workers.streams.lease import LeaseKeeper
from workers.streams.news import News
from workers.streams.patience import patiently


def config(url: str, block_ms: int = 300) -> RedisConfig:
    return RedisConfig(url=url, block_ms=block_ms, socket_timeout_ms=1000)


class Clock:
    """A clock that a test moves."""

    def __init__(self, at: int = 1_000_000) -> None:
        self.at = at

    def now_ms(self) -> int:
        return self.at

    def boottime_ms(self) -> int:
        return self.at


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[Redis]:
    client = connect(config(url))
    assert isinstance(client, Redis)
    try:
        yield client
    finally:
        await client.aclose()


# connection


async def test_a_lost_reply_is_not_sent_again_by_the_client(redis_url: str) -> None:
    """A proxy executes the command and closes instead of answering: the counter is 1, not 2."""
    port = int(redis_url.rsplit(":", 1)[1].split("/", maxsplit=1)[0])

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while data := await reader.read(65536):
                upstream_writer.write(data)
                answer = await upstream_reader.read(65536)
                if b"INCR" in data:
                    break
                writer.write(answer)
        finally:
            for each in (writer, upstream_writer):
                each.close()

    proxy = await asyncio.start_server(swallow, "127.0.0.1", 0)
    lossy = connect(config(f"redis://127.0.0.1:{proxy.sockets[0].getsockname()[1]}/0"))
    with pytest.raises(Unavailable):
        await Scripts(lossy).run(Call(name="INCR", keys=("counter",), args=(), decode=int, script=False))
    await lossy.aclose()
    proxy.close()
    async with client_of(redis_url) as client:
        assert await client.get("counter") == "1"


async def test_a_blocking_read_of_an_empty_stream_returns_empty_after_its_block(redis_url: str) -> None:
    client = connect_blocking(config(redis_url, block_ms=900))
    assert await client.execute_command("XREAD", "BLOCK", 900, "STREAMS", "nothing", "0-0") in (None, [], {})
    await client.aclose()


async def test_more_calls_than_connections_wait_for_one(redis_url: str) -> None:
    async with client_of(redis_url) as client:
        assert sum(await asyncio.gather(*(client.incr("n") for _ in range(100)))) == 5050


def test_the_sync_client_speaks_text(redis_url: str) -> None:
    client = connect_sync(config(redis_url))
    client.set("a", "b")
    assert client.get("a") == "b"
    client.close()


# patience


async def test_an_operation_is_repeated_until_the_server_answers() -> None:
    tries = []
    guard = Guard(Clock(), 5000)

    async def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise Unavailable("away")
        return "answer"

    assert await patiently(flaky, what="test", guard=guard) == "answer"
    assert len(tries) == 3
    assert not guard.may_take_over()


async def test_patience_ends_when_it_is_told_to_and_other_errors_pass() -> None:
    async def away() -> None:
        raise Unavailable("away")

    async def stale() -> None:
        raise StaleToken("p", "t")

    with pytest.raises(Unavailable):
        await patiently(away, what="test", give_up=lambda: True)
    with pytest.raises(StaleToken):
        await patiently(stale, what="test")


# guard


def test_a_new_process_beside_an_old_server_may_take_over_at_once() -> None:
    guard = Guard(Clock(), 5000)
    guard.observe("n", run_id="a", uptime_ms=60_000, server_ms=5_000_000)
    assert guard.may_take_over()


@pytest.mark.parametrize(
    ("run_id", "uptime_ms", "step_ms"),
    [("b", 100_000, 0), ("a", 61_000, 6_000), ("a", 61_000, -6_000)],
    ids=["new run id", "time ahead", "time back"],
)
def test_a_disturbance_holds_take_overs_back_for_one_lease(run_id: str, uptime_ms: int, step_ms: int) -> None:
    clock = Clock()
    guard = Guard(clock, 5000)
    guard.observe("n", run_id="a", uptime_ms=60_000, server_ms=5_000_000)
    clock.at += 1000
    guard.observe("n", run_id=run_id, uptime_ms=uptime_ms, server_ms=5_001_000 + step_ms)
    assert not guard.may_take_over()
    clock.at += 4999
    assert not guard.may_take_over()
    clock.at += 1
    assert guard.may_take_over()


def test_calm_is_counted_from_the_start_or_the_end_of_the_last_disturbance() -> None:
    clock = Clock()
    guard = Guard(clock, 5000)
    clock.at += 700
    assert guard.calm_ms() == 700
    guard.disturbed("restart")
    assert guard.calm_ms() == 0
    clock.at += 5300
    assert guard.calm_ms() == 300


def test_a_young_server_and_a_new_node_are_disturbances() -> None:
    clock = Clock()
    young = Guard(clock, 5000)
    young.observe("n", run_id="a", uptime_ms=1000, server_ms=0)
    assert not young.may_take_over()
    other = Guard(clock, 5000)
    other.observe("n", run_id="a", uptime_ms=60_000, server_ms=0)
    other.observe("m", run_id="b", uptime_ms=60_000, server_ms=0)
    assert not other.may_take_over()


async def test_the_guard_sees_a_restart_and_an_absent_server() -> None:
    with Server() as server:
        clock = SystemClock()
        guard = Guard(clock, 200)
        async with client_of(server.url) as client:
            assert await guard.check(client) is False
            await wait_until(lambda: _open(guard, client), "the young server to be believed")
            server.kill()
            assert await guard.check(client) is False
            server.start()
            assert await guard.check(client) is False
            await wait_until(lambda: _open(guard, client), "one lease to pass")


async def _open(guard: Guard, client: Redis) -> bool:
    return await guard.check(client)


# news


async def test_news_names_the_streams_that_have_something_new(redis_url: str) -> None:
    news = News(config(redis_url))
    try:
        async with client_of(redis_url) as client:
            news.watch("s1", "0-0")
            news.watch("s2", "0-0")
            waiting = asyncio.create_task(_until_news(news))
            first = await client.xadd("s2", {"a": "1"})
            assert await waiting == {"s2"}
            news.seen("s2", str(first))
            assert await news.wait(50) == set()
            await client.xadd("s2", {"a": "2"})
            await client.xadd("s1", {"a": "2"})
            found = await _until_news(news)
            while found != {"s1", "s2"}:
                found |= await _until_news(news)
    finally:
        await news.close()


async def test_entries_that_are_left_over_are_news_again(redis_url: str) -> None:
    news = News(config(redis_url))
    try:
        async with client_of(redis_url) as client:
            await client.xadd("s", {"a": "1"})
            await client.xadd("s", {"a": "2"})
            news.watch("s", "0-0")
            assert await _until_news(news) == {"s"}
            assert await _until_news(news) == {"s"}
            assert await news.wait(50) == set()
    finally:
        await news.close()


async def test_a_stream_watched_during_a_wait_is_heard_and_a_forgotten_one_is_not(redis_url: str) -> None:
    news = News(config(redis_url))
    try:
        async with client_of(redis_url) as client:
            news.watch("old", "0-0")
            waiting = asyncio.create_task(_until_news(news))
            await turn_of_the_loop()
            news.watch("new", "0-0")
            news.forget("old")
            await client.xadd("old", {"a": "1"})
            await client.xadd("new", {"a": "1"})
            assert await waiting == {"new"}
    finally:
        await news.close()


async def test_news_outlives_the_server() -> None:
    with Server(aof=True) as server:
        news = News(config(server.url))
        try:
            news.watch("s", "0-0")
            await news.wait(20)
            server.kill()
            await news.wait(200)
            server.start()
            async with client_of(server.url) as client:
                await client.xadd("s", {"a": "1"})
            assert await _until_news(news) == {"s"}
        finally:
            await news.close()


async def test_nothing_watched_waits_for_the_time_out(redis_url: str) -> None:
    news = News(config(redis_url))
    assert await news.wait(5) == set()
    await news.close()


async def _until_news(news: News) -> set[str]:
    while True:
        if found := await news.wait():
            return found


# lease


def renewal(answer: str = "OK") -> Call[str]:
    return Call(name="ECHO", keys=(answer,), args=(), decode=str, script=False)


def is_stale(reply: str) -> bool:
    return reply == "STALE"


async def test_a_lease_is_renewed_in_time_and_counts_from_before_the_request(redis_url: str) -> None:
    clock = SystemClock()
    keeper = LeaseKeeper(config(redis_url), clock, role="test", lease_ms=600, renew_ms=50)
    await keeper.start()
    replies: list[str] = []
    try:
        taken = clock.boottime_ms()
        keeper.keep("a", renewal(), taken_at_ms=taken, is_lost=is_stale, on_lost=lambda: None, on_reply=replies.append)
        assert 0 < keeper.holds("a") <= 600
        await wait_until(lambda: len(replies) >= 3, "three renewals")
        assert keeper.holds("a") > 0
        keeper.drop("a")
        assert keeper.holds("a") == 0
        assert keeper.holds("never kept") == 0
    finally:
        await keeper.stop()


async def test_a_renewal_in_a_hurry_says_what_is_true_by_then(redis_url: str) -> None:
    clock, state = SystemClock(), ["calm"]
    keeper = LeaseKeeper(config(redis_url), clock, role="test", lease_ms=600_000, renew_ms=200_000)
    await keeper.start()
    replies: list[str] = []
    try:
        keeper.keep(
            "a",
            lambda: renewal(state[0]),
            taken_at_ms=clock.boottime_ms(),
            is_lost=is_stale,
            on_lost=lambda: None,
            on_reply=replies.append,
        )
        state[0] = "waits"
        keeper.hurry("a")
        keeper.hurry("never kept")
        await wait_until(lambda: replies, "a renewal long before its time")
        assert replies == ["waits"]
    finally:
        await keeper.stop()


async def test_a_slow_reply_does_not_lengthen_the_lease() -> None:
    with Server() as server:
        keeper = LeaseKeeper(config(server.url), SystemClock(), role="test", lease_ms=2_000, renew_ms=50)
        await keeper.start()
        left: list[int] = []

        def note(_: object) -> bool:
            left.append(keeper.holds("a"))  # on the keeper's thread, before this reply counts
            return False

        try:
            keeper.keep("a", renewal(), taken_at_ms=0, is_lost=note, on_lost=lambda: None)
            await wait_until(lambda: left, "the first renewal")
            server.pause()  # a renewal is asked for within 50 ms, and answered when the server wakes
            await wait_until(lambda: keeper.holds("a") < 1_000, "a second of silence")
            left.clear()
            server.resume()
            await wait_until(lambda: len(left) >= 2, "the slow reply, and the next")
            assert left[1] < 1_600
        finally:
            await keeper.stop()


async def test_a_stale_answer_loses_the_lease_once(redis_url: str) -> None:
    keeper = LeaseKeeper(config(redis_url), SystemClock(), role="test", lease_ms=600, renew_ms=20)
    await keeper.start()
    lost: list[str] = []
    try:
        for name in ("a", "b"):
            keeper.keep(name, renewal("STALE"), taken_at_ms=0, is_lost=is_stale, on_lost=partial(lost.append, name))
        keeper.drop("b")
        await wait_until(lambda: lost, "the loss")
        assert lost == ["a"]
        assert keeper.holds("a") == 0
    finally:
        await keeper.stop()


async def test_an_absent_server_is_no_loss_and_a_lapsed_lease_comes_back() -> None:
    with Server() as server:
        keeper = LeaseKeeper(config(server.url), SystemClock(), role="test", lease_ms=300, renew_ms=50)
        await keeper.start()
        lost: list[int] = []
        try:
            keeper.keep("a", renewal(), taken_at_ms=0, is_lost=is_stale, on_lost=lambda: lost.append(1))
            await wait_until(lambda: keeper.holds("a"), "the first renewal")
            server.kill()
            await wait_until(lambda: keeper.holds("a") == 0, "the lease to run out")
            server.start()
            await wait_until(lambda: keeper.holds("a") > 0, "the lease to come back")
            assert lost == []
        finally:
            await keeper.stop()
