"""Reads the logs of a run, one JSON object a line, into what the account is made of."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Frame:
    """One event as a client got it."""

    id: str
    data: dict[str, Any]

    @property
    def number(self) -> int:
        """Its number in the turn, as its id says; -1 for an event without one."""
        head = self.id.partition("-")[0]
        return int(head) if head.isdigit() else -1

    @property
    def said(self) -> list[Any]:
        """Its type and what it adds: what the upstream's script says of an event."""
        return [self.data.get("type"), self.data.get("delta")]


@dataclass
class Reader:
    """One turn as its client got it: over all its connections, and each reading from the beginning."""

    key: str
    session: str = ""
    turns: list[str] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    again: list[list[Frame]] = field(default_factory=list)
    gave_up: bool = False


@dataclass(frozen=True)
class Effect:
    """One message that a receiver took."""

    id: str
    turn: str
    block: int
    text: str


@dataclass
class Target:
    """One receiver: what it took, in order; every text that it was ever sent, by turn and block."""

    name: str
    effects: list[Effect] = field(default_factory=list)
    seen: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    bodies: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    requests: int = 0
    notes: dict[tuple[str, int], str] = field(default_factory=dict)
    """What is said after a block besides its text, by turn and block."""


@dataclass(frozen=True)
class Chat:
    """What one turn's chat in one channel shows in the end."""

    target: str
    key: str
    texts: list[str]


@dataclass
class Logs:
    """Everything."""

    script: dict[str, dict[str, Any]]
    readers: dict[str, Reader]
    targets: list[Target]
    unknown: set[tuple[str, str, int]]
    """Target, turn and block of each delivery that is listed as unknown."""
    open_turns: list[str]
    chats: list[Chat] = field(default_factory=list)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a log; a last one that was cut is not there."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        yield json.loads(line)


def read(folder: Path) -> Logs:
    """Read a run's folder."""
    unknown: set[tuple[str, str, int]] = set()
    open_turns: list[str] = []
    for line in lines(folder / "ledger.jsonl"):
        if line.get("open"):
            open_turns.append(line["turn"])
        elif line["state"] == "unknown":
            block = line["id"].split(".")[1]  # msg_<turn>.<block>.<target>.<part>
            unknown.add((line["target"], line["turn"], int(block)))
    return Logs(
        script={line["key"]: line for line in lines(folder / "script.jsonl")},
        readers=_readers(folder / "clients.jsonl"),
        targets=[_target(path) for path in sorted(folder.glob("receiver-*.jsonl"))],
        unknown=unknown,
        open_turns=open_turns,
        chats=[Chat(line["target"], line["key"], line["texts"]) for line in lines(folder / "chats.jsonl")],
    )


def _readers(path: Path) -> dict[str, Reader]:
    readers: dict[str, Reader] = {}
    for line in lines(path):
        reader = readers.setdefault(line["key"], Reader(line["key"]))
        reader.session = line.get("session", reader.session)
        if line.get("turn") and line["turn"] not in reader.turns:
            reader.turns.append(line["turn"])
        reader.gave_up = reader.gave_up or "gave_up" in line
        if "sse" in line:
            frames = parse(line["sse"])
            if line["again"]:
                reader.again.append(frames)
            else:
                reader.frames += frames
    return readers


def parse(sse: str) -> list[Frame]:
    """The events of a piece of a server-sent stream; comments are none."""
    frames: list[Frame] = []
    for event in sse.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in event.split("\n") if ": " in line and not line.startswith(":"))
        if "data" in fields:
            frames.append(Frame(id=fields.get("id", ""), data=json.loads(fields["data"])))
    return frames


def _target(path: Path) -> Target:
    target = Target(name=path.stem.removeprefix("receiver-"))
    requests: dict[int, Effect] = {}
    for line in lines(path):
        if "request" in line:
            body = json.loads(line["body"])
            text = body["text"] + body["separator"]
            effect = Effect(id=line["id"], turn=body["turn"], block=body["block"], text=text)
            requests[line["request"]] = effect
            target.seen[effect.turn, effect.block].add(text)
            target.bodies[line["id"]].add(line["body"])
            target.notes[effect.turn, effect.block] = str(body.get("markers", {}).get("note") or "")
            target.requests += 1
        elif "taken" in line:
            target.effects.append(requests[line["taken"]])
    return target
