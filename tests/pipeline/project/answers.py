"""The long answers, and the messages that they become on each channel.

    python -m tests.pipeline.project.answers    # writes the messages anew; read the difference

Each answer is streamed twice: in deltas of a token's size under the default settings (`streamed`), and as one block (`whole`), so that what
is too long for a channel is cut by its projector.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from pipeline.events import FOLD_VERSION, Event, TextDelta, TurnCompleted, TurnStarted
from pipeline.output import Block
from pipeline.project.registry import profile_of, project
from pipeline.turn import Turn

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "project"
ANSWERS = tuple(sorted(path.stem for path in GOLDEN.glob("*.md")))
CHATS = ("discord", "slack", "telegram", "matrix")
SETTINGS: dict[str, dict[str, Any]] = {
    "streamed": {},
    "whole": {"min_chars": 1_000_000, "max_chars": 1_000_000},
}


def blocks(answer: str, mode: str) -> list[Block]:
    """Stream an answer."""
    text = (GOLDEN / f"{answer}.md").read_text(encoding="utf-8")
    events: list[Event] = [
        TurnStarted(
            seq=0,
            at=0,
            fold=FOLD_VERSION,
            runtime="main",
            wire="canonical",
            turn="3-0123456789abcdef01234567",
            session="s",
            settings=SETTINGS[mode],
        )
    ]
    for number, at in enumerate(range(0, len(text), 5), 1):
        events.append(TextDelta(seq=number, at=0, item=0, content=0, track="text", text=text[at : at + 5]))
    events.append(TurnCompleted(seq=len(events), at=0, outcome="completed"))
    turn = Turn("3-0123456789abcdef01234567", relay=False)
    return [block for event in events for block in turn.push(event).blocks]


def messages(answer: str, channel: str) -> Iterator[dict[str, Any]]:
    """Every message of an answer on a channel, in both modes."""
    for mode in SETTINGS:
        for block in blocks(answer, mode):
            for part in project(block, profile_of(channel)):
                yield {"mode": mode, "block": block.ordinal, "part": part.ordinal, "text": part.body}


def written(answer: str, channel: str) -> bytes:
    """The same as lines of JSON."""
    return b"".join(msgspec.json.encode(message) + b"\n" for message in messages(answer, channel))


def golden(answer: str, channel: str) -> Path:
    """Where they are kept."""
    return GOLDEN / f"{answer}.{channel}.jsonl"


if __name__ == "__main__":
    for name in ANSWERS:
        for chat in CHATS:
            golden(name, chat).write_bytes(written(name, chat))
