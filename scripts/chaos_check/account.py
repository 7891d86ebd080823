"""Compares what clients and receivers got with what the upstream said, and counts what is missing, double, or out of place."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from scripts.chaos_check import chats
from scripts.chaos_check.reading import Frame, Logs, Reader, Target

TERMINALS = ("response.completed", "response.incomplete", "response.failed")
TEXT = "response.output_text.delta"


@dataclass
class Account:
    """The counts, and a sentence about each fault."""

    turns: int = 0
    failed: int = 0
    lost: int = 0
    duplicated: int = 0
    misordered: int = 0
    unknown: int = 0
    repeats: int = 0
    """Requests that came again under an id that had come before: the protocol's way, not a fault."""
    faults: list[str] = field(default_factory=list)

    def note(self, kind: str, what: str) -> None:
        """Count one fault."""
        setattr(self, kind, getattr(self, kind) + 1)
        self.faults.append(f"{kind}: {what}")

    def counts(self) -> dict[str, int]:
        """Everything but the sentences."""
        return {name: value for name, value in vars(self).items() if name != "faults"}


def judge(logs: Logs) -> Account:
    """Make the account."""
    account = Account(unknown=len(logs.unknown))
    for key, script in logs.script.items():
        reader = logs.readers.get(key, Reader(key))
        account.turns += bool(reader.frames) or reader.gave_up
        _judge_client(account, reader, script)
        _judge_readings(account, reader)
    for turn in logs.open_turns:
        account.note("lost", f"turn {turn}: deliveries still owed at the end")
    _judge_blocks(account, logs)
    for target in logs.targets:
        _judge_target(account, logs, target)
        _judge_order(account, logs, target)
        account.repeats += target.requests - len(target.bodies)
    for kind, what in chats.differences(logs):
        account.note(kind, what)
    return account


# clients


def _judge_client(account: Account, reader: Reader, script: dict[str, Any]) -> None:
    """One turn's frames: numbered without gap or repeat, and saying what the upstream said, to the end or to a failure by name."""
    where = f"turn {reader.key}"
    if len(reader.turns) > 1:
        account.note("duplicated", f"{where}: one key, several turns {reader.turns}")
    frames = reader.frames = _in_order(account, reader)
    last = frames[-1].data.get("type") if frames else None
    if reader.gave_up or last not in TERMINALS:
        account.note("lost", f"{where}: the client's stream has no end; its last event is {last}")
        return
    said = [frame.said for frame in frames]
    if last == "response.failed":
        account.failed += 1
        got = [event for event in said if event[1] is not None]
        wanted = [event for event in script["events"] if event[1] is not None]
        _compare(account, where, got, wanted[: len(got)])
    elif not script["whole"]:
        account.note("lost", f"{where}: the upstream was cut, and the client was told {last}")
    else:
        _compare(account, where, said, script["events"])


def _in_order(account: Account, reader: Reader) -> list[Frame]:
    """The frames without those that came again; each gap is counted."""
    frames: list[Frame] = []
    expected = 0
    for frame in reader.frames:
        if frame.number < 0 or frame.data.get("sequence_number") != frame.number:
            account.note("lost", f"turn {reader.key}: an event without its number: {frame.id} {frame.data.get('type')}")
            continue
        if frame.number < expected:
            account.note("duplicated", f"turn {reader.key}: frame {frame.number} came again")
            continue
        if frame.number > expected:
            account.note("lost", f"turn {reader.key}: frame {expected} is missing before {frame.number}")
        frames.append(frame)
        expected = frame.number + 1
    return frames


def _compare(account: Account, where: str, got: list[Any], wanted: list[Any]) -> None:
    """Name the one way in which two sequences differ."""
    if got == wanted:
        return
    have, need = Counter(map(repr, got)), Counter(map(repr, wanted))
    at = next((n for n, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), min(len(got), len(wanted)))
    detail = f"{where}: differs from what was said at {at}: {got[at : at + 2]} for {wanted[at : at + 2]}"
    if have == need:
        account.note("misordered", detail)
    elif need - have:
        account.note("lost", detail)
    else:
        account.note("duplicated", detail)


def _judge_readings(account: Account, reader: Reader) -> None:
    """Whoever reads again from the beginning gets the same bytes."""
    for frames in reader.again:
        pairs = zip(frames, reader.frames, strict=False)
        differing = next((n for n, (a, b) in enumerate(pairs) if a != b), None)
        if differing is not None or len(frames) > len(reader.frames):
            account.note("misordered", f"turn {reader.key}: reads otherwise from frame {differing} on, the second time")


# receivers


def _judge_blocks(account: Account, logs: Logs) -> None:
    """The texts of a turn's blocks, in order, are the text that the client got; each block says the same everywhere."""
    blocks: dict[str, dict[int, str]] = defaultdict(dict)
    for target in logs.targets:
        for message, bodies in target.bodies.items():
            if len(bodies) > 1:
                account.note("duplicated", f"{target.name}: two bodies under the id {message}")
        for (turn, block), texts in target.seen.items():
            text = blocks[turn].setdefault(block, min(texts))
            if texts != {text}:
                account.note("misordered", f"{target.name}: block {block} of {turn} says something else than elsewhere")
    for reader in logs.readers.values():
        for turn in reader.turns[:1]:
            sent = "".join(text for _, text in sorted(blocks[turn].items()))
            read = "".join(frame.data["delta"] for frame in reader.frames if frame.data.get("type") == TEXT)
            if sent != read:
                _compare(account, f"turn {reader.key} ({turn}): the blocks", list(sent), list(read))


def _judge_target(account: Account, logs: Logs, target: Target) -> None:
    """Every block of every turn was taken exactly once, or its delivery is listed as unknown and it was taken at most once."""
    wanted = {place for other in logs.targets for place in other.seen}
    taken = Counter((effect.turn, effect.block) for effect in target.effects)
    for turn, block in sorted(wanted):
        times = taken[turn, block]
        if times > 1:
            for _ in range(times - 1):
                account.note("duplicated", f"{target.name}: block {block} of {turn} was taken {times} times")
        elif times == 0 and (target.name, turn, block) not in logs.unknown:
            account.note("lost", f"{target.name}: block {block} of {turn} was never taken, and nobody says so")


def _judge_order(account: Account, logs: Logs, target: Target) -> None:
    """Within a session, blocks were taken in the order of their turns and of their numbers."""
    place: dict[str, tuple[str, int]] = {}
    for number, reader in enumerate(logs.readers.values()):  # in the order of submission
        for turn in reader.turns:
            place[turn] = (reader.session, number)
    furthest: dict[str, tuple[int, int]] = {}
    seen: set[tuple[str, int]] = set()
    for effect in target.effects:
        if (effect.turn, effect.block) in seen:
            continue  # counted as a duplicate
        seen.add((effect.turn, effect.block))
        session, number = place.get(effect.turn, ("", -1))
        here = (number, effect.block)
        if here < furthest.get(session, here):
            account.note("misordered", f"{target.name}: block {effect.block} of {effect.turn} came after a later one")
        furthest[session] = max(furthest.get(session, here), here)
