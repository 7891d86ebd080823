import pytest

from ledger import access
from ledger.access import ApiKey
from ledger.commands import Scripts
from ledger.errors import SchemaMismatch
from ledger.keys import Keyspace
from workers.config import RedisConfig
from workers.streams.connection import connect

KEYS = Keyspace()
KEY = ApiKey(name="laptop", tenant="acme", created=1)


async def test_a_key_is_found_by_its_hash_until_it_is_revoked(redis_url: str) -> None:
    client = connect(RedisConfig(url=redis_url))
    scripts = Scripts(client)
    digest = access.hash_key("fl-secret")
    assert await scripts.run(access.count_keys(KEYS)) == 0
    assert await scripts.run(access.find_key(KEYS, digest)) is None
    assert await scripts.run(access.add_key(KEYS, digest, KEY))
    assert not await scripts.run(access.add_key(KEYS, digest, KEY)), "a repeat adds nothing"
    assert await scripts.run(access.count_keys(KEYS)) == 1
    assert await scripts.run(access.find_key(KEYS, digest)) == KEY
    assert await scripts.run(access.list_keys(KEYS)) == {digest: KEY}
    assert await scripts.run(access.revoke_key(KEYS, digest))
    assert not await scripts.run(access.revoke_key(KEYS, digest))
    assert await scripts.run(access.find_key(KEYS, digest)) is None
    await client.aclose()


def test_the_secret_itself_is_not_in_what_is_stored() -> None:
    call = access.add_key(KEYS, access.hash_key("fl-secret"), KEY)
    assert "fl-secret" not in repr(call.by_sha())


@pytest.mark.parametrize("tenant", ["", "A", "a/b", "-a", "a" * 64, "a b"])
def test_a_tenant_is_a_short_plain_word(tenant: str) -> None:
    with pytest.raises(ValueError, match="tenant"):
        access.add_key(KEYS, "0" * 64, ApiKey(name="n", tenant=tenant, created=0))


async def test_schema_and_number_of_partitions_are_set_once(redis_url: str) -> None:
    client = connect(RedisConfig(url=redis_url))
    scripts = Scripts(client)
    await scripts.run(access.check_meta(KEYS))
    await scripts.run(access.check_meta(KEYS))
    with pytest.raises(SchemaMismatch, match="expected 16, found 32"):
        await scripts.run(access.check_meta(Keyspace(partitions=32)))
    await client.hset(KEYS.meta, "schema", "0")
    with pytest.raises(SchemaMismatch, match="schema of the data: expected 1, found 0"):
        await scripts.run(access.check_meta(KEYS))
    await client.aclose()


def test_two_tenants_sessions_of_one_name_are_two() -> None:
    assert access.scoped(access.DEFAULT_TENANT, "s") == "s"
    assert access.scoped("acme", "s") != access.scoped("other", "s")
    for tenant in (access.DEFAULT_TENANT, "acme"):
        assert access.unscoped(tenant, access.scoped(tenant, "s")) == "s"
