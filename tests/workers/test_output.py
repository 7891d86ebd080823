"""How commands write times."""

import re

import pytest

from workers.commands.output import age, moment, times
from workers.runtime.clock import SystemClock


@pytest.mark.parametrize(
    ("ms", "written"),
    [
        (0, "0ms"),
        (1_999, "1999ms"),
        (2_000, "2s"),
        (119_999, "119s"),
        (120_000, "2m"),
        (7_200_000, "2h"),
        (172_799_999, "47h"),
        (10 * 86_400_000, "10d"),
    ],
)
def test_an_age_is_written_as_options_read_it(ms: int, written: str) -> None:
    assert age(ms) == written


def test_programs_get_the_moment_and_people_its_distance_too() -> None:
    hour = SystemClock().now_ms() - 3_600_000
    assert times(as_json=True)(hour) == moment(hour)
    assert re.fullmatch(rf"{moment(hour)} \(\d+m ago\)", str(times(as_json=False)(hour)))
    assert f"{moment(hour + 86_400_000)} (in 2" in str(times(as_json=False)(hour + 86_400_000))


def test_what_has_not_been_yet_has_no_time() -> None:
    assert times(as_json=True)(0) is None
    assert times(as_json=False)(0) is None
