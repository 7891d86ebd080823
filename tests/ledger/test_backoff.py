import pytest

from ledger.backoff import Backoff


def test_waits_double_until_the_cap() -> None:
    backoff = Backoff(first_ms=500, cap_ms=4_000)
    assert [backoff.wait_ms(n, chance=0.0) for n in (1, 2, 3, 4, 5, 500)] == [500, 1_000, 2_000, 4_000, 4_000, 4_000]


@pytest.mark.parametrize("chance", [0.0, 0.25, 0.999])
def test_jitter_takes_at_most_its_share_away(chance: float) -> None:
    assert 500 <= Backoff(first_ms=1_000, spread=0.5).wait_ms(1, chance=chance) <= 1_000


def test_a_wait_is_never_nothing() -> None:
    assert Backoff(first_ms=0, spread=1.0).wait_ms(0, chance=0.999) == 1


def test_a_channels_own_wait_is_a_floor() -> None:
    backoff = Backoff(first_ms=1_000, cap_ms=2_000)
    assert backoff.wait_ms(9, chance=0.0, retry_after_ms=30_000) == 30_000
    assert 30_000 < backoff.wait_ms(9, chance=0.9, retry_after_ms=30_000) <= 30_500
