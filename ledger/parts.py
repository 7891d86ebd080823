"""Parts: one message of one block for one target, as planned and as it stands in Redis. Bodies stay opaque text.

A part's id, `turn/block/target hash/part`, is its identity for ever: the webhook's message id and the channel's idempotency key are made of it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ledger.keys import digest_of
from ledger.states import State


class Reply(StrEnum):
    """What a step of a delivery came to."""

    OK = "OK"
    ALREADY = "ALREADY"
    STALE = "STALE"
    MISMATCH = "MISMATCH"
    """The position is another one: an entry was planned by somebody else, or left out."""
    UNKNOWN_DELIVERY = "UNKNOWN_DELIVERY"
    STATE = "STATE"
    """The part's state does not allow the step."""
    NOT_HEAD = "NOT_HEAD"
    BUSY = "BUSY"
    """An attempt under this owner's own token is still out."""
    EARLY = "EARLY"
    """Before its time: the quarantine, the retry's time, the age."""
    LAPSED = "LAPSED"
    """An attempt may have arrived, and the channel's key does not protect another one any more."""
    BODY = "BODY"
    """Another body than the one that was planned under this id."""
    DUPLICATE = "DUPLICATE"
    """An attempt turns out sent although another was begun after it."""
    OTHER_ATTEMPT = "OTHER_ATTEMPT"
    LATE = "LATE"
    """The part was settled otherwise before."""


class Verdict(StrEnum):
    """How an attempt came out."""

    SENT = "sent"
    RETRY = "retry"
    UNKNOWN = "unknown"
    DEAD = "dead"


@dataclass(frozen=True, kw_only=True)
class NewPart:
    """A part to be planned."""

    turn: str
    block: int
    part: int
    session: str
    channel: str
    target: str
    recipient: str
    body: str
    content_type: str
    account: str
    guarantee: str = "exactly-once"
    """`at-least-once` where an intent may be lost by the server after it was answered."""
    held: bool = False
    """In a lane of its turn's own, until the turns before it in its session have been planned."""
    state: State = State.PENDING

    @property
    def target_hash(self) -> str:
        """Names the target in keys."""
        return target_hash(self.channel, self.target, self.recipient)

    @property
    def id(self) -> str:
        """The delivery id."""
        return f"{self.turn}/{self.block}/{self.target_hash}/{self.part}"

    @property
    def lane(self) -> str:
        """Names the lane of the part's session and target, or the one that holds it back."""
        name = digest_of(self.session, self.target_hash)
        return f"{name}:{self.turn}" if self.held else name

    @property
    def body_hash(self) -> str:
        """What an attempt's body is compared with."""
        return body_hash(self.body)


@dataclass(frozen=True, kw_only=True)
class PartRecord:
    """A part as it stands in Redis; times are Redis TIME in ms, 0 where there is none."""

    id: str
    state: State
    lane: str
    turn: str
    block: int
    part: int
    session: str
    channel: str
    target: str
    recipient: str
    account: str
    guarantee: str
    body: str
    body_hash: str
    content_type: str
    token: str
    attempt: str
    attempt_at: int
    attempts: int
    failures: int
    created_at: int
    age_from: int
    due_at: int
    unknown_at: int
    settled_at: int
    exposed_at: int
    """Start of the first attempt that may have reached the channel; its key's window counts from here."""
    in_lane: bool
    duplicate_detected: bool
    waivers: int
    late: bool
    """It was settled after its lane had gone on without it: those behind it may have been sent before."""
    passed_at: int
    """When its lane went on without it."""
    receipt: str
    late_receipt: str
    """What an attempt came to, told after the part had been settled otherwise."""
    note: str
    attempts_made: dict[str, str]
    """By attempt id: its number, its time, its outcome."""

    @property
    def webhook_id(self) -> str:
        """The same at every attempt: the receiver's key for leaving out repeats."""
        return webhook_id(self.id)


def target_hash(channel: str, target: str, recipient: str) -> str:
    """A short name for a target, fit for a key."""
    return digest_of(channel, target, recipient)[:16]


def webhook_id(part_id: str) -> str:
    """The stable message id of a part, as Standard Webhooks want it."""
    return "msg_" + part_id.replace("/", ".")


def held_lane(name: str) -> tuple[str, str] | None:
    """The lane that a holding lane's parts belong to, and their turn; None for a plain lane."""
    lane, colon, turn = name.partition(":")
    return (lane, turn) if colon else None


def body_hash(body: str) -> str:
    """The hash of a body, as it stands in the part's record."""
    return hashlib.sha256(body.encode()).hexdigest()


def part_from_hash(part_id: str, fields: Mapping[str, str]) -> PartRecord | None:
    """Read a part's hash; None for an empty one."""
    if not fields:
        return None

    def text(name: str) -> str:
        return fields.get(name, "")

    def number(name: str) -> int:
        return int(fields.get(name) or 0)

    return PartRecord(
        id=part_id,
        state=State(fields["state"]),
        lane=text("lane"),
        turn=text("turn"),
        block=number("block"),
        part=number("part"),
        session=text("session"),
        channel=text("channel"),
        target=text("target"),
        recipient=text("recipient"),
        account=text("account"),
        guarantee=text("guarantee"),
        body=text("body"),
        body_hash=text("body_hash"),
        content_type=text("content_type"),
        token=text("token"),
        attempt=text("attempt"),
        attempt_at=number("attempt_at"),
        attempts=number("attempts"),
        failures=number("failures"),
        created_at=number("created_at"),
        age_from=number("age_from"),
        due_at=number("due_at"),
        unknown_at=number("unknown_at"),
        settled_at=number("settled_at"),
        exposed_at=number("exposed_at"),
        in_lane=text("in_lane") == "1",
        duplicate_detected=text("duplicate_detected") == "1",
        waivers=number("waivers"),
        late=text("late") == "1",
        passed_at=number("passed_at"),
        receipt=text("receipt"),
        late_receipt=text("late_receipt"),
        note=text("note"),
        attempts_made={k.removeprefix("attempt:"): v for k, v in fields.items() if k.startswith("attempt:")},
    )
