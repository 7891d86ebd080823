"""Where a text may be cut: between two characters as a reader sees them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.graphemes import boundary, from_units, in_units, shortened

FAMILY = "👩‍👩‍👧"
FLAGS = "🇩🇪🇫🇷"
ACCENT = "e\u0301"


@pytest.mark.parametrize(
    ("text", "wanted", "found"),
    [
        ("abc", -1, 0),
        ("abc", 0, 0),
        ("abc", 2, 2),
        ("abc", 3, 3),
        ("abc", 9, 3),
        ("a\r\nb", 2, 1),
        (f"a{ACCENT}b", 2, 1),
        (f"a{ACCENT}b", 3, 3),
        (FAMILY, 3, 0),  # the first is longer
        (f"x{FAMILY}", 3, 1),
        (FLAGS, 3, 2),
    ],
)
def test_a_cut_falls_between_characters_as_they_are_seen(text: str, wanted: int, found: int) -> None:
    assert boundary(text, wanted) == found
    units = in_units(text)
    assert boundary(units, len(in_units(text[:wanted])) if wanted >= 0 else wanted) == len(in_units(text[:found]))


def test_a_cut_within_a_pair_of_units_falls_before_it() -> None:
    units = in_units("a👍b")
    assert [boundary(units, wanted) for wanted in range(5)] == [0, 1, 1, 3, 4]


@given(st.text(max_size=30), st.integers(0, 30))
def test_what_follows_a_cut_changes_nothing(text: str, wanted: int) -> None:
    found = boundary(text, wanted)
    assert 0 <= found <= min(wanted, len(text))
    if wanted < len(text):
        assert boundary(text[: wanted + 1], wanted) == found
    assert from_units(in_units(text)) == text


@pytest.mark.parametrize(
    ("text", "limit", "short"), [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("ab cd", 4, "ab…"), ("abc", 1, "…")]
)
def test_a_shortened_text_says_so(text: str, limit: int, short: str) -> None:
    assert shortened(text, limit) == short
