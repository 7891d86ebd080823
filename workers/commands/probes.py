"""What `foldline doctor` reads: the server, the fleet's keys, the installation. It judges nothing."""

import asyncio
import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ledger as ledger_package
import pipeline as pipeline_package
import workers as workers_package
from ledger import access, delivery, log, ownership, rights
from ledger.commands import Call
from ledger.errors import AccessDenied, UnexpectedReply
from ledger.records import OwnerRecord, Positions
from ledger.replies import as_pairs, as_text
from workers.commands.session import Ledger
from workers.runtime.clock import SystemClock

GROUPS = {"requests": "ingest", "log": "fold", "blocks": "delivery"}
OWNED_ROLES = ("fold", "delivery")
ROLES = ("ingest", "fold", "delivery", "gateway")
PACKAGES = {"pipeline": pipeline_package, "ledger": ledger_package, "workers": workers_package}


@dataclass(frozen=True, kw_only=True)
class Server:
    """What the server says of itself. `appendfsync` is None where we may not ask."""

    info: Mapping[str, str]
    appendfsync: str | None
    now_ms: int
    asked_at_ms: int
    answered_at_ms: int


@dataclass(frozen=True, kw_only=True)
class Group:
    """A consumer group of a partition's stream."""

    stream: str
    name: str
    consumers: int
    pending: int


@dataclass(frozen=True, kw_only=True)
class Partition:
    """One partition as it stands."""

    number: int
    owners: Mapping[str, OwnerRecord]
    positions: Positions
    groups: Sequence[Group]
    streams: frozenset[str]
    """Names of those of its streams that exist."""
    tally: delivery.Tally


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """All partitions and who lives."""

    now_ms: int
    partitions: Sequence[Partition]
    workers: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Installed:
    """One of our import names: whose distributions claim it, and the file that was imported."""

    name: str
    owners: Sequence[str]
    file: str | None


def distributions() -> list[Installed]:
    """Read who owns our import names; an editable installation claims none, and then the file tells."""
    owners = importlib.metadata.packages_distributions()
    return [
        Installed(name=name, owners=sorted(set(owners.get(name, ()))), file=getattr(module, "__file__", None))
        for name, module in PACKAGES.items()
    ]


def is_one_tree(found: Sequence[Installed]) -> bool:
    """Whether the three packages lie in one folder."""
    return len({Path(one.file).parent.parent for one in found if one.file}) == 1


async def read_now(ledger: Ledger) -> int:
    """The server's time in ms."""
    return await ledger.scripts.run(_plain("TIME", decode=_time))


async def read_server(ledger: Ledger) -> Server:
    """Ask the server about itself."""
    clock = SystemClock()
    info = await ledger.scripts.run(_plain("INFO", "everything", decode=_info))
    asked_at = clock.now_ms()
    now = await read_now(ledger)
    answered_at = clock.now_ms()
    try:
        fsync: str | None = await ledger.scripts.run(_plain("CONFIG GET", "appendfsync", decode=_setting))
    except (AccessDenied, UnexpectedReply):  # no rights, or a host that renamed CONFIG
        fsync = None
    return Server(info=info, appendfsync=fsync, now_ms=now, asked_at_ms=asked_at, answered_at_ms=answered_at)


async def read_missing_rights(ledger: Ledger) -> list[str]:
    """What the server's user may not."""
    redis = ledger.config.redis
    return await ledger.scripts.run(rights.missing_rights(ledger.keys, cluster=redis.cluster, durable=redis.durable))


async def read_fleet(ledger: Ledger) -> Fleet:
    """Read every partition. SchemaMismatch when the data is of another schema or number of partitions."""
    run, keys = ledger.scripts.run, ledger.keys
    meta = await run(Call("HGETALL", (keys.meta,), (), as_pairs, script=False))
    if meta:  # a server that was never used is not written to by looking
        await run(access.check_meta(keys))
    partitions = await asyncio.gather(*(_partition(ledger, p) for p in range(keys.partitions)))
    workers = {role: await run(ownership.live_workers(keys, role=role)) for role in ROLES}
    now = await read_now(ledger)
    return Fleet(now_ms=now, partitions=partitions, workers=workers)


async def _partition(ledger: Ledger, partition: int) -> Partition:
    run, keys = ledger.scripts.run, ledger.keys
    owners = {role: await run(ownership.read_owner(keys, role=role, partition=partition)) for role in OWNED_ROLES}
    groups: list[Group] = []
    streams: set[str] = set()
    for stream in GROUPS:
        key = getattr(keys, stream)(partition)
        if await run(Call("EXISTS", (key,), (), bool, script=False)):
            streams.add(stream)
            listed = await run(Call("XINFO GROUPS", (key,), (), _groups, script=False))
            groups += [
                Group(stream=stream, name=one["name"], consumers=int(one["consumers"]), pending=int(one["pending"]))
                for one in listed
            ]
    return Partition(
        number=partition,
        owners=owners,
        positions=await run(log.read_positions(keys, partition)),
        groups=groups,
        streams=frozenset(streams),
        tally=await run(delivery.tally(keys, partition, dead_ms=ledger.config.retention.part_ms)),
    )


def _plain(name: str, *args: str, decode: Any) -> Call[Any]:
    return Call(name, (), args, decode, script=False)


def _info(reply: Any) -> dict[str, str]:
    """INFO, which the client may have parsed, and a cluster's client may give by node."""
    if isinstance(reply, Mapping):
        values = list(reply.values())
        if values and all(isinstance(value, Mapping) for value in values) and "redis_version" not in reply:
            reply = values[0]
        return {as_text(name): as_text(value) for name, value in reply.items()}
    lines = as_text(reply).splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _time(reply: Any) -> int:
    if isinstance(reply, Mapping):
        reply = next(iter(reply.values()))
    return int(reply[0]) * 1000 + int(reply[1]) // 1000


def _setting(reply: Any) -> str:
    pairs = as_pairs(reply)
    return next(iter(pairs.values()), "")


def _groups(reply: Any) -> list[dict[str, str]]:
    return [as_pairs(one) for one in reply or ()]
