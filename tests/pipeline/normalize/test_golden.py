"""The golden streams: upstream bytes on one side, the events that they must become on the other, byte for byte."""

from pathlib import Path

import pytest

from pipeline.codec import decode, encode
from pipeline.normalize.registry import WIRES
from pipeline.normalize.stamp import Stamp

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
STREAMS = sorted([*GOLDEN.glob("*/*.sse"), *(path for path in GOLDEN.glob("acp/*.jsonl") if path.stem.count(".") == 0)])


@pytest.mark.parametrize("stream", STREAMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_golden_stream_becomes_its_events_at_any_cut(stream: Path) -> None:
    data = stream.read_bytes()
    expected = stream.with_suffix(".events.jsonl").read_bytes()
    expected_events = [decode(line) for line in expected.splitlines()]
    for step in (len(data), 7, 1):
        adapter = WIRES[stream.parent.name](stamp=Stamp(at=1))
        events = [event for at in range(0, len(data), step) for event in adapter.feed(data[at : at + step])]
        events += adapter.close()
        assert b"".join(encode(event) + b"\n" for event in events) == expected
        assert events == expected_events


def test_there_are_golden_streams() -> None:
    assert len(STREAMS) >= 3
