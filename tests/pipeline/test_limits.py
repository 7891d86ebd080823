"""Bounds: each has a unit, a reason and a default, and comes back from a turn's first event."""

import msgspec
import pytest

from pipeline.limits import BOUNDS, Limits, limits_from


def test_every_limit_is_a_documented_bound() -> None:
    assert [bound.name for bound in BOUNDS] == [field.name for field in msgspec.structs.fields(Limits)]
    assert all(bound.unit and bound.reason and bound.default > 0 for bound in BOUNDS)


def test_the_values_of_a_turn_come_back() -> None:
    limits = Limits(turn_items=3)
    assert limits_from(limits.frozen()) == limits


def test_a_missing_bound_has_its_default_and_a_foreign_one_is_not_ours() -> None:
    assert limits_from({"turn_max_ms": 5, "turn_items": 7}) == Limits(turn_items=7)


def test_a_bound_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="turn_items"):
        limits_from({"turn_items": 0})
