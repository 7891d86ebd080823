import pytest

from workers.delivery.gate import Gate, GateClosedError


class Clock:
    """A clock that stands still until it is moved."""

    now = 1_000

    def now_ms(self) -> int:
        return self.now

    def boottime_ms(self) -> int:
        return self.now


class Transport:
    """Records whether it was torn down."""

    aborted = False

    def get_extra_info(self, name: str) -> None:
        return None

    def abort(self) -> None:
        self.aborted = True


def test_the_lease_must_outlast_the_deadline_and_the_margin() -> None:
    clock, lease = Clock(), [100]
    gate = Gate(lambda: lease[0], clock, send_deadline_ms=80, margin_ms=20)
    assert gate.is_open
    lease[0] = 99
    assert not gate.is_open


def test_time_that_has_passed_needs_no_lease_any_more() -> None:
    clock = Clock()
    gate = Gate(lambda: 60, clock, send_deadline_ms=80, margin_ms=20)
    assert not gate.is_open
    clock.now += 40
    assert gate.is_open


def test_nothing_is_written_after_the_deadline() -> None:
    clock = Clock()
    gate = Gate(lambda: 10_000, clock, send_deadline_ms=80, margin_ms=20)
    clock.now += 80
    assert gate.left_ms == 0
    with pytest.raises(GateClosedError):
        gate.enter()
    assert not gate.written


def test_a_reset_tears_down_what_was_written_on() -> None:
    gate = Gate(lambda: 10_000, Clock(), send_deadline_ms=80, margin_ms=20)
    gate.reset()
    transport = Transport()
    gate.enter(transport)
    assert gate.written
    gate.reset()
    assert transport.aborted
