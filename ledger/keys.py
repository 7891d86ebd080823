"""Spell every key of the ledger, here and nowhere else.

All keys of a partition carry one hash tag, `{7}`, so that a script over them touches one slot of a cluster. A turn's id begins
with its partition, so that whoever holds the id finds the keys without asking. `KEY_TABLE` is the documented schema: each key has
an owner (who writes it), an end (a TTL or a stated permanence) and a bound on its growth.
"""

import hashlib
import re
import zlib
from dataclasses import dataclass
from typing import Final

SCHEMA_VERSION: Final = 1
"""Version of the key schema; raised when a key changes its meaning. `fl:meta` holds the one that the data was written with."""

MAX_PARTITIONS: Final = 16384
"""More partitions than a cluster has slots would bring nothing."""

_TURN_ID = re.compile(r"(0|[1-9][0-9]{0,4})-([0-9a-f]{24})")
_HASH_DIGITS = 40


def make_turn_id(partition: int, random_hex: str) -> str:
    """Build a turn's id from its partition and 24 hexadecimal digits of chance."""
    turn = f"{partition}-{random_hex}"
    if not _TURN_ID.fullmatch(turn):
        msg = f"not a turn id: {turn!r} (expected a partition, a dash and 24 hexadecimal digits)"
        raise ValueError(msg)
    return turn


def parse_turn_id(turn: str) -> tuple[int, str]:
    """Split a turn's id into partition and random digits; ValueError when it is none."""
    match = _TURN_ID.fullmatch(turn)
    if match is None:
        msg = f"not a turn id: {turn!r} (expected a partition, a dash and 24 hexadecimal digits)"
        raise ValueError(msg)
    return int(match[1]), match[2]


def digest_of(*words: str) -> str:
    """Hash words to 40 hexadecimal digits; the words' borders count, so ("a", "bc") and ("ab", "c") differ."""
    text = "".join(f"{len(word.encode())}:{word}" for word in words)
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


@dataclass(frozen=True)
class Keyspace:
    """The names of all keys under one prefix, for a fixed number of partitions."""

    prefix: str = "fl"
    partitions: int = 16

    def __post_init__(self) -> None:
        if not 1 <= self.partitions <= MAX_PARTITIONS:
            msg = f"partitions must be 1 to {MAX_PARTITIONS}, not {self.partitions}"
            raise ValueError(msg)
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", self.prefix):
            msg = f"a key prefix holds letters, digits, dot, dash and underscore only, not {self.prefix!r}"
            raise ValueError(msg)

    # where a turn lives

    def partition_of(self, session: str) -> int:
        """The partition of a session."""
        return zlib.crc32(session.encode()) % self.partitions

    def partition_of_turn(self, turn: str) -> int:
        """The partition that a turn's id carries; ValueError when it is no id or beyond our partitions."""
        partition, _ = parse_turn_id(turn)
        if partition >= self.partitions:
            msg = f"turn {turn} is of partition {partition}, there are {self.partitions}"
            raise ValueError(msg)
        return partition

    # keys of the whole fleet

    @property
    def meta(self) -> str:
        """Schema version and number of partitions."""
        return f"{self.prefix}:meta"

    @property
    def api_keys(self) -> str:
        """Hashes of API keys, each with its tenant."""
        return f"{self.prefix}:keys"

    @property
    def modes(self) -> str:
        """Per runtime whether its turns are delivered or shadowed, over the configuration."""
        return f"{self.prefix}:modes"

    @property
    def reports(self) -> str:
        """Reports of another path, as it writes them (stream, group `gateway`)."""
        return f"{self.prefix}:{{reports}}:sent"

    @property
    def reports_aside(self) -> str:
        """Reports that could not be kept with a turn, each with the reason."""
        return f"{self.prefix}:{{reports}}:aside"

    def workers(self, role: str) -> str:
        """Heartbeats of a role's workers."""
        return f"{self.prefix}:workers:{role}"

    def freed(self, role: str) -> str:
        """The channel on which a role's workers tell each other that partitions were given up; not a key."""
        return f"{self.prefix}:freed:{role}"

    def idem(self, tenant: str, key: str) -> str:
        """The record of one idempotency key of one tenant."""
        return f"{self.prefix}:idem:{digest_of(tenant, key)}"

    def budget(self, account: str) -> str:
        """The shared rate budget of a bot or webhook, or (as `account/chat`) of one of its chats."""
        return f"{self.prefix}:{{rate:{account}}}"

    # patterns, for whoever has to find what no index holds any more

    def all_idem(self) -> str:
        """Every record of an idempotency key."""
        return f"{self.prefix}:idem:*"

    def all_of(self, kind: str, partition: int | None = None) -> str:
        """Every key of a kind that belongs to a turn (`turn`, `part`, …), in one partition or in all."""
        return f"{self.prefix}:{{{'*' if partition is None else partition}}}:{kind}:*"

    def turn_of_key(self, key: str) -> str:
        """The turn that a key of a turn's belongs to; empty for another key."""
        found = re.search(r"\}:(?:turn|entries|frames|block|parts|part|legacy):([^:]+)", key)
        return found[1] if found and _TURN_ID.fullmatch(found[1]) else ""

    def part_of_key(self, key: str) -> str:
        """The id of the part whose record the key is; empty for another key."""
        _, part, rest = key.partition("}:part:")
        return rest.replace(":", "/") if part else ""

    # keys of a partition

    def _of(self, partition: int, name: str) -> str:
        return f"{self.prefix}:{{{partition}}}:{name}"

    def requests(self, partition: int) -> str:
        """Submitted turns (stream, group `ingest`)."""
        return self._of(partition, "requests")

    def log(self, partition: int) -> str:
        """The log of events (stream, group `fold`)."""
        return self._of(partition, "log")

    def blocks(self, partition: int) -> str:
        """Ids of new blocks in commit order (stream, group `delivery`)."""
        return self._of(partition, "blocks")

    def owner(self, role: str, partition: int) -> str:
        """Who owns the partition in a role."""
        return self._of(partition, f"owner:{role}")

    def committed(self, partition: int) -> str:
        """Positions, the last commit's id and the partition's counters."""
        return self._of(partition, "committed")

    def inflight(self, partition: int) -> str:
        """Turns with events that are not folded to their end."""
        return self._of(partition, "inflight")

    def deadlines(self, partition: int) -> str:
        """When each unfinished turn is looked at, to be ended by name."""
        return self._of(partition, "deadlines")

    def admitted(self, partition: int) -> str:
        """Unfinished turns per tenant, and in all under `*`."""
        return self._of(partition, "admitted")

    def turns(self, partition: int) -> str:
        """Index of recent turns by the time they were submitted, for listings."""
        return self._of(partition, "turns")

    def shadow(self, partition: int) -> str:
        """Index of the turns that are shadowed, by the time they were submitted."""
        return self._of(partition, "shadow")

    def sending(self, partition: int) -> str:
        """Parts that are being sent."""
        return self._of(partition, "sending")

    def due(self, partition: int) -> str:
        """Parts to retry."""
        return self._of(partition, "due")

    def unknown(self, partition: int) -> str:
        """Parts of which nobody knows whether they were sent."""
        return self._of(partition, "unknown")

    def dead(self, partition: int) -> str:
        """Parts that were given up."""
        return self._of(partition, "dead")

    def late(self, partition: int) -> str:
        """Parts that were settled after their lane had gone on without them."""
        return self._of(partition, "late")

    def lanes(self, partition: int) -> str:
        """Lanes that hold parts."""
        return self._of(partition, "lanes")

    def lane(self, partition: int, lane_hash: str) -> str:
        """The ordered parts of one session and target."""
        return self._of(partition, f"lane:{lane_hash}")

    def serial(self, partition: int, session: str) -> str:
        """Turns of a serial session in the order of submission, until each is planned to its end."""
        return self._of(partition, f"serial:{digest_of(session)}")

    def hint(self, partition: int) -> str:
        """The channel on which the fold tells gateways of new frames; not a key."""
        return self._of(partition, "hint")

    # keys of a turn

    def turn(self, turn: str) -> str:
        """The turn's record."""
        return self._of(self.partition_of_turn(turn), f"turn:{turn}")

    def entries(self, turn: str) -> str:
        """Ids of the turn's log entries."""
        return self._of(self.partition_of_turn(turn), f"entries:{turn}")

    def frames(self, turn: str) -> str:
        """The turn's public stream."""
        return self._of(self.partition_of_turn(turn), f"frames:{turn}")

    def block(self, turn: str, ordinal: int) -> str:
        """One block."""
        return self._of(self.partition_of_turn(turn), f"block:{turn}:{ordinal}")

    def parts(self, turn: str) -> str:
        """Ids of the turn's parts."""
        return self._of(self.partition_of_turn(turn), f"parts:{turn}")

    def legacy(self, turn: str) -> str:
        """What another path says it sent of a shadowed turn."""
        return self._of(self.partition_of_turn(turn), f"legacy:{turn}")

    def part(self, part_id: str) -> str:
        """One part; its id is `turn/block/target hash/part`."""
        turn, _, rest = part_id.partition("/")
        return self._of(self.partition_of_turn(turn), f"part:{turn}:{rest.replace('/', ':')}")


@dataclass(frozen=True)
class KeyRow:
    """One row of the documented key schema."""

    key: str
    kind: str
    holds: str
    owner: str
    ends: str
    bound: str


_TURN_ENDS = "TTL `retention` once the turn has ended and its last delivery is settled"

KEY_TABLE: Final[tuple[KeyRow, ...]] = (
    KeyRow("fl:meta", "hash", "schema version `schema`, number of partitions `partitions`", "every process at start", "permanent", "2 fields"),
    KeyRow("fl:keys", "hash", "hash of an API key: JSON with tenant, name, time", "`foldline keys`", "permanent", "one field per key added"),
    KeyRow("fl:modes", "hash", "runtime: `live` or `shadow`, over the configuration", "`foldline shadow set`", "permanent", "one field per runtime"),
    KeyRow("fl:workers:<role>", "zset", "workers by the Redis time at which their heartbeat runs out", "the role's workers", "each heartbeat removes the lapsed", "one member per live process"),
    KeyRow("fl:idem:<hash of tenant, key>", "hash", "turn, session, body hash and tenant of a submitted idempotency key", "gateway", "TTL from submit", "4 fields"),
    KeyRow("fl:{7}:requests", "stream, group `ingest`", "submitted turns; a pending entry is a turn being ingested", "gateway adds, the terminal's publish or commit deletes", "permanent key; entries end with their turn", "admission: unfinished turns of the partition"),
    KeyRow("fl:{7}:log", "stream, group `fold`", "events in batches: `turn producer seq n events`", "ingest and fold add, fold trims", "permanent key; trimmed behind the low-water mark", "`log_retention` plus unfolded entries (`lag_high`) plus turns in flight (`turn_max`)"),
    KeyRow("fl:{7}:owner:fold, fl:{7}:owner:delivery", "hash", "epoch, token, worker, lease_until, released, seen, idle_raises", "the role's owner", "permanent: an expired one would restart the epochs", "7 fields"),
    KeyRow("fl:{7}:committed", "hash", "`log`, `commit`, `taken` (fold); `blocks` (delivery); counters `published`, `folded`; `suspect`, `suspect_entry`, `suspect_by`, `suspect_lost`; `full`", "the owners; publish counts", "permanent", "12 fields"),
    KeyRow("fl:{7}:inflight", "zset", "turn by the millisecond of its first log entry", "publish adds, commit removes", "member ends with its terminal's commit", "admission"),
    KeyRow("fl:{7}:deadlines", "zset", "turn by the time at which it is looked at", "submit, claim, publish, fold", "member ends with its terminal", "admission"),
    KeyRow("fl:{7}:admitted", "hash", "tenant: unfinished turns; `*`: all of them", "submit adds, commit subtracts", "field ends at zero", "admission"),
    KeyRow("fl:{7}:turns", "zset", "turn by the time it was submitted", "submit adds, trim removes", "member ends `index_ms` after submit", "turns submitted within that time"),
    KeyRow("fl:{7}:turn:<turn>", "hash", "the turn's record", "submit, ingest, fold, delivery", _TURN_ENDS, "about 45 fields; settings bounded by the gateway, and so is `request`, which goes with the turn's end"),
    KeyRow("fl:{7}:entries:<turn>", "list", "ids of the turn's log entries", "publish", _TURN_ENDS, "one id per publish, within `turn_max` and the turn's bytes"),
    KeyRow("fl:{7}:frames:<turn>", "stream", "the public stream: `first n sse` per commit, id `(last + 1)-0`", "fold", _TURN_ENDS, "the turn's output"),
    KeyRow("fl:{7}:block:<turn>:<block>", "hash", "opener, text, closer, separator, markers", "fold", "TTL `retention` once it is planned", "the turn's text"),
    KeyRow("fl:{7}:blocks", "stream, group `delivery`", "ids of new blocks, in commit order", "fold adds and trims", "permanent key; trimmed behind delivery's position", "blocks not yet planned"),
    KeyRow("fl:{7}:shadow", "zset", "shadowed turn by the time it was submitted", "submit", "submit removes what is older than `turn_ms` after", "turns shadowed within that time"),
    KeyRow("fl:{7}:legacy:<turn>", "hash", "what another path sent of a shadowed turn: number: JSON with target and text; `total` once it is all; `report:<id>`: digest of a report that has an id", "gateway", "TTL `retention` from the last report, or the turn's own", "the gateway's bounds on a report"),
    KeyRow("fl:{reports}:sent", "stream, group `gateway`", "reports of another path: `turn report id`", "the other path adds, gateway deletes", "permanent key; an entry ends when it is kept with its turn or put aside", "the writer's `MAXLEN`, while no gateway runs"),
    KeyRow("fl:{reports}:aside", "stream", "reports that could not be kept, as they came: `entry why` and their fields (450 at most), bytes that are no UTF-8 written out", "gateway", "TTL `turn_ms` from the last one; an entry ends `turn_ms` after it was put aside", "about 10,000 entries"),
    KeyRow("fl:{7}:lanes", "zset", "lanes that hold parts, by the time at which they are looked at", "delivery", "member ends with its lane", "one per lane"),
    KeyRow("fl:{7}:lane:<hash of session, target>", "list", "part ids in order", "delivery", "ends with its last part", "unsettled parts of the lane"),
    KeyRow("fl:{7}:serial:<hash of session>", "list", "turns of a serial session in the order of submission", "submit adds, delivery removes", "TTL from the last submit", "unfinished turns of the session, and ended ones that nobody waits behind"),
    KeyRow("fl:{7}:parts:<turn>", "list", "ids of the turn's parts", "delivery", _TURN_ENDS, "the turn's parts"),
    KeyRow("fl:{7}:part:<turn>:<block>:<target hash>:<part>", "hash", "state, body and its hash, target, attempts, receipt, error", "delivery", "TTL `retention` once settled", "one message"),
    KeyRow("fl:{7}:sending, …:due, …:unknown, …:dead", "zset", "part ids by time", "delivery", "permanent keys; a member ends with its state", "unsettled parts; `dead` within its retention"),
    KeyRow("fl:{7}:late", "zset", "parts that were settled after their lane had gone on without them, by the time of it", "delivery", "permanent key; a member ends with its record", "parts that stepped aside or were given up, within their retention"),
    KeyRow("fl:{rate:<account>}", "hash", "the rate budget of a bot or webhook, or (`<account>/<chat>`) of one of its chats", "delivery", "TTL of the budget's window", "few fields"),
)  # fmt: skip
