"""Every wire's adapter keeps the same promises."""

import pytest

from pipeline.normalize.registry import WIRES
from pipeline.normalize.stamp import Stamp


@pytest.mark.parametrize("wire", WIRES)
def test_an_adapter_begins_open_and_empty(wire: str) -> None:
    adapter = WIRES[wire](stamp=Stamp())
    assert (adapter.ended, adapter.late) == (False, 0)
    assert adapter.feed(b"") == []


def test_a_stamp_counts_up_and_tells_the_time_it_was_given() -> None:
    stamp = Stamp(at=5)
    assert stamp.next() == (1, 5)
    stamp.at = 9
    assert stamp.next() == (2, 9)
    assert Stamp(seq=4).next() == (4, 0)
