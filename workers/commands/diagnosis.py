"""The judgements of `foldline doctor`: each a pure function from what was read to findings."""

import enum
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ledger.errors import LedgerError, SchemaMismatch
from ledger.keys import Keyspace
from ledger.rights import acl_rule, describe
from workers.commands.probes import GROUPS, OWNED_ROLES, Fleet, Installed, Partition, Server, is_one_tree
from workers.config import Config
from workers.config.channels import key_window_of, promise_of, secret_variable
from workers.config.credentials import login_problem, secret_doubt, secret_problem, token_problem

REDIS_FLOOR = (7, 0)
VALKEY_FLOOR = (7, 2)
CLOCK_APART_MS = 5_000  # leases are by the server's clock alone; this far apart, logs mislead


class Level(enum.StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One check: what was found and, where it is not as it should be, what to do."""

    level: Level
    check: str
    found: str
    advice: str = ""


def _ok(check: str, found: str) -> Finding:
    return Finding(level=Level.OK, check=check, found=found)


def _warning(check: str, found: str, advice: str) -> Finding:
    return Finding(level=Level.WARNING, check=check, found=found, advice=advice)


def _error(check: str, found: str, advice: str) -> Finding:
    return Finding(level=Level.ERROR, check=check, found=found, advice=advice)


# the installation and its configuration


def secrets(config: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Every variable that holds a secret must be set where it is used, and hold one that can be used."""
    for name, upstream in config.upstreams.items():
        keys = (
            (upstream.api_key_env, "the upstream", token_problem),
            (upstream.proxy_auth_env, "its proxy", login_problem),
        )
        for variable, whom, judge in keys:
            if variable and not environ.get(variable):
                yield _warning(
                    f"upstream {name}",
                    f"{variable} is not set here",
                    f"set it for the ingest processes, or {whom} will refuse them",
                )
            elif variable and (problem := judge(environ[variable])):
                advice = "set it anew for the ingest processes; until then each turn there fails"
                yield _error(f"upstream {name}", f"{variable} holds no secret that can be used: {problem}", advice)
    for name, target in config.targets.items():
        _, variable = secret_variable(target)
        if target.record:
            yield _warning(
                f"target {name}", f"records into {target.record}, and sends nothing", "take record out to send"
            )
        elif target.channel == "webhook" and not target.secret_env:
            yield _warning(f"target {name}", "messages are not signed", "name a secret's variable in secret_env")
        elif variable and not environ.get(variable):
            yield _warning(
                f"target {name}",
                f"{variable} is not set here",
                "set it for the delivery processes; they do not start without it",
            )
        elif variable:
            yield from _form(name, target.channel, variable, environ[variable])


def _form(name: str, channel: str, variable: str, secret: str) -> Iterator[Finding]:
    """What is wrong with the form of a target's secret; the secret itself is printed nowhere."""
    if problem := secret_problem(channel, secret):
        yield _error(
            f"target {name}",
            f"{variable} holds no secret that {channel} takes: {problem}",
            "set it anew for the delivery processes; they do not start with it",
        )
    elif doubt := secret_doubt(channel, secret):
        yield _warning(
            f"target {name}", f"{variable} has an unusual form: {doubt}", f"compare it with what {channel} gave you"
        )


def upstreams(config: Config) -> Iterator[Finding]:
    """A fleet without an upstream refuses every turn."""
    if not config.upstreams:
        yield _warning("upstreams", "none is configured", "name one in foldline.toml: without it no turn is accepted")


def agents(config: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """The program and the folder of every agent must be there."""
    for name, upstream in config.upstreams.items():
        if not upstream.command:
            continue
        path = environ.get("PATH") if "PATH" in upstream.env_allow else None
        if shutil.which(upstream.command[0], path=path or "") is None:
            found, advice = (
                f"{upstream.command[0]} is not found",
                "install it, name it by its full path, or allow it PATH",
            )
        elif not Path(upstream.cwd).is_dir():
            found, advice = f"{upstream.cwd} is no folder", "make it, or name another as cwd"
        else:
            continue
        yield _warning(f"upstream {name}", f"{found} here", f"{advice}, where ingest processes run")


def authorities(config: Config) -> Iterator[Finding]:
    """The certificates that an upstream is trusted by must be there."""
    for name, upstream in config.upstreams.items():
        if upstream.ca_file and not Path(upstream.ca_file).is_file():
            yield _warning(
                f"upstream {name}", f"{upstream.ca_file} is no file here", "put it there where ingest processes run"
            )


def owned_names(found: Sequence[Installed]) -> Iterator[Finding]:
    """Each import name must belong to foldline alone: another distribution of that name overwrites files silently."""
    foreign = {one.name: [owner for owner in one.owners if owner != "foldline"] for one in found}
    nameless = [one.name for one in found if one.file is None]
    for name, owners in foreign.items():
        if owners:
            yield _error(
                "installation",
                f"the name {name} belongs to {', '.join(owners)}, too",
                "install foldline into an environment of its own, from requirements.lock",
            )
    if nameless:
        yield _error("installation", f"{', '.join(nameless)}: no package, only a folder", "install foldline again")
    elif not is_one_tree(found):
        yield _error("installation", "our packages come from different folders", "install foldline again")
    elif not any(foreign.values()):
        yield _ok("installation", "pipeline, ledger and workers belong to foldline alone")


# the server


def unreachable(error: LedgerError, config: Config) -> Finding:
    """The server does not answer."""
    where = config.redis.url.rpartition("@")[2]
    return _error(
        "server",
        f"{where} does not answer ({error})",
        "start it, or set FOLDLINE_REDIS_URL; `foldline up` starts one here where none is configured",
    )


def denied(error: LedgerError) -> Finding:
    """The server refuses us."""
    return _error("server", str(error), "give the user of redis.url rights on all of foldline's keys and scripts")


def rights(missing: Sequence[str]) -> Iterator[Finding]:
    """The server's user must be allowed what the fleet runs."""
    if missing:
        yield _error("rights", describe(missing), "give it what the rule under `acl` allows")
    else:
        yield _ok("rights", "the server's user may run every command that the fleet runs")


def least_user(config: Config) -> Finding:
    """The least user that the fleet can work as, for whoever sets the server up."""
    redis = config.redis
    return _ok("acl", acl_rule(Keyspace(redis.prefix, redis.partitions), cluster=redis.cluster, durable=redis.durable))


def wrong_schema(error: SchemaMismatch) -> Finding:
    """The data is another deployment's."""
    advice = "set redis.partitions as it was set first, or use another redis.prefix or server"
    return _error("data", str(error), advice)


def version(server: Server) -> Iterator[Finding]:
    """The server must know what our scripts use."""
    info = server.info
    name = "Valkey" if info.get("server_name") == "valkey" else "Redis"
    text = info.get("valkey_version" if name == "Valkey" else "redis_version", "0")
    floor = VALKEY_FLOOR if name == "Valkey" else REDIS_FLOOR
    words = text.split(".")
    found = (int(words[0]), int(words[1]) if len(words) > 1 else 0)
    if found < floor:
        yield _error(
            "server", f"{name} {text}", f"use Redis {_dots(REDIS_FLOOR)} or Valkey {_dots(VALKEY_FLOOR)} or newer"
        )
    else:
        yield _ok("server", f"{name} {text}")


def cluster(server: Server, config: Config) -> Iterator[Finding]:
    """A cluster needs another client."""
    is_cluster = server.info.get("cluster_enabled") == "1" or server.info.get("redis_mode") == "cluster"
    if is_cluster and not config.redis.cluster:
        yield _error("server", "it is a cluster", "set redis.cluster = true")
    elif config.redis.cluster and not is_cluster:
        yield _error("server", "it is no cluster", "set redis.cluster = false")


def memory(server: Server) -> Iterator[Finding]:
    """A key that the server evicts is an answer that is lost."""
    policy = server.info.get("maxmemory_policy", "")
    if policy and policy != "noeviction":
        yield _error(
            "eviction", f"maxmemory-policy is {policy}: the server may drop any of our keys", "set it to noeviction"
        )
        return
    limit = int(server.info.get("maxmemory", "0") or 0)
    used = int(server.info.get("used_memory", "0") or 0)
    if limit and used > limit * 8 // 10:
        yield _warning(
            "memory",
            f"{used * 100 // limit} % of maxmemory is used: nothing new is accepted beyond 80 %",
            "raise maxmemory, or shorten retention.turn_ms and retention.log_ms",
        )
    else:
        yield _ok("memory", f"noeviction, {'no limit' if not limit else f'{used * 100 // limit} % used'}")


def persistence(server: Server, config: Config) -> Iterator[Finding]:
    """Without an append-only file a restart forgets what was promised."""
    if server.info.get("aof_enabled") == "1":
        known = server.appendfsync or "unknown: CONFIG may not be asked"
        yield _ok("persistence", f"append-only file, appendfsync {known}")
        if server.info.get("aof_last_write_status", "ok") != "ok":
            yield _error("persistence", "the last write of the append-only file failed", "look at the server's disk")
    elif config.redis.durable == "wait" and int(server.info.get("connected_slaves", "0") or 0) > 0:
        yield _warning("persistence", "no append-only file; replicas alone hold the data", "set appendonly yes")
    else:
        yield _error(
            "persistence", "no append-only file: a restart of the server loses every turn", "set appendonly yes"
        )


def is_durable(server: Server, config: Config) -> bool:
    """Whether an intent is safe once it was answered."""
    return config.redis.durable != "none" or (server.info.get("aof_enabled") == "1" and server.appendfsync == "always")


def durability(server: Server, config: Config) -> Iterator[Finding]:
    """What each target may expect, given when an intent counts as written."""
    durable = is_durable(server, config)
    for name, target in config.targets.items():
        promise = promise_of(target)
        if not durable:
            yield _warning(
                f"target {name}",
                "at-least-once: a power cut of the server can lose an intent that was answered",
                "set appendfsync always, or redis.durable to waitaof or wait",
            )
        elif promise == "key":
            knows = "dedups by webhook-id" if target.channel == "webhook" else "remembers our keys"
            yield _ok(
                f"target {name}", f"exactly once at a receiver that {knows} for {key_window_of(target) // 1000} s"
            )
        elif promise == "reconcile":
            yield _ok(f"target {name}", "exactly once: what a crash cuts is asked for")
        elif target.policy == "resend":
            advice = "set policy to hold, if a message must not come twice"
            yield _warning(f"target {name}", "at-least-once: what is unknown is sent again", advice)
        else:
            yield _ok(f"target {name}", "at most once; what a crash cuts is listed as unknown")


def clock(server: Server) -> Iterator[Finding]:
    """Leases are by the server's clock; people compare its times with ours."""
    apart = max(server.asked_at_ms - server.now_ms, server.now_ms - server.answered_at_ms, 0)
    if apart > CLOCK_APART_MS:
        yield _warning("clock", f"the server's clock is {apart} ms away from ours", "let both follow one time server")


# the fleet


def fleet(found: Fleet) -> Iterator[Finding]:
    """Who lives, who owns what, what waits."""
    for role, names in found.workers.items():
        if names:
            yield _ok(role, f"{len(names)} live")
    for role in OWNED_ROLES:
        yield from _ownership(found, role)
    yield from _groups(found)
    yield from _queue(found)
    yield from _deliveries(found)


def _ownership(found: Fleet, role: str) -> Iterator[Finding]:
    orphans = [one for one in found.partitions if one.owners[role].lease_until < found.now_ms]
    if not orphans:
        yield _ok(role, "every partition has an owner")
        return
    numbers = _numbers(orphans)
    waiting = [one for one in orphans if _waits(one, role)]
    advice = f"start a {role} process (`foldline {role}`), or wait one lease if one was killed just now"
    if waiting:
        yield _error(role, f"nobody owns partitions {_numbers(waiting)}, and work waits there", advice)
    else:
        yield _warning(role, f"nobody owns partitions {numbers}", advice)


def _waits(one: Partition, role: str) -> bool:
    if role == "fold":
        return one.positions.lag > 0
    return one.tally.lanes > 0


def _groups(found: Fleet) -> Iterator[Finding]:
    for one in found.partitions:
        for stream in sorted(one.streams):
            if GROUPS[stream] not in {group.name for group in one.groups if group.stream == stream}:
                yield _warning(
                    "groups",
                    f"partition {one.number}: stream {stream} has no group {GROUPS[stream]}",
                    f"none is needed before its first reader; start a {GROUPS[stream]} process",
                )
        quarantined = one.positions.suspect
        if quarantined:
            yield _warning(
                "fold",
                f"partition {one.number}: turn {quarantined} is suspected of ending its workers",
                "look at the fold's log; the turn is failed by name if it does so again",
            )
    pending = sum(group.pending for one in found.partitions for group in one.groups)
    yield _ok("groups", f"{pending} entries taken and not acknowledged")


def _queue(found: Fleet) -> Iterator[Finding]:
    lag = {one.number: one.positions.lag for one in found.partitions if one.positions.lag > 0}
    full = [one for one in found.partitions if one.positions.full]
    if full:
        yield _error("memory", "the server's memory is past the producers' share", "raise maxmemory")
    yield _ok("lag", f"{sum(lag.values())} events published and not folded")


def _deliveries(found: Fleet) -> Iterator[Finding]:
    unknown = sum(one.tally.unknown for one in found.partitions)
    dead = sum(one.tally.dead for one in found.partitions)
    if unknown:
        yield _warning(
            "deliveries",
            f"{unknown} may or may not have arrived",
            "`foldline ledger list --state unknown`, then `foldline ledger resolve PART sent|not-sent`",
        )
    if dead:
        yield _warning("deliveries", f"{dead} were given up", "`foldline ledger list --state dead` says why")
    if not unknown and not dead:
        yield _ok("deliveries", "none unknown, none given up")


def _numbers(partitions: Sequence[Partition]) -> str:
    return ", ".join(str(one.number) for one in partitions)


def _dots(floor: tuple[int, int]) -> str:
    return ".".join(map(str, floor))
