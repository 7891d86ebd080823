"""The golden streams' other side: the frames and blocks that their events must become, byte for byte.

After a change that is meant to change them: `python -m tests.pipeline.test_golden_output`, and read the difference.
"""

from pathlib import Path

import msgspec
import pytest

from pipeline.codec import decode
from pipeline.events import FOLD_VERSION, TurnStarted
from pipeline.turn import Output, Turn

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
FRAMES = sorted(GOLDEN.glob("*/*.frames.jsonl"))
EVENTS = [frames.with_name(frames.name.replace(".frames.", ".events.")) for frames in FRAMES]
TURN = "3-0123456789abcdef01234567"


def fold(events: Path) -> Output:
    turn, whole = Turn(TURN), Output()
    start = TurnStarted(
        seq=0,
        at=1_700_000_000_000,
        fold=FOLD_VERSION,
        runtime="main",
        wire=events.parent.name,
        turn=TURN,
        session="golden",
        model="golden-model",
        settings={"min_chars": 20, "max_chars": 60},
    )
    for event in [start, *(decode(line) for line in events.read_bytes().splitlines())]:
        made = turn.push(event)
        whole.frames += made.frames
        whole.blocks += made.blocks
    return whole


def written(output: Output) -> dict[str, bytes]:
    return {
        ".frames.jsonl": b"".join(frame.data + b"\n" for frame in output.frames),
        ".blocks.jsonl": b"".join(msgspec.json.encode(block.as_fields()) + b"\n" for block in output.blocks),
    }


def beside(events: Path, suffix: str) -> Path:
    return events.with_name(events.name.removesuffix(".events.jsonl") + suffix)


@pytest.mark.parametrize("events", EVENTS, ids=lambda path: f"{path.parent.name}/{path.name.split('.')[0]}")
def test_golden_events_become_their_frames_and_blocks(events: Path) -> None:
    for suffix, made in written(fold(events)).items():
        assert made == beside(events, suffix).read_bytes()


if __name__ == "__main__":
    for path in EVENTS:
        for end, content in written(fold(path)).items():
            beside(path, end).write_bytes(content)
