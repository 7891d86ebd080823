"""Who may use the gateway, and whether the data is ours: API keys, stored as hashes with a name and a tenant; the schema version.

Authority: the hash `fl:keys`; its fields are SHA-256 digests of keys, its values JSON. A key itself is shown once, to whoever made
it, and stands nowhere. Keys are long and random (`foldline keys add` draws them), so a plain digest cannot be searched. A revoked key
stops working with the next request. These are plain commands: each is one step on one key.
"""

import hashlib
import re
from typing import Any, Final

import msgspec

from ledger.commands import Call
from ledger.errors import SchemaMismatch
from ledger.keys import SCHEMA_VERSION, Keyspace
from ledger.replies import as_int, as_pairs, as_text

DEFAULT_TENANT: Final = "default"
"""The tenant of everybody while no key exists."""

TENANT_MARK: Final = "|"
"""Stands in no name that a client may choose for a session."""

TENANT = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
"""What a tenant may be called."""


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a key: what an operator calls it, whose it is, and since when, in unix milliseconds."""

    name: str
    tenant: str
    created: int


_decoder = msgspec.json.Decoder(ApiKey)


def scoped(tenant: str, session: str) -> str:
    """A session's name in the ledger: two tenants that choose the same name have two sessions."""
    return session if tenant == DEFAULT_TENANT else f"{tenant}{TENANT_MARK}{session}"


def unscoped(tenant: str, session: str) -> str:
    """A session's name as its tenant chose it."""
    return session.removeprefix(f"{tenant}{TENANT_MARK}")


def check_meta(keys: Keyspace) -> Call[None]:
    """Write schema version and number of partitions when absent; SchemaMismatch when the data has others."""

    def decode(reply: Any) -> None:
        schema, partitions = as_text(reply[0]), as_text(reply[1])
        if schema != str(SCHEMA_VERSION):
            raise SchemaMismatch("schema of the data", expected=str(SCHEMA_VERSION), found=schema)
        if partitions != str(keys.partitions):
            raise SchemaMismatch("number of partitions", expected=partitions, found=str(keys.partitions))

    return Call("check_meta", (keys.meta,), (SCHEMA_VERSION, keys.partitions), decode)


def hash_key(secret: str) -> str:
    """Return the digest under which a key is kept."""
    return hashlib.sha256(secret.encode()).hexdigest()


def add_key(keys: Keyspace, key_hash: str, key: ApiKey) -> Call[bool]:
    """Keep a key; False when this very key is kept already (a repeat, too)."""
    if not TENANT.fullmatch(key.tenant):
        msg = f"a tenant is named with a-z, 0-9, dot, dash and underscore, at most 63 of them, not {key.tenant!r}"
        raise ValueError(msg)
    value = msgspec.json.encode(key).decode()
    return Call("HSETNX", (keys.api_keys,), (key_hash, value), lambda reply: as_int(reply) == 1, script=False)


def find_key(keys: Keyspace, key_hash: str) -> Call[ApiKey | None]:
    """Return the key with this digest, if there is one."""
    return Call("HGET", (keys.api_keys,), (key_hash,), _optional_key, script=False)


def count_keys(keys: Keyspace) -> Call[int]:
    """Return how many keys exist; while none does, the gateway is open to its own machine and closed to others."""
    return Call("HLEN", (keys.api_keys,), (), as_int, script=False)


def list_keys(keys: Keyspace) -> Call[dict[str, ApiKey]]:
    """Return all keys by their digest."""
    return Call("HGETALL", (keys.api_keys,), (), _all_keys, script=False)


def revoke_key(keys: Keyspace, key_hash: str) -> Call[bool]:
    """Forget a key; False when there was none (a repeat, too)."""
    return Call("HDEL", (keys.api_keys,), (key_hash,), lambda reply: as_int(reply) == 1, script=False)


def _optional_key(reply: Any) -> ApiKey | None:
    return _decoder.decode(as_text(reply)) if reply else None


def _all_keys(reply: Any) -> dict[str, ApiKey]:
    return {digest: _decoder.decode(value) for digest, value in as_pairs(reply).items()}
