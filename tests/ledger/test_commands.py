import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio
import redis.exceptions as redis_errors
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ledger import errors, lua, ownership
from ledger.commands import Call, Scripts, SyncScripts, commands_of_scripts, sha_of, translate
from ledger.keys import Keyspace
from tests.ledger.conftest import Bench

KEYS = Keyspace()
BEAT = ownership.heartbeat(KEYS, role="fold", worker="w1", ttl_ms=60_000)


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Any]:
    """An asynchronous client, retries off, replies as bytes."""
    client = redis.asyncio.Redis.from_url(redis_url, socket_timeout=10, retry=Retry(NoBackoff(), 0))
    yield client
    await client.aclose()


async def test_a_script_that_the_server_does_not_know_is_loaded_on_the_way(client: Any) -> None:
    scripts = Scripts(client)
    await client.script_flush()
    assert await scripts.run(BEAT) == ["w1"]
    assert await client.script_exists(sha_of("heartbeat")) == [True]
    assert await scripts.run(BEAT) == ["w1"]


def test_the_blocking_client_loads_scripts_too(bench: Bench) -> None:
    bench.client.script_flush()
    assert [bench.run(BEAT) for _ in range(2)] == [["w1"], ["w1"]]


async def test_a_plain_command_is_a_call_too(client: Any) -> None:
    scripts = Scripts(client)
    await scripts.run(BEAT)
    await scripts.run(ownership.leave(KEYS, role="fold", worker="w1"))
    assert await scripts.run(ownership.live_workers(KEYS, role="fold")) == []


async def test_an_error_of_the_server_is_one_of_ours(client: Any) -> None:
    await client.set(KEYS.workers("fold"), "foreign")
    with pytest.raises(errors.UnexpectedReply, match="heartbeat"):
        await Scripts(client).run(BEAT)


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    client = redis.asyncio.Redis(port=1, retry=Retry(NoBackoff(), 0))
    with pytest.raises(errors.Unavailable, match="heartbeat"):
        await Scripts(client).run(BEAT)
    await client.aclose()
    blocking = redis.Redis(port=1)
    with pytest.raises(errors.Unavailable):
        SyncScripts(blocking).run(BEAT)
    blocking.close()


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (redis_errors.BusyLoadingError("LOADING"), errors.Unavailable),
        (redis_errors.TimeoutError("late"), errors.Unavailable),
        (redis_errors.MasterDownError("down"), errors.Unavailable),
        (redis_errors.SlotNotCoveredError("slot"), errors.Unavailable),
        (redis_errors.TryAgainError("again"), errors.Unavailable),
        (redis_errors.MovedError("1 127.0.0.1:1"), errors.Unavailable),
        (redis_errors.ReadOnlyError("replica"), errors.Unavailable),
        (redis_errors.NoScriptError("gone"), errors.Unavailable),
        (redis_errors.ResponseError("BUSY Redis is busy running a script"), errors.Unavailable),
        (redis_errors.ResponseError("NOREPLICAS Not enough good replicas to write."), errors.Unavailable),
        (redis_errors.ResponseError("MISCONF no snapshot"), errors.Unavailable),
        (ConnectionResetError("reset"), errors.Unavailable),
        (redis_errors.OutOfMemoryError("oom"), errors.Full),
        (redis_errors.AuthenticationError("WRONGPASS"), errors.AccessDenied),
        (redis_errors.NoPermissionError("NOPERM"), errors.AccessDenied),
        (redis_errors.ResponseError("ERR what"), errors.UnexpectedReply),
    ],
)
def test_each_error_of_the_client_says_what_to_do(error: Exception, ours: type[errors.LedgerError]) -> None:
    assert type(translate("publish", error)) is ours


def test_a_script_is_known_by_the_sha_of_its_text() -> None:
    assert sha_of("publish") == hashlib.sha1(lua.source("publish").encode(), usedforsecurity=False).hexdigest()


def test_a_call_says_which_slot_it_belongs_to() -> None:
    assert BEAT.routing_key == "fl:workers:fold"
    assert BEAT.by_sha()[:3] == ("EVALSHA", sha_of("heartbeat"), 1)
    assert BEAT.by_text()[1] == lua.source("heartbeat")


def test_calls_are_equal_when_they_ask_the_same() -> None:
    again: Call[list[str]] = ownership.heartbeat(KEYS, role="fold", worker="w1", ttl_ms=60_000)
    assert again == BEAT


def test_errors_name_what_they_are_about() -> None:
    assert str(errors.StaleToken("partition 7", "1:a")) == "partition 7 is held under another token than 1:a"
    assert errors.UnknownTurn("7-a").turn == "7-a"
    assert errors.TurnEnded("7-a").turn == "7-a"
    assert errors.UnknownDelivery("7-a/0/b/0").part == "7-a/0/b/0"


def test_what_a_server_must_be_told_is_in_the_words_of_an_error() -> None:
    assert "set it to noeviction" in str(errors.Evicting("allkeys-lru"))
    mismatch = errors.SchemaMismatch("schema", expected="1", found="2")
    assert (str(mismatch), mismatch.expected, mismatch.found) == ("schema: expected 1, found 2", "1", "2")


def test_the_commands_of_all_scripts_are_known_with_their_subcommands() -> None:
    found = commands_of_scripts.__wrapped__()
    assert {"XADD", "HSET", "XGROUP CREATE", "TIME"} <= found
    assert "XGROUP" not in found
